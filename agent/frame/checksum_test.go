// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
)

// The checksum of a block is XXH3-64 whatever its length, though it is not computed so, and both sides have XXH3-128
// besides.
func TestChecksumAndDigest(t *testing.T) {
	e := newEncoder(t, frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto()})
	d := newDecoder(t, plainMachine)
	data := bytes.Repeat([]byte("0123456789abcdefghijklmnopqrstuvwxyz/"), 200)
	lengths := []int{1023, 1024, 1025, 2047, 2048, 2049, 4096, len(data)}
	for n := range 300 {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		plain := data[:n]
		header, payload, _, err := e.Next(nil, plain, false)
		if err != nil {
			t.Fatal(err)
		}
		h, err := frame.ParseHeader(header)
		if err != nil || h.Checksum != xxh3.Hash(plain) {
			t.Fatalf("%d bytes: checksum %x instead of %x, %v", n, h.Checksum, xxh3.Hash(plain), err)
		}
		if _, _, err := d.View(nil, h, payload); err != nil {
			t.Fatal(err)
		}
		if want := xxh3.Hash128(plain).Bytes(); e.Digest() != want || d.Digest() != want {
			t.Fatalf("%d bytes: digests %x and %x instead of %x", n, e.Digest(), d.Digest(), want)
		}
	}
}
