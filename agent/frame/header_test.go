// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
)

var headers = []struct {
	name   string
	header frame.Header
	hex    string
}{
	{
		"empty last block",
		frame.Header{Last: true, Codec: codec.None, Checksum: xxh3.Hash(nil)},
		"4c47424b01010100000000000000000000000000000000002d06800538d394c29f138a261b5f3cba",
	},
	{
		"stored",
		frame.Header{Codec: codec.None, Seq: 1, PlainLen: 5, WireLen: 5, Checksum: xxh3.HashString("hello")},
		"4c47424b01000100000000000000000100000005000000059555e8555c62dcfd8dedc3b8360dd870",
	},
	{
		"software",
		frame.Header{
			Codec: codec.Deflate, Class: codec.Software, Seq: 0x0102030405060708, PlainLen: 1 << 20, WireLen: 0x01234,
			Checksum: 0x1122334455667788,
		},
		"4c47424b010002010102030405060708001000000000123411223344556677880d0cc6fca31e68c5",
	},
	{
		"hardware, longest, last",
		frame.Header{
			Last: true, Codec: codec.Deflate, Class: codec.Hardware, Seq: 1<<64 - 1, PlainLen: 4 << 20, WireLen: 4<<20 - 1,
			Checksum: 1<<64 - 1,
		},
		"4c47424b01010202ffffffffffffffff00400000003fffffffffffffffffffff6a74215150382251",
	},
	{
		"joinable",
		frame.Header{
			Codec: codec.Deflate, Class: codec.Hardware, Seq: 7, PlainLen: 9, WireLen: 8, Joinable: true, Checksum: 0xcbf43926,
		},
		"4c47424b020002020000000000000007000000090000000800000000cbf439266db819ac17ec8f81",
	},
}

// TestGolden pins the format: these bytes are the same on every machine and in
// every version that writes formats 1 and 2.
func TestGolden(t *testing.T) {
	for _, test := range headers {
		t.Run(test.name, func(t *testing.T) {
			want, err := hex.DecodeString(test.hex)
			if err != nil {
				t.Fatal(err)
			}
			if got := test.header.Append(nil); !bytes.Equal(got, want) {
				t.Fatalf("got  %x\nwant %x", got, want)
			}
			got, err := frame.ParseHeader(want)
			if err != nil || got != test.header {
				t.Errorf("parsed %+v, %v; want %+v", got, err, test.header)
			}
		})
	}
}

func TestHeaderBitFlips(t *testing.T) {
	for _, test := range headers {
		want := test.header.Append(nil)
		for bit := range 8 * len(want) {
			flipped := bytes.Clone(want)
			flipped[bit/8] ^= 1 << (bit % 8)
			if h, err := frame.ParseHeader(flipped); err == nil {
				t.Errorf("%s with bit %d flipped is accepted as %+v", test.name, bit, h)
			}
		}
		for n := range want {
			if _, err := frame.ParseHeader(want[:n]); !errors.Is(err, frame.ErrTruncated) {
				t.Errorf("%d bytes of %s: %v", n, test.name, err)
			}
		}
	}
}

func TestHeaderFields(t *testing.T) {
	deflate := frame.Header{Codec: codec.Deflate, Class: codec.Software, PlainLen: 100, WireLen: 50}
	stored := frame.Header{Codec: codec.None, PlainLen: 100, WireLen: 100}
	joinable := deflate
	joinable.Joinable, joinable.Checksum = true, 1<<32-1
	for _, good := range []frame.Header{deflate, stored, joinable} {
		if _, err := frame.ParseHeader(good.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	change := func(h frame.Header, f func(*frame.Header)) []byte {
		f(&h)
		return h.Append(nil)
	}
	// raw changes a byte and makes the header's checksum fit again.
	raw := func(at int, value byte) []byte {
		b := stored.Append(nil)
		b[at] = value
		binary.BigEndian.PutUint64(b[32:], xxh3.Hash(b[:32]))
		return b
	}
	var codecError *frame.CodecError
	var versionError *frame.VersionError
	is := func(target error) func(error) bool {
		return func(err error) bool { return errors.Is(err, target) && errors.Is(err, frame.ErrCorrupt) }
	}
	tests := []struct {
		name   string
		header []byte
		want   func(error) bool
	}{
		{"no magic", raw(0, 'X'), is(frame.ErrHeader)},
		{"version 0", raw(4, 0), func(err error) bool { return errors.As(err, &versionError) }},
		{"version 3", raw(4, 3), func(err error) bool { return errors.As(err, &versionError) && versionError.Version == 3 }},
		{"stored and joinable", raw(4, 2), is(frame.ErrHeader)},
		{
			"zstd and joinable", change(deflate, func(h *frame.Header) { h.Codec, h.Joinable = codec.Zstd, true }),
			is(frame.ErrHeader),
		},
		{
			"CRC-32 of 33 bits", change(deflate, func(h *frame.Header) { h.Joinable, h.Checksum = true, 1<<32 }),
			is(frame.ErrHeader),
		},
		{"unknown flag", raw(5, 2), is(frame.ErrHeader)},
		{"codec 0", raw(6, 0), func(err error) bool { return errors.As(err, &codecError) }},
		{"codec 4", raw(6, 4), func(err error) bool { return errors.As(err, &codecError) && codecError.Codec == 4 }},
		{"zeros", make([]byte, frame.HeaderSize), is(frame.ErrHeader)},
		{"stored by an engine", change(stored, func(h *frame.Header) { h.Class = codec.Software }), is(frame.ErrHeader)},
		{"stored and longer", change(stored, func(h *frame.Header) { h.WireLen++ }), is(frame.ErrHeader)},
		{"stored and shorter", change(stored, func(h *frame.Header) { h.WireLen-- }), is(frame.ErrHeader)},
		{"compressed by nothing", change(deflate, func(h *frame.Header) { h.Class = codec.NoClass }), is(frame.ErrHeader)},
		{"unknown class", change(deflate, func(h *frame.Header) { h.Class = 3 }), is(frame.ErrHeader)},
		{"not shrunk", change(deflate, func(h *frame.Header) { h.WireLen = 100 }), is(frame.ErrHeader)},
		{"grown", change(deflate, func(h *frame.Header) { h.WireLen = 101 }), is(frame.ErrHeader)},
		{"plain too long", change(deflate, func(h *frame.Header) { h.PlainLen = frame.MaxPlain + 1 }), is(frame.ErrHeader)},
		{
			"plain far too long", change(stored, func(h *frame.Header) { h.PlainLen, h.WireLen = 1<<32-1, 1<<32-1 }),
			is(frame.ErrHeader),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if h, err := frame.ParseHeader(test.header); err == nil || !test.want(err) {
				t.Errorf("got %+v, %v", h, err)
			}
		})
	}
}
