// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const serverName = "0000.receive.lighterage.internal"

// patience is how long to wait for what comes: only a failure takes so long, however busy machine and disk are.
const patience = 3 * time.Minute

// pair is a receiver that serves on loopback, and what a sender needs to reach it.
type pair struct {
	receiver *receive.Receiver
	report   *receive.Report
	dialer   *transport.Dialer
	done     chan error
}

type receiveOption func(*receive.Options)

// startReceiver serves one attempt that writes to a directory.
func startReceiver(t testing.TB, destination string, options ...receiveOption) *pair {
	t.Helper()
	return startAttempt(t, 1, destination, options...)
}

// startAttempt is startReceiver for one of several attempts.
func startAttempt(t testing.TB, attempt uint32, destination string, options ...receiveOption) *pair {
	t.Helper()
	d, err := tree.OpenDestination(destination, ".", "run", attempt)
	if err != nil {
		t.Fatal(err)
	}
	report := receive.NewReport()
	o := receive.Options{
		RunID: "run", Attempt: attempt, Sender: "bank/ledger", Destination: receive.Tree{Destination: d},
		Engines: engines.Default(), Report: report,
		AllowDelete: true,
	}
	for _, option := range options {
		option(&o)
	}
	receiver := receive.New(o)
	p := &pair{receiver: receiver, report: report, dialer: serve(t, receiver, &report.Wire), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	closed := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		// Nothing is written any more when the directory is removed.
		select {
		case <-closed:
		case <-time.After(patience):
			t.Error("the receiver does not stop")
		}
	})
	go func() {
		defer close(closed)
		err := receiver.Wait(ctx)
		report.End(err)
		p.done <- err
	}()
	return p
}

type blocksReceiver interface {
	wirev1.ReceiverServer
	ServeBlocks(net.Conn)
}

// serve serves a receiver on loopback and returns what reaches it.
func serve(t testing.TB, receiver blocksReceiver, counter *transport.Counter) *transport.Dialer {
	t.Helper()
	east, west := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west")
	sender := east.ForRun("run").Directory(t, west, "/ns/bank/transfer/ledger", "")
	server := transport.NewDataServer(transport.NewFiles(west.Directory(t, east, "/ns/bank/delivery/ledger", serverName)),
		transport.Sender{Namespace: "bank", Name: "ledger", Run: "run"}, receiver.ServeBlocks)
	wirev1.RegisterReceiverServer(server, receiver)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(transport.Listen(listener, counter, 64))
	t.Cleanup(server.Stop)
	return &transport.Dialer{
		Address: listener.Addr().String(), Files: transport.NewFiles(sender), Counter: &transport.Counter{},
	}
}

// wait returns how the receiver ended.
func (p *pair) wait(t testing.TB) error {
	t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(patience):
		t.Fatal("the receiver does not end")
		return nil
	}
}

type sendOption func(*send.Options)

// send sends a directory to the receiver.
func (p *pair) send(ctx context.Context, t testing.TB, source string, options ...sendOption) (*wirev1.Report, error) {
	t.Helper()
	s, err := tree.OpenSource(source, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	report := send.NewReport()
	o := send.Options{
		RunID: "run", Attempt: 1, Source: s, Engines: engines.Default(),
		Policy:     policy.Settings{Mode: policy.Auto, Level: codec.Fast},
		Codecs:     []codec.ID{codec.Deflate},
		Verify:     true,
		Dial:       func() (send.Conn, error) { return p.dialer.Dial(serverName) },
		DialBlocks: func(ctx context.Context) (net.Conn, error) { return p.dialer.DialBlocks(ctx, serverName) },
		Streams:    3,
		Report:     report,
	}
	p.dialer.Counter = &report.Wire
	for _, option := range options {
		option(&o)
	}
	err = send.Run(ctx, o)
	report.End(err)
	return report.Report(), err
}

// move sends source to destination and fails the test unless both sides succeed.
func move(t testing.TB, source, destination string, options ...sendOption) (sent, received *wirev1.Report) {
	t.Helper()
	p := startReceiver(t, destination)
	sent, err := p.send(t.Context(), t, source, options...)
	if err != nil {
		t.Fatal("send:", err)
	}
	if err := p.wait(t); err != nil {
		t.Fatal("receive:", err)
	}
	return sent, p.report.Report()
}
