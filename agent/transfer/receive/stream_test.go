// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"testing"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const hostileChunk = 64 << 10

// hostileStream is a connection of an attempt whose sender took files 1 and 2 back.
func hostileStream() *stream {
	return &stream{
		ctx: context.Background(), terms: &terms{chunk: hostileChunk},
		expected: &expected{takenBack: map[uint64]*taken{1: {}, 2: {}}},
	}
}

// Segments of files that were taken back are not written; what they say of themselves is checked all the same: a length
// below zero, which that of another segment makes up for, would be taken for a place in the block.
func TestPartsOfFilesTakenBack(t *testing.T) {
	const part = hostileChunk / protocol.PartsPerChunk
	for name, segments := range map[string][]protocol.Segment{
		"a part of nothing":         {{Index: 1, Reused: 1}, {Index: 2, Length: part + 100}},
		"a part beyond the end":     {{Index: 1, Length: part, Reused: 2}, {Index: 2, Length: 100}},
		"a part reused and a hole":  {{Index: 1, Length: part, Reused: 1, Holes: 1}, {Index: 2, Length: 100}},
		"longer than a chunk":       {{Index: 1, Length: hostileChunk + part, Reused: 1 << 15}, {Index: 2, Length: 0}},
		"a hole where nothing is":   {{Index: 1, Holes: protocol.AllParts}, {Index: 2, Length: hostileChunk}},
		"beyond, of several chunks": {{Index: 1, Length: 2 * hostileChunk}},
	} {
		d := hostileStream()
		var sum int64
		for i := range segments {
			s := &segments[i]
			sum += int64(s.Length) - s.Absent().Bytes(int64(s.Length), hostileChunk)
		}
		d.message.Segments = segments
		if err := d.claim(frame.Header{PlainLen: uint32(max(sum, 0))}); !failure.Is(
			err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
		) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := hostileStream()
	d.message.Segments = []protocol.Segment{{Index: 1, Length: part + 100, Reused: 1}, {Index: 2, Length: 0}}
	if err := d.claim(frame.Header{PlainLen: 100}); err != nil {
		t.Errorf("segments that are true: %v", err)
	}
}

// A defect that a block brings to light ends the run with a failure, and not the process with those of others.
func TestPanicFailsTheRun(t *testing.T) {
	d := hostileStream() // it has no decoder
	d.message.Received = frame.Header{Last: true}.Append(nil)
	if last, err := d.guarded(); err == nil || last {
		t.Fatalf("last %v: %v", last, err)
	}
}
