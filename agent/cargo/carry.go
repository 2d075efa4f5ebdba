// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/zstdframe"
	"github.com/lighterage/lighterage/agent/frame"
)

// Carry returns the block of a plain range as it travels, from what rests of it, which it checks and does not expand.
// ok is false if no block has just this range, or if what rests of it is nothing that travels: its plain bytes are to
// be read then. The header has neither number nor end of a stream. The payload is in buf if that is long enough.
// Whether it expands to what the index says, who expands it finds out by the header. Errors match ErrCorrupt, or are
// the file's.
func (i *Index) Carry(file io.ReaderAt, offset int64, length int, buf []byte) (
	h frame.Header, payload []byte, ok bool, err error,
) {
	if offset < 0 || offset >= i.Size() {
		return h, nil, false, nil
	}
	n := i.find(offset)
	b := i.blocks[n]
	if i.plain[n] != offset || int64(b.plain) != int64(length) {
		return h, nil, false, nil
	}
	rest, err := i.Rest(file, n, buf)
	if err != nil {
		return h, nil, false, err
	}
	h = frame.Header{Codec: i.form.Codec(), Class: codec.Software, PlainLen: b.plain, Checksum: b.sum}
	switch i.form {
	case Gzip:
		payload, h.Joinable = append(rest, codec.JoinEnd...), true
		ok = codec.EndsJoinable(payload)
	case Zstd:
		payload = rest
		size, err := zstdframe.ContentSize(rest, int(b.plain))
		ok = err == nil && size == int(b.plain)
	}
	if ok && len(payload) < int(b.plain) {
		h.WireLen = uint32(len(payload))
		return h, payload, true, nil
	}
	if payload, ok = i.form.unpack(rest); !ok || len(payload) != int(b.plain) {
		return frame.Header{}, nil, false, nil
	}
	if i.form.sum(payload) != b.sum {
		return frame.Header{}, nil, false, fmt.Errorf("%w: block %d is not what its index says", ErrCorrupt, n)
	}
	h = frame.Header{Codec: codec.None, PlainLen: b.plain, WireLen: b.plain, Checksum: xxh3.Hash(payload)}
	return h, payload, true, nil
}

// Rest returns what rests of a block, which it checks and does not expand. It is in buf if that is long enough. Errors
// match ErrCorrupt, or are the file's.
func (i *Index) Rest(file io.ReaderAt, block int, buf []byte) ([]byte, error) {
	rest := i.storedBuffer(buf, block)
	if err := readAt(file, rest, i.stored[block]); err != nil {
		return nil, fmt.Errorf("read block %d: %w", block, err)
	}
	return rest, i.checkStored(rest, block)
}

// CheckEnds compares what a file has before its first block and behind its last one with the index. Of form Gzip the
// end has the CRC-32 of the whole, so that the index of another file of the same length is found out.
func (i *Index) CheckEnds(file io.ReaderAt) error {
	if i.form == Gzip {
		if err := same(file, []byte(gzipHeader), 0, "header"); err != nil {
			return err
		}
	}
	return same(file, i.end(), i.stored[len(i.blocks)], "end")
}

// same compares a part of a file.
func same(file io.ReaderAt, want []byte, offset int64, what string) error {
	got := make([]byte, len(want))
	if err := readAt(file, got, offset); err != nil {
		return fmt.Errorf("read the %s: %w", what, err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%w: the %s is %x instead of %x", ErrCorrupt, what, got, want)
	}
	return nil
}

// unpack moves the plain bytes of a block that appendStored or appendRaw made to its beginning. ok is false for any
// other block.
func (f Form) unpack(rest []byte) (plain []byte, ok bool) {
	if f == Gzip {
		return unpackStored(rest)
	}
	return unpackRaw(rest)
}

func unpackStored(rest []byte) (plain []byte, ok bool) {
	src := rest
	for plain = rest[:0]; string(src) != flush; {
		const header = 5
		if len(src) < header || src[0] != 0 {
			return nil, false
		}
		n := binary.LittleEndian.Uint16(src[1:])
		if ^n != binary.LittleEndian.Uint16(src[3:]) || len(src)-header < int(n) {
			return nil, false
		}
		plain, src = append(plain, src[header:header+int(n)]...), src[header+int(n):]
	}
	return plain, true
}

func unpackRaw(rest []byte) (plain []byte, ok bool) {
	if len(rest) < rawHeader || string(rest[:len(zstdMagic)]) != zstdMagic || rest[len(zstdMagic)] != rawDescriptor {
		return nil, false
	}
	src := rest[rawHeader:]
	for plain = rest[:0]; len(src) >= rawBlock; {
		header := uint32(src[0]) | uint32(src[1])<<8 | uint32(src[2])<<16
		last, kind, n := header&1 == 1, header>>1&3, int(header>>3)
		if src = src[rawBlock:]; kind != 0 || len(src) < n {
			return nil, false
		}
		plain, src = append(plain, src[:n]...), src[n:]
		if last {
			return plain, len(src) == 0
		}
	}
	return nil, false
}
