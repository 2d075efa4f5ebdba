// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codectest

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
)

// fenced is memory between two pages that nobody may touch: whoever reads or
// writes but one byte outside of it ends the program at that instruction. No race
// detector or sanitizer sees what assembly does; this does.
type fenced []byte

// fence returns at least n bytes of fenced memory.
func fence(t testing.TB, n int) fenced {
	t.Helper()
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	all, err := syscall.Mmap(
		-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE,
	)
	if err != nil {
		t.Fatalf("map %d bytes: %v", size+2*page, err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(all); err != nil {
			t.Error(err)
		}
	})
	for _, edge := range [][]byte{all[:page], all[page+size:]} {
		if err := syscall.Mprotect(edge, syscall.PROT_NONE); err != nil {
			t.Fatalf("protect a page: %v", err)
		}
	}
	return all[page : page+size : page+size]
}

// first returns n bytes with nothing before them.
func (f fenced) first(n int) []byte { return f[:n:n] }

// last returns n bytes with nothing after them.
func (f fenced) last(n int) []byte { return f[len(f)-n:] }

// place copies b to where nothing is after it.
func (f fenced) place(b []byte) []byte {
	to := f.last(len(b))
	copy(to, b)
	return to
}

// touch checks that an engine reads nothing outside of what it is given and writes
// nothing outside of the buffer, whether blocks fit, do not, or are damaged.
func (s suite) touch(t *testing.T) {
	const most = 70000
	in, out := fence(t, bound(most)), fence(t, bound(most))
	decoder := decoderOf(t, s.engine)
	for _, level := range levelsOf(s.engine) {
		encoder := encoderOf(t, s.engine, level)
		for _, c := range Corpora() {
			for _, size := range []int{0, 1, 7, 8, 9, 31, 63, 257, 300, 700, 4097, 33000, most} {
				plain := c.Generate(size)
				s.touchEncode(t, encoder, in, out, plain)
				packed := bytes.Clone(encode(t, encoder, plain))
				s.touchDecode(t, decoder, in, out, packed, plain)
			}
		}
	}
}

func (s suite) touchEncode(t *testing.T, e codec.Encoder, in, out fenced, plain []byte) {
	t.Helper()
	length := len(encode(t, e, plain))
	copy(in.first(len(plain)), plain)
	if _, err := e.Encode(out.first(length+codec.Slack), in.first(len(plain))); err != nil {
		t.Fatal(err)
	}
	src := in.place(plain)
	if _, err := e.Encode(out.last(length+codec.Slack), src); err != nil {
		t.Fatal(err)
	}
	for short := 1; short <= 40 && short <= length; short += 3 {
		if _, err := e.Encode(out.last(length-short), src); !errors.Is(err, codec.ErrDoesNotFit) {
			t.Fatalf("%d bytes into %d: %v", length, length-short, err)
		}
	}
	for _, space := range []int{length / 2, length / 8, 8, 1, 0} {
		if space < length {
			if _, err := e.Encode(out.last(space), src); !errors.Is(err, codec.ErrDoesNotFit) {
				t.Fatalf("%d bytes into %d: %v", length, space, err)
			}
		}
	}
}

func (s suite) touchDecode(t *testing.T, d codec.Decoder, in, out fenced, packed, plain []byte) {
	t.Helper()
	for _, dst := range [][]byte{out.first(len(plain)), out.last(len(plain))} {
		for _, src := range [][]byte{in.first(len(packed)), in.last(len(packed))} {
			copy(src, packed)
			if n, err := d.Decode(dst, src); err != nil || !bytes.Equal(dst[:n], plain) {
				t.Fatalf("%d bytes came as %d: %v", len(plain), n, err)
			}
		}
	}
	src := in.place(packed)
	for short := 1; short <= 300 && short <= len(plain); short += 23 {
		if _, err := d.Decode(out.last(len(plain)-short), src); !errors.Is(err, codec.ErrCorrupt) {
			t.Fatalf("%d bytes into %d: %v", len(plain), len(plain)-short, err)
		}
	}
	if s.engine.Codec() == codec.None {
		return
	}
	for _, length := range []int{len(packed) - 1, len(packed) - 7, len(packed) - 20, len(packed) / 2, 80, 3} {
		if length >= 0 && length < len(packed) {
			if _, err := d.Decode(out.last(len(plain)), in.place(packed[:length])); !errors.Is(err, codec.ErrCorrupt) {
				t.Fatalf("%d of %d bytes: %v", length, len(packed), err)
			}
		}
	}
	if raceEnabled {
		return // takes seconds and finds no race
	}
	if len(plain) > 1000 {
		return // damage is in the first bytes; the rest takes seconds
	}
	for bit := range 8 * min(len(packed), 100) {
		flipped := slices.Clone(packed)
		flipped[bit/8] ^= 1 << (bit % 8)
		if _, err := d.Decode(out.last(len(plain)), in.place(flipped)); err != nil && !errors.Is(err, codec.ErrCorrupt) {
			t.Fatalf("bit %d of %d bytes: %v", bit, len(packed), err)
		}
	}
}
