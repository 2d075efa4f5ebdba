// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/httpproxy"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/agent/policy"
)

// shared is an accelerator whose gate gives a reason.
type shared struct {
	codec.Engine
	reason *atomic.Pointer[policy.Reason]
	asked  *atomic.Int64
}

func (shared) Name() string       { return "accelerator" }
func (shared) Class() codec.Class { return codec.Hardware }

func (s shared) Enter(patient bool) policy.Reason {
	if s.asked.Add(1); patient {
		return ""
	}
	return *s.reason.Load()
}

func (s shared) NewEncoder(level codec.Level) (codec.Encoder, error) {
	e, err := s.Engine.NewEncoder(level)
	if err != nil {
		return nil, err
	}
	return witnessed{e.(codec.StreamEncoder)}, nil
}

type witnessed struct{ codec.StreamEncoder }

func (witnessed) UsedHardware() bool { return true }

// TestShares: bodies of known and of unknown length are compressed by software while the accelerator yields, and say
// why; where software is disabled they wait for it.
func TestShares(t *testing.T) {
	body := bytes.Repeat([]byte("<a>some text</a>\n"), 4000)
	var reason atomic.Pointer[policy.Reason]
	var asked atomic.Int64
	hardware := shared{goflate.New(), &reason, &asked}
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		if r.URL.Path == "/stream" {
			w.(http.Flusher).Flush()
		}
		_, _ = w.Write(body)
	}
	for _, patient := range []bool{false, true} {
		p := start(t, handler, func(s *httpproxy.Settings) {
			s.Engines, s.Codings = codec.NewRegistry(hardware, goflate.New()), []negotiate.Coding{negotiate.Gzip}
			s.Policy.Mode, s.Policy.SoftwareDisabled = policy.Always, patient
		})
		for _, yields := range []policy.Reason{"", policy.AcceleratorShare, policy.AcceleratorBusy, ""} {
			reason.Store(&yields)
			for _, path := range []string{"/whole", "/stream"} {
				asked.Store(0)
				res := p.ask(t, http.MethodGet, path, nil, "Accept-Encoding", "gzip")
				_, plain := read(t, res)
				said := res.Header.Get("Lighterage-Compression")
				used := yields
				if yields == "" || patient {
					used = policy.HardwareUsed
				}
				if !bytes.Equal(plain, body) || res.Header.Get("Content-Encoding") != "gzip" ||
					!strings.Contains(said, string(used)) {
					t.Errorf("%s, software disabled %v, %q: %v", path, patient, yields, res.Header)
				}
				if asked.Load() != 1 {
					t.Errorf("%s: the gate was asked %d times", path, asked.Load())
				}
				asked.Store(0)
				_ = p.ask(t, http.MethodHead, path, nil, "Accept-Encoding", "gzip").Body.Close()
				_, _ = read(t, p.ask(t, http.MethodGet, path, nil, "Accept-Encoding", "identity"))
				if asked.Load() != 0 {
					t.Errorf("%s: the gate was asked about what is not compressed", path)
				}
			}
		}
	}
}
