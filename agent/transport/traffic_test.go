// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"io"
	"math"
	"net"
	"testing"
	"time"
)

// TestTraffic: what arrives with data counts where it is received, acknowledgements where it is sent, and both still
// after the connections are closed.
func TestTraffic(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var sent, received Counter
	listener := Listen(plain, &received, 4)
	defer listener.Close()
	const size = 8 << 20
	for round := uint64(1); round <= 2; round++ {
		raw, err := net.Dial("tcp", plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		sender := Meter(raw, &sent, nil)
		receiver, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = sender.Write(make([]byte, size)) }()
		if n, err := io.CopyN(io.Discard, receiver, size); err != nil {
			t.Fatalf("after %d bytes: %v", n, err)
		}
		for deadline := time.Now().Add(time.Minute); sent.Traffic().Acknowledgements < 2*round; {
			if time.Now().After(deadline) {
				t.Fatalf("no acknowledgements: %+v", sent.Traffic())
			}
			time.Sleep(time.Millisecond)
		}
		open := received.Traffic()
		if open.Bytes-round*size >= round || open.Segments < round*size/(64<<10) || open.Segments > round*size/500 {
			t.Errorf("received with open connections: %+v", open)
		}
		if got := sent.Traffic(); got.Bytes != 0 || got.Segments != 0 || got.Acknowledgements > open.Segments+4*round {
			t.Errorf("sent: %+v, received %+v", got, open)
		}
		before := sent.Traffic().Acknowledgements
		_ = sender.Close()
		_ = receiver.Close()
		_ = receiver.Close()
		if got := received.Traffic(); got.Bytes-open.Bytes > round || // the end of a stream takes one
			got.Segments != open.Segments {
			t.Errorf("after closing: %+v, before %+v", got, open)
		}
		if got := sent.Traffic().Acknowledgements; got < before {
			t.Errorf("%d acknowledgements after closing, %d before", got, before)
		}
	}
	if got := received.Traffic().Wire(); got.GetReceivedBytes() < 2*size || got.GetReceivedBytes() > 2*size+2 ||
		got.GetDataSegments() == 0 {
		t.Errorf("reported: %v", got)
	}
}

// TestTrafficOfOthers: connections that are not TCP count bytes and no segments, which are not reported then.
func TestTrafficOfOthers(t *testing.T) {
	var counter Counter
	here, there := net.Pipe()
	conn := Meter(here, &counter, nil)
	go func() { _, _ = io.Copy(io.Discard, there) }()
	if _, err := conn.Write(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if got := counter.Traffic().Wire(); got != nil || counter.Bytes() != 10 {
		t.Errorf("%v, %d bytes", got, counter.Bytes())
	}
}

func TestArrivals(t *testing.T) {
	var a arrivals
	a.add(100, 60, 1000)
	a.add(math.MaxUint32, math.MaxUint32-5, 2000)
	a.add(9, 4, 3000) // around once
	want := Traffic{Segments: 1<<32 + 4, Acknowledgements: 5, Bytes: 3000}
	if got := a.traffic(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	a.add(9, 10, 3000) // one arrived between the two counters
	if got := a.traffic(); got.Acknowledgements != 0 || got.Segments != 1<<32+10 {
		t.Errorf("%+v", got)
	}
}
