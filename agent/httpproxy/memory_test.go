// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy_test

import (
	"net/http"
	"strconv"
	"testing"
)

// TestMemoryInUse: where no memory for bodies is left, bodies go as they are, and who accepts none such is asked to
// come again.
func TestMemoryInUse(t *testing.T) {
	for name, length := range map[string]bool{"of known length": true, "of unknown length": false} {
		t.Run(name, func(t *testing.T) {
			p := start(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				if length {
					w.Header().Set("Content-Length", strconv.Itoa(40000))
				}
				_, _ = w.Write(text(40000))
			}, nil)
			release := p.Exhaust()
			if res := p.ask(t, "GET", "/", nil, "Accept-Encoding", "gzip"); res.StatusCode != http.StatusOK ||
				res.Header.Get("Content-Encoding") != "" {
				t.Errorf("identity accepted: %s, %v", res.Status, res.Header)
			}
			if res := p.ask(
				t, "GET", "/", nil, "Accept-Encoding", "gzip, identity;q=0",
			); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
				t.Errorf("identity refused: %s, %v", res.Status, res.Header)
			}
			release()
			if res := p.ask(t, "GET", "/", nil, "Accept-Encoding", "gzip, identity;q=0"); res.StatusCode != http.StatusOK ||
				res.Header.Get("Content-Encoding") != "gzip" {
				t.Errorf("with memory again: %s, %v", res.Status, res.Header)
			}
		})
	}
}
