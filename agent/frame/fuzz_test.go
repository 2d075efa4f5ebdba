// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"hash/crc32"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/frame"
)

// signed makes the checksum of the header at the start of data fit, so that
// fuzzing gets past it.
func signed(data []byte) []byte {
	if len(data) < frame.HeaderSize {
		return data
	}
	fixed := bytes.Clone(data)
	sum := xxh3.Hash(fixed[:32])
	for i := range 8 {
		fixed[32+i] = byte(sum >> (56 - 8*i))
	}
	return fixed
}

func FuzzParseHeader(f *testing.F) {
	for _, h := range headers {
		f.Add(h.header.Append(nil))
	}
	f.Add([]byte("LGBK"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, b := range [][]byte{data, signed(data)} {
			h, err := frame.ParseHeader(b)
			if err != nil {
				continue
			}
			if h.PlainLen > frame.MaxPlain || h.WireLen > h.PlainLen {
				t.Fatalf("accepted the lengths of %+v", h)
			}
			if !bytes.Equal(h.Append(nil), b[:frame.HeaderSize]) {
				t.Fatalf("%x means %+v, which is written otherwise", b[:frame.HeaderSize], h)
			}
		}
	})
}

func FuzzDecodeBlock(f *testing.F) {
	d := newDecoder(f, plainMachine)
	for _, joinable := range []bool{false, true} {
		e := newEncoder(
			f, frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto(), Joinable: joinable},
		)
		for i, c := range codectest.Corpora() {
			for _, size := range []int{0, 1, 500, 5000} {
				block, _, err := e.AppendAt(nil, uint64(i%2), c.Generate(size), i%3 == 0)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(block)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, b := range [][]byte{data, signed(data)} {
			h, err := frame.ParseHeader(b)
			if err != nil {
				continue
			}
			plain, outcome, err := d.DecodeBlock(nil, h, b[frame.HeaderSize:])
			if err != nil {
				if len(plain) != 0 {
					t.Fatalf("%d bytes besides %v", len(plain), err)
				}
				continue
			}
			sum := xxh3.Hash(plain)
			if h.Joinable {
				sum = uint64(crc32.ChecksumIEEE(plain))
			}
			if len(plain) != int(h.PlainLen) || sum != h.Checksum {
				t.Fatalf("%d bytes do not match %+v", len(plain), h)
			}
			if outcome.PlainBytes != len(plain) || outcome.WireBytes != len(b) {
				t.Fatalf("counted %+v for %d bytes in %d", outcome, len(plain), len(b))
			}
		}
	})
}
