// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
)

// The checksum of a block is XXH3-64 whatever its length, though it is not computed so, or CRC-32 if it is joinable.
// Both sides have XXH3-128 besides.
func TestChecksumAndDigest(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdefghijklmnopqrstuvwxyz/"), 200)
	lengths := []int{1023, 1024, 1025, 2047, 2048, 2049, 4096, len(data)}
	for n := range 300 {
		lengths = append(lengths, n)
	}
	joined := 0
	for _, joinable := range []bool{false, true} {
		e := newEncoder(
			t, frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto(), Joinable: joinable},
		)
		d := newDecoder(t, plainMachine)
		for _, n := range lengths {
			plain := data[:n]
			header, payload, _, err := e.Next(nil, plain, false)
			if err != nil {
				t.Fatal(err)
			}
			h, err := frame.ParseHeader(header)
			want := xxh3.Hash(plain)
			if h.Joinable {
				want = uint64(crc32.ChecksumIEEE(plain))
				joined++
			}
			if err != nil || h.Checksum != want || h.Joinable != (joinable && h.Codec == codec.Deflate) {
				t.Fatalf("%d bytes: checksum %x instead of %x, %+v, %v", n, h.Checksum, want, h, err)
			}
			if _, _, err := d.View(nil, h, payload); err != nil {
				t.Fatal(err)
			}
			if want := xxh3.Hash128(plain).Bytes(); e.Digest() != want || d.Digest() != want {
				t.Fatalf("%d bytes: digests %x and %x instead of %x", n, e.Digest(), d.Digest(), want)
			}
		}
	}
	if joined == 0 {
		t.Error("no block was joinable")
	}
}

// TestNotJoinable: a payload that is a whole stream, and not one that can be joined, is rejected where the header says
// that it is.
func TestNotJoinable(t *testing.T) {
	plain := corpus("xml", 5000)
	for _, joinable := range []bool{false, true} {
		e := newEncoder(
			t, frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto(), Joinable: joinable},
		)
		header, payload, _, err := e.Next(nil, plain, false)
		if err != nil {
			t.Fatal(err)
		}
		h, err := frame.ParseHeader(header)
		if err != nil {
			t.Fatal(err)
		}
		h.Joinable, h.Checksum = true, uint64(crc32.ChecksumIEEE(plain))
		d := newDecoder(t, plainMachine)
		if _, _, err := d.View(nil, h, payload); joinable != (err == nil) || !joinable && !errors.Is(err, frame.ErrPayload) {
			t.Errorf("joinable %v: %v", joinable, err)
		}
		h.Checksum++
		if _, _, err := d.View(nil, h, payload); joinable && !errors.Is(err, frame.ErrChecksum) {
			t.Errorf("another CRC-32: %v", err)
		}
	}
}
