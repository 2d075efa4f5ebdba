// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// trip is the round-trip time of a far connection. Nothing else that an attempt waits for takes time in a bubble.
const trip = 100 * time.Millisecond

// half is one direction of a far connection. What is written can be read half a trip later.
type half struct {
	mu     sync.Mutex
	more   chan struct{} // has a token when something may have become readable
	bytes  []byte
	closed bool
	// coming is what was done and has not arrived, in order: timers of one moment have none.
	coming []func()
}

func newHalf() *half { return &half{more: make(chan struct{}, 1)} }

// later changes the half when what was done arrives.
func (h *half) later(change func()) {
	h.mu.Lock()
	h.coming = append(h.coming, change)
	h.mu.Unlock()
	time.AfterFunc(trip/2, func() {
		h.mu.Lock()
		first := h.coming[0]
		h.coming = h.coming[1:]
		first()
		h.mu.Unlock()
		h.wake()
	})
}

func (h *half) wake() {
	select {
	case h.more <- struct{}{}:
	default:
	}
}

func (h *half) read(p []byte) (int, error) {
	for {
		h.mu.Lock()
		n, closed := copy(p, h.bytes), h.closed
		h.bytes = h.bytes[n:]
		h.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case closed:
			h.wake() // whoever reads next
			return 0, io.EOF
		}
		<-h.more
	}
}

// far is an end of a far connection.
type far struct {
	net.Conn // nil: what is not here is not used
	in, out  *half
}

func (f far) Read(p []byte) (int, error) { return f.in.read(p) }

func (f far) Write(p []byte) (int, error) {
	b := append([]byte(nil), p...)
	f.out.later(func() { f.out.bytes = append(f.out.bytes, b...) })
	return len(p), nil
}

func (f far) Close() error {
	f.out.later(func() { f.out.closed = true })
	f.in.mu.Lock()
	f.in.closed = true
	f.in.mu.Unlock()
	f.in.wake()
	return nil
}

func (far) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (far) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (far) SetDeadline(time.Time) error      { return nil }
func (far) SetReadDeadline(time.Time) error  { return nil }
func (far) SetWriteDeadline(time.Time) error { return nil }

// farListener accepts far connections.
type farListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *farListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *farListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *farListener) Addr() net.Addr { return &net.TCPAddr{} }

// connect takes a trip, as TCP does.
func (l *farListener) connect(context.Context, string, string) (net.Conn, error) {
	time.Sleep(trip)
	there, back := newHalf(), newHalf()
	select {
	case l.conns <- far{in: there, out: back}:
		return far{in: back, out: there}, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

var errRefused = errors.New("tls: no application protocol")

// A Transfer of little waits for so many round trips from when the receiver is ready: the session's TCP and TLS, its
// beginning with what is needed, and the end. The connections for blocks are made meanwhile.
func TestRoundTrips(t *testing.T) {
	tests := map[string]struct {
		dial  string
		trips int
	}{
		"Early": {"early", 4},
		"Late":  {"late", 6},
		// The receiver is of a release that ends the handshake of early connections.
		"Refused": {"refused", 6},
	}
	source := t.TempDir()
	file(t, source, "a", text(1, 1000), 0o600)
	file(t, source, "d/b", text(2, 3000), 0o600)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			destination := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				if took := farMove(t, source, destination, test.dial); took != time.Duration(test.trips)*trip {
					t.Errorf("%v round trips; want %d", float64(took)/float64(trip), test.trips)
				}
			})
			same(t, source, destination)
		})
	}
}

// farMove moves a tree over far connections, and returns how long the sender took.
func farMove(t *testing.T, source, destination, dial string) time.Duration {
	d, err := tree.OpenDestination(destination, ".", "run", 1)
	if err != nil {
		t.Fatal(err)
	}
	receiver := receive.New(receive.Options{
		RunID: "run", Attempt: 1, Sender: "bank/ledger", Destination: receive.Tree{Destination: d},
		Engines: engines.Default(), Report: receive.NewReport(),
	})
	received := make(chan error, 1)
	go func() { received <- receiver.Wait(context.Background()) }()
	east, west := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west")
	server := transport.NewDataServer(transport.NewFiles(west.Directory(t, east, "/ns/bank/delivery/ledger", serverName)),
		transport.Sender{Namespace: "bank", Name: "ledger", Run: "run"}, receiver.ServeBlocks)
	wirev1.RegisterReceiverServer(server, receiver)
	listener := &farListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	go server.Serve(listener)
	defer server.Stop()
	p := &pair{dialer: &transport.Dialer{
		Address: "far:1", Connect: listener.connect, Eager: true,
		Files: transport.NewFiles(east.ForRun("run").Directory(t, west, "/ns/bank/transfer/ledger", "")),
	}}
	began := time.Now()
	_, err = p.send(t.Context(), t, source, func(o *send.Options) {
		switch dial {
		case "early":
			early(p)(o)
		case "refused":
			o.DialEarly = func(ctx context.Context) (net.Conn, error) {
				time.Sleep(2 * trip)
				return nil, errRefused
			}
		}
	})
	took := time.Since(began)
	if err != nil {
		t.Error("send:", err)
	}
	if err := <-received; err != nil {
		t.Error("receive:", err)
	}
	return took
}
