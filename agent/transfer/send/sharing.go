// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
)

// sharing is what a worker has in a Fan.
type sharing struct {
	place *Place
	// identity is memory for what is made of every block.
	identity []byte
}

func newSharing(p *Place) *sharing {
	if p == nil {
		return nil
	}
	return &sharing{place: p}
}

// buffers is memory to read and to encode a block.
type buffers struct{ plain, encoded []byte }

func newBuffers() (plain, encoded []byte) {
	return make([]byte, 0, protocol.ChunkSize), make([]byte, 0, frame.HeaderSize+protocol.ChunkSize)
}

// free are buffers that nobody uses: those who wait for their network have none.
var free = sync.Pool{New: func() any {
	b := &buffers{}
	b.plain, b.encoded = newBuffers()
	return b
}}

// borrow gets the worker of a Fan memory until the function that it returns is called.
func (w *worker) borrow() (giveBack func()) {
	if w.shared == nil || w.plain != nil {
		return func() {}
	}
	b := free.Get().(*buffers)
	w.plain, w.encoded = b.plain, b.encoded
	return func() {
		w.plain, w.encoded = nil, nil
		free.Put(b)
	}
}

// haveRead books the time that reading took.
func (w *worker) haveRead(spent time.Duration) {
	if w.shared != nil {
		w.shared.place.fan.shares.read.Add(uint64(spent))
		return
	}
	w.report.reading.Add(int64(spent))
}

// sharedItem sends pieces as a block that other receivers may need, too. It returns false when they are to be read for
// this one: there is no other, or only what the receiver says tells what is in the block, or something has changed, or
// records are to be found.
func (w *worker) sharedItem(ctx context.Context, item []piece) (sent bool, err error) {
	if w.shared == nil {
		return false, nil
	}
	w.begin()
	for _, p := range item {
		if w.inParts(p) || p.file.isTakenBack() || p.file.records != nil {
			return false, nil
		}
		w.add(p.file, segmentOf(p, protocol.Digest{}))
	}
	err = w.sharedBlock(ctx, func() error {
		for i, p := range item {
			digest, err := w.readWhole(p, len(item) > 1)
			if err != nil {
				return err
			}
			w.message.Segments[i].Digest = digest
		}
		return nil
	})
	if errors.Is(err, tree.ErrChanged) {
		return false, nil
	}
	return err == nil, err
}

// sharedBlock sends the block of the message's segments, which another receiver's worker may have encoded. If not,
// read reads it first; nil: it was read.
func (w *worker) sharedBlock(ctx context.Context, read func() error) error {
	place, begin := w.shared.place, time.Now()
	at := w.files[0].start + int64(w.message.Segments[0].Offset)
	var cpu time.Duration
	b, made, err := place.fan.spool.take(ctx, place, w.key(), at, func() (b *block, err error) {
		cpu = meter.ThreadCPU(func() { b, err = w.encode(read) })
		return b, err
	})
	if err != nil {
		return err
	}
	for i := range w.message.Segments {
		w.message.Segments[i].Digest = b.digests[i]
	}
	prepared := time.Now()
	if err := w.write(b.header, b.payload); err != nil {
		return err
	}
	outcome := b.outcome
	if !made {
		cpu, outcome.Estimate = outcome.CPU, meter.Estimate{}
	}
	if w.stream != nil {
		// As if it had been encoded for this receiver alone, so that all attempts come to choose alike.
		w.stream.Sent(outcome, prepared.Sub(begin), cpu, time.Since(prepared))
	}
	outcome.CPU, outcome.Estimate.CPU = 0, 0 // they are in the Fan's shares
	if outcome.PlainBytes > 0 {
		w.report.Blocks.Add(outcome)
	}
	place.fan.shares.sent(place, outcome.PlainBytes)
	return nil
}

// write sends a block with its number in this stream.
func (w *worker) write(h frame.Header, payload []byte) error {
	h.Seq = w.blocks
	w.header = h.Append(w.header[:0])
	if err := w.message.Write(w.conn, w.header, payload); err != nil {
		return protocol.Lost(err)
	}
	w.message.Session = nil // Stated once.
	w.blocks++
	return nil
}

// encode reads and encodes a block for all.
func (w *worker) encode(read func() error) (*block, error) {
	if w.encoder == nil {
		var err error
		if w.encoder, err = w.newEncoder(); err != nil {
			return nil, err
		}
	}
	defer w.borrow()()
	if read != nil {
		if err := read(); err != nil {
			return nil, err
		}
	}
	encoded, outcome, err := w.encoder.AppendAt(w.encoded[:0], 0, w.plain, false)
	if err != nil {
		return nil, err
	}
	w.digest()
	header, err := frame.ParseHeader(encoded)
	if err != nil {
		return nil, fmt.Errorf("encode a block: %w", err)
	}
	w.shared.place.fan.shares.compress.Add(uint64(outcome.CPU))
	b := &block{
		header: header, payload: bytes.Clone(encoded[frame.HeaderSize:]), outcome: outcome,
		stored: w.shared.place.stores(),
	}
	for _, s := range w.message.Segments {
		b.digests = append(b.digests, s.Digest)
	}
	return b, nil
}

// sharedEnd sends the last block.
func (w *worker) sharedEnd() error {
	encoder, err := frame.NewEncoder(frame.EncoderOptions{
		Engines: codec.NewRegistry(), Codec: codec.None, Policy: policy.Settings{Mode: policy.Never, Level: codec.Fast},
	})
	if err != nil {
		return err
	}
	defer encoder.Close()
	last, _, err := encoder.AppendAt(nil, 0, nil, true)
	if err != nil {
		return err
	}
	header, err := frame.ParseHeader(last)
	if err != nil {
		return fmt.Errorf("encode the last block: %w", err)
	}
	return w.write(header, nil)
}

// key says what is in the block: whose bytes, and which of them.
func (w *worker) key() blockKey {
	b := w.shared.identity[:0]
	for i, s := range w.message.Segments {
		b = w.files[i].entry.AppendIdentity(b)
		b = binary.BigEndian.AppendUint64(b, s.Offset)
		b = binary.BigEndian.AppendUint32(b, s.Length)
		b = binary.BigEndian.AppendUint32(b, uint32(s.Reused))
		b = binary.BigEndian.AppendUint32(b, uint32(s.Holes))
	}
	w.shared.identity = b
	return sha256.Sum256(b)
}
