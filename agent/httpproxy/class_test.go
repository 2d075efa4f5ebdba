// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/identity"
	"github.com/lighterage/lighterage/agent/httpproxy"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// network is one that carries so many bytes a second to each client; 0: as many as this machine. The kernel tells
// nothing of its connections.
type network struct {
	net.Listener
	rate atomic.Int64
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return &network{Listener: l}
}

func (n *network) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	return narrow{c, n}, err
}

type narrow struct {
	net.Conn
	network *network
}

func (c narrow) Write(p []byte) (int, error) {
	if rate := c.network.rate.Load(); rate > 0 {
		time.Sleep(time.Duration(float64(len(p)) / float64(rate) * float64(time.Second)))
	}
	return c.Conn.Write(p)
}

// startOn is start on a network.
func startOn(t *testing.T, n *network, handler http.HandlerFunc, change func(*httpproxy.Settings)) *proxy {
	t.Helper()
	behind := httptest.NewServer(handler)
	t.Cleanup(behind.Close)
	s := settings(behind.Listener.Addr().String())
	if change != nil {
		change(&s)
	}
	return serveOn(t, n, s, nil)
}

// sized is a backend that says how long its answer is.
func sized(n int) http.HandlerFunc { return answers(text(n), true, "Content-Length", strconv.Itoa(n)) }

// encoded asks for something and returns how the answer was encoded, and why.
func encoded(t *testing.T, p *proxy, method, accept string) (encoding, reason string) {
	t.Helper()
	res := p.ask(t, method, "/", nil, "Accept-Encoding", accept)
	read(t, res)
	_, reason, _ = strings.Cut(res.Header.Get("Lighterage-Compression"), ";")
	return res.Header.Get("Content-Encoding"), reason
}

// asIs are the reasons for which bodies are sent as they are over loopback: CPUDearer where others keep the cores busy.
var asIs = []string{"NetworkFaster", "CPUDearer"}

// until asks until answers have a reason several times in a row.
func until(t *testing.T, p *proxy, want ...string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for in := 0; in < 5; {
		if _, got := encoded(t, p, http.MethodGet, "gzip"); slices.Contains(want, got) {
			in++
		} else if in = 0; time.Now().After(deadline) {
			t.Fatalf("answers have the reason %s, and none of %s: %+v", got, want, p.Decisions())
		}
	}
}

// TestFollowsTheNetwork: on loopback bodies are sent as they are after a while; when the network becomes narrow they
// are compressed again, and when it is wide again they are not.
func TestFollowsTheNetwork(t *testing.T) {
	n := newNetwork(t)
	p := startOn(t, n, sized(64<<10-1), nil)
	if encoding, reason := encoded(t, p, http.MethodGet, "gzip"); encoding != "gzip" {
		t.Fatalf("before anything is known: %q, %s", encoding, reason)
	}
	until(t, p, asIs...)
	if encoding, _ := encoded(t, p, http.MethodHead, "gzip"); encoding != "" {
		t.Errorf("the answer to HEAD has another encoding: %s", encoding)
	}
	if encoding, _ := encoded(t, p, http.MethodGet, "gzip, identity;q=0"); encoding != "gzip" {
		t.Errorf("a client that refuses what is not compressed gets %q", encoding)
	}
	d := p.Decisions()
	if len(d.Classes) != 1 || d.Objective != policy.Elapsed || d.Carrier.Link <= 0 {
		t.Fatalf("%+v", d)
	}
	if c := d.Classes[0]; c.Content != "text" || c.Length != "<64Ki" || c.Codec != codec.Deflate ||
		!slices.Contains(asIs, string(c.Reason)) || c.Bytes < 64<<10 {
		t.Errorf("%+v", c)
	}
	n.rate.Store(4 << 20)
	until(t, p, "SoftwareUsed")
	n.rate.Store(0)
	until(t, p, asIs...)
}

// TestFewConnections: a client that keeps one connection, which is not one of those that are looked at often, has the
// network seen all the same.
func TestFewConnections(t *testing.T) {
	n := newNetwork(t)
	n.rate.Store(4 << 20)
	p := startOn(t, n, sized(64<<10-1), nil)
	for range 40 {
		encoded(t, p, http.MethodGet, "gzip")
	}
	p.client.CloseIdleConnections()
	n.rate.Store(0)
	until(t, p, asIs...)
}

// TestAlwaysIsAlways: in other modes than Auto, and for the least bytes, nothing is decided.
func TestAlwaysIsAlways(t *testing.T) {
	for name, change := range map[string]func(*policy.Settings){
		"Always": func(s *policy.Settings) { s.Mode = policy.Always },
		"Bytes":  func(s *policy.Settings) { s.Objective = policy.Bytes },
	} {
		p := startOn(t, newNetwork(t), sized(20<<10), func(s *httpproxy.Settings) { change(&s.Policy) })
		for range 200 {
			if encoding, reason := encoded(t, p, http.MethodGet, "gzip"); encoding != "gzip" {
				t.Fatalf("%s: %q, %s", name, encoding, reason)
			}
		}
		if d := p.Decisions(); name == "Always" && len(d.Classes) > 0 {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestBehindATrustedProxy: what the network of its clients carries is not known.
func TestBehindATrustedProxy(t *testing.T) {
	p := startOn(t, newNetwork(t), sized(64<<10-1), func(s *httpproxy.Settings) {
		s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	for range 200 {
		if encoding, reason := encoded(t, p, http.MethodGet, "gzip"); encoding != "gzip" {
			t.Fatalf("%q, %s", encoding, reason)
		}
	}
	if d := p.Decisions(); d.Carrier.Link != 0 || len(d.Classes) > 0 {
		t.Errorf("%+v", d)
	}
}

// TestStreamsFollowTheNetwork: the same of bodies whose length is not known.
func TestStreamsFollowTheNetwork(t *testing.T) {
	p := startOn(t, newNetwork(t), answers(text(400<<10), false), func(s *httpproxy.Settings) {
		// The race detector slows down the client and what sends to it, and compressing in C would be quicker.
		s.Engines = codec.NewRegistry(goflate.New(), gozstd.New(), identity.New())
	})
	until(t, p, asIs...)
	if d := p.Decisions(); len(d.Classes) != 1 || d.Classes[0].Length != "stream" {
		t.Errorf("%+v", d)
	}
}

// idle is a machine with CPU time for everything.
type idle struct{}

func (idle) CPU() time.Duration           { return time.Duration(time.Now().UnixNano()) }
func (idle) Spend(f func()) time.Duration { return meter.ThreadCPU(f) }
func (idle) Pressed() bool                { return false }

// TestRegret: what choices lose is known after enough bodies, whether they are compressed or sent as they are.
func TestRegret(t *testing.T) {
	httpproxy.SampledOn(idle{})
	t.Cleanup(func() { httpproxy.SampledOn(nil) })
	p := startOn(t, newNetwork(t), sized(64<<10-1), func(s *httpproxy.Settings) { s.Policy.Objective = policy.Bytes })
	deadline := time.Now().Add(patience)
	for !p.Decisions().Known {
		if time.Now().After(deadline) {
			t.Fatalf("nothing is known: %+v", p.Decisions())
		}
		encoded(t, p, http.MethodGet, "gzip")
	}
	// By its bytes what is compressed loses nothing against not to compress.
	if d := p.Decisions(); d.Best.Codec != codec.Deflate || d.Lost.Units < 48 {
		t.Errorf("%+v", d)
	}

	s := startOn(t, newNetwork(t), sized(64<<10-1), func(s *httpproxy.Settings) { s.Policy.Objective = policy.CPU })
	for len(s.Decisions().Classes) == 0 || s.Decisions().Classes[0].Reason == "" || !s.Decisions().Known {
		if time.Now().After(deadline) {
			t.Fatalf("bodies are compressed: %+v", s.Decisions())
		}
		encoded(t, s, http.MethodGet, "gzip")
	}
}

// TestRegretOfTheOrder: with clients that accept two codings equally, the order of codings loses where the later one
// serves the objective better. With others it loses nothing.
func TestRegretOfTheOrder(t *testing.T) {
	httpproxy.SampledOn(idle{})
	t.Cleanup(func() { httpproxy.SampledOn(nil) })
	half := text(36000) // Its repetition is out of reach for DEFLATE.
	body := slices.Concat(half, half)
	for accept, want := range map[string]codec.ID{"gzip, zstd": codec.Zstd, "gzip, zstd;q=0.5": codec.Deflate} {
		p := startOn(
			t, newNetwork(t), answers(body, true, "Content-Length", strconv.Itoa(len(body))),
			func(s *httpproxy.Settings) { s.Policy.Objective = policy.Bytes },
		)
		for deadline := time.Now().Add(patience); !p.Decisions().Known; {
			if time.Now().After(deadline) {
				t.Fatalf("nothing is known: %+v", p.Decisions())
			}
			if encoding, reason := encoded(t, p, http.MethodGet, accept); encoding != "gzip" {
				t.Fatalf("%s: %q, %s", accept, encoding, reason)
			}
		}
		if d := p.Decisions(); d.Best.Codec != want || (d.Lost.Share > 0.1) != (want == codec.Zstd) {
			t.Errorf("%s: %+v, best %+v", accept, d.Lost, d.Best)
		}
	}
}
