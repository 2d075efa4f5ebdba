// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package handoff_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/handoff"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	offers, relays = "east/bank/.lighterage/handoff/offers/", "east/bank/.lighterage/handoff/relays/"
	connections    = "east/bank/.lighterage/handoff/connections/"
	someID         = "abcdefghijklmnopqrstuvwxyz"
)

// echo answers connections with what they said, when they have said all, and returns its address.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.CopyN(conn, conn, 5)
			}()
		}
	}()
	return listener.Addr().String()
}

// relay runs one until the function that it returns is called, which returns why it ended.
func relay(t *testing.T, server *objectstoretest.Server, address string) (stop func() error) {
	t.Helper()
	return relayOf(t, open(t, server), address)
}

func relayOf(t *testing.T, store *objectstore.Store, address string) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	o := handoff.RelayOptions{
		Options: handoff.Options{
			Store: store, First: time.Millisecond, Longest: 5 * time.Millisecond, Patience: time.Second,
		},
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
		Log: slog.New(slog.DiscardHandler), Interval: 2 * time.Millisecond, Silence: time.Second,
	}
	go func() { ended <- handoff.Relay(ctx, o) }()
	stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func offer(t *testing.T, server *objectstoretest.Server) *handoff.Offer {
	t.Helper()
	return offerOf(t, open(t, server))
}

func offerOf(t *testing.T, store *objectstore.Store) *handoff.Offer {
	t.Helper()
	o, err := handoff.NewOffer(t.Context(), handoff.Options{
		Store: store, First: time.Millisecond, Longest: 5 * time.Millisecond, Patience: time.Second,
		Renewal: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// say sends a word through an offer and returns the answer.
func say(t *testing.T, o *handoff.Offer, word string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := o.DialContext(ctx, "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(word)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Error(err)
	}
	return string(answer)
}

// empty waits until the bucket has nothing.
func empty(t *testing.T, server *objectstoretest.Server) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); len(server.Keys()) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("left behind: %v", server.Keys())
		}
	}
}

// TestRelay joins the connections of several senders, more than are served at once, and leaves nothing. Each stays for
// longer than one that is silent may.
func TestRelay(t *testing.T) {
	server := objectstoretest.New(t, "")
	relay(t, server, echo(t))
	var all []*handoff.Offer
	for range 6 {
		all = append(all, offer(t, server))
	}
	for _, o := range all[:2] {
		go func() { _ = o.Close(context.Background()) }()
	}
	time.Sleep(1200 * time.Millisecond)
	for _, o := range all[2:] {
		for _, word := range []string{"first", "other"} {
			if got := say(t, o, word); got != word {
				t.Errorf("%q came back as %q", word, got)
			}
		}
	}
	for _, o := range all[2:] {
		if err := o.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	empty(t, server)
}

// TestNobodyListens: connections that cannot go on end.
func TestNobodyListens(t *testing.T) {
	server := objectstoretest.New(t, "")
	relay(t, server, "127.0.0.1:1")
	o := offer(t, server)
	if got := say(t, o, "hello"); got != "" {
		t.Errorf("the answer is %q", got)
	}
	if err := o.Close(t.Context()); err != nil {
		t.Error(err)
	}
	empty(t, server)
}

// TestKilled: what senders left that were killed, with a relay or without, is removed, and so is what came too late.
// What is none of theirs stays.
func TestKilled(t *testing.T) {
	server := objectstoretest.New(t, "")
	others := strings.Repeat("b", 26)
	for _, key := range []string{
		offers + someID, connections + someID + "/0/d/0", // its relay never was
		offers + others, relays + others, connections + others + "/0/a/0", // its relay was killed, too
		connections + strings.Repeat("c", 26) + "/3/d/7", relays + strings.Repeat("d", 26),
	} {
		server.Add(key, []byte("\x01"), time.Now())
	}
	relay(t, server, echo(t))
	empty(t, server)
	server.Add(offers+"somebody else's", nil, time.Now())
	server.Add("east/bank/.lighterage/handoff/other", nil, time.Now())
	time.Sleep(500 * time.Millisecond)
	if keys := server.Keys(); len(keys) != 2 {
		t.Errorf("left: %v", keys)
	}
}

// TestRelayStops: the connections of a relay that stops end, and another one serves the next offer of the sender only.
func TestRelayStops(t *testing.T) {
	server := objectstoretest.New(t, "")
	address := echo(t)
	stop := relay(t, server, address)
	first := offer(t, server)
	conn, err := first.DialContext(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("the relay ends with %v", err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection ends with %v", err)
	}
	relay(t, server, address)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := first.DialContext(ctx, "", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the first offer is served again: %v", err)
	}
	second := offer(t, server)
	if got := say(t, second, "hello"); got != "hello" {
		t.Errorf("the answer is %q", got)
	}
	for _, o := range []*handoff.Offer{first, second} {
		if err := o.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	empty(t, server)
}

// TestDenied: both sides say what the store has against them.
func TestDenied(t *testing.T) {
	server := objectstoretest.New(t, "")
	o := offer(t, server)
	server.Set(objectstoretest.Faults{}, "somebody")
	denied := wirev1.FailureReason_FAILURE_REASON_STORE_DENIED
	if _, err := o.DialContext(t.Context(), "", ""); err == nil {
		t.Error("dialed all the same")
	}
	<-o.Failed()
	if !failure.Is(o.Err(), denied) {
		t.Errorf("the offer fails with %v", o.Err())
	}
	if err := handoff.Relay(t.Context(), handoff.RelayOptions{
		Options: handoff.Options{Store: open(t, server)}, Log: slog.New(slog.DiscardHandler),
	}); !failure.Is(err, denied) {
		t.Errorf("the relay fails with %v", err)
	}
	server.Set(objectstoretest.Faults{}, "")
	if err := o.Close(t.Context()); err != nil {
		t.Error(err)
	}
	empty(t, server)
}

// TestCrowd: many offers, of whomever, keep none from ending.
func TestCrowd(t *testing.T) {
	server := objectstoretest.New(t, "")
	for i := range 400 {
		name := bytes.Repeat([]byte("z"), 26)
		name[0], name[1] = byte('a'+i/20), byte('a'+i%20)
		server.Add(offers+string(name), []byte("x"), time.Now())
	}
	relay(t, server, echo(t))
	empty(t, server)
}
