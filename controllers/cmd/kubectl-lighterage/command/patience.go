// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/lighterage/lighterage/controllers/table"
)

// patience is after which time people are told what they are waiting for.
const patience = 2 * time.Second

// patient says of each request that takes long which cluster has not answered yet.
type patient struct {
	next  http.RoundTripper
	after time.Duration
	say   func(format string, values ...any)
}

func (p *patient) RoundTrip(request *http.Request) (*http.Response, error) {
	host := request.URL.Host
	timer := time.AfterFunc(p.after, func() { p.say("Waiting for the answer of %s", host) })
	defer timer.Stop()
	return p.next.RoundTrip(request)
}

// patiently wraps what a client sends requests with.
func (p *plugin) patiently(next http.RoundTripper) http.RoundTripper {
	return &patient{next: next, after: patience, say: func(format string, values ...any) {
		if !p.quiet {
			p.say(format, values...)
		}
	}}
}

// serial is a writer for several goroutines.
type serial struct {
	mu sync.Mutex
	to io.Writer
}

func (s *serial) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(text)
}

// say tells people what is being done.
func (p *plugin) say(format string, values ...any) {
	fmt.Fprintln(p.ErrOut, table.Printable(fmt.Sprintf(format, values...)))
}
