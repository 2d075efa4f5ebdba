// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/zeebo/xxh3"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// outState is how far the sending of a file is.
type outState struct {
	mu sync.Mutex
	// handled are the bytes that were sent or given up.
	handled int64
	// takenBack: the file changed, and the receiver was told to forget it.
	takenBack bool
}

// worker reads, encodes and sends blocks over a connection of its own.
type worker struct {
	*sender
	conn    net.Conn
	encoder *frame.Encoder
	plain   []byte
	encoded []byte
	message dataMessage
	blocks  uint64
	stream  *adapt.Stream // nil: nothing is chosen block by block
	// piece, hash and zeros are for readParts.
	piece []byte
	hash  *partHash
	zeros zeroHash
}

// sendItems works on items until there are none.
func (s *sender) sendItems(ctx context.Context) error {
	conn, err := s.DialBlocks(ctx)
	if err != nil {
		return lost(nil, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	encoder, err := frame.NewEncoder(s.encoderOptions())
	if err != nil {
		return err
	}
	defer encoder.Close()
	w := &worker{
		sender: s, conn: conn, encoder: encoder, plain: make([]byte, 0, ChunkSize),
		encoded: make([]byte, 0, frame.HeaderSize+ChunkSize),
	}
	w.message.session = s.session
	if w.stream = s.watch(conn); w.stream != nil {
		defer w.stream.Close()
	}
	for item := range s.items {
		if err := w.item(item); err != nil {
			return err
		}
		s.finished()
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return w.end()
}

// item reads the pieces and sends what is left of them as a block.
func (w *worker) item(item []piece) error {
	w.plain, w.message.segments = w.plain[:0], w.message.segments[:0]
	for _, p := range item {
		if err := w.read(p, len(item) > 1); err != nil {
			return err
		}
	}
	if len(w.message.segments) > 0 {
		if err := w.block(false); err != nil {
			return err
		}
	}
	for _, p := range item {
		w.handled(p)
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
	if p.file.entry.Sparse || p.file.old {
		return w.readParts(p)
	}
	start := len(w.plain)
	bytes := w.plain[start : start+p.length]
	err := w.Source.ReadAt(p.file.entry, bytes, p.offset)
	if errors.Is(err, tree.ErrChanged) {
		return w.takeBack(p.file)
	}
	if err != nil {
		return err
	}
	w.plain = w.plain[:start+p.length]
	s := segment{index: p.file.index, offset: uint64(p.offset), length: uint32(p.length)}
	if shared {
		s.digest = xxh3.Hash128(bytes).Bytes()
	}
	w.message.segments = append(w.message.segments, s)
	return nil
}

// handled counts a piece that needs no more work and makes space in the window after a file's last one.
func (s *sender) handled(p piece) {
	f := p.file
	f.state.mu.Lock()
	f.state.handled += int64(p.length)
	done, sent := f.state.handled == f.entry.Size, !f.state.takenBack
	f.state.mu.Unlock()
	if !done {
		return
	}
	if sent {
		s.files.Add(1)
		s.bytes.Add(uint64(f.entry.Size))
	}
	s.window.Release(cost(f.entry))
}

// block encodes and sends what was read.
func (w *worker) block(last bool) error {
	var header, payload []byte
	outcome, err := w.timed(func() (outcome meter.Outcome, err error) {
		header, payload, outcome, err = w.encoder.Next(w.encoded, w.plain, last)
		return outcome, err
	}, func() error {
		if len(w.message.segments) == 1 && w.message.segments[0].reused|w.message.segments[0].holes == 0 {
			w.message.segments[0].digest = w.encoder.Digest()
		}
		if err := w.message.write(w.conn, header, payload); err != nil {
			return lost(nil, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(w.plain) > 0 {
		w.Report.Blocks.Add(outcome)
	}
	w.message.session = nil // Stated once.
	w.blocks++
	return nil
}

// end sends the last block, which is empty, and waits until the receiver has taken all.
func (w *worker) end() error {
	w.plain, w.message.segments = w.plain[:0], w.message.segments[:0]
	if err := w.block(true); err != nil {
		return err
	}
	var buffer [4 + maxResponse]byte
	if _, err := io.ReadFull(w.conn, buffer[:4]); err != nil {
		return lost(nil, err)
	}
	n := binary.BigEndian.Uint32(buffer[:])
	if n > maxResponse {
		return invalid("the receiver's answer to the last block has %d bytes; the limit is %d", n, maxResponse)
	}
	if _, err := io.ReadFull(w.conn, buffer[4:4+n]); err != nil {
		return lost(nil, err)
	}
	var response wirev1.DataResponse
	if err := proto.Unmarshal(buffer[4:4+n], &response); err != nil {
		return invalid("the receiver's answer to the last block cannot be read: %w", err)
	}
	if response.GetBlocks() != w.blocks {
		return invalid("the receiver took %d blocks of %d", response.GetBlocks(), w.blocks)
	}
	return nil
}

// maxResponse bounds what a receiver answers to the last block, in bytes.
const maxResponse = 1024
