// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
)

// maxSidecar bounds the index beside a range, which has 32 bytes for each block and one block for each mebibyte, or
// for each message that is longer and the one behind it.
const maxSidecar = 8 << 20

// opener reads ranges of an archive.
type opener struct {
	directory *Directory
	queue     string
	life      string
	engines   *codec.Registry
	decoder   *frame.Decoder // of ranges of blocks
	// read counts the bytes of files; nil: nobody does.
	read *int64
}

// each calls found for the messages of a range, in order, and returns what the range ends with. It may leave out those
// up to a sequence, and does not read what it need not of them. What is wrong with the file is a FileError. What found
// returns ends it.
func (o opener) each(ctx context.Context, r Range, after uint64, found func(*Record) error) (Foot, error) {
	if o.read == nil {
		o.read = new(int64)
	}
	if r.form == 0 {
		return o.blocks(r, found)
	}
	return o.lines(ctx, r, after, found)
}

// blocks is each for a range of blocks.
func (o opener) blocks(r Range, found func(*Record) error) (Foot, error) {
	file, err := o.directory.open(r)
	if err != nil {
		return Foot{}, err
	}
	defer file.Close()
	const buffer = 256 << 10
	before := *o.read
	reader, err := NewReader(bufio.NewReaderSize(file, buffer), o.decoder)
	if err != nil {
		return Foot{}, o.directory.wrong(r.name(), err)
	}
	if err := o.own(reader.Head(), r); err != nil {
		return Foot{}, err
	}
	for {
		record, err := reader.Next()
		*o.read = before + reader.BytesRead()
		switch {
		case errors.Is(err, io.EOF):
			return reader.Foot(), o.ends(reader.Foot(), r)
		case err != nil:
			return Foot{}, o.directory.wrong(r.name(), err)
		}
		if err := found(&record); err != nil {
			return Foot{}, err
		}
	}
}

// own compares a head with where it is.
func (o opener) own(h Head, r Range) error {
	if h.Queue == o.queue && h.Life == o.life && h.First == r.First {
		return nil
	}
	return o.directory.wrong(r.name(), fmt.Errorf("%w: %s, from message %d", ErrOther, Name(h.Queue, h.Life), h.First))
}

// ends compares a foot with where it is.
func (o opener) ends(f Foot, r Range) error {
	if f.Last == r.Last {
		return nil
	}
	return o.directory.wrong(r.name(), fmt.Errorf("%w: it ends at message %d", ErrOther, f.Last))
}

// lines is each for a range of lines.
func (o opener) lines(ctx context.Context, r Range, after uint64, found func(*Record) error) (Foot, error) {
	// The data goes before its index, so that one of which there is only the data is damaged.
	index, err := o.index(r)
	if err != nil {
		return Foot{}, err
	}
	file, err := o.directory.files.part(r.name())
	if err != nil {
		return Foot{}, fmt.Errorf("open %s/%s: %w", o.directory.name, r.name(), err)
	}
	defer file.Close()
	reader, err := cargo.NewReader(&counted{part: file, read: o.read}, file.size(), index, o.engines)
	if err != nil {
		return Foot{}, o.wrong(r, err)
	}
	defer func() { _ = reader.Close() }() // It was read with.
	l := &lineReader{opener: o, of: r, total: index.RecordCount(), found: found}
	first, err := l.begin(ctx, reader, after)
	if err == nil {
		err = reader.WriteRecords(ctx, l, first, l.total-first, 1)
	}
	if l.failed != nil {
		return Foot{}, l.failed
	}
	if err != nil {
		return Foot{}, o.wrong(r, err)
	}
	return l.foot, o.ends(l.foot, r)
}

// wrong names the file in an error of reading it.
func (o opener) wrong(r Range, err error) error {
	switch {
	case errors.Is(err, cargo.ErrCorrupt), errors.Is(err, cargo.ErrRecords), errors.Is(err, cargo.ErrNoRecord):
		err = damaged("%w", err)
	case !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrOther) && !errors.Is(err, ErrVersion):
		return fmt.Errorf("read %s/%s: %w", o.directory.name, r.name(), err)
	}
	return o.directory.wrong(r.name(), err)
}

// index reads the index beside a range.
func (o opener) index(r Range) (*cargo.Index, error) {
	d, name := o.directory, r.indexName()
	f, err := d.files.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := d.files.stat(r.name()); err != nil {
			return nil, fmt.Errorf("look at %s/%s: %w", d.name, r.name(), err)
		}
		return nil, d.wrong(name, damaged(
			"it is missing; lighterage-cargo rebuild --records lines %s makes it again", r.name(),
		))
	}
	if err != nil {
		return nil, fmt.Errorf("open %s/%s: %w", d.name, name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSidecar+1))
	*o.read += int64(len(b))
	if err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", d.name, name, err)
	}
	if len(b) > maxSidecar {
		return nil, d.wrong(name, damaged("it has more than %d bytes", maxSidecar))
	}
	index, err := cargo.ParseIndex(b)
	if err != nil {
		return nil, d.wrong(name, damaged("%w", err))
	}
	// The head, at least one message, and the foot.
	if index.Records().Layout != cargo.Lines || index.RecordCount() < 3 {
		return nil, d.wrong(name, damaged("it is of no range of messages"))
	}
	return index, nil
}

// counted counts what is read of a file.
type counted struct {
	part
	read *int64
}

func (c *counted) ReadAt(p []byte, offset int64) (int, error) {
	n, err := c.part.ReadAt(p, offset)
	*c.read += int64(n)
	return n, err
}

func (c *counted) OpenRange(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	r, err := c.part.OpenRange(ctx, offset, length)
	if err != nil {
		return nil, err
	}
	return &countedRange{r, c.read}, nil
}

type countedRange struct {
	io.ReadCloser
	read *int64
}

func (c *countedRange) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	*c.read += int64(n)
	return n, err
}

// lineReader takes the lines of a range, in any parts.
type lineReader struct {
	opener
	of    Range
	total int64 // lines that there are
	at    int64 // number of the next one
	found func(*Record) error
	// failed is what found returned.
	failed error

	part  []byte // of a line
	last  uint64 // sequence of the last message
	dense bool   // each message has the sequence after that of the one before
	sum   Foot   // of messages that came
	whole bool   // all do
	foot  Foot
}

// begin reads the head and returns from which line on messages are read that come after a sequence.
func (l *lineReader) begin(ctx context.Context, reader *cargo.Reader, after uint64) (int64, error) {
	if after < l.of.First {
		l.whole = true
		return 0, nil
	}
	if err := reader.WriteRecords(ctx, l, 0, 1, 1); err != nil {
		return 0, err
	}
	l.at = l.total - 1
	if after < l.of.Last {
		var err error
		if l.at, err = l.find(ctx, reader, after); err != nil {
			return 0, err
		}
	}
	return l.at, nil
}

// find returns the number of the line of the first message after a sequence; that of the foot if there is none. If the
// range has a message of every sequence that is known without reading. Else lines are looked at.
func (l *lineReader) find(ctx context.Context, reader *cargo.Reader, after uint64) (int64, error) {
	if uint64(l.total-2) == l.of.Last-l.of.First+1 {
		l.last, l.dense = after, true
		return 1 + int64(after-l.of.First+1), nil
	}
	n, err := reader.SearchRecords(ctx, 1, l.total-1, func(line []byte) (bool, error) {
		r, err := parseLine(line, l.queue)
		return r.Sequence > after, err
	})
	if errors.Is(err, cargo.ErrLongRecord) {
		return 1, nil // It is none to search for.
	}
	return n, err
}

// Write implements io.Writer.
func (l *lineReader) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		line := rest[:n]
		if n == 0 || len(l.part) > 0 {
			if n == 0 {
				n = len(rest)
			}
			if len(l.part)+n > maxLine {
				return 0, damaged("line %d has more than %d bytes", l.at, maxLine)
			}
			l.part = append(l.part, rest[:n]...)
			line = l.part
		}
		rest = rest[n:]
		if line[len(line)-1] != '\n' {
			continue
		}
		l.part = l.part[:0]
		if err := l.line(line[:len(line)-1]); err != nil {
			return 0, err
		}
		l.at++
	}
	return len(p), nil
}

// line takes a line.
func (l *lineReader) line(line []byte) error {
	switch l.at {
	case 0:
		return l.head(line)
	case l.total - 1:
		return l.end(line)
	}
	r, err := parseLine(line, l.queue)
	if err != nil {
		return err
	}
	if r.Sequence <= l.last || r.Sequence < l.of.First || r.Sequence > l.of.Last ||
		l.dense && r.Sequence != l.last+1 {
		return damaged("message %d comes after message %d", r.Sequence, l.last)
	}
	l.last = r.Sequence
	l.sum.Messages++
	l.sum.PlainBytes += uint64(r.PlainLength())
	l.failed = l.found(&r)
	return l.failed
}

func (l *lineReader) head(line []byte) error {
	var h Head
	if err := parse(line, &h); err != nil {
		return fmt.Errorf("head: %w", err)
	}
	if h.Version != linesVersion {
		return fmt.Errorf("%w: version %d", ErrVersion, h.Version)
	}
	return l.own(h, l.of)
}

func (l *lineReader) end(line []byte) error {
	if err := parse(line, &l.foot); err != nil {
		return fmt.Errorf("foot: %w", err)
	}
	if l.foot.Last < max(l.last, l.of.First) || l.foot.Messages != uint64(l.total-2) ||
		l.whole && (l.foot.Messages != l.sum.Messages || l.foot.PlainBytes != l.sum.PlainBytes) {
		return damaged("the foot does not describe what was read")
	}
	return nil
}
