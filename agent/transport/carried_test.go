// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport_test

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/transport"
)

// TestMeasure: the kernel tells of a connection behind TLS, and what its other end does not read.
func TestMeasure(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	raw, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	peer, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // no handshake takes place

	go func() { _, _ = raw.Write(make([]byte, 64<<20)) }()
	deadline := time.Now().Add(time.Minute)
	for {
		c, err := transport.Measure(conn)
		if err != nil {
			t.Fatal(err)
		}
		if c.Acknowledged > 0 && c.PeerFull > 0 && c.PeerFull <= c.Busy {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a peer that reads nothing: %+v", c)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if n, err := io.CopyN(io.Discard, peer, 64<<20); err != nil {
		t.Fatalf("after %d bytes: %v", n, err)
	}
	for {
		if c, err := transport.Measure(conn); err != nil || c.Acknowledged >= 64<<20 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("all was read: %+v", c)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestMeasureWhatIsNotTCP(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, err := transport.Measure(a); err == nil {
		t.Error("a pipe in memory is measured")
	}
}
