// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/httpproxy"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/sampling"
)

// TestSample: what could be compressed is collected as the backend sent it, in whichever way it travels, and nothing
// else is.
func TestSample(t *testing.T) {
	short, long, longer := []byte("plain"), text(20_000), text(300_000)
	bodies := map[string]http.HandlerFunc{
		"/short":   answers(short, true, "Content-Type", "text/plain"),
		"/long":    answers(long, true, "Content-Type", "text/plain"),
		"/stream":  answers(long, false, "Content-Type", "text/plain"),
		"/longer":  answers(longer, true, "Content-Type", "text/plain"),
		"/image":   answers(long, true, "Content-Type", "image/png"),
		"/encoded": answers(long, true, "Content-Type", "text/plain", "Content-Encoding", "br"),
		"/keep":    answers(long, true, "Content-Type", "text/plain", "Cache-Control", "no-transform"),
		"/cookie":  answers(long, true, "Content-Type", "text/plain", "Set-Cookie", "a=b; SameSite=None"),
		"/empty":   answers(nil, true, "Content-Type", "text/plain"),
	}
	handler := func(w http.ResponseWriter, r *http.Request) { bodies[r.URL.Path](w, r) }
	for name, change := range map[string]func(*httpproxy.Settings){
		"Auto":  nil,
		"Never": func(s *httpproxy.Settings) { s.Policy.Mode = policy.Never },
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, handler, change)
			askAll := func() {
				for path := range bodies {
					for _, accept := range []string{"gzip", "zstd", "identity"} {
						if _, plain := read(t, p.ask(t, http.MethodGet, path, nil, "Accept-Encoding", accept)); path == "/longer" &&
							len(plain) != len(longer) {
							t.Errorf("%s: %d bytes", path, len(plain))
						}
					}
				}
				read(t, p.ask(t, http.MethodHead, "/long", nil))
			}
			askAll() // before: not collected
			stop, err := p.Collect(sampling.Request{MaxBytes: 4 << 20, MaxItems: 100})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Sample(
				t.Context(), sampling.Request{MaxBytes: 1, MaxItems: 1, Duration: time.Hour}, nil,
			); !errors.Is(err, sampling.ErrBusy) {
				t.Errorf("a second one at the same time: %v", err)
			}
			askAll()
			items, seen, held := stop()
			askAll() // after: not collected
			// Four bodies three times each, of which the longest take part with their beginnings.
			want := map[string]int{string(short): 3, string(long): 6, string(longer[:256<<10]): 3}
			got := map[string]int{}
			var length int64
			for _, item := range items {
				got[string(item.Content)]++
				length += item.Length
			}
			if !maps.Equal(got, want) || seen.Items != 12 || length != seen.Bytes ||
				length != int64(3*(len(short)+2*len(long)+len(longer))) || held != 0 {
				t.Errorf("%d items, %+v, %d bytes held", len(items), seen, held)
			}
		})
	}
}

// TestSampleOfBrokenBodies: a body that breaks off is not in the sample, nor does anything of it stay.
func TestSampleOfBrokenBodies(t *testing.T) {
	for _, known := range []bool{true, false} {
		p := start(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			if known {
				w.Header().Set("Content-Length", "1000000")
			}
			_, _ = w.Write(text(400_000))
			panic(http.ErrAbortHandler)
		}, nil)
		stop, err := p.Collect(sampling.Request{MaxBytes: 4 << 20, MaxItems: 100})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "gzip")
		if res, err := p.client.Do(req); err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if err == nil {
				t.Error("the client took a part for the whole")
			}
		}
		p.Close() // and wait for what is under way
		eventually(t, "nothing is held", func() bool { return p.Held() == 0 })
		if items, seen, _ := stop(); len(items) != 0 || seen.Items != 0 {
			t.Errorf("%d items of %+v", len(items), seen)
		}
	}
}

// TestSampleEnds: when the caller goes, collecting ends.
func TestSampleEnds(t *testing.T) {
	p := start(t, answers(nil, true), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 { // the first one left nothing behind
		if _, err := p.Sample(
			ctx, sampling.Request{MaxBytes: 1, MaxItems: 1, Duration: time.Hour}, nil,
		); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if seen, err := p.Sample(
		t.Context(), sampling.Request{MaxBytes: 1, MaxItems: 1, Duration: time.Millisecond}, nil,
	); err != nil || seen.Items != 0 {
		t.Errorf("%+v, %v", seen, err)
	}
}
