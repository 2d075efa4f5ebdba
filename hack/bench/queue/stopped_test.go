// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestStopped(t *testing.T) {
	var got results
	for round := range 3 {
		for name, written := range map[string]float64{
			plain: 33000, uncompressed: 32000, spilling: 32000, deflate: 12800, zstd: 16000,
		} {
			one := stoppedTurn{turn: turn{contender: name, size: stoppedSize, messages: 10, stored: 100}, late: round}
			one.put.written = written
			got.stopped = append(got.stopped, one)
		}
	}
	b, r := measured(t, got)
	for name, want := range map[string]string{
		"stopped-io-deflate-32000": "target stopped-io-deflate-32000 0.40 <=0.46 ok",
		"stopped-io-zstd-32000":    "target stopped-io-zstd-32000 0.50 <=0.46 miss",
	} {
		if line := lines(r.Targets)[name]; line != want {
			t.Errorf("got %q, want %q", line, want)
		}
	}
	contains(t, b.Out, map[string][]string{"queue.md": {"| queue, deflate | 12800 | 0 | 10 | 0.0 | 1 |", "stays"}})
}

// TestStoppedStores: the queue that does not compress stores messages as they are, the others shorter.
func TestStoppedStores(t *testing.T) {
	data, err := payloads(stoppedSize)
	if err != nil {
		t.Fatal(err)
	}
	const n = 20
	for _, name := range []string{uncompressed, deflate, zstd} {
		directory := t.TempDir()
		q, err := openQueue(t.Context(), directory, encodingOptions(codecOf(name)), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(q.close)
		conn, err := nats.Connect("nats://" + q.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		for i := range n {
			if _, err := conn.Request(queue, data[i], time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		size, err := sizeOf(directory, ".blk")
		if err != nil || size == 0 || (size >= n*stoppedSize) != (name == uncompressed) {
			t.Errorf("%s: %d bytes of files, %v", name, size, err)
		}
	}
}
