// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"context"
	"net"
	"testing"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/transfer/send"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func early(p *pair) sendOption {
	return func(o *send.Options) {
		o.DialEarly = func(ctx context.Context) (net.Conn, error) { return p.dialer.DialEarly(ctx, serverName) }
	}
}

// Connections that claim no session, another one, or send a block in place of a claim, keep nobody out and fail
// nothing.
func TestEarlyConnectionsWithoutASession(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, "a", text(1, 3<<20), 0o600)
	p := startReceiver(t, destination)
	connect := func() blockConn {
		conn, err := p.dialer.DialEarly(t.Context(), serverName)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return blockConn{conn}
	}
	var silent []blockConn
	for range protocol.MaxStreams {
		silent = append(silent, connect())
	}
	for name, claim := range map[string]*wirev1.DataRequest{
		"Other": {Session: []byte("another")},
		"Empty": {},
		"Block": {Session: []byte("another"), Block: []byte("block")},
		"Long":  {Session: make([]byte, 5000)},
	} {
		if err := connect().refused(claim); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.send(t.Context(), t, source, early(p)); err != nil {
		t.Fatal("send:", err)
	}
	if err := p.wait(t); err != nil {
		t.Fatal("receive:", err)
	}
	same(t, source, destination)
	// What nobody claimed ended with the run, at the latest.
	for _, conn := range silent {
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("a connection without a session was sent %d bytes", n)
		}
	}
}

// A sender counts the connections whose ends it has not waited for. It fails when one of them breaks, and may not count
// more than there can be.
func TestFinishBeforeTheEnds(t *testing.T) {
	for name, test := range map[string]struct {
		streams uint32
		breaks  bool
		want    wirev1.FailureReason
	}{
		"Breaks":  {2, true, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST},
		"TooMany": {protocol.MaxStreams + 1, false, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
	} {
		t.Run(name, func(t *testing.T) {
			p := startReceiver(t, t.TempDir())
			h := newPeer(t, p)
			h.accepted()
			h.announce(root(), fileEntry("a", 10))
			h.needs()
			h.say(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_ManifestEnd{
				ManifestEnd: &wirev1.ManifestEnd{Entries: 2, Files: 1, Bytes: 10},
			}})
			conn := h.blocks()
			if err := conn.send(h.block(0, &wirev1.Segment{Index: 1, Length: 10})); err != nil {
				t.Fatal(err)
			}
			h.say(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Finish{
				Finish: &wirev1.Finish{Files: 1, Bytes: 10, Streams: test.streams},
			}})
			if test.breaks {
				_ = conn.Close()
			}
			if f := h.verdict(); f.Reason != test.want {
				t.Errorf("the verdict is %v", f)
			}
			if err := p.wait(t); err == nil {
				t.Error("the receiver succeeded")
			}
		})
	}
}
