// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lighterage/lighterage/agent/frame"
)

// open takes an archive over from the member that wrote it before, or begins it.
func (a *Archiver) open(ctx context.Context, life string) (*current, error) {
	directory, err := a.options.Place.make(ctx, Name(a.options.Stream, life))
	if err != nil {
		return nil, err
	}
	c := &current{directory: directory, life: life, loaded: time.Now()}
	if err := c.load(a.options, a.tick); err != nil {
		return nil, errors.Join(err, directory.Close())
	}
	return c, nil
}

// load finds out how far the archive has come. Ranges that the index does not count are read: they were written just
// before an end. It calls tick as it comes on.
func (c *current) load(o Options, tick func()) error {
	decoder, err := NewDecoder(o.Decoders)
	if err != nil {
		return err
	}
	defer func() { _ = decoder.Close() }() // It was read with.
	all, err := c.directory.Ranges()
	if err != nil {
		return err
	}
	index, err := c.directory.ReadIndex(decoder)
	if absent(err) {
		index = &Index{Queue: o.Stream, Life: c.life, From: 1}
		if len(all) > 0 {
			index.From = all[0].First
		}
		index.To = index.From - 1
	} else if err != nil {
		return err
	}
	c.index = *index
	if _, reached := Chain(all, index.From-1); reached < index.To {
		return fmt.Errorf("%w: the archive %s has nothing after message %d; restore the file, or delete the archive, which "+
			"then starts again from the queue's first message",
			ErrGap, c.directory.Name(), reached)
	}
	for _, r := range all {
		tick()
		switch {
		case r.Last < index.From:
			// An end came before it was deleted.
			if err := c.directory.remove(r); err != nil {
				return err
			}
			continue
		case r.Last <= index.To:
			c.ranges = append(c.ranges, r)
			continue
		}
		if r.First > c.index.To+1 {
			return fmt.Errorf("%w: the archive %s has nothing after message %d; restore the file, or delete the archive, "+
				"which then starts again from the queue's first message",
				ErrGap, c.directory.Name(), c.index.To)
		}
		if r.Last <= c.index.To {
			c.ranges = append(c.ranges, r)
			continue
		}
		foot, err := c.directory.check(r, c.index.Queue, c.life, decoder)
		if err != nil {
			return err
		}
		c.took(r, foot, 0)
	}
	c.seen = c.index.To
	return nil
}

// check reads a range from end to end.
func (d *Directory) check(r Range, queue, life string, decoder *frame.Decoder) (Foot, error) {
	file, err := d.open(r)
	if err != nil {
		return Foot{}, err
	}
	defer file.Close()
	reader, err := d.begin(file, r, queue, life, decoder)
	for err == nil {
		_, err = d.next(reader, r)
	}
	if errors.Is(err, io.EOF) {
		return reader.Foot(), nil
	}
	return Foot{}, err
}

const readBuffer = 256 << 10

// begin reads the head of a range, which has to be what its name says.
func (d *Directory) begin(file io.Reader, r Range, queue, life string, decoder *frame.Decoder) (*Reader, error) {
	reader, err := NewReader(bufio.NewReaderSize(file, readBuffer), decoder)
	if err != nil {
		return nil, d.wrong(r.name(), err)
	}
	if h := reader.Head(); h.Queue != queue || h.Life != life || h.First != r.First {
		return nil, d.wrong(r.name(), fmt.Errorf("%w: %s, from message %d", ErrOther, Name(h.Queue, h.Life), h.First))
	}
	return reader, nil
}

// next returns the next message of a range, io.EOF after its end, which has to be where its name says.
func (d *Directory) next(reader *Reader, r Range) (Record, error) {
	record, err := reader.Next()
	if errors.Is(err, io.EOF) && reader.Foot().Last != r.Last {
		return record, d.wrong(r.name(), fmt.Errorf("%w: it ends at message %d", ErrOther, reader.Foot().Last))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return record, d.wrong(r.name(), err)
	}
	return record, err
}
