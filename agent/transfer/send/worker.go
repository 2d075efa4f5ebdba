// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// answerPatience is how long the answer to the last block may come after the end of the session.
const answerPatience = time.Second

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
	// last gets a token when the last block was written. soon: the session ends then, whether its answer has come or
	// not.
	last chan<- struct{}
	soon bool
	// ended is closed when the session has ended.
	ended <-chan struct{}
	// shared is what a worker of a Fan has; nil: its blocks are its own.
	shared *sharing

	conn    net.Conn
	encoder *frame.Encoder // nil in a Fan until there is something to encode
	// newEncoder makes it.
	newEncoder func() (*frame.Encoder, error)
	plain      []byte
	encoded    []byte
	header     []byte // of a block that the encoder did not number
	message    protocol.DataMessage
	files      []*outFile // of the message's segments
	blocks     uint64
	stream     *adapt.Stream // nil: nothing is chosen block by block
}

// run works on items until there are none, over a connection that was made early or, if that is nil, a new one.
func (w *worker) run(ctx context.Context, o *Options, t *terms, conn net.Conn) (err error) {
	if conn == nil {
		if conn, err = o.DialBlocks(ctx); err != nil {
			return protocol.Lost(err)
		}
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	w.conn = conn
	w.newEncoder = func() (*frame.Encoder, error) { return frame.NewEncoder(w.adaptive.encoderOptions(o, t)) }
	if w.shared == nil {
		if w.encoder, err = w.newEncoder(); err != nil {
			return err
		}
		w.plain, w.encoded = newBuffers()
	}
	defer func() {
		if w.encoder != nil {
			_ = w.encoder.Close()
		}
	}()
	w.message.Session = t.token
	if w.stream = w.adaptive.watch(conn); w.stream != nil {
		defer w.stream.Close()
	}
	for item := range w.workload.items {
		if err := w.item(ctx, item); err != nil {
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
func (w *worker) item(ctx context.Context, item []piece) error {
	sent, err := w.carriedItem(ctx, item)
	if err == nil && !sent {
		sent, err = w.sharedItem(ctx, item)
	}
	if err == nil && !sent {
		err = w.ownItem(ctx, item)
	}
	if err != nil {
		return err
	}
	for _, p := range item {
		w.window.handled(p)
	}
	return nil
}

// ownItem reads the pieces whatever others have read.
func (w *worker) ownItem(ctx context.Context, item []piece) error {
	defer w.borrow()()
	w.begin()
	for _, p := range item {
		if err := w.read(ctx, p, len(item) > 1); err != nil {
			return err
		}
	}
	if len(w.message.Segments) == 0 {
		return nil
	}
	return w.block(ctx)
}

// begin begins a block.
func (w *worker) begin() {
	w.plain, w.message.Segments, w.files = w.plain[:0], w.message.Segments[:0], w.files[:0]
}

// add appends a segment of a file to the block.
func (w *worker) add(f *outFile, s protocol.Segment) {
	w.message.Segments, w.files = append(w.message.Segments, s), append(w.files, f)
}

// read appends a piece to the block, unless its file has changed. Of a piece that is the whole block the encoder makes
// the digest.
func (w *worker) read(ctx context.Context, p piece, shared bool) error {
	if p.file.isTakenBack() {
		return nil
	}
	if w.inParts(p) {
		return w.readParts(ctx, p)
	}
	start := len(w.plain)
	digest, err := w.readWhole(p, shared)
	var mark cargo.Mark
	if err == nil {
		mark, err = w.mark(ctx, p, w.plain[start:])
	}
	if errors.Is(err, tree.ErrChanged) {
		return w.changed.takeBack(p.file)
	}
	if err != nil {
		return err
	}
	s := segmentOf(p, digest)
	s.Mark = mark
	w.add(p.file, s)
	return nil
}

// inParts reports whether parts of a piece may stay out of the block.
func (w *worker) inParts(p piece) bool { return (p.file.entry.Sparse || p.file.old) && !w.whole }

func segmentOf(p piece, digest protocol.Digest) protocol.Segment {
	return protocol.Segment{
		Index: p.file.index, Offset: uint64(p.offset), Length: uint32(p.length), Digest: digest,
	}
}

// readWhole appends the bytes of a piece to the block and returns their digest if it is to be made.
func (w *worker) readWhole(p piece, digested bool) (digest protocol.Digest, err error) {
	start := len(w.plain)
	bytes := w.plain[start : start+p.length]
	spent := meter.ThreadCPU(func() { err = w.source.ReadAt(p.file.entry, bytes, p.offset) })
	w.haveRead(spent)
	if err != nil {
		return digest, err
	}
	w.plain = w.plain[:start+p.length]
	if digested {
		digest = protocol.DigestOf(bytes)
	}
	return digest, nil
}

// readParts appends to the block what must be sent of a piece that has holes or that the receiver has another version
// of.
func (w *worker) readParts(ctx context.Context, p piece) error {
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
		if err := w.block(ctx); err != nil {
			return err
		}
		w.begin()
	}
	_ = s.Absent().Runs(length, protocol.ChunkSize, func(absent bool, start, end int64) error {
		if !absent {
			w.plain = append(w.plain, bytes[start:end]...)
		}
		return nil
	})
	w.add(p.file, s)
	w.report.Update(func(p *wirev1.Progress) {
		p.ReusedBytes += uint64(reused)
		p.HoleBytes += uint64(absent - reused)
	})
	return nil
}

// block sends what was read.
func (w *worker) block(ctx context.Context) error {
	if w.shared != nil {
		return w.sharedBlock(ctx, nil)
	}
	return w.ownBlock(false)
}

// ownBlock encodes and sends what was read.
func (w *worker) ownBlock(last bool) error {
	var header, payload []byte
	outcome, err := timed(w.stream, func() (outcome meter.Outcome, err error) {
		header, payload, outcome, err = w.encoder.Next(w.encoded, w.plain, last)
		return outcome, err
	}, func() error {
		w.digest()
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

// digest takes over what the encoder has made, if the block is one segment.
func (w *worker) digest() {
	if len(w.message.Segments) == 1 && int(w.message.Segments[0].Length) == len(w.plain) {
		w.message.Segments[0].Digest = w.encoder.Digest()
	}
}

// end sends the last block, which is empty, and waits until the receiver has taken all.
func (w *worker) end() error {
	w.begin()
	var err error
	if w.shared != nil {
		err = w.sharedEnd()
	} else {
		err = w.ownBlock(true)
	}
	if err != nil {
		return err
	}
	w.last <- struct{}{}
	if w.soon {
		// The network may have dropped the connection without a word, and nobody needs the answer after the session.
		answered := make(chan struct{})
		defer close(answered)
		go func() {
			select {
			case <-w.ended:
				_ = w.conn.SetReadDeadline(time.Now().Add(answerPatience))
			case <-answered:
			}
		}()
	}
	err = protocol.ReadResponse(w.conn, w.blocks)
	if w.soon && failure.Is(err, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST) {
		return nil // The session says whether the last block came.
	}
	return err
}
