// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// Guard dials what its policy permits. It is safe for concurrent use.
type Guard struct {
	mu     sync.Mutex
	policy Policy
	open   map[*conn]netip.Addr
	// resolver is that of the system when nil.
	resolver *net.Resolver
}

// NewGuard returns a Guard with a policy.
func NewGuard(p Policy) *Guard { return &Guard{policy: p, open: make(map[*conn]netip.Addr)} }

// Set replaces the policy and closes the connections to what it does not permit.
func (g *Guard) Set(p Policy) {
	g.mu.Lock()
	g.policy = p
	var blocked []*conn
	for c, address := range g.open {
		if p.Check(address) != nil {
			blocked = append(blocked, c)
		}
	}
	g.mu.Unlock()
	for _, c := range blocked {
		_ = c.Close() // nobody reads from it any more, whatever it says
	}
}

// Dial connects to HOST:PORT by TCP; a timeout of 0 leaves it to the context. Of the addresses that a name has, those
// that the policy permits are tried. Errors match ErrBlocked if the first one is not permitted and no other answers.
func (g *Guard) Dial(ctx context.Context, timeout time.Duration, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: timeout, Resolver: g.resolver, ControlContext: g.control}
	inner, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	tcp, ok := inner.(*net.TCPConn)
	if !ok {
		inner.Close()
		return nil, fmt.Errorf("dial %s: got a %T, which is no connection of TCP", address, inner)
	}
	c := &conn{TCPConn: tcp, guard: g}
	remote := tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Addr() //nolint:forcetypeassert // A TCPConn has no other.
	g.mu.Lock()
	err = g.policy.Check(remote) // it may have been replaced since control
	if err == nil {
		g.open[c] = remote
	}
	g.mu.Unlock()
	if err != nil {
		_ = tcp.Close() // the error says why
		return nil, err
	}
	return c, nil
}

// control implements net.Dialer.ControlContext: it is called with each address that is about to be connected to.
func (g *Guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	resolved, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBlocked, err)
	}
	g.mu.Lock()
	p := g.policy
	g.mu.Unlock()
	return p.Check(resolved.Addr())
}

// conn is a connection that its Guard knows.
type conn struct {
	*net.TCPConn
	guard *Guard
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.guard.mu.Lock()
	delete(c.guard.open, c)
	c.guard.mu.Unlock()
	return c.TCPConn.Close()
}
