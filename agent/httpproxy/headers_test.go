// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestEntityTags(t *testing.T) {
	seen := make(chan http.Header, 1)
	p := start(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Clone()
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Content-Digest", "sha-256=:x=:")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text(5000)))
	}, nil)
	res := p.ask(t, "GET", "/", nil, "Accept-Encoding", "gzip")
	<-seen
	coded := res.Header.Get("ETag")
	if coded == `"v1"` || res.Header.Get("Content-Digest") != "" || res.Header.Get("Accept-Ranges") != "" {
		t.Fatalf("%v", res.Header)
	}
	for name, test := range map[string]struct {
		header []string
		status int
		tag    string
		sees   string // what the backend is told
	}{
		"unchanged": {[]string{"Accept-Encoding", "gzip", "If-None-Match", coded}, 304, coded, `"v1"`},
		"unchanged, in a list": {
			[]string{"Accept-Encoding", "gzip", "If-None-Match", `"x", ` + coded}, 304, coded, `"x", "v1"`,
		},
		"unchanged, plain": {[]string{"Accept-Encoding", "gzip", "If-None-Match", `"v1"`}, 304, `"v1"`, `"v1"`},
		"changed": {
			[]string{"Accept-Encoding", "gzip", "If-None-Match", `"v0;lighterage=gzip"`}, 200, coded, `"v0"`,
		},
		"not accepted any more": {[]string{"Accept-Encoding", "identity", "If-None-Match", coded}, 200, `"v1"`, coded},
		"another coding, accepted": {
			[]string{"Accept-Encoding", "zstd;q=1, gzip;q=0.5", "If-None-Match", coded}, 304, coded, `"v1"`,
		},
		"match":           {[]string{"Accept-Encoding", "gzip", "If-Match", coded}, 200, coded, `"v1"`},
		"match, identity": {[]string{"Accept-Encoding", "identity", "If-Match", coded}, 200, `"v1"`, `"v1"`},
		"no match": {
			[]string{"Accept-Encoding", "gzip", "If-Match", `"v0;lighterage=gzip"`}, 412, `"v1"`, `"v0"`,
		},
		"range of what was coded": {
			[]string{"Accept-Encoding", "gzip", "Range", "bytes=0-9", "If-Range", coded}, 200, coded, "",
		},
		"range": {[]string{"Accept-Encoding", "gzip", "Range", "bytes=0-9", "If-Range", `"v1"`}, 206, `"v1"`, ""},
	} {
		res := p.ask(t, "GET", "/", nil, test.header...)
		h := <-seen
		if res.StatusCode != test.status || test.status != 412 && res.Header.Get("ETag") != test.tag {
			t.Errorf("%s: %s, %s", name, res.Status, res.Header.Get("ETag"))
		}
		if got := h.Get("If-None-Match") + h.Get("If-Match"); got != test.sees {
			t.Errorf("%s: the backend sees %s, want %s", name, got, test.sees)
		}
		if h.Get("Accept-Encoding") != "identity" {
			t.Errorf("%s: the backend is asked for %q", name, h.Get("Accept-Encoding"))
		}
	}
}

func TestVaryIsKept(t *testing.T) {
	for before, want := range map[string]string{
		"": "Accept-Encoding", "Origin": "Origin,Accept-Encoding", "accept-encoding, Origin": "accept-encoding, Origin",
		"*": "*",
	} {
		p := start(t, func(w http.ResponseWriter, _ *http.Request) {
			if before != "" {
				w.Header().Set("Vary", before)
			}
		}, nil)
		if got := strings.Join(p.ask(t, "GET", "/", nil).Header.Values("Vary"), ","); got != want {
			t.Errorf("%q becomes %q", before, got)
		}
	}
}
