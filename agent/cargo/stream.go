// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/lighterage/lighterage/agent/pipeline"
)

// RangeOpener is what a file implements besides io.ReaderAt if a long part of it is better read by one request, as that
// of an object store is.
type RangeOpener interface {
	// OpenRange returns a reader of length bytes from offset on, which ends early only with an error.
	OpenRange(ctx context.Context, offset, length int64) (io.ReadCloser, error)
}

var (
	// ErrNoRecord says that the index knows no such records.
	ErrNoRecord = errors.New("no such record")
	// ErrLongRecord says that a record has more than MaxRecord bytes. Reader.WriteRecords writes it.
	ErrLongRecord = fmt.Errorf("a record of more than %d bytes", MaxRecord)
)

// MaxRecord is the most bytes of a record that Reader.Records holds.
const MaxRecord = 64 << 20

// Index returns the index of the file.
func (r *Reader) Index() *Index { return r.index }

// openRange opens a part of the file that rests.
func (r *Reader) openRange(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	if opener, ok := r.file.(RangeOpener); ok && length > 0 {
		opened, err := opener.OpenRange(ctx, offset, length)
		if err != nil {
			return nil, fmt.Errorf("read %d bytes at %d: %w", length, offset, err)
		}
		return opened, nil
	}
	return io.NopCloser(io.NewSectionReader(r.file, offset, length)), nil
}

// expanding is a block on its way.
type expanding struct {
	block         int
	stored, plain []byte
}

// blocks reads blocks from one on up to another by one request, expands them on so many workers, and hands them to a
// function in their order.
func (r *Reader) blocks(
	ctx context.Context, from, to, workers int, take func(block int, plain []byte) error,
) (err error) {
	if from >= to {
		return nil
	}
	file, err := r.openRange(ctx, r.index.stored[from], r.index.stored[to]-r.index.stored[from])
	if err != nil {
		return err
	}
	defer file.Close()
	workers = min(max(workers, 1), to-from)
	inflaters := make([]inflater, 0, workers)
	defer func() {
		for _, f := range inflaters {
			err = errors.Join(err, f.decoder.Close())
		}
	}()
	for range workers {
		f, err := newInflater(r.index.form, r.engines)
		if err != nil {
			return err
		}
		inflaters = append(inflaters, f)
	}
	next := from
	return pipeline.Run(ctx, workers,
		func(b *expanding) (bool, error) {
			if next == to {
				return false, nil
			}
			b.block = next
			next++
			b.stored = r.index.storedBuffer(b.stored, b.block)
			return true, readFull(file, b.stored, b.block)
		},
		func(worker int, b *expanding) (err error) {
			if err := r.index.checkStored(b.stored, b.block); err != nil {
				return err
			}
			b.plain, err = r.index.expand(&inflaters[worker], b.plain, &b.stored, b.block)
			return err
		},
		func(b *expanding) error { return take(b.block, b.plain) },
	)
}

// readFull reads what rests of a block.
func readFull(file io.Reader, p []byte, block int) error {
	n, err := io.ReadFull(file, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends within block %d, of which it has %d bytes", ErrCorrupt, block, n)
	}
	if err != nil {
		return fmt.Errorf("read block %d: %w", block, err)
	}
	return nil
}

// WriteRange writes length bytes of the plain file from offset on, or what there is of them. It expands blocks on so
// many workers, which hold two each.
func (r *Reader) WriteRange(ctx context.Context, w io.Writer, offset, length int64, workers int) error {
	if offset < 0 || length < 0 {
		return fmt.Errorf("write %d bytes at %d: a negative number", length, offset)
	}
	end := r.index.Size()
	if length < end-min(offset, end) {
		end = offset + length
	}
	if offset >= end {
		return nil
	}
	from, to := r.index.find(offset), r.index.find(end-1)+1
	return r.blocks(ctx, from, to, workers, func(block int, plain []byte) error {
		begin := r.index.plain[block]
		_, err := w.Write(plain[max(offset-begin, 0):min(end-begin, int64(len(plain)))])
		return err
	})
}

// recordRange is where records are: from a place in a block on up to one in another.
type recordRange struct {
	from, to int   // blocks that have a part of them: from on, up to to
	skip     int64 // records of the first block before them
	last     int   // the block in which the record behind them begins, if that needs to be read; else to
	keep     int64 // records of that block which belong to them, as does what is before these
}

func (r *Reader) locate(first, count int64) (found recordRange, err error) {
	known := r.index.known
	switch {
	case known == nil:
		return found, fmt.Errorf("%w: the index does not know records", ErrNoRecord)
	case first < 0 || count < 0 || first > known.count() || count > known.count()-first:
		return found, fmt.Errorf("%w: %d from %d on, of %d", ErrNoRecord, count, first, known.count())
	case count == 0:
		return found, nil
	}
	found.from = known.find(first)
	found.skip = first - known.begun[found.from]
	found.to = len(known.marks)
	found.last = found.to
	if end := first + count; end < known.count() {
		found.last = known.find(end)
		found.keep = end - known.begun[found.last]
		found.to = found.last + 1
		if found.keep == 0 && known.marks[found.last].Before == 0 {
			found.to = found.last // of which nothing is needed
		}
	}
	return found, nil
}

// records hands the plain bytes of records, whole or in parts, to a function.
func (r *Reader) records(ctx context.Context, first, count int64, workers int, take func([]byte) error) error {
	at, err := r.locate(first, count)
	if err != nil {
		return err
	}
	return r.blocks(ctx, at.from, at.to, workers, func(block int, plain []byte) error {
		begin, end := 0, len(plain)
		before := int(r.index.known.marks[block].Before)
		if block == at.last {
			n, err := r.index.Records().skip(plain[before:], at.keep)
			if err != nil {
				return err
			}
			end = before + n
		}
		if block == at.from {
			n, err := r.index.Records().skip(plain[before:], at.skip)
			if err != nil {
				return err
			}
			begin = before + n
		}
		if begin > end {
			return fmt.Errorf("%w: records of block %d end before they begin", ErrIndex, block)
		}
		return take(plain[begin:end])
	})
}

// WriteRecords writes count records from the first one on, which are numbered from 0, as they are in the plain file:
// lines with their newlines, others with their record descriptor words. It reads the file by one request for what rests
// of the blocks that have them, and expands these on so many workers. If the index knows fewer, that is ErrNoRecord.
func (r *Reader) WriteRecords(ctx context.Context, w io.Writer, first, count int64, workers int) error {
	return r.records(ctx, first, count, workers, func(plain []byte) error {
		_, err := w.Write(plain)
		return err
	})
}

// errStopped ends a loop over records that its caller left.
var errStopped = errors.New("no more records are wanted")

// Records yields the records that WriteRecords writes, one after the other. One must not be used after the next was
// asked for. After an error nothing follows.
func (r *Reader) Records(ctx context.Context, first, count int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		s := splitter{records: r.index.Records()}
		var part []byte // of a record, from blocks before
		err := r.records(ctx, first, count, 1, func(plain []byte) error {
			for len(plain) > 0 {
				n, ended, err := s.next(plain)
				if err != nil {
					return err
				}
				if len(part)+n > MaxRecord {
					return ErrLongRecord
				}
				record := plain[:n]
				plain = plain[n:]
				if !ended || len(part) > 0 {
					part = append(part, record...)
					record = part
				}
				if !ended {
					continue
				}
				part = part[:0]
				if !yield(record, nil) {
					return errStopped
				}
			}
			return nil
		})
		if err == nil && len(part) > 0 {
			if err = s.finish(); err == nil {
				yield(part, nil) // a last line without a newline
				return
			}
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// copyAtOnce is how much the system copies between files before the context is looked at.
const copyAtOnce = 64 << 20

// copyUnchecked writes the file as it rests. Between files the system may copy by itself.
func (r *Reader) copyUnchecked(ctx context.Context, w io.Writer) error {
	size := r.index.StoredSize()
	for at := int64(0); at < size; {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("copy at byte %d: %w", at, err)
		}
		length := min(size-at, copyAtOnce)
		file, err := r.openRange(ctx, at, length)
		if err != nil {
			return err
		}
		n, err := io.Copy(w, file)
		file.Close()
		if at += n; err == nil && n != length {
			err = fmt.Errorf("%w: it ends at byte %d of %d", ErrCorrupt, at, size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CopyStored writes the file as it rests. With check it compares all of it with the index, as Scrub does without
// inflating, and writes nothing of a block that is damaged.
func (r *Reader) CopyStored(ctx context.Context, w io.Writer, check bool) error {
	if !check {
		return r.copyUnchecked(ctx, w)
	}
	file, err := r.openRange(ctx, 0, r.index.StoredSize())
	if err != nil {
		return err
	}
	defer file.Close()
	c := copier{file: file, to: w}
	if r.index.form == Gzip {
		if err := c.same([]byte(gzipHeader), "header"); err != nil {
			return err
		}
	}
	for i := range r.index.blocks {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("copy block %d: %w", i, err)
		}
		c.buf = r.index.storedBuffer(c.buf, i)
		if err := readFull(file, c.buf, i); err != nil {
			return err
		}
		if err := r.index.checkStored(c.buf, i); err != nil {
			return err
		}
		if _, err := w.Write(c.buf); err != nil {
			return err
		}
	}
	return c.same(r.index.end(), "end")
}

// copier copies a file that it checks.
type copier struct {
	file io.Reader
	to   io.Writer
	buf  []byte
}

// same copies a part that is known.
func (c *copier) same(want []byte, what string) error {
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c.file, got); err != nil {
		return fmt.Errorf("%w: its %s is cut short: %w", ErrCorrupt, what, err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%w: the %s is %x instead of %x", ErrCorrupt, what, got, want)
	}
	_, err := c.to.Write(got)
	return err
}
