// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// lostPatience is how old an index beside no range has to be to be removed: another member may be about to write that.
const lostPatience = time.Hour

// open takes an archive over from the member that wrote it before, or begins it.
func (a *Archiver) open(ctx context.Context, life string) (*current, error) {
	directory, err := a.options.Place.make(ctx, Name(a.options.Stream, life))
	if err != nil {
		return nil, err
	}
	c := &current{directory: directory, life: life, loaded: time.Now()}
	if err := c.load(ctx, a.options, a.tick); err != nil {
		return nil, errors.Join(err, directory.Close())
	}
	return c, nil
}

// load finds out how far the archive has come. Ranges that the index does not count are read: they were written just
// before an end. It calls tick as it comes on.
func (c *current) load(ctx context.Context, o Options, tick func()) error {
	decoder, err := NewDecoder(o.Decoders)
	if err != nil {
		return err
	}
	defer func() { _ = decoder.Close() }() // It was read with.
	all, lost, err := c.directory.list(time.Now().Add(-lostPatience))
	if err != nil {
		return err
	}
	index, err := c.directory.ReadIndex(decoder)
	c.announced = err == nil && index.Version == linesVersion
	if absent(err) {
		index = &Index{Version: blocksVersion, Queue: o.Stream, Life: c.life, From: 1}
		if len(all) > 0 {
			index.From = all[0].First
		}
		index.To = index.From - 1
	} else if err != nil {
		return err
	}
	c.index = *index
	if slices.ContainsFunc(all, func(r Range) bool { return r.form != 0 }) {
		c.index.Version = linesVersion
	}
	in := opener{directory: c.directory, queue: c.index.Queue, life: c.life, engines: o.Decoders, decoder: decoder}
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
		foot, err := in.each(ctx, r, 0, func(*Record) error { tick(); return nil })
		if err != nil {
			return err
		}
		c.took(r, foot, 0)
	}
	// Where a range is missing, as above, the index beside it is needed when that is restored.
	for _, r := range lost {
		tick()
		if err := c.directory.remove(r); err != nil {
			return err
		}
	}
	// Members that both thought that they lead may have left ranges of the same messages.
	c.index.Ranges, c.index.Bytes = uint64(len(c.ranges)), 0
	for _, r := range c.ranges {
		c.index.Bytes += uint64(r.Size)
	}
	c.seen = c.index.To
	return nil
}
