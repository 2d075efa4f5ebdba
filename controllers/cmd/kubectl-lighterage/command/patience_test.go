// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestPatience: who waits for a cluster is told, and nobody else.
func TestPatience(t *testing.T) {
	said := make(chan string, 1)
	answer := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-answer
		}
	}))
	defer server.Close()
	get := func(path string, after time.Duration) {
		c := http.Client{Transport: &patient{next: http.DefaultTransport, after: after, say: func(f string, v ...any) {
			said <- fmt.Sprintf(f, v...)
		}}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Error(err)
			return
		}
		response, err := c.Do(request)
		if err != nil {
			t.Error(err)
			return
		}
		response.Body.Close()
	}
	get("/", time.Hour)
	done := make(chan struct{})
	go func() {
		defer close(done)
		get("/slow", time.Millisecond)
	}()
	if text := <-said; !strings.Contains(text, strings.TrimPrefix(server.URL, "http://")) {
		t.Errorf("%q does not name the cluster", text)
	}
	close(answer)
	<-done
	if len(said) > 0 {
		t.Errorf("more was said: %q", <-said)
	}
}
