// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// formVersion is that of ranges and indices.
const formVersion = 1

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
	fields, payloads *frame.Encoder
}

// NewEncoders returns encoders, which must be closed.
func NewEncoders(c Compression) (*Encoders, error) {
	settings := c.Policy
	settings.HardwareMinSize, settings.SoftwareMinSize = min(
		settings.HardwareMinSize, leastHardware,
	), min(settings.SoftwareMinSize, leastSoftware)
	o := frame.EncoderOptions{Engines: c.Engines, Accelerator: c.Accelerator, Codec: codec.None, Policy: settings}
	for _, id := range c.Codecs {
		_, software := c.Engines.Best(id, codec.Software, settings.Level)
		_, hardware := c.Engines.Best(id, codec.Hardware, settings.Level)
		if software || hardware && settings.SoftwareDisabled {
			o.Codec = id
			break
		}
	}
	fields, err := frame.NewEncoder(o)
	if err != nil {
		return nil, fmt.Errorf("compress for an archive: %w", err)
	}
	settings.Mode = policy.Never
	payloads, err := frame.NewEncoder(frame.EncoderOptions{Engines: c.Engines, Codec: codec.None, Policy: settings})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("compress for an archive: %w", err), fields.Close())
	}
	return &Encoders{fields: fields, payloads: payloads}, nil
}

// Close frees the encoders.
func (e *Encoders) Close() error { return errors.Join(e.fields.Close(), e.payloads.Close()) }

// Writer writes one range. It is for one goroutine.
type Writer struct {
	to       io.Writer
	encoders *Encoders
	// count gets what became of each block with fields. Blocks with payloads that were compressed before are not
	// counted.
	count func(meter.Outcome)

	foot    Foot
	written int64
	next    uint64 // number of the next block
	buffer  []byte

	fields, payloads []byte
	messages         int
	before           place
}

// NewWriter begins a range. count may be nil.
func NewWriter(to io.Writer, e *Encoders, h Head, count func(meter.Outcome)) (*Writer, error) {
	if count == nil {
		count = func(meter.Outcome) {}
	}
	w := &Writer{to: to, encoders: e, count: count}
	h.Version = formVersion
	text, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("write the head of a range: %w", err)
	}
	return w, w.block(e.payloads, text, false)
}

// Add adds a message. Sequences have to grow.
func (w *Writer) Add(r *Record) error {
	if r.Sequence <= w.foot.Last {
		return fmt.Errorf("archive message %d after message %d", r.Sequence, w.foot.Last)
	}
	w.fields, w.payloads = appendRecord(w.fields, w.payloads, &w.before, r)
	w.messages++
	w.foot.Last = r.Sequence
	w.foot.Messages++
	w.foot.PlainBytes += uint64(r.PlainLength())
	if max(len(w.fields), len(w.payloads)) < groupBytes {
		return nil
	}
	return w.flush()
}

// Close ends the range at a sequence and returns what it ends with.
func (w *Writer) Close(last uint64) (Foot, error) {
	if w.messages > 0 {
		if err := w.flush(); err != nil {
			return Foot{}, err
		}
	}
	w.foot.Last = max(w.foot.Last, last)
	text, err := json.Marshal(w.foot)
	if err != nil {
		return Foot{}, fmt.Errorf("write the foot of a range: %w", err)
	}
	return w.foot, w.block(w.encoders.payloads, text, true)
}

// Messages is how many were added.
func (w *Writer) Messages() uint64 { return w.foot.Messages }

// PlainBytes is the length of their payloads as they were put.
func (w *Writer) PlainBytes() uint64 { return w.foot.PlainBytes }

// Written is how many bytes were written.
func (w *Writer) Written() int64 { return w.written }

// flush writes a group.
func (w *Writer) flush() error {
	head := make([]byte, 0, groupHead+len(w.fields))
	for _, n := range []int{len(w.fields), len(w.payloads), w.messages} {
		head = binary.BigEndian.AppendUint32(head, uint32(n))
	}
	if err := w.section(w.encoders.fields, append(head, w.fields...)); err != nil {
		return err
	}
	if err := w.section(w.encoders.payloads, w.payloads); err != nil {
		return err
	}
	w.fields, w.payloads, w.messages, w.before = w.fields[:0], w.payloads[:0], 0, place{}
	return nil
}

func (w *Writer) section(e *frame.Encoder, plain []byte) error {
	for len(plain) > 0 {
		n := min(len(plain), frame.DefaultBlock)
		if rest := len(plain) - n; rest > 0 && rest < groupHead+leastSoftware {
			n = len(plain) // A last block of some bytes is not worth its header.
		}
		if err := w.block(e, plain[:n], false); err != nil {
			return err
		}
		plain = plain[n:]
	}
	return nil
}

func (w *Writer) block(e *frame.Encoder, plain []byte, last bool) error {
	block, outcome, err := e.AppendAt(w.buffer[:0], w.next, plain, last)
	if err != nil {
		return err
	}
	w.buffer = block
	w.next++
	if e == w.encoders.fields {
		w.count(outcome)
	}
	n, err := w.to.Write(block)
	w.written += int64(n)
	return err
}
