// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
)

func certificate(t testing.TB) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

const target = "west.peer.lighterage.internal:443"

// A proof counts for its target and its time, and with the key of its certificate.
func TestProof(t *testing.T) {
	own, now := certificate(t), time.Now()
	proof, err := tunnel.Proof(own, target, now)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := tunnel.Verify(proof, target, now.Add(time.Minute))
	if err != nil || len(chain) != 1 || string(chain[0].Raw) != string(own.Certificate[0]) {
		t.Fatalf("%d certificates, %v", len(chain), err)
	}
	stolen := *own
	stolen.PrivateKey = certificate(t).PrivateKey
	forged, err := tunnel.Proof(&stolen, target, now)
	if err != nil {
		t.Fatal(err)
	}
	later := strings.SplitN(strings.TrimPrefix(proof, "Lighterage "), ".", 2)[1]
	for name, test := range map[string]struct {
		proof, target string
		at            time.Time
	}{
		"another target":      {proof, "east.peer.lighterage.internal:443", now},
		"later":               {proof, target, now.Add(6 * time.Minute)},
		"earlier":             {proof, target, now.Add(-6 * time.Minute)},
		"another key":         {forged, target, now},
		"another time":        {"Lighterage " + "1900000000." + later, target, time.Unix(1900000000, 0)},
		"none":                {"", target, now},
		"another scheme":      {"Basic dXNlcjpwYXNz", target, now},
		"cut":                 {proof[:len(proof)-8], target, now},
		"without certificate": {strings.Join(strings.Split(proof, ".")[:2], "."), target, now},
		"too long":            {proof + strings.Repeat("A", tunnel.MaxProof), target, now},
	} {
		if chain, err := tunnel.Verify(test.proof, test.target, test.at); !errors.Is(err, tunnel.ErrProof) || chain != nil {
			t.Errorf("%s: %v, %v", name, chain, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	now := time.Unix(1900000000, 0)
	proof, err := tunnel.Proof(certificate(f), target, now)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(proof, target)
	f.Add("Lighterage 1900000000.AA.AA", target)
	f.Fuzz(func(t *testing.T, proof, of string) {
		chain, err := tunnel.Verify(proof, of, now)
		if (err == nil) != (len(chain) > 0) {
			t.Errorf("%d certificates and %v", len(chain), err)
		}
	})
}

// answering accepts one connection, reads a request, and answers it with what respond writes.
func answering(t testing.TB, respond func(net.Conn, *http.Request)) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		request, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			t.Errorf("the request: %v", err)
			return
		}
		respond(conn, request)
	}()
	return listener.Addr().String()
}

// Nothing that the target says is lost, though it comes with the answer.
func TestThrough(t *testing.T) {
	own := certificate(t)
	proxy := answering(t, func(conn net.Conn, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != target {
			t.Errorf("%s %s", r.Method, r.Host)
		}
		if _, err := tunnel.Verify(r.Header.Get("Proxy-Authorization"), target, time.Now()); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nProxy-Agent: test\r\n\r\nfrom the target")
	})
	conn, err := tunnel.Through(
		new(net.Dialer).DialContext, target, func() (*tls.Certificate, error) { return own, nil },
	)(t.Context(), "tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if said, err := io.ReadAll(conn); err != nil || string(said) != "from the target" {
		t.Errorf("%q, %v", said, err)
	}
}

func TestRefused(t *testing.T) {
	for answer, want := range map[string]tunnel.Error{
		"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n": {Reason: tunnel.ProxyAuthentication, Status: 407},
		"HTTP/1.1 502 Bad Gateway\r\n\r\n":                   {Reason: tunnel.ProxyRefused, Status: 502},
		"HTTP/1.1 502 Bad Gateway\r\nLighterage-Reason: NotConnected\r\n\r\n": {
			Reason: tunnel.NotConnected, Status: 502,
		},
		"HTTP/1.1 502 Bad Gateway\r\nLighterage-Reason: Whatever\r\n\r\n": {Reason: tunnel.ProxyRefused, Status: 502},
		"SSH-2.0-OpenSSH\r\n\r\n":                            {Reason: tunnel.ProxyRefused},
		"HTTP/1.1 200 OK\r\n":                                {Reason: tunnel.ProxyUnreachable},
		"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 9000): {Reason: tunnel.ProxyUnreachable},
	} {
		proxy := answering(t, func(conn net.Conn, _ *http.Request) { _, _ = io.WriteString(conn, answer) })
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", proxy)
		if err != nil {
			t.Fatal(err)
		}
		err = tunnel.Ask(t.Context(), conn, tunnel.Request{Target: target})
		_ = conn.Close()
		var refused *tunnel.Error
		if !errors.As(err, &refused) || refused.Reason != want.Reason || refused.Status != want.Status {
			t.Errorf("%.60q: %v", answer, err)
		}
	}
}

// Who accepts and says nothing keeps nobody longer than its context.
func TestSilentProxy(t *testing.T) {
	silent := make(chan struct{})
	defer close(silent)
	proxy := answering(t, func(net.Conn, *http.Request) { <-silent })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = tunnel.Ask(ctx, conn, tunnel.Request{Target: target})
	if reason, _ := tunnel.ReasonOf(err); reason != tunnel.ProxyUnreachable {
		t.Error(err)
	}
}

func TestTarget(t *testing.T) {
	if peer, ok := tunnel.PeerOf(tunnel.Target("west")); !ok || peer != "west" {
		t.Errorf("%q, %t", peer, ok)
	}
	for _, other := range []string{"", ".peer.lighterage.internal:443", "west.peer.lighterage.internal:80", "west:443"} {
		if peer, ok := tunnel.PeerOf(other); ok {
			t.Errorf("%q is of peer %q", other, peer)
		}
	}
}
