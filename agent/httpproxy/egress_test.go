// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy_test

import (
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/httpproxy"
)

// TestEgress: M4: neither requests nor health checks reach a backend that the settings do not permit, and connections
// end when it is not permitted any more.
func TestEgress(t *testing.T) {
	var asked atomic.Int64
	handler := func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, "secret")
	}
	p := start(t, handler, func(s *httpproxy.Settings) {
		s.Egress, s.Health = egress.Policy{}, httpproxy.Health{Interval: 5 * time.Millisecond, Timeout: patience}
	})
	for _, method := range []string{"GET", "POST"} {
		res := p.ask(t, method, "/", nil)
		if res.StatusCode != http.StatusServiceUnavailable && res.StatusCode != http.StatusBadGateway {
			t.Errorf("%s: %s", method, res.Status)
		}
	}
	eventually(t, "the check is blocked", func() bool { return p.Backend().Failure == httpproxy.FailureBlocked })
	p.SetEgress(egress.Policy{Loopback: true})
	eventually(t, "it is healthy", func() bool { return p.Backend().Healthy })
	if n := asked.Load(); n != 0 {
		t.Fatalf("the backend was asked %d times", n)
	}
	if res := p.ask(t, "GET", "/", nil); res.StatusCode != http.StatusOK {
		t.Errorf("permitted: %s", res.Status)
	}
	p.SetEgress(egress.Policy{})
	eventually(t, "it is blocked again", func() bool { return p.Backend().Failure == httpproxy.FailureBlocked })
	if res := p.ask(t, "GET", "/", nil); res.StatusCode != http.StatusServiceUnavailable || asked.Load() != 1 {
		t.Errorf("blocked again: %s, asked %d times", res.Status, asked.Load())
	}
}

// TestFailures: status is told what kind of failure it is, and nothing that the network said.
func TestFailures(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.2:0") // where nobody else listens meanwhile
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	silent := raw(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	behind := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(behind.Close)
	good := x509.NewCertPool()
	good.AddCert(behind.Certificate())
	secure := behind.Listener.Addr().String()
	for name, test := range map[string]struct {
		address, name string
		cas           *x509.CertPool
		timeout       time.Duration
		want          httpproxy.Failure
	}{
		"blocked": {address: "169.254.169.254:80", want: httpproxy.FailureBlocked},
		"refused": {address: closed.Addr().String(), want: httpproxy.FailureRefused},
		"timeout": {address: silent, timeout: 20 * time.Millisecond, want: httpproxy.FailureTimeout},
		"reset": {
			address: raw(t, func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }), want: httpproxy.FailureConnection,
		},
		"status":       {address: secure, name: "example.com", cas: good, want: httpproxy.FailureStatus},
		"other CA":     {address: secure, name: "example.com", cas: x509.NewCertPool(), want: httpproxy.FailureTLS},
		"other name":   {address: secure, name: "other.example", cas: good, want: httpproxy.FailureTLS},
		"plain as TLS": {address: plain.Listener.Addr().String(), name: "example.com", cas: good, want: httpproxy.FailureTLS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a failure counts when it is there a second later, too
			s := settings(test.address)
			s.BackendServerName, s.BackendCAs = test.name, test.cas
			s.Health = httpproxy.Health{Path: "/", Interval: time.Hour, Timeout: patience}
			if test.timeout > 0 {
				s.Health.Timeout = test.timeout
			}
			p := serve(t, s, nil)
			eventually(t, "it is noticed", func() bool { return p.Backend().Checked })
			got := p.Backend()
			if got.Failure != test.want || (got.Status == http.StatusNotFound) != (test.want == httpproxy.FailureStatus) {
				t.Errorf("%+v", got)
			}
		})
	}
}
