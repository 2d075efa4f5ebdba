// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/frame"
)

// FuzzCarry: whatever rests and whatever an index says, what is carried has a valid header, and a decoder either rejects
// it or gets as many bytes as asked for.
func FuzzCarry(f *testing.F) {
	d, err := frame.NewDecoder(engines.Default())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = d.Close() })
	const header, entry = 32, 24
	f.Add(true, uint32(5), []byte("\x00\x05\x00\xfa\xffhello\x00\x00\x00\xff\xff"))
	f.Add(true, uint32(0), []byte("\x00\x00\x00\xff\xff"))
	f.Add(false, uint32(5), []byte("\x28\xb5\x2f\xfd\xa0\x05\x00\x00\x00\x29\x00\x00hello"))
	f.Add(false, uint32(1<<20), []byte("\x28\xb5\x2f\xfd\xa0\x00\x00\x10\x00\x03\x00\x80a"))
	f.Fuzz(func(t *testing.T, gzip bool, plain uint32, rest []byte) {
		form, before, after := cargo.Zstd, 0, 0
		if gzip {
			form, before, after = cargo.Gzip, 10, 10
		}
		index := make([]byte, header+entry+8)
		copy(index, "LGCI\x01")
		index[5], index[15] = byte(form), 1
		put := func(at int, n uint64, size int) {
			for i := range size {
				index[at+size-1-i] = byte(n >> (8 * i))
			}
		}
		put(16, uint64(plain), 8)
		put(24, uint64(before+len(rest)+after), 8)
		put(header, uint64(plain), 4)
		put(header+4, uint64(len(rest)), 4)
		put(header+16, xxh3.Hash(rest), 8)
		put(header+entry, xxh3.Hash(index[:header+entry]), 8)
		i, err := cargo.ParseIndex(index)
		if err != nil {
			return
		}
		file := append(make([]byte, before), rest...)
		h, payload, ok, err := i.Carry(bytes.NewReader(file), 0, int(plain), nil)
		if err != nil && !errors.Is(err, cargo.ErrCorrupt) {
			t.Fatal(err)
		}
		if err != nil || !ok {
			return
		}
		if parsed, err := frame.ParseHeader(h.Append(nil)); err != nil || parsed != h || len(payload) != int(h.WireLen) {
			t.Fatalf("header %+v of %d bytes: %v", h, len(payload), err)
		}
		if got, _, err := d.View(nil, h, payload); err == nil && len(got) != int(plain) ||
			err != nil && !errors.Is(err, frame.ErrCorrupt) {
			t.Fatalf("%d bytes instead of %d, %v", len(got), plain, err)
		}
	})
}
