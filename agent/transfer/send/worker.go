// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"errors"
	"net"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// worker reads, encodes and sends blocks over a connection of its own.
type worker struct {
	source   Source
	report   *Report
	window   *window
	changed  *changedFiles
	workload *workload
	adaptive *adaptive
	parts    partReader
	whole    bool // no parts: holes are read as zeros, and nothing is reused

	conn    net.Conn
	encoder *frame.Encoder
	plain   []byte
	encoded []byte
	message protocol.DataMessage
	blocks  uint64
	stream  *adapt.Stream // nil: nothing is chosen block by block
}

// run works on items until there are none.
func (w *worker) run(ctx context.Context, o *Options, t *terms) error {
	conn, err := o.DialBlocks(ctx)
	if err != nil {
		return protocol.Lost(err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	encoder, err := frame.NewEncoder(w.adaptive.encoderOptions(o, t))
	if err != nil {
		return err
	}
	defer encoder.Close()
	w.conn, w.encoder = conn, encoder
	w.plain, w.encoded = make([]byte, 0, protocol.ChunkSize), make([]byte, 0, frame.HeaderSize+protocol.ChunkSize)
	w.message.Session = t.token
	if w.stream = w.adaptive.watch(conn); w.stream != nil {
		defer w.stream.Close()
	}
	for item := range w.workload.items {
		if err := w.item(item); err != nil {
			return err
		}
		w.workload.finished()
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return w.end()
}

// item reads the pieces and sends what is left of them as a block.
func (w *worker) item(item []piece) error {
	w.plain, w.message.Segments = w.plain[:0], w.message.Segments[:0]
	for _, p := range item {
		if err := w.read(p, len(item) > 1); err != nil {
			return err
		}
	}
	if len(w.message.Segments) > 0 {
		if err := w.block(false); err != nil {
			return err
		}
	}
	for _, p := range item {
		w.window.handled(p)
	}
	return nil
}

// read appends a piece to the block, unless its file has changed. Of a piece that is the whole block the encoder makes
// the digest.
func (w *worker) read(p piece, shared bool) error {
	p.file.state.mu.Lock()
	takenBack := p.file.state.takenBack
	p.file.state.mu.Unlock()
	if takenBack {
		return nil
	}
	if (p.file.entry.Sparse || p.file.old) && !w.whole {
		return w.readParts(p)
	}
	start := len(w.plain)
	bytes := w.plain[start : start+p.length]
	var err error
	spent := meter.ThreadCPU(func() { err = w.source.ReadAt(p.file.entry, bytes, p.offset) })
	w.report.reading.Add(int64(spent))
	if errors.Is(err, tree.ErrChanged) {
		return w.changed.takeBack(p.file)
	}
	if err != nil {
		return err
	}
	w.plain = w.plain[:start+p.length]
	s := protocol.Segment{Index: p.file.index, Offset: uint64(p.offset), Length: uint32(p.length)}
	if shared {
		s.Digest = protocol.DigestOf(bytes)
	}
	w.message.Segments = append(w.message.Segments, s)
	return nil
}

// readParts appends to the block what must be sent of a piece that has holes or that the receiver has another version
// of.
func (w *worker) readParts(p piece) error {
	s, bytes, err := w.parts.read(p)
	if errors.Is(err, tree.ErrChanged) {
		return w.changed.takeBack(p.file)
	}
	if err != nil {
		return err
	}
	length := int64(p.length)
	reused, absent := s.Reused.Bytes(length, protocol.ChunkSize), s.Absent().Bytes(length, protocol.ChunkSize)
	if len(w.plain)+p.length-int(absent) > protocol.ChunkSize || len(w.message.Segments) == protocol.MaxSegments {
		if err := w.block(false); err != nil {
			return err
		}
		w.plain, w.message.Segments = w.plain[:0], w.message.Segments[:0]
	}
	_ = s.Absent().Runs(length, protocol.ChunkSize, func(absent bool, start, end int64) error {
		if !absent {
			w.plain = append(w.plain, bytes[start:end]...)
		}
		return nil
	})
	w.message.Segments = append(w.message.Segments, s)
	w.report.Update(func(p *wirev1.Progress) {
		p.ReusedBytes += uint64(reused)
		p.HoleBytes += uint64(absent - reused)
	})
	return nil
}

// block encodes and sends what was read.
func (w *worker) block(last bool) error {
	var header, payload []byte
	outcome, err := timed(w.stream, func() (outcome meter.Outcome, err error) {
		header, payload, outcome, err = w.encoder.Next(w.encoded, w.plain, last)
		return outcome, err
	}, func() error {
		if len(w.message.Segments) == 1 && int(w.message.Segments[0].Length) == len(w.plain) {
			w.message.Segments[0].Digest = w.encoder.Digest()
		}
		if err := w.message.Write(w.conn, header, payload); err != nil {
			return protocol.Lost(err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(w.plain) > 0 {
		w.report.Blocks.Add(outcome)
	}
	w.message.Session = nil // Stated once.
	w.blocks++
	return nil
}

// end sends the last block, which is empty, and waits until the receiver has taken all.
func (w *worker) end() error {
	w.plain, w.message.Segments = w.plain[:0], w.message.Segments[:0]
	if err := w.block(true); err != nil {
		return err
	}
	return protocol.ReadResponse(w.conn, w.blocks)
}
