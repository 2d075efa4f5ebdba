// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"testing"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/frame"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const hostileChunk = 64 << 10

// hostileStream is a connection of a session whose sender took files 1 and 2 back.
func hostileStream() *inStream {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &inStream{session: &session{
		ctx: ctx, cancel: cancel, chunk: hostileChunk, takenBack: map[uint64]*taken{1: {}, 2: {}},
	}}
}

// Segments of files that were taken back are not written; what they say of themselves is checked all the same: a length
// below zero, which that of another segment makes up for, would be taken for a place in the block.
func TestPartsOfFilesTakenBack(t *testing.T) {
	const part = hostileChunk / partsPerChunk
	for name, segments := range map[string][]segment{
		"a part of nothing":         {{index: 1, reused: 1}, {index: 2, length: part + 100}},
		"a part beyond the end":     {{index: 1, length: part, reused: 2}, {index: 2, length: 100}},
		"a part reused and a hole":  {{index: 1, length: part, reused: 1, holes: 1}, {index: 2, length: 100}},
		"longer than a chunk":       {{index: 1, length: hostileChunk + part, reused: 1 << 15}, {index: 2, length: 0}},
		"a hole where nothing is":   {{index: 1, holes: allParts}, {index: 2, length: hostileChunk}},
		"beyond, of several chunks": {{index: 1, length: 2 * hostileChunk}},
	} {
		d := hostileStream()
		var sum int64
		for i := range segments {
			sum += segments[i].carried(hostileChunk)
		}
		d.message.segments = segments
		if err := d.claim(frame.Header{PlainLen: uint32(max(sum, 0))}); !failure.Is(
			err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
		) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := hostileStream()
	d.message.segments = []segment{{index: 1, length: part + 100, reused: 1}, {index: 2, length: 0}}
	if err := d.claim(frame.Header{PlainLen: 100}); err != nil {
		t.Errorf("segments that are true: %v", err)
	}
}

// A defect that a block brings to light ends the run with a failure, and not the process with those of others.
func TestPanicFailsTheRun(t *testing.T) {
	d := hostileStream() // it has no decoder
	d.message.received = frame.Header{Last: true}.Append(nil)
	if last, err := d.guarded(); err == nil || last {
		t.Fatalf("last %v: %v", last, err)
	}
}
