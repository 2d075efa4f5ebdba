// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// earlier is a receiver that does not say that it reads joinable blocks, as those of earlier releases.
type earlier struct{ *receive.Receiver }

func (e earlier) Session(stream wirev1.Receiver_SessionServer) error {
	return e.Receiver.Session(silentOfJoining{stream})
}

type silentOfJoining struct{ wirev1.Receiver_SessionServer }

func (s silentOfJoining) Send(m *wirev1.SessionResponse) error {
	if a := m.GetAccepted(); a != nil {
		a.Joinable = false
	}
	return s.Receiver_SessionServer.Send(m)
}

// headers are those of the blocks that were written to connections.
type headers struct {
	mu  sync.Mutex
	all []frame.Header
}

type observed struct {
	net.Conn
	headers *headers
}

// Write implements net.Conn. What goes before a payload ends in its header.
func (o observed) Write(p []byte) (int, error) {
	if len(p) >= frame.HeaderSize {
		if h, err := frame.ParseHeader(p[len(p)-frame.HeaderSize:]); err == nil {
			o.headers.mu.Lock()
			o.headers.all = append(o.headers.all, h)
			o.headers.mu.Unlock()
		}
	}
	return o.Conn.Write(p)
}

// notPartwise is an engine whose encoders make whole streams only.
type notPartwise struct{ codec.Engine }

func (e notPartwise) NewEncoder(level codec.Level) (codec.Encoder, error) {
	encoder, err := e.Engine.NewEncoder(level)
	return struct{ codec.Encoder }{encoder}, err
}

// TestJoinable: deflate blocks are joinable where the receiver says that it reads such, and the engine makes them.
// Everything else has the form that all releases read.
func TestJoinable(t *testing.T) {
	source := t.TempDir()
	file(t, source, "a", text(1, 3<<20), 0o600)
	file(t, source, "b", noise(1, 2<<20), 0o600)
	deflate, ok := engines.Default().Best(codec.Deflate, codec.Software, codec.Fast)
	if !ok {
		t.Fatal("no engine of deflate")
	}
	for name, test := range map[string]struct {
		codec    codec.ID
		engine   codec.Engine // nil: all
		earlier  bool
		joinable int
	}{
		"Deflate":         {codec.Deflate, nil, false, 3},
		"EarlierReceiver": {codec.Deflate, nil, true, 0},
		"OtherEngine":     {codec.Deflate, notPartwise{deflate}, false, 0},
		"Zstd":            {codec.Zstd, nil, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			destination := t.TempDir()
			p := startReceiver(t, destination)
			if test.earlier {
				p.dialer = serve(t, earlier{p.receiver}, &p.report.Wire)
			}
			var wrote headers
			if _, err := p.send(t.Context(), t, source, func(o *send.Options) {
				if test.engine != nil {
					o.Engines = codec.NewRegistry(test.engine)
				}
				o.Codecs = []codec.ID{test.codec}
				o.Policy = policy.Settings{Mode: policy.Always, Level: codec.Fast}
				dial := o.DialBlocks
				o.DialBlocks = func(ctx context.Context) (net.Conn, error) {
					conn, err := dial(ctx)
					return observed{conn, &wrote}, err
				}
			}); err != nil {
				t.Fatal("send:", err)
			}
			if err := p.wait(t); err != nil {
				t.Fatal("receive:", err)
			}
			same(t, source, destination)
			joinable, compressed := 0, 0
			for _, h := range wrote.all {
				if h.Joinable {
					joinable++
				}
				if h.Codec != codec.None {
					compressed++
				}
			}
			if joinable != test.joinable || compressed != 3 {
				t.Errorf("%d blocks were compressed, %d of them joinable; want 3 and %d", compressed, joinable, test.joinable)
			}
		})
	}
}
