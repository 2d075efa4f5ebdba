// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/lighterage/lighterage/agent/egress"
)

const patience = time.Minute

// listen counts who connects to an address.
func listen(t *testing.T, address string) (port string, connected *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	connected = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connected.Add(1)
			t.Cleanup(func() { c.Close() })
		}
	}()
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, connected
}

// names is a server of DNS that answers each question for an address of IPv4 with what next returns.
func names(t *testing.T, next func() []string) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if m.Questions[0].Type == dnsmessage.TypeA {
				for _, text := range next() {
					m.Answers = append(m.Answers, dnsmessage.Resource{
						Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET},
						Body:   &dnsmessage.AResource{A: netip.MustParseAddr(text).As4()},
					})
				}
			}
			if packed, err := m.Pack(); err == nil {
				_, _ = server.WriteTo(packed, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// only permits one address of loopback, as if the others were in the cluster.
func only(address string) egress.Policy {
	return egress.Policy{Loopback: true, Never: allBut(address)}
}

// allBut are the addresses 127.0.0.1 to 127.0.0.3 without one.
func allBut(address string) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, a := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
		if a != address {
			prefixes = append(prefixes, netip.MustParsePrefix(a+"/32"))
		}
	}
	return prefixes
}

func TestDialLiterals(t *testing.T) {
	port, connected := listen(t, "127.0.0.1:0")
	strict := egress.NewGuard(egress.Policy{})
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1", "0.0.0.0"} {
		if c, err := strict.Dial(t.Context(), patience, net.JoinHostPort(host, port)); !errors.Is(err, egress.ErrBlocked) {
			t.Errorf("%s: %v, %v", host, c, err)
		}
	}
	if n := connected.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
	c, err := egress.NewGuard(egress.Policy{Loopback: true}).Dial(
		t.Context(), patience, net.JoinHostPort("127.0.0.1", port),
	)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// TestSeveralAddresses: of a name with several addresses those that are not permitted are never dialled, in whatever
// order they come.
func TestSeveralAddresses(t *testing.T) {
	port, wrong := listen(t, "127.0.0.2:0")
	_, right := listen(t, "127.0.0.3:"+port)
	for _, order := range [][]string{{"127.0.0.2", "127.0.0.3"}, {"127.0.0.3", "127.0.0.2"}} {
		g := egress.NewGuard(only("127.0.0.3"))
		g.Resolve(names(t, func() []string { return order }))
		c, err := g.Dial(t.Context(), patience, net.JoinHostPort("backend.example", port))
		if err != nil {
			t.Fatalf("%v: %v", order, err)
		}
		if got := c.RemoteAddr().String(); !strings.HasPrefix(got, "127.0.0.3:") {
			t.Errorf("%v: %s", order, got)
		}
		c.Close()
	}
	g := egress.NewGuard(only("127.0.0.1"))
	g.Resolve(names(t, func() []string { return []string{"127.0.0.2", "127.0.0.3"} }))
	if _, err := g.Dial(
		t.Context(), patience, net.JoinHostPort("backend.example", port),
	); !errors.Is(err, egress.ErrBlocked) {
		t.Errorf("all blocked: %v", err)
	}
	if wrong.Load() != 0 || right.Load() > 2 {
		t.Errorf("%d and %d connections", wrong.Load(), right.Load())
	}
}

// TestRebinding: M4: a name that was good the first time is checked again when it resolves to something else.
func TestRebinding(t *testing.T) {
	port, secret := listen(t, "127.0.0.2:0")
	listen(t, "127.0.0.3:"+port)
	var questions atomic.Int64
	g := egress.NewGuard(only("127.0.0.3"))
	g.Resolve(names(t, func() []string {
		if questions.Add(1) == 1 {
			return []string{"127.0.0.3"}
		}
		return []string{"127.0.0.2"}
	}))
	address := net.JoinHostPort("backend.example", port)
	c, err := g.Dial(t.Context(), patience, address)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	for range 3 {
		if _, err := g.Dial(t.Context(), patience, address); !errors.Is(err, egress.ErrBlocked) {
			t.Errorf("afterwards: %v", err)
		}
	}
	if secret.Load() != 0 {
		t.Error("what must not be dialled was")
	}
}

// TestSet: connections to what is not permitted any more end at once; others go on.
func TestSet(t *testing.T) {
	port, _ := listen(t, "127.0.0.2:0")
	_, _ = listen(t, "127.0.0.3:"+port)
	g := egress.NewGuard(egress.Policy{Loopback: true})
	dial := func(host string) net.Conn {
		c, err := g.Dial(t.Context(), patience, net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		return c
	}
	revoked, kept := dial("127.0.0.2"), dial("127.0.0.3")
	reading := make(chan error, 1)
	go func() {
		_, err := revoked.Read(make([]byte, 1))
		reading <- err
	}()
	g.Set(only("127.0.0.3"))
	if err := <-reading; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the one that is not permitted: %v", err)
	}
	if _, err := io.WriteString(kept, "x"); err != nil {
		t.Errorf("the one that is: %v", err)
	}
	if _, err := g.Dial(t.Context(), patience, net.JoinHostPort("127.0.0.2", port)); !errors.Is(err, egress.ErrBlocked) {
		t.Errorf("again: %v", err)
	}
}
