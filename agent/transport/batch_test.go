// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
)

// writesConn counts calls of Write.
type writesConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c writesConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// A block of 1 MiB and its head take 4 writes, and all of a message is on its way when it is written.
func TestWritesOfMessages(t *testing.T) {
	east, west := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west")
	files := transport.NewFiles(west.Directory(t, east, "/ns/bank/delivery/ledger", serverName))
	came := make(chan []byte)
	address := serve(t, transport.NewDataServer(files, ledger, func(conn net.Conn) {
		for {
			var m protocol.DataMessage
			if m.Read(conn) != nil {
				return
			}
			came <- m.Received
		}
	}), nil, 100)
	var writes atomic.Int64
	dialer := &transport.Dialer{
		Address: address,
		Files:   transport.NewFiles(east.ForRun(ledger.Run).Directory(t, west, "/ns/bank/transfer/ledger", "")),
		Connect: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return writesConn{conn, &writes}, err
		},
	}
	conn, err := dialer.DialBlocks(t.Context(), serverName)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	header := bytes.Repeat([]byte{1}, frame.HeaderSize)
	// TLS makes records of a packet's length at first.
	for i, test := range []struct {
		payload int
		most    int64
	}{{frame.DefaultBlock, 1 << 10}, {frame.DefaultBlock, 4}, {1000, 1}, {0, 1}} {
		payload := bytes.Repeat([]byte{byte(i)}, test.payload)
		writes.Store(0)
		var m protocol.DataMessage
		if err := m.Write(conn, header, payload); err != nil {
			t.Fatal(err)
		}
		got := <-came
		if want := append(bytes.Clone(header), payload...); !bytes.Equal(got, want) {
			t.Errorf("message %d: %d bytes came, and they are not those that were written, %d", i, len(got), len(want))
		}
		if n := writes.Load(); n > test.most {
			t.Errorf("message %d: a block of %d bytes took %d writes, more than %d", i, test.payload, n, test.most)
		}
	}
}
