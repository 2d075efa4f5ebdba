// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/httpproxy/coding"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/agent/policy"
)

// Settings are what can be changed while a proxy runs. Connections keep those that
// they were opened with.
type Settings struct {
	// Backend is the host and port that answers. It speaks HTTP/1.1.
	Backend string
	// BackendServerName is the name in the backend's certificate. Empty: no TLS.
	BackendServerName string
	// BackendCAs vouch for the backend's certificate, which needs them.
	BackendCAs *x509.CertPool
	// Egress says which addresses the backend may have. The zero value refuses those of this
	// machine and its neighbours, loopback among them. A change counts for every connection
	// at once, also for those that keep other settings.
	Egress egress.Policy
	// Codings that are offered, in the server's order, which decides when the client
	// has no preference. None: nothing is compressed.
	Codings []negotiate.Coding
	// ContentTypes that are compressed, see negotiate.NewTypes. Empty:
	// negotiate.DefaultTypes.
	ContentTypes []string
	// Policy says from what size on hardware and software compress, and how.
	Policy policy.Settings
	// Engines to compress with. An engine of class Hardware in it counts as verified.
	Engines *codec.Registry
	// Accelerator is why Engines has no engine of class Hardware.
	Accelerator policy.Accelerator
	// Explain adds the header lighterage-compression to responses: the engine, or none,
	// and the reason.
	Explain bool
	// TrustedProxies are where connections come from whose X-Forwarded-* and Forwarded,
	// which say who was before, are kept and appended to. Those of others are replaced,
	// since anybody can claim anything.
	TrustedProxies []netip.Prefix
	// Padding is up to how many random bytes compressed bodies are made longer, up to
	// coding.MaxPadding. It makes the length of a body tell less of what is in it.
	Padding int
	// SparesCrossSiteCookies leaves responses alone that set a cookie across sites: one
	// with SameSite=None, or any in an answer to a request from another site.
	SparesCrossSiteCookies bool
	// MaxCPUPercent is the share of the processors that this process may use before it
	// stops compressing. 0: any. A GET that refuses a body as it is gets 503 then.
	MaxCPUPercent int
	// MaxConcurrent is how many responses may be compressed at once; what comes in
	// excess is passed on as it is, and a GET that refuses that gets 503. 0: any number.
	MaxConcurrent int
	// Health says how the backend is checked. While it is unhealthy requests are answered
	// with 503.
	Health Health
	// Times of the backend, see package backend. 0: its defaults.
	DialTimeout, HeaderTimeout, BodyTimeout time.Duration
	// Limits protect from clients.
	Limits Limits
}

// Health says how the backend is checked.
type Health struct {
	// Path that answers a GET with a status below 400. Empty: that the backend accepts a
	// connection is enough.
	Path string
	// Interval between checks. Default 5 s.
	Interval time.Duration
	// Timeout of a check. Default 2 s.
	Timeout time.Duration
	// Failures in a row after which the backend counts as unhealthy. Default 2.
	Failures int
}

func (h *Health) setDefaults() {
	if h.Interval == 0 {
		h.Interval = 5 * time.Second
	}
	if h.Timeout == 0 {
		h.Timeout = 2 * time.Second
	}
	if h.Failures == 0 {
		h.Failures = 2
	}
}

// Validate returns an error that names the first setting that has no meaning.
func (s Settings) Validate() error {
	if _, port, err := net.SplitHostPort(s.Backend); err != nil || port == "" {
		return fmt.Errorf("backend %q: write host:port", s.Backend)
	}
	if (s.BackendServerName == "") != (s.BackendCAs == nil) {
		return errors.New("TLS to the backend needs both the name in its certificate and who vouches for it")
	}
	if s.Engines == nil {
		return errors.New("no engines were given")
	}
	if err := s.Policy.Validate(); err != nil {
		return err
	}
	for _, p := range s.TrustedProxies {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("trusted proxies %v: use prefixes of IPv4 or IPv6, such as 10.0.0.0/8", p)
		}
	}
	seen := make(map[negotiate.Coding]bool)
	for _, c := range s.Codings {
		if seen[c] || coding.Codec(c) == codec.None {
			return fmt.Errorf("content coding %v: name each of gzip, deflate and zstd once at most", c)
		}
		seen[c] = true
	}
	if _, err := negotiate.NewTypes(s.ContentTypes); err != nil {
		return err
	}
	for _, f := range []struct {
		name       string
		value, max int
	}{
		{"padding in bytes", s.Padding, coding.MaxPadding},
		{"greatest share of CPU in percent", s.MaxCPUPercent, 100},
		{"greatest number of responses compressed at once", s.MaxConcurrent, 1 << 20},
	} {
		if f.value < 0 || f.value > f.max {
			return fmt.Errorf("%s is %d: use 0 to %d", f.name, f.value, f.max)
		}
	}
	if s.Health.Path != "" && s.Health.Path[0] != '/' {
		return fmt.Errorf("path of the health check %q: it begins with /", s.Health.Path)
	}
	return nil
}

// Limits protect a proxy from its clients. Values of 0 take the default, where there is one.
type Limits struct {
	// MaxConnections that are open at once; others are closed at once and counted as
	// refused. 0: any number.
	MaxConnections int
	// MaxHeaderBytes of a request. Default 64 KiB.
	MaxHeaderBytes int
	// MaxStreams are the requests under way at once on a connection of HTTP/2. Default
	// 128.
	MaxStreams int
	// HeaderTimeout bounds the time from the first byte of a request, or for a new
	// connection from its opening, to the end of the header. Default 10 s.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection may be unused. Default 120 s.
	IdleTimeout time.Duration
	// StallTimeout is how long a client may neither send of a request's body nor take
	// of a response what is waiting for it. Default 60 s.
	StallTimeout time.Duration
}

func (l *Limits) setDefaults() {
	for _, n := range []struct {
		value *int
		def   int
	}{{&l.MaxHeaderBytes, 64 << 10}, {&l.MaxStreams, 128}} {
		if *n.value == 0 {
			*n.value = n.def
		}
	}
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{{&l.HeaderTimeout, 10 * time.Second}, {&l.IdleTimeout, 2 * time.Minute}, {&l.StallTimeout, time.Minute}} {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
}
