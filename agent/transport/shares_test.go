// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport_test

import (
	"net"
	"testing"

	"github.com/lighterage/lighterage/agent/transport"
)

// TestListenEach: of one address so many connections are open at once, and when one is closed there is space for
// another.
func TestListenEach(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := transport.ListenEach(inner, 8, 2)
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	dial()
	first := <-accepted
	dial()
	<-accepted
	// The third is closed without a word.
	if n, err := dial().Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes of a connection too many", n)
	}
	for range 2 { // closing twice makes space once
		_ = first.Close()
	}
	dial()
	<-accepted
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("closing one made space for two")
	}
	_ = listener.Close()
	for range accepted {
		t.Error("one more was accepted")
	}
}
