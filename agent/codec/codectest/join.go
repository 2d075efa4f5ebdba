// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codectest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
)

// joinSizes are lengths of blocks that may be joined: none, some, more than a window, and those that are common.
func joinSizes() []int {
	if testing.Short() || raceEnabled {
		return []int{0, 1, 2, 300, 5000, 70000}
	}
	return []int{0, 1, 2, 3, 40, 300, 5000, 32768, 65535, 65536, 70000, 1 << 20}
}

// joined checks that blocks of all engines of the codec, in any order, are one stream without being expanded.
func (s suite) joined(t *testing.T) {
	engines := append([]codec.Engine{s.engine}, s.others...)
	var decoders []codec.Decoder
	for _, engine := range engines {
		decoders = append(decoders, decoderOf(t, engine))
	}
	var blocks, plains [][]byte
	for _, engine := range engines {
		for _, level := range levelsOf(engine) {
			encoder := streamOf(t, engine, level)
			for i, corpus := range Corpora() {
				for j, size := range joinSizes() {
					if size > 70000 && (i+j+int(level))%4 > 0 {
						continue // a few of the longest are enough
					}
					plain := corpus.Generate(size)
					block := encodeJoinable(t, encoder, plain)
					if engine.Name() == s.engine.Name() {
						for _, decoder := range decoders {
							mustDecode(t, decoder, block, plain)
						}
					}
					blocks, plains = append(blocks, block), append(plains, plain)
				}
			}
		}
	}
	for step := 1; step <= 7; step += 2 {
		t.Run(fmt.Sprint(step), func(t *testing.T) { join(t, decoders, blocks, plains, step) })
	}
	t.Run("Witness", s.joinableWitness)
	t.Run("None", func(t *testing.T) { join(t, decoders, nil, nil, 1) })
	t.Run("Bound", s.joinableBound)
	t.Run("Allocations", s.joinableAllocations)
	t.Run("Closed", func(t *testing.T) {
		encoder := streamOf(t, s.engine, levelsOf(s.engine)[0])
		if err := encoder.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := codec.EncodeJoinable(encoder, make([]byte, 1000), []byte("a")); !errors.Is(err, codec.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func encodeJoinable(t testing.TB, e codec.StreamEncoder, plain []byte) []byte {
	t.Helper()
	dst := guard(codec.PartBound(len(plain)) + len(codec.JoinEnd))
	n, err := codec.EncodeJoinable(e, dst.bytes, plain)
	dst.check(t)
	if err != nil {
		t.Fatalf("encode %d bytes: %v", len(plain), err)
	}
	block := dst.bytes[:n]
	if !codec.EndsJoinable(block) || codec.EndsJoinable(block[:n-1]) {
		t.Fatalf("%d bytes became %d that end in %x", len(plain), n, block[max(0, n-8):])
	}
	return bytes.Clone(block)
}

// join joins as many blocks as there are, in steps through all, and has the result read by everybody.
func join(t *testing.T, decoders []codec.Decoder, blocks, plains [][]byte, step int) {
	t.Helper()
	member := []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")
	start := len(member)
	var plain []byte
	for at := range blocks {
		i := at * step % len(blocks)
		member = append(member, blocks[i][:len(blocks[i])-len(codec.JoinEnd)]...)
		plain = append(plain, plains[i]...)
	}
	member = append(member, codec.JoinEnd...)
	stream := slices.Clone(member[start:])
	member = binary.LittleEndian.AppendUint32(member, crc32.ChecksumIEEE(plain))
	member = binary.LittleEndian.AppendUint32(member, uint32(len(plain)))

	rest := bytes.NewReader(member)
	r, err := gzip.NewReader(rest)
	if err != nil {
		t.Fatal(err)
	}
	r.Multistream(false)
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, plain) || rest.Len() > 0 {
		t.Fatalf("%d blocks, a gzip member of %d bytes: %d instead of %d, %d left, %v", len(blocks), len(member), len(got),
			len(plain), rest.Len(), err)
	}
	for _, decoder := range decoders {
		mustDecode(t, decoder, stream, plain)
	}
}

// joinableWitness checks that the accelerator makes a joinable block if it makes a block of the same bytes.
func (s suite) joinableWitness(t *testing.T) {
	if s.engine.Class() != codec.Hardware {
		return
	}
	for _, level := range levelsOf(s.engine) {
		encoder := streamOf(t, s.engine, level)
		witness, ok := encoder.(codec.Witness)
		if !ok {
			t.Fatalf("the encoders of %s bear no witness", s.engine.Name())
		}
		for _, corpus := range Corpora() {
			for _, size := range joinSizes() {
				plain := corpus.Generate(size)
				encode(t, encoder, plain)
				used := witness.UsedHardware()
				encodeJoinable(t, encoder, plain)
				if size > 0 && witness.UsedHardware() != used {
					t.Fatalf("%v, %s, %d bytes: the accelerator made a block: %v, a joinable one: %v", level, corpus.Name, size, used,
						!used)
				}
			}
		}
	}
}

// joinableBound is encodeBound, and touch, for joinable blocks.
func (s suite) joinableBound(t *testing.T) {
	const most = 70000
	in, out := fence(t, most), fence(t, codec.PartBound(most)+codec.Slack)
	for _, level := range levelsOf(s.engine) {
		encoder, decoder := streamOf(t, s.engine, level), decoderOf(t, s.engine)
		for _, corpus := range Corpora() {
			for _, size := range []int{0, 1, 2, 9, 300, 5000, most} {
				plain := corpus.Generate(size)
				block := encodeJoinable(t, encoder, plain)
				src := in.place(plain)
				for _, space := range []int{0, 1, codec.MinJoinable - 1, len(block) / 2, len(block) - 3, len(block) - 1} {
					if space < 0 || space >= len(block) {
						continue
					}
					if n, err := codec.EncodeJoinable(encoder, out.last(space), src); !errors.Is(err, codec.ErrDoesNotFit) {
						t.Fatalf("%s: %d bytes, %d encoded, into %d: %d, %v", corpus.Name, size, len(block), space, n, err)
					}
					// What did not fit leaves no trace in the next block, of either kind.
					mustDecode(t, decoder, encode(t, encoder, plain), plain)
					mustDecode(t, decoder, encodeJoinable(t, encoder, plain), plain)
				}
				dst := out.last(len(block) + codec.Slack)
				n, err := codec.EncodeJoinable(encoder, dst, src)
				if err != nil || n != len(block) {
					t.Fatalf("%s: %d bytes, %d encoded, do not fit: %d, %v", corpus.Name, size, len(block), n, err)
				}
				mustDecode(t, decoder, dst[:n], plain)
			}
		}
	}
}

func (s suite) joinableAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	plain := named("xml").Generate(50000)
	dst := make([]byte, codec.PartBound(len(plain)))
	for _, level := range levelsOf(s.engine) {
		encoder := streamOf(t, s.engine, level)
		once := func() {
			if _, err := codec.EncodeJoinable(encoder, dst, plain); err != nil {
				t.Fatal(err)
			}
		}
		if allocs := Allocations(once); allocs != 0 {
			t.Errorf("%v: %v allocations a block", level, allocs)
		}
	}
}
