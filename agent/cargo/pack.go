// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/pipeline"
	"github.com/lighterage/lighterage/agent/policy"
)

// PackOptions say how Pack writes a file.
type PackOptions struct {
	Form Form
	// Records of the plain file, at whose borders blocks end. A record that is longer than a block is in several ones.
	Records Records
	// BlockSize is the most bytes of a plain block, 1 to frame.MaxPlain; 0: frame.DefaultBlock.
	BlockSize int
	// Level of effort; 0: codec.Fast.
	Level codec.Level
	// Engines to compress with, such as engines.Default().
	Engines *codec.Registry
	// Workers are how many blocks are compressed at once; 0: one.
	Workers int
}

// Pack reads a plain file to its end, writes it to dst in a form, and returns its index. It holds two blocks for each
// worker. What does not shrink is stored. A file that does not consist of the records is a *RecordError: dst then has a
// part of it that is of no use.
func Pack(ctx context.Context, dst io.Writer, src io.Reader, o PackOptions) (*Index, error) {
	if o.BlockSize == 0 {
		o.BlockSize = frame.DefaultBlock
	}
	if o.Level == 0 {
		o.Level = codec.Fast
	}
	switch {
	case o.Form != Gzip && o.Form != Zstd:
		return nil, fmt.Errorf("pack a file: %w: %v", ErrForm, o.Form)
	case !o.Records.Valid():
		return nil, fmt.Errorf("pack a file: there are no records %v", o.Records)
	case o.BlockSize < 1 || o.BlockSize > frame.MaxPlain:
		return nil, fmt.Errorf("pack a file: blocks of %d bytes; the most is %d", o.BlockSize, frame.MaxPlain)
	}
	p := &packer{cutter: newCutter(src, o.Records, o.BlockSize), writer: NewWriter(dst, o.Form)}
	err := p.run(ctx, o)
	for _, e := range p.encoders {
		err = errors.Join(err, e.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("pack a file: %w", err)
	}
	index, err := p.writer.Close()
	if err != nil {
		return nil, err
	}
	return index.withRecords(o.Records, p.marks)
}

type packer struct {
	cutter   *cutter
	encoders []*frame.Encoder // of the workers
	writer   *Writer
	marks    []Mark
}

// packed is a block on its way.
type packed struct {
	buf   []byte
	plain []byte // the block, in buf
	mark  Mark
	wire  []byte
}

func (p *packer) run(ctx context.Context, o PackOptions) error {
	for range max(o.Workers, 1) {
		e, err := frame.NewEncoder(frame.EncoderOptions{
			Engines: o.Engines, Codec: o.Form.Codec(), Joinable: o.Form == Gzip,
			Policy: policy.Settings{Mode: policy.Always, Level: o.Level},
		})
		if err != nil {
			return err
		}
		p.encoders = append(p.encoders, e)
	}
	return pipeline.Run(ctx, o.Workers,
		func(b *packed) (more bool, err error) {
			if b.buf == nil {
				b.buf = make([]byte, o.BlockSize)
			}
			b.plain, b.mark, err = p.cutter.next(b.buf)
			return len(b.plain) > 0, err
		},
		func(worker int, b *packed) (err error) {
			b.wire, _, err = p.encoders[worker].AppendAt(b.wire[:0], 0, b.plain, false)
			return err
		},
		func(b *packed) error {
			header, err := frame.ParseHeader(b.wire)
			if err != nil {
				return err
			}
			p.marks = append(p.marks, b.mark)
			return p.writer.Append(header, b.wire[frame.HeaderSize:])
		},
	)
}

// cutter cuts a plain file into blocks.
type cutter struct {
	src   io.Reader
	split splitter // at the beginning of the next block
	rest  []byte   // was read and is of the next block
	ended bool
}

func newCutter(src io.Reader, records Records, size int) *cutter {
	return &cutter{src: src, split: splitter{records: records}, rest: make([]byte, 0, size)}
}

// next returns the next block, which is in buf and at most as long: up to the last end of a record, or all of buf if no
// record ends in it. It returns no bytes at the end.
func (c *cutter) next(buf []byte) (block []byte, m Mark, err error) {
	n := copy(buf, c.rest)
	c.rest = c.rest[:0]
	if !c.ended {
		read, err := io.ReadFull(c.src, buf[n:])
		n += read
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			c.ended = true
		case err != nil:
			return nil, m, fmt.Errorf("read the plain file: %w", err)
		}
	}
	buf = buf[:n]
	if c.split.records.Layout == NoRecords {
		return buf, m, nil
	}
	block, m, err = c.cut(buf)
	c.rest = append(c.rest, buf[len(block):]...)
	return block, m, err
}

func (c *cutter) cut(buf []byte) (block []byte, m Mark, err error) {
	border, at := 0, c.split // where the last record ended
	before, count, counted := len(buf), 0, 0
	for n := 0; n < len(buf); {
		if !c.split.within {
			if count == 0 {
				before = n
			}
			count++
		}
		taken, ended, err := c.split.next(buf[n:])
		if err != nil {
			return nil, m, err
		}
		if n += taken; ended {
			border, at, counted = n, c.split, count
		}
	}
	switch {
	case c.ended:
		border, counted = len(buf), count
		if err := c.split.finish(); err != nil {
			return nil, m, err
		}
	case border == 0:
		border, counted = len(buf), count
	default:
		c.split = at
	}
	return buf[:border], Mark{Before: uint32(min(before, border)), Count: uint32(counted)}, nil
}
