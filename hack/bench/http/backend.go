// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/test/corpus"
)

// Backend is the command line of one that answers GET /CORPUS/SIZE at an address with so many bytes, up to 1 MiB, of a
// corpus: xml, json or random, which is said to be text.
func Backend(address string) []string { return harness.Self(name, backendRole, address) }

// serveBackend answers /KIND/SIZE with so many bytes of a corpus until the context
// ends.
func serveBackend(ctx context.Context, address string) error {
	const longest = 1 << 20
	bodies := map[string][]byte{}
	types := map[string]string{"xml": "application/xml", "json": "application/json", "random": "text/plain"}
	for name := range types {
		c, ok := corpus.ByName(name)
		if !ok {
			return fmt.Errorf("there is no corpus %s", name)
		}
		bodies[name] = c.Generate(longest)
	}
	server := &http.Server{
		Addr: address, ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			kind, text, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
			size, err := strconv.Atoi(text)
			body, ok := bodies[kind]
			if err != nil || !ok || size < 0 || size > len(body) {
				http.NotFound(w, r)
				return
			}
			w.Header()["Content-Type"] = []string{types[kind]}
			w.Header()["Content-Length"] = []string{text}
			_, _ = w.Write(body[:size])
		}),
	}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve as the backend: %w", err)
	}
	return nil
}
