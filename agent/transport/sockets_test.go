// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/transport"
)

// TestMeasureSockets: both ends of a connection of this process are found by their ports, and nothing else.
func TestMeasureSockets(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	dialled, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	go func() { _, _ = dialled.Write(make([]byte, 1<<20)) }()
	if _, err := io.CopyN(io.Discard, accepted, 1<<20); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		found, err := transport.MeasureSockets(func(local, remote int) bool { return local == port || remote == port })
		if err != nil {
			t.Fatal(err)
		}
		sent := 0
		for _, c := range found {
			if c.Acknowledged >= 1<<20 {
				sent++
			}
		}
		if len(found) == 2 && sent == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", found)
		}
	}
	if found, err := transport.MeasureSockets(func(int, int) bool { return false }); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestMeasureCounted: what a counter counts can be measured while it is open.
func TestMeasureCounted(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	raw, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var counter transport.Counter
	conn := counter.Count(raw)
	if n := len(counter.Measure()); n != 1 {
		t.Errorf("%d connections", n)
	}
	_ = conn.Close()
	if n := len(counter.Measure()); n != 0 {
		t.Errorf("%d connections after it was closed", n)
	}
}
