// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/frame"
)

// bomb is so many zeros as an engine compresses them with the most effort.
func bomb(t *testing.T, e codec.Engine, size int) []byte {
	t.Helper()
	levels := slices.DeleteFunc(codec.Levels(), func(l codec.Level) bool { return !e.HasLevel(l) })
	encoder, err := e.NewEncoder(slices.Max(levels))
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Close()
	dst := make([]byte, size/900)
	n, err := encoder.Encode(dst, make([]byte, size))
	if err != nil {
		t.Fatal(err)
	}
	return dst[:n]
}

// TestBombs: a payload that expands to more than its header says is refused, and the
// header alone decides how much is allocated for it.
func TestBombs(t *testing.T) {
	sizes := []int{frame.MaxPlain}
	if !testing.Short() {
		sizes = append(sizes, 4*frame.MaxPlain)
	}
	for _, e := range engines.All() {
		if e.Codec() == codec.None {
			continue
		}
		d := newDecoder(t, codec.NewRegistry(e))
		for _, size := range sizes {
			payload := bomb(t, e, size)
			for _, test := range []struct {
				promised int
				want     error
			}{
				{0, frame.ErrHeader},
				{1, frame.ErrHeader},
				{len(payload), frame.ErrHeader},
				{len(payload) + 1, codec.ErrTooLong},
				{len(payload) + 4096, codec.ErrTooLong},
				{frame.MaxPlain / 2, codec.ErrTooLong},
				{frame.MaxPlain - 1, frame.ErrPayload},
				{frame.MaxPlain + 1, frame.ErrHeader},
			} {
				t.Run(fmt.Sprintf("%s/%d/%d", e.Name(), size, test.promised), func(t *testing.T) {
					h := frame.Header{
						Last: true, Codec: e.Codec(), Class: codec.Software, PlainLen: uint32(test.promised),
						WireLen: uint32(len(payload)),
					}
					block := append(h.Append(nil), payload...)
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					got, _, err := d.Decode(nil, block)
					runtime.ReadMemStats(&after)
					if !errors.Is(err, test.want) || !errors.Is(err, frame.ErrCorrupt) || len(got) != 0 {
						t.Errorf("a payload of %d bytes: got %d bytes, %v; want %v", len(payload), len(got), err, test.want)
					}
					space := uint64(0)
					if test.want != frame.ErrHeader {
						space = uint64(test.promised)
					}
					// Go rounds up to the next of its sizes, and with the race detector slices.Grow
					// makes what it appends first.
					if grown := after.TotalAlloc - before.TotalAlloc; grown > 2*space+space/4+64<<10 {
						t.Errorf("a payload of %d bytes: allocated %d bytes", len(payload), grown)
					}
				})
			}
		}
	}
}
