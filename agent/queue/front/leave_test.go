// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// TestIdleClients: clients that would stay for ever are sent away by a member that ends, although they wait for
// messages, and those that are about to say who they are.
func TestIdleClients(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	q.front.SetLeaving(10*time.Millisecond, patience)
	gone := make(chan struct{}, 2)
	closed := nats.ClosedHandler(func(*nats.Conn) { gone <- struct{}{} })
	_, js := q.client(closed, nats.NoReconnect())
	q.client(closed, nats.NoReconnect())
	waiting, err := q.consumer(js, "clerk").Messages()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(waiting.Stop)
	undecided := q.raw(t)
	undecided.hear("INFO ")
	if err := q.front.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-gone:
		case <-time.After(patience):
			t.Fatal("a client does not notice")
		}
	}
}

// TestBusyClient: one that is never quiet is sent away, too; what it was told is stored is there, and put again
// elsewhere nothing is lost.
func TestBusyClient(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	q.front.SetLeaving(patience, 50*time.Millisecond)
	_, js := q.client(nats.NoReconnect())
	acknowledged, first := make(chan uint64, 1), make(chan struct{})
	go func() {
		n := uint64(0)
		defer func() { acknowledged <- n }()
		for {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			_, err := js.Publish(ctx, "orders.new", []byte("x"))
			cancel()
			if err != nil {
				return
			}
			if n++; n == 1 {
				close(first)
			}
		}
	}()
	<-first
	if err := q.front.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	stream, err := q.direct.Stream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	n := <-acknowledged
	if stored := stream.CachedInfo().State.Msgs; stored < n || stored > n+1 {
		t.Errorf("%d messages are stored, and the client was told so of %d", stored, n)
	}
}

// piped is a server at the other end of a pipe.
type piped struct{ conns chan net.Conn }

func (p piped) Dial(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours, nil
}
func (piped) Introduce(map[string]any, string) error { return nil }
func (piped) Shared() bool                           { return false }
func (piped) Pending() []store.Pending               { return nil }
func (piped) Configure(context.Context, string, []string) (bool, error) {
	return false, nil
}

// dialled is one that says when it is dialled, and is reached when the test takes the connection.
type dialled struct {
	piped
	begun chan struct{}
}

func (d dialled) Dial(ctx context.Context) (net.Conn, error) {
	d.begun <- struct{}{}
	return d.piped.Dial(ctx)
}

// TestDrainWhileDialling: a client for which the server was being reached when the member ended is not greeted, so that
// Drain does not wait until it has said who it is.
func TestDrainWhileDialling(t *testing.T) {
	server := dialled{piped{make(chan net.Conn)}, make(chan struct{})}
	f, err := front.New(front.Options{Queue: "orders", Server: server, Settings: settings(t, nil)})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(listener) }()
	t.Cleanup(f.Close)
	client := (&queue{T: t, front: f, address: listener.Addr().String()}).raw(t)
	<-server.begun
	drained := make(chan error, 1)
	go func() { drained <- f.Drain(t.Context()) }()
	<-ended // It takes no more connections, so it is draining.
	inner := <-server.conns
	t.Cleanup(func() { _ = inner.Close() })
	if _, err := io.WriteString(inner, "INFO {\"headers\":true}\r\n"); err == nil {
		t.Fatal("the server is listened to")
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if said, err := io.ReadAll(client); err != nil || len(said) > 0 {
		t.Errorf("the client hears %q, %v", said, err)
	}
}

// TestAnsweredAtTheEnd: a client that is interrupted hears what comes of what it said before.
func TestAnsweredAtTheEnd(t *testing.T) {
	t.Parallel()
	server := piped{make(chan net.Conn, 1)}
	q := serveFront(t, front.Options{Queue: "orders", Server: server, Settings: settings(t, nil)})
	q.front.SetLeaving(0, 0)
	client := q.raw(t)
	inner := <-server.conns
	t.Cleanup(func() { _ = inner.Close() })
	if err := inner.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		t.Fatal(err)
	}
	heard := bufio.NewReader(inner)
	hear := func(want string) {
		t.Helper()
		if line, err := heard.ReadString('\n'); err != nil || !strings.HasPrefix(line, want) {
			t.Fatalf("the server hears %q, %v; want %s", line, err, want)
		}
	}
	say := func(text string) {
		t.Helper()
		if _, err := io.WriteString(inner, text); err != nil {
			t.Fatal(err)
		}
	}
	say("INFO {\"headers\":true}\r\n")
	client.hear("INFO ")
	client.say("CONNECT {}\r\nSUB _INBOX.abcdef.* 1\r\nPUB orders _INBOX.abcdef.x 1\r\nx\r\n")
	for _, want := range []string{"CONNECT ", "SUB ", "PUB ", "x\r\n"} {
		hear(want)
	}
	drained := make(chan error, 1)
	go func() { drained <- q.front.Drain(t.Context()) }()
	client.hear(`INFO {`)
	select {
	case err := <-drained:
		t.Fatalf("nobody waits for the server: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	const answer = "stored"
	say(fmt.Sprintf("MSG _INBOX.abcdef.x 1 %d\r\n%s\r\n", len(answer), answer))
	client.hear("MSG _INBOX.abcdef.x")
	client.hear(answer)
	if err := inner.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(client); err != nil || len(rest) > 0 {
		t.Errorf("then comes %q, %v", rest, err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}
