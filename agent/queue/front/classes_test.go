// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"bytes"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// TestDecides: on a fast disk messages are stored as they are put, on a slow one compressed again, and readers get what
// was put. Settings that change nothing about compression do not make it begin again.
func TestDecides(t *testing.T) {
	s := settings(t, nil)
	q := start(t, s, nil)
	_, js := q.client()
	decides := q.front.Classes()
	decides.SetWay(adapt.Way{Local: true, Stored: true, Unpriced: true})
	plain := xml(t, 3000)
	var last uint64
	// put stores messages and returns how many of the last of them are compressed.
	put := func(n, of int) (compressed int) {
		for range n {
			last = q.put(js, &nats.Msg{Subject: "orders.eu", Data: plain}).Sequence
		}
		for sequence := last - uint64(of) + 1; sequence <= last; sequence++ {
			m := q.stored(sequence)
			if m.Header.Get(message.CodecHeader) != "" {
				compressed++
			} else if !bytes.Equal(m.Data, plain) {
				t.Fatalf("message %d is stored in %d bytes", sequence, len(m.Data))
			}
		}
		return compressed
	}
	if n := put(40, 40); n != 40 {
		t.Errorf("before the disk is known %d of 40 are compressed", n)
	}
	for range 50 {
		decides.Rested(1e-12)
	}
	if n := put(100, 50); n > 1 { // one of them may be a trial
		t.Errorf("on a fast disk %d of 50 are compressed", n)
	}
	s.MaxConnections = 100
	if err := q.front.Reload(s); err != nil {
		t.Fatal(err)
	}
	if n := put(50, 50); n > 1 {
		t.Errorf("after other settings %d of 50 are compressed", n)
	}
	skipped := q.front.Statistics().Compression.Skipped
	if skipped["DiskFaster"]+skipped["CPUDearer"] < 90 {
		t.Errorf("reasons of messages that are stored plain: %v", skipped)
	}
	if d := q.front.Decisions(); len(d.GetClasses()) != 1 || d.GetClasses()[0].GetReason() == "" ||
		d.GetClasses()[0].GetContent() != "eu" || d.GetDiskBytesPerSecond() == 0 {
		t.Errorf("%v", d)
	}
	for range 200 {
		decides.Rested(1e-5)
	}
	if n := put(80, 40); n != 40 {
		t.Errorf("on a slow disk %d of 40 are compressed", n)
	}
	batch, err := q.consumer(js, "reader").Fetch(int(last), jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	got := uint64(0)
	for m := range batch.Messages() {
		if got++; !bytes.Equal(m.Data(), plain) {
			t.Fatalf("message %d: %d bytes are read", got, len(m.Data()))
		}
	}
	if got != last || batch.Error() != nil {
		t.Errorf("%d of %d messages are read: %v", got, last, batch.Error())
	}
}
