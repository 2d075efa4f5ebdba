// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"context"
	"math"
	"testing"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// A receiver that lies about what is safe is refused before anything is left out.
func TestHostileSafeRanges(t *testing.T) {
	source := t.TempDir()
	file(t, source, "a", noise(1, 3<<20+5), 0o600)
	file(t, source, "b", noise(2, 100), 0o600)
	safe := func(position uint32, numbers ...uint64) *wirev1.Safe {
		s := &wirev1.Safe{Position: position}
		for i := 0; i < len(numbers); i += 2 {
			s.Ranges = append(s.Ranges, &wirev1.ChunkRange{First: numbers[i], Count: numbers[i+1]})
		}
		return s
	}
	many := &wirev1.Safe{Position: 1}
	for range 4097 {
		many.Ranges = append(many.Ranges, &wirev1.ChunkRange{Count: 1})
	}
	tests := map[string]*wirev1.Need{
		"All":                {Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{safe(1, 0, 4)}},
		"AllInParts":         {Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{safe(1, 0, 1, 1, 3)}},
		"NotNeeded":          {Bitmap: []byte{0b100}, Safe: []*wirev1.Safe{safe(1, 0, 1)}},
		"Directory":          {Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{safe(0, 0, 1)}},
		"NoEntry":            {Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{safe(3, 0, 1)}},
		"FarFromAnyEntry":    {Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{safe(math.MaxUint32, 0, 1)}},
		"Twice":              {Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{safe(1, 0, 1), safe(1, 1, 1)}},
		"NoRanges":           {Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{safe(1)}},
		"EmptyRange":         {Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{safe(1, 0, 0)}},
		"Overlap":            {Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{safe(1, 0, 2, 1, 1)}},
		"OutOfOrder":         {Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{safe(1, 2, 1, 0, 1)}},
		"BeyondTheEnd":       {Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{safe(1, 3, 2)}},
		"Overflow":           {Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{safe(1, 1, math.MaxUint64)}},
		"FarAway":            {Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{safe(1, math.MaxUint64, 1)}},
		"TooMany":            {Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{many}},
		"WholeFileOfNobody":  {Bitmap: []byte{0b110}, ResumedFiles: 1},
		"MoreBytesThanThere": {Bitmap: []byte{0b10}, ResumedFiles: 1, ResumedBytes: 101},
		"CountedTwice":       {Bitmap: []byte{0b10}, ResumedFiles: 1, UnchangedFiles: 1},
	}
	accepted := &wirev1.SessionResponse{
		Message: &wirev1.SessionResponse_Accepted{Accepted: &wirev1.Accepted{Codec: 1, Session: []byte("session")}},
	}
	for name, need := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			says := []*wirev1.SessionResponse{accepted, {Message: &wirev1.SessionResponse_Need{Need: need}}}
			p := &pair{dialer: serve(t, mute{says: says, hears: true}, &transport.Counter{})}
			_, err := p.send(context.Background(), t, source, func(o *send.Options) { o.Silence = patience })
			if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
				t.Errorf("the sender ended with %v", err)
			}
		})
	}
}

func TestHostileCheckpointInterval(t *testing.T) {
	for _, interval := range []uint64{1, 1<<20 - 1, 16<<30 + 1, math.MaxUint64} {
		p := startReceiver(t, t.TempDir())
		h := newPeer(t, p)
		begin := goodBegin()
		begin.CheckpointInterval = interval
		h.begin(begin)
		if f := h.verdict(); f.Reason != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA {
			t.Errorf("%d bytes: the verdict is %v", interval, f)
		}
		if err := p.wait(t); err == nil {
			t.Errorf("%d bytes: the receiver succeeded", interval)
		}
	}
}

// A sender that announces what an earlier attempt had begun may not send again what it was told is safe.
func TestHostileSafeChunkAgain(t *testing.T) {
	t.Parallel()
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, "large", noise(1, 30<<20), 0o600)
	broken(t, source, destination)
	p := startAttempt(t, 2, destination)
	h := newPeer(t, p)
	begin := goodBegin()
	begin.Attempt, begin.ChunkSize = 2, protocol.ChunkSize
	h.begin(begin)
	m, err := h.session.Recv()
	if err != nil {
		t.Fatal(err)
	}
	h.token = m.GetAccepted().GetSession()
	h.announce(root(), announced(t, source, "large"))
	need := h.needs()
	if len(need.GetSafe()) != 1 {
		t.Fatalf("the answer is %v", need)
	}
	first := need.GetSafe()[0].GetRanges()[0].GetFirst()
	_ = h.blocks().send(
		h.block(0, &wirev1.Segment{Index: 1, Offset: first * protocol.ChunkSize, Length: protocol.ChunkSize}),
	)
	if f := h.verdict(); f.Reason != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA {
		t.Errorf("the verdict is %v", f)
	}
	if err := p.wait(t); err == nil {
		t.Error("the receiver succeeded")
	}
	// What was safe still is.
	sent, _, err := try(t, 3, source, destination, nil)
	if err != nil || sent.Progress.ResumedBytes == 0 {
		t.Errorf("the next attempt ends with %v, %v", sent.Progress, err)
	}
	same(t, source, destination)
}

// announced is a file as a walk of the source announces it.
func announced(t *testing.T, source, path string) *wirev1.Entry {
	t.Helper()
	s, err := tree.OpenSource(source, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var entry *wirev1.Entry
	err = s.Walk(t.Context(), func(e *tree.Entry) error {
		if e.Path == path {
			entry = e.ToWire()
		}
		return nil
	})
	if err != nil || entry == nil {
		t.Fatalf("%q is %v, %v", path, entry, err)
	}
	return entry
}
