// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// Versions of the form of ranges and indexes. An index has that of the latest range, so that releases before it
// read archives that were not written to since.
const (
	blocksVersion = 1 // ranges are blocks of package frame; read only
	linesVersion  = 2 // ranges are lines that rest as package cargo has it
)

// Head is what a range begins with.
type Head struct {
	Version int `json:"version"`
	// Queue that was archived, and the life of its stream.
	Queue string `json:"queue"`
	Life  string `json:"life"`
	// First sequence that the range is about. There need not be a message with it.
	First uint64 `json:"first"`
}

// Foot is what a range ends with.
type Foot struct {
	// Last sequence that the range is about.
	Last uint64 `json:"last"`
	// Messages in the range, and the length of their payloads as they were put.
	Messages   uint64 `json:"messages"`
	PlainBytes uint64 `json:"plainBytes"`
}

// Compression says how the fields of messages are compressed.
type Compression struct {
	Policy policy.Settings
	// Codecs in order of preference. The first for which there is an engine is used.
	Codecs      []codec.ID
	Engines     *codec.Registry
	Accelerator policy.Accelerator
}

// Sizes of messages from which compressing them is worth it are none of blocks with many of them. A policy's larger
// ones are lowered to these.
const (
	leastHardware = 20_000
	leastSoftware = 1024
)

// Encoders make the blocks of ranges, one range after the other.
type Encoders struct {
	form   cargo.Form
	blocks *frame.Encoder
}

// NewEncoders returns encoders, which must be closed.
func NewEncoders(c Compression) (*Encoders, error) {
	settings := c.Policy
	settings.HardwareMinSize, settings.SoftwareMinSize = min(
		settings.HardwareMinSize, leastHardware,
	), min(settings.SoftwareMinSize, leastSoftware)
	if settings.Mode == policy.Auto {
		settings.Mode = policy.Always // Text and base64 shrink. A sample of base64 says that they do not by enough.
	}
	o := frame.EncoderOptions{Engines: c.Engines, Accelerator: c.Accelerator, Codec: codec.None, Policy: settings}
	for _, id := range c.Codecs {
		_, software := c.Engines.Best(id, codec.Software, settings.Level)
		_, hardware := c.Engines.Best(id, codec.Hardware, settings.Level)
		if software || hardware && settings.SoftwareDisabled {
			o.Codec = id
			break
		}
	}
	// Where nothing is compressed, the blocks of a gzip member are stored.
	e := &Encoders{form: cargo.Gzip}
	if o.Codec == codec.Zstd {
		e.form = cargo.Zstd
	}
	o.Joinable = e.form == cargo.Gzip
	var err error
	if e.blocks, err = frame.NewEncoder(o); err != nil {
		return nil, fmt.Errorf("compress for an archive: %w", err)
	}
	return e, nil
}

// Close frees the encoders.
func (e *Encoders) Close() error { return e.blocks.Close() }

// Writer writes one range. It is for one goroutine.
type Writer struct {
	encoders *Encoders
	// count gets what became of each block.
	count func(meter.Outcome)
	queue string

	file    *cargo.Writer
	records *cargo.RecordCounter
	written counter
	foot    Foot
	lines   []byte // of the next block
	block   []byte
}

// counter counts what is written.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// NewWriter begins a range. count may be nil.
func NewWriter(to io.Writer, e *Encoders, h Head, count func(meter.Outcome)) (*Writer, error) {
	if count == nil {
		count = func(meter.Outcome) {}
	}
	w := &Writer{
		encoders: e, count: count, queue: h.Queue, written: counter{to: to},
		records: cargo.NewRecordCounter(cargo.Records{Layout: cargo.Lines}),
	}
	w.file = cargo.NewWriter(&w.written, e.form)
	h.Version = linesVersion
	text, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("write the head of a range: %w", err)
	}
	w.lines = append(text, '\n')
	return w, nil
}

// Add adds a message. Sequences have to grow.
func (w *Writer) Add(r *Record) error {
	if r.Sequence <= w.foot.Last {
		return fmt.Errorf("archive message %d after message %d", r.Sequence, w.foot.Last)
	}
	before := len(w.lines)
	var err error
	if w.lines, err = appendLine(w.lines, r, w.queue); err != nil {
		return err
	}
	if n := len(w.lines) - before; n > maxLine {
		return fmt.Errorf("message %d takes a line of %d bytes; the most is %d", r.Sequence, n, maxLine)
	}
	w.foot.Last = r.Sequence
	w.foot.Messages++
	w.foot.PlainBytes += uint64(r.PlainLength())
	return w.fill(before)
}

// fill writes the lines before one that was added, and it, if they are too many for a block.
func (w *Writer) fill(before int) error {
	if len(w.lines) < frame.DefaultBlock {
		return nil
	}
	if len(w.lines) > frame.DefaultBlock && before > 0 {
		// Blocks end with a line where they can.
		if err := w.encode(w.lines[:before]); err != nil {
			return err
		}
		w.lines = w.lines[:copy(w.lines, w.lines[before:])]
	}
	if len(w.lines) < frame.DefaultBlock {
		return nil
	}
	return w.flush()
}

// Close ends the range at a sequence and returns what it ends with, and the index that is to be beside it.
func (w *Writer) Close(last uint64) (Foot, *cargo.Index, error) {
	w.foot.Last = max(w.foot.Last, last)
	text, err := json.Marshal(w.foot)
	if err != nil {
		return Foot{}, nil, fmt.Errorf("write the foot of a range: %w", err)
	}
	before := len(w.lines)
	w.lines = append(append(w.lines, text...), '\n')
	if err := w.fill(before); err != nil {
		return Foot{}, nil, err
	}
	if err := w.flush(); err != nil {
		return Foot{}, nil, err
	}
	index, err := w.file.Close()
	if err == nil {
		index, err = w.records.Index(index)
	}
	return w.foot, index, err
}

// Written is how many bytes were written.
func (w *Writer) Written() int64 { return w.written.n }

// flush writes the lines as blocks.
func (w *Writer) flush() error {
	for plain := range slices.Chunk(w.lines, frame.DefaultBlock) {
		if err := w.encode(plain); err != nil {
			return err
		}
	}
	w.lines = w.lines[:0]
	return nil
}

// encode writes a block.
func (w *Writer) encode(plain []byte) error {
	block, outcome, err := w.encoders.blocks.AppendAt(w.block[:0], 0, plain, false)
	if err != nil {
		return err
	}
	w.block = block
	h, err := frame.ParseHeader(block)
	if err != nil {
		return err
	}
	if err := w.records.Add(plain); err != nil {
		return err
	}
	w.count(outcome)
	return w.file.Append(h, block[frame.HeaderSize:])
}
