// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// ServeBlocks takes the blocks of a session from a connection until it has the last one, and answers with their number.
// The caller closes the connection. Why it was refused, if it was, the session says.
func (r *Receiver) ServeBlocks(conn net.Conn) {
	r.mu.Lock()
	s := r.session
	r.mu.Unlock()
	if s == nil || !s.opened.Load() || s.open.Add(1) > protocol.MaxStreams {
		return
	}
	// What waits for a sender ends with the session.
	stop := context.AfterFunc(s.ctx, func() { _ = conn.Close() })
	defer stop()
	d := &inStream{session: s}
	err := d.serve(conn)
	if err != nil {
		s.broken.Add(1)
	}
	s.open.Add(-1)
	if err != nil {
		return
	}
	_ = protocol.WriteResponse(conn, d.blocks) // A sender that is gone needs no answer.
}

// inStream is a connection that blocks come from.
type inStream struct {
	*session
	decoder  *frame.Decoder
	sequence frame.Sequence
	message  protocol.DataMessage
	plain    []byte
	back     []byte // what was read back
	zeros    protocol.ZeroHash
	blocks   uint64
	claims   []claim
}

// claim is a segment that was checked.
type claim struct {
	file *inFile // nil if it was taken back
	run  *run
}

// errStream ends a connection whose sender is told why by the session, or not at all.
var errStream = errors.New("the connection is given up")

func (d *inStream) serve(conn net.Conn) error {
	decoder, err := frame.NewDecoder(d.Engines)
	if err != nil {
		return d.refuse(err)
	}
	defer decoder.Close()
	d.decoder = decoder
	for first := true; ; first = false {
		switch err := d.message.Read(conn); {
		case errors.Is(err, protocol.ErrMalformed):
			return d.refuse(protocol.Invalid("a data message cannot be read: %w", err))
		case err != nil:
			// The session finds out by itself when the sender is gone, and finish when it is not.
			return errStream
		}
		// Who does not know the session has no say in it.
		if first && subtle.ConstantTimeCompare(d.message.Session, d.token) != 1 {
			return errStream
		}
		d.touch()
		came := time.Now()
		if !d.enter() {
			return errStream
		}
		last, err := d.guarded()
		d.leave()
		d.worked.Add(int64(time.Since(came)))
		if err != nil {
			return d.refuse(err)
		}
		if last {
			return nil
		}
	}
}

// refuse ends the session because of what came on this connection.
func (d *inStream) refuse(err error) error {
	d.fail(err)
	return errStream
}

// guarded is block, but that a defect which what came brings to light fails this run, and the process, which may have
// others, goes on.
func (d *inStream) guarded() (last bool, err error) {
	defer func() {
		if defect := recover(); defect != nil {
			debug.PrintStack() // for the log of this agent; the sender, which may have made the block, reads the failure
			last, err = false, failure.New(wirev1.FailureReason_FAILURE_REASON_INTERNAL,
				"the receiving agent has a defect, which a block of this run brought to light; report it with the agent's log: %v",
				defect)
		}
	}()
	return d.block()
}

// block takes one message apart and writes what is in it. It reports whether it was the last one.
func (d *inStream) block() (last bool, err error) {
	if err := d.ctx.Err(); err != nil {
		return false, err
	}
	h, err := frame.ParseHeader(d.message.Received)
	if err == nil {
		err = d.sequence.Accept(h)
	}
	if err != nil {
		return false, protocol.Invalid("%w", err)
	}
	if int64(h.PlainLen) > d.chunk {
		return false, protocol.Invalid("a block of %d bytes; the session's chunks have %d", h.PlainLen, d.chunk)
	}
	if err := d.claim(h); err != nil {
		return false, err
	}
	plain, outcome, err := d.decoder.View(d.plain, h, d.message.Received[frame.HeaderSize:])
	if err != nil {
		return false, protocol.Invalid("%w", err)
	}
	if h.Codec != codec.None {
		d.plain = plain
	}
	d.blocks++
	if h.PlainLen > 0 {
		d.Report.Blocks.Add(outcome)
	}
	for i := range d.message.Segments {
		s := &d.message.Segments[i]
		carried := s.Carried(d.chunk)
		bytes := plain[:carried]
		plain = plain[carried:]
		if c := d.claims[i]; c.file != nil {
			if err := d.check(c, s, bytes); err != nil {
				return false, err
			}
			if err := d.write(c, s, bytes); err != nil {
				return false, err
			}
		}
	}
	return h.Last, nil
}

// claim checks that the segments belong into files that are expected and make up the block.
func (d *inStream) claim(h frame.Header) error {
	if len(d.message.Segments) == 0 && !h.Last {
		return protocol.Invalid("a block without segments")
	}
	var sum int64
	d.claims = d.claims[:0]
	for i := range d.message.Segments {
		s := &d.message.Segments[i]
		if err := s.Check(d.chunk); err != nil {
			return err
		}
		sum += s.Carried(d.chunk)
		f, err := d.file(s.Index)
		if err != nil {
			return err
		}
		c := claim{}
		if f != nil {
			if c.run, err = f.claim(s, d.verify); err != nil {
				return err
			}
			if c.run != nil {
				c.file = f
			}
		}
		d.claims = append(d.claims, c)
	}
	if sum != int64(h.PlainLen) {
		return protocol.Invalid("segments of %d bytes in a block of %d", sum, h.PlainLen)
	}
	return nil
}

// file returns a file that is expected, nil for one that was taken back.
func (s *session) file(index uint64) (*inFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.pending[index]; f != nil {
		return f, nil
	}
	if _, ok := s.takenBack[index]; ok {
		return nil, nil
	}
	return nil, protocol.Invalid("a segment of entry %d, which is not expected", index)
}

// check compares a segment with its digest, unless it is read back later, as one is always that is put together from
// parts.
func (d *inStream) check(c claim, s *protocol.Segment, bytes []byte) error {
	if d.verify || s.Absent() != 0 {
		return nil
	}
	digest := d.decoder.Digest()
	if len(d.message.Segments) > 1 {
		digest = protocol.DigestOf(bytes)
	}
	if digest != s.Digest {
		return protocol.Invalid("a segment of %q at offset %d does not have its digest", c.file.entry.Path, s.Offset)
	}
	return nil
}

// write puts a chunk into its file and gives the file its name if that was the last one.
func (d *inStream) write(c claim, s *protocol.Segment, bytes []byte) error {
	written := int64(s.Length) - s.Holes.Bytes(int64(s.Length), d.chunk)
	if err := d.checkpoints.stake(written); err != nil {
		return err
	}
	defer d.checkpoints.settle(written)
	staged, err := d.Destination.Stage(c.file.number, &c.file.entry)
	if err != nil {
		return err
	}
	defer staged.Close()
	offset := int64(s.Offset)
	if s.Absent() != 0 {
		err = d.writeParts(staged, c, s, bytes)
	} else {
		_, err = staged.WriteAt(bytes, offset)
	}
	if err != nil {
		return err
	}
	complete, takenBack := c.file.wrote(c.run, offset)
	if takenBack {
		// It may have been removed before it was written.
		return d.Destination.Discard(c.file.number)
	}
	if c.file.chunks > 1 {
		d.checkpoints.wrote(c.file, offset/d.chunk, s.Digest)
		d.arrived(c.file, int64(s.Length))
	}
	if !complete {
		return nil
	}
	if d.verify {
		if err := d.compare(staged, c); err != nil {
			return err
		}
	}
	if !c.file.finish(c.run) {
		return nil
	}
	// No lock is held, so the other streams go on meanwhile.
	if c.file.chunks > 1 {
		if err := staged.Sync(); err != nil {
			return err
		}
	}
	if err := d.commit(staged, c.file); err != nil {
		return err
	}
	d.complete(c.file)
	return nil
}

// compare reads a run back. Most of it comes from the page cache, so that this finds what is misplaced, mixed up or
// damaged in memory, but not what the disk loses later.
func (d *inStream) compare(staged io.ReaderAt, c claim) error {
	if d.back == nil {
		d.back = make([]byte, d.chunk)
	}
	f := c.file
	for i := range c.run.digests {
		if c.run.safe>>i&1 != 0 {
			continue // Compared when it was taken over, or put together.
		}
		offset := (c.run.number*runChunks + int64(i)) * f.chunk
		bytes := d.back[:min(f.chunk, f.entry.Size-offset)]
		if _, err := staged.ReadAt(bytes, offset); err != nil {
			return fmt.Errorf("read back %q: %w", f.entry.Path, err)
		}
		if protocol.DigestOf(bytes) != c.run.digests[i] {
			return failure.New(wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED,
				"what was read back of %q at offset %d is not what was sent: suspect the memory or the file system of the "+
					"receiving node, or a fault of Lighterage (%s)",
				f.entry.Path, offset, wirev1.Version)
		}
	}
	return nil
}

// complete counts a file that has its name.
func (s *session) complete(f *inFile) {
	s.mu.Lock()
	s.lighten(f)
	s.files++
	s.bytes += uint64(f.entry.Size)
	s.mu.Unlock()
	s.arrived(f, -f.entry.Size)
	s.Report.update(func(p *wirev1.Progress) {
		p.Files++
		p.Bytes += uint64(f.entry.Size)
	})
}

// arrived counts bytes of a file that is not complete, less than 0 when it is or is taken back.
func (s *session) arrived(f *inFile, bytes int64) {
	if f.chunks <= 1 {
		return
	}
	s.partial.Add(bytes)
	s.Report.update(func(p *wirev1.Progress) { p.PartialBytes = uint64(max(0, s.partial.Load())) })
}

// takeBack forgets a file that changed while the sender read it.
func (s *session) takeBack(index uint64) error {
	s.mu.Lock()
	f := s.pending[index]
	if f != nil {
		s.lighten(f)
		s.takenBack[index] = &taken{path: f.entry.Path, size: f.entry.Size}
		s.changed++
	}
	count := len(s.takenBack)
	s.mu.Unlock()
	if f == nil {
		return protocol.Invalid("the sender takes back entry %d, which is not expected", index)
	}
	if count > protocol.MaxChanged {
		return protocol.Invalid("the sender takes back more than %d files", protocol.MaxChanged)
	}
	s.arrived(f, -f.forget())
	f.naming.Lock()
	defer f.naming.Unlock()
	f.named = true
	s.checkpoints.done(f)
	return s.Destination.Discard(f.number)
}

var _ Destination = Tree{(*tree.Destination)(nil)}
