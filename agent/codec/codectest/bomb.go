// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codectest

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
)

// bombSizes are the lengths of streams of zeros: the longest block, and, as such a
// stream may go on for ever, more than any block.
func bombSizes() []int {
	if testing.Short() {
		return []int{frame.MaxPlain}
	}
	return []int{frame.MaxPlain, 64 << 20}
}

// bombRatio is how many times longer than its stream a bomb is at least. No stream of
// deflate is better than 1032:1; those of zstd are.
const bombRatio = 1000

// bombs checks that a short stream of very much data fills no more than the space it
// gets and makes no decoder allocate more. The streams are the densest that the engines
// of the codec make.
func (s suite) bombs(t *testing.T) {
	decoder := decoderOf(t, s.engine)
	good := encode(t, encoderOf(t, s.engine, codec.Fast), []byte("cargo"))
	for _, size := range bombSizes() {
		bomb := s.bomb(t, size)
		for _, space := range []int{0, 1, 4 << 10, size / 2} {
			t.Run(fmt.Sprintf("%d/%d", size, space), func(t *testing.T) {
				dst := guard(space)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				n, err := decoder.Decode(dst.bytes, bomb)
				runtime.ReadMemStats(&after)
				dst.check(t)
				want := codec.ErrTooLong
				if space == 0 {
					want = codec.ErrCorrupt // ISA-L then misses the first byte before its place
				}
				if !errors.Is(err, want) || !errors.Is(err, codec.ErrCorrupt) {
					t.Errorf("%d bytes of zeros in %d, into %d: got %d, %v; want %v", size, len(bomb), space, n, err, want)
				}
				// What other goroutines of the test allocate meanwhile is far less.
				if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<10 {
					t.Errorf("%d bytes of zeros in %d, into %d: allocated %d bytes", size, len(bomb), space, grown)
				}
				mustDecode(t, decoder, good, []byte("cargo"))
			})
		}
	}
}

// bomb is the shortest stream of so many zeros that the engines of the codec make.
func (s suite) bomb(t *testing.T, size int) []byte {
	t.Helper()
	plain, dst := make([]byte, size), make([]byte, size/100)
	var shortest []byte
	for _, e := range append([]codec.Engine{s.engine}, s.others...) {
		for _, level := range levelsOf(e) {
			if size > frame.MaxPlain && level > codec.Fast && raceEnabled {
				continue // takes seconds, for a stream that is hardly shorter
			}
			n, err := encoderOf(t, e, level).Encode(dst, plain)
			if errors.Is(err, codec.ErrDoesNotFit) {
				continue // no bomb
			}
			if err != nil {
				t.Fatalf("let %s make a bomb at level %v: %v", e.Name(), level, err)
			}
			if shortest == nil || n < len(shortest) {
				shortest = append([]byte(nil), dst[:n]...)
			}
		}
	}
	if shortest == nil {
		t.Fatal("no engine makes a bomb")
	}
	if ratio := size / len(shortest); ratio < bombRatio {
		t.Fatalf("%d bytes of zeros in %d: only %d:1", size, len(shortest), ratio)
	}
	return shortest
}
