// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/zstdframe"
	"github.com/lighterage/lighterage/agent/frame"
)

// Writer writes one file of blocks that crossed the wire. It expands none of them. It is not safe for concurrent use.
type Writer struct {
	file   io.Writer
	form   Form
	packer Packer
	begun  bool // the file has its header
	blocks []Block
	err    error // after which nothing is written
}

// NewWriter returns a writer of a file, which is empty so far.
func NewWriter(file io.Writer, form Form) *Writer {
	return &Writer{file: file, form: form, packer: Packer{form: form}}
}

// Append adds the next block, as it came: a header that frame.ParseHeader returned, and its payload. A block without
// bytes adds nothing. ErrForm and frame.ErrCorrupt, of a block that is not what its header says as far as that shows
// without expanding it, come before anything is written, and another block may follow. After an error of the file the
// writer fails.
func (w *Writer) Append(h frame.Header, payload []byte) error {
	if w.err != nil {
		return w.err
	}
	if h.PlainLen == 0 {
		return nil
	}
	if len(w.blocks) == MaxBlocks {
		return ErrTooLong
	}
	rest, b, err := w.packer.Pack(h, payload)
	if err != nil {
		return fmt.Errorf("add block %d to a file of form %v: %w", len(w.blocks), w.form, err)
	}
	if err := w.write(rest); err != nil {
		return err
	}
	w.blocks = append(w.blocks, b)
	return nil
}

// Packer makes what rests of blocks. It expands none of them. It is not safe for concurrent use.
type Packer struct {
	form Form
	buf  []byte // for what rests of stored blocks
}

// NewPacker returns a packer for files of a form.
func NewPacker(form Form) *Packer { return &Packer{form: form} }

// Pack returns what rests of a block that has bytes, as Writer.Append takes it, and what an index has of it. What rests
// is in the payload or valid until the next call. The errors are ErrForm and frame.ErrCorrupt.
func (w *Packer) Pack(h frame.Header, payload []byte) (rest []byte, b Block, err error) {
	if rest, err = w.rest(h, payload); err != nil {
		return nil, Block{}, err
	}
	sum := h.Checksum
	if h.Codec == codec.None {
		if xxh3.Hash(payload) != sum {
			return nil, Block{}, frame.ErrChecksum
		}
		if w.form == Gzip {
			sum = uint64(crc32.ChecksumIEEE(payload))
		}
	}
	return rest, Block{plain: h.PlainLen, stored: uint32(len(rest)), sum: sum, storedSum: xxh3.Hash(rest)}, nil
}

// PackPlain is Pack for who has just encoded a plain block, so that its header needs no checksum. crc is the CRC-32 of
// the block.
func (w *Packer) PackPlain(h frame.Header, payload, plain []byte, crc uint32) (rest []byte, b Block, err error) {
	if rest, err = w.rest(h, payload); err != nil {
		return nil, Block{}, err
	}
	b = Block{plain: h.PlainLen, stored: uint32(len(rest)), sum: uint64(crc), storedSum: xxh3.Hash(rest)}
	switch w.form {
	case Plain:
		b.sum = b.storedSum
	case Zstd:
		b.sum = xxh3.Hash(plain)
	}
	return rest, b, nil
}

// rest returns what rests of a block, in the payload or in the buffer.
func (w *Packer) rest(h frame.Header, payload []byte) ([]byte, error) {
	switch {
	case h.PlainLen == 0 || h.PlainLen > frame.MaxPlain || len(payload) != int(h.WireLen) || h.WireLen > h.PlainLen:
		return nil, fmt.Errorf("%w: a block of %d bytes in %d, of which there are %d", frame.ErrHeader, h.PlainLen,
			h.WireLen, len(payload))
	case h.Codec == codec.None && h.WireLen != h.PlainLen:
		return nil, fmt.Errorf("%w: a stored block of %d bytes in %d", frame.ErrHeader, h.PlainLen, h.WireLen)
	case h.Codec == codec.None:
		return w.plain(payload), nil
	case h.Codec != w.form.Codec() || h.Joinable != (w.form == Gzip):
		return nil, fmt.Errorf("%w: codec %v, joinable: %v", ErrForm, h.Codec, h.Joinable)
	case w.form == Gzip:
		if !codec.EndsJoinable(payload) {
			return nil, fmt.Errorf("%w: it cannot be joined", frame.ErrPayload)
		}
		return payload[:len(payload)-len(codec.JoinEnd)], nil
	}
	n, err := zstdframe.ContentSize(payload, int(h.PlainLen))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", frame.ErrPayload, err)
	}
	if n != int(h.PlainLen) {
		return nil, fmt.Errorf("%w: it expands to %d bytes instead of %d", frame.ErrPayload, n, h.PlainLen)
	}
	return payload, nil
}

// plain is rest for a stored block.
func (w *Packer) plain(payload []byte) []byte {
	if w.form == Plain {
		return payload
	}
	w.buf = slices.Grow(w.buf[:0], w.form.mostStored(len(payload)))
	if w.form == Zstd {
		w.buf = appendRaw(w.buf, payload)
	} else {
		w.buf = appendStored(w.buf, payload)
	}
	return w.buf
}

// write writes bytes, and the header before the first ones.
func (w *Writer) write(p []byte) error {
	if !w.begun && w.form == Gzip {
		if _, w.err = io.WriteString(w.file, gzipHeader); w.err != nil {
			w.err = fmt.Errorf("write the header of a file of form %v: %w", w.form, w.err)
			return w.err
		}
	}
	w.begun = true
	if _, w.err = w.file.Write(p); w.err != nil {
		w.err = fmt.Errorf("write %d bytes of a file of form %v: %w", len(p), w.form, w.err)
	}
	return w.err
}

// Close writes the end of the file and returns its index. It does not close the file. The writer must not be used
// afterwards.
func (w *Writer) Close() (*Index, error) {
	if w.err != nil {
		return nil, w.err
	}
	i := newIndex(w.form, w.blocks)
	if end := i.end(); len(end) > 0 {
		if err := w.write(end); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// appendStored appends plain bytes as stored blocks of DEFLATE and a flush, so that what ends here ends as a joinable
// block does.
func appendStored(dst, plain []byte) []byte {
	for len(plain) > 0 {
		n := min(len(plain), storedMost)
		dst = append(dst, 0)
		dst = binary.LittleEndian.AppendUint16(dst, uint16(n))
		dst = binary.LittleEndian.AppendUint16(dst, ^uint16(n))
		dst = append(dst, plain[:n]...)
		plain = plain[n:]
	}
	return append(dst, flush...)
}

// appendRaw appends plain bytes as a frame of zstd that has its content size and raw blocks.
func appendRaw(dst, plain []byte) []byte {
	dst = append(dst, zstdMagic...)
	dst = append(dst, rawDescriptor)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(plain)))
	for len(plain) > 0 {
		n := min(len(plain), rawMost)
		header := uint32(n) << 3
		if n == len(plain) {
			header |= 1 // the last one
		}
		dst = append(dst, byte(header), byte(header>>8), byte(header>>16))
		dst = append(dst, plain[:n]...)
		plain = plain[n:]
	}
	return dst
}

func appendGzipEnd(dst []byte, sum uint32, size int64) []byte {
	dst = append(dst, codec.JoinEnd...)
	dst = binary.LittleEndian.AppendUint32(dst, sum)
	return binary.LittleEndian.AppendUint32(dst, uint32(size)) // modulo 2^32
}
