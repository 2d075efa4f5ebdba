// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"crypto/subtle"
	"errors"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// stream is a connection that blocks come from.
type stream struct {
	ctx      context.Context // of the attempt
	terms    *terms
	report   *Report
	activity *activity
	expected *expected
	engines  *codec.Registry
	writer   *writer
	// checkpoints bound what is written and not safe.
	checkpoints *checkpoints
	fail        func(error) // ends the attempt
	// worked is how long streams were not waiting for data, in nanoseconds, all together.
	worked *atomic.Int64

	decoder  *frame.Decoder
	sequence frame.Sequence
	message  protocol.DataMessage
	plain    []byte
	blocks   uint64
	claims   []claim
	packer   *cargo.Packer // nil unless files rest in a form
	// patience is how long a chunk may wait for those before it, waited how long this message did.
	patience, waited time.Duration
}

// errStream ends a connection whose sender is told why by the session, or not at all.
var errStream = errors.New("the connection is given up")

// serve takes blocks until the last one.
func (d *stream) serve(conn net.Conn) error {
	decoder, err := frame.NewDecoder(d.engines)
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
		if first && subtle.ConstantTimeCompare(d.message.Session, d.terms.token) != 1 {
			return errStream
		}
		came := time.Now()
		d.waited = 0
		var last bool
		var err error
		if !d.activity.do(func() { last, err = d.guarded() }) {
			return errStream
		}
		d.worked.Add(int64(time.Since(came) - d.waited))
		if err != nil {
			return d.refuse(err)
		}
		if last {
			return nil
		}
	}
}

// refuse ends the attempt because of what came on this connection.
func (d *stream) refuse(err error) error {
	d.fail(err)
	return errStream
}

// guarded is block, but that a defect which what came brings to light fails this run, and the process, which may have
// others, goes on.
func (d *stream) guarded() (last bool, err error) {
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
func (d *stream) block() (last bool, err error) {
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
	if int64(h.PlainLen) > d.terms.chunk {
		return false, protocol.Invalid("a block of %d bytes; the session's chunks have %d", h.PlainLen, d.terms.chunk)
	}
	if err := d.claim(h); err != nil {
		return false, err
	}
	if d.packer != nil {
		d.blocks++
		return h.Last, d.keep(h, d.message.Received[frame.HeaderSize:])
	}
	plain, outcome, err := d.decoder.View(d.plain, h, d.message.Received[frame.HeaderSize:])
	if err != nil {
		return false, d.corrupt(err)
	}
	if h.Codec != codec.None {
		d.plain = plain
	}
	d.blocks++
	if h.PlainLen > 0 {
		d.report.Blocks.Add(outcome)
		d.report.arrived(h)
	}
	for i := range d.claims {
		c := &d.claims[i]
		bytes := plain[:c.carried]
		plain = plain[c.carried:]
		if c.file == nil {
			continue
		}
		if c.segment.Undigested {
			c.segment.Digest = d.decoder.Digest()
			c.file.digested(c.section, c.offset, c.segment.Digest)
		}
		if err := d.check(c, bytes); err != nil {
			return false, err
		}
		if err := d.checkpoints.staking(c.written, func() error { return d.writer.write(c, bytes) }); err != nil {
			return false, err
		}
	}
	return h.Last, nil
}

// corrupt is the error of a block that does not expand to what its header says.
func (d *stream) corrupt(err error) error {
	if len(d.claims) == 1 && d.claims[0].segment.Undigested && d.claims[0].file != nil {
		return protocol.Invalid("the block at offset %d of %q, which the source holds compressed, does not expand to what its "+
			"index says (%w): restore the file there, or add it to spec.exclude", d.claims[0].offset,
			failure.Shorten(d.claims[0].file.entry.Path, failure.MaxMessage/2), err)
	}
	return protocol.Invalid("%w", err)
}

// claim checks that the segments belong into files that are expected and make up the block.
func (d *stream) claim(h frame.Header) error {
	if len(d.message.Segments) == 0 && !h.Last {
		return protocol.Invalid("a block without segments")
	}
	var sum int64
	d.claims = d.claims[:0]
	for i := range d.message.Segments {
		s := &d.message.Segments[i]
		c := claim{segment: s, offset: int64(s.Offset), length: int64(s.Length), written: int64(s.Length)}
		var err error
		if c.carried, err = s.Carried(d.terms.chunk); err != nil {
			return err
		}
		if s.Holes != 0 {
			c.written -= s.Holes.Bytes(c.length, d.terms.chunk)
		}
		if s.Undigested && (len(d.message.Segments) > 1 || c.carried != c.length) {
			return protocol.Invalid("a segment without a digest that is not a whole block")
		}
		sum += c.carried
		f, err := d.expected.find(s.Index)
		if err != nil {
			return err
		}
		if f != nil {
			if c.section, err = f.claim(s, d.terms.verify && f.rest == nil); err != nil {
				return err
			}
			if c.section != nil {
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

// check compares a segment with its digest, unless it is read back later, as one is always that is put together from
// parts.
func (d *stream) check(c *claim, bytes []byte) error {
	if d.terms.verify || c.carried < c.length {
		return nil
	}
	digest := d.decoder.Digest()
	if len(d.claims) > 1 {
		digest = protocol.DigestOf(bytes)
	}
	if digest != c.segment.Digest {
		return wrongDigest(c)
	}
	return nil
}
