// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/estimate"
	"github.com/lighterage/lighterage/agent/httpproxy/coding"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

const (
	// partSize is the longest part of a stream, in bytes.
	partSize = 64 << 10
	// firstBlock is how much of a body of unknown length is waited for, and for how long
	// after its first byte, before it is decided whether to compress it.
	firstBlock    = 32 << 10
	firstPatience = 5 * time.Millisecond
	// So much and so long a later part waits to grow before it is sent.
	nextBlock    = 32 << 10
	nextPatience = time.Millisecond
)

// stream sends a body of unknown length, or one too long to be held, as it arrives.
func (x *exchange) stream(res *http.Response, p plan) {
	hold := [3]*buffer{}
	for i := range hold {
		if hold[i] = x.server.buffers.get(partSize); hold[i] == nil {
			for _, b := range hold[:i] {
				x.server.buffers.put(b)
			}
			x.passForNow(res, p, Busy)
			return
		}
	}
	in := newPump(res.Body, hold[0].b, hold[1].b[:partSize])
	defer func() {
		in.stop()
		for _, b := range hold {
			x.server.buffers.put(b)
		}
	}()
	first, err := in.take(hold[2].b[:partSize], firstBlock, firstPatience)
	all := errors.Is(err, io.EOF)
	if err != nil && !all {
		x.fail(err)
		return
	}
	if p.way == byFirstBlock {
		length := int64(-1)
		if all {
			length = int64(len(first))
		}
		p = x.judge(x.generation.resolve(p, len(first), all), res, length)
		size := int64(unknownSize)
		if all {
			size = length
		}
		if p = x.generation.share(p, size); all {
			x.sendOnePiece(res, p, first, nil) // short after all
			return
		}
	}
	x.sendParts(res, p, in, first, all)
}

// sendParts sends a body of which a part is here, and the rest as it arrives. last says that nothing follows the part.
func (x *exchange) sendParts(res *http.Response, p plan, in *pump, part []byte, last bool) {
	o := stored(0, p.decision.Reason)
	var c *partEncoder // nil: the parts go as they are
	if p.way == inParts {
		if c = x.newPartEncoder(p, part, &o); c != nil {
			defer c.close()
		}
	}
	x.sendHeader(res, &o, -1)
	for {
		o.meter.PlainBytes += len(part)
		out := part
		if c != nil {
			out = c.encode(part, last, &o)
		}
		o.meter.WireBytes += len(out)
		if len(out) > 0 {
			x.write(out)
		}
		if last {
			break
		}
		x.flush()
		var err error
		part, err = in.take(part[:partSize:partSize], nextBlock, nextPatience)
		if last = errors.Is(err, io.EOF); err != nil && !last {
			x.truncate(err)
		}
	}
	x.sendTrailers(res)
	x.learn(p, &o)
	x.server.stats.add(o)
}

// partEncoder compresses a body part by part.
type partEncoder struct {
	server   *Server
	encoders *encoders
	stream   *coding.Stream
	own      codec.StreamEncoder // nil when each part takes one
	out      *buffer
	// reason is that of the plan.
	reason policy.Reason
}

// newPartEncoder gets what compressing takes, and looks at a sample of the first part if that is planned. It returns
// nil if the parts go as they are, and notes in the outcome which, and why.
func (x *exchange) newPartEncoder(p plan, first []byte, o *outcome) *partEncoder {
	c := &partEncoder{
		server: x.server, encoders: x.generation.encodersOf(p.decision.Codec, p.decision.Class), reason: p.decision.Reason,
	}
	padding := randomPadding(x.generation.settings.Padding)
	reason, err := c.open(p, padding, first, o)
	if err != nil {
		x.server.engineFailed(c.encoders, err)
		reason = EngineFailed
	}
	if reason != "" {
		c.close()
		o.meter.Reason = reason
		return nil
	}
	c.stream = coding.NewStream(p.coding, padding)
	o.coding, o.engine, o.meter.Use = p.coding, c.encoders.engine.Name(), use(p, c.encoders)
	return c
}

// open returns why the parts go as they are, or "".
func (c *partEncoder) open(p plan, padding int, first []byte, o *outcome) (policy.Reason, error) {
	if c.out = c.server.buffers.get(coding.Bound(partSize, padding)); c.out == nil {
		return Busy, nil
	}
	own, err := c.encoders.hold()
	if err != nil {
		return "", err
	}
	if c.own = own; own == nil && p.coding == negotiate.Zstd {
		return Busy, nil
	}
	if !p.decision.NeedsSample || !estimate.Judged(len(first)) {
		return "", nil
	}
	if own == nil {
		lent, err := c.encoders.get()
		if err != nil {
			return "", err
		}
		defer c.encoders.put(lent)
		own = lent
	}
	var expected estimate.Prediction
	o.meter.Estimate.CPU = meter.ThreadCPU(func() { expected, err = estimate.Predict(first, c.out.b[:len(first)], own) })
	o.meter.CPU = o.meter.Estimate.CPU
	if err == nil && !expected.Worth {
		return policy.Incompressible, nil
	}
	return "", err
}

// close gives back what open got.
func (c *partEncoder) close() {
	if c.own != nil {
		c.encoders.release(c.own)
	}
	c.server.buffers.put(c.out)
}

// encode returns a part compressed, in a buffer that the next call overwrites, and notes in the outcome what did it.
// When that fails the answer breaks off: it cannot be taken back that it is compressed.
func (c *partEncoder) encode(part []byte, last bool, o *outcome) []byte {
	begun := time.Now()
	encoder, encode := c.own, c.stream.Part
	if encoder == nil {
		lent, err := c.encoders.get()
		if err != nil {
			c.abort(err)
		}
		defer c.encoders.put(lent)
		encoder, encode = lent, c.stream.LonePart
	}
	var n int
	var err error
	o.meter.CPU += meter.ThreadCPU(func() { n, err = encode(encoder, c.out.b, part, last) })
	o.elapsed += time.Since(begun)
	if err != nil {
		c.abort(err)
	}
	o.meter.Path, o.meter.Reason = pathOf(c.encoders, encoder, o.meter.Reason)
	if len(part) == 0 && c.encoders.engine.Class() == codec.Hardware {
		o.meter.Path, o.meter.Reason = meter.Hardware, c.reason // there was nothing to use it for
	}
	return c.out.b[:n]
}

func (c *partEncoder) abort(err error) {
	c.server.engineFailed(c.encoders, fmt.Errorf("compress a part: %w", err))
	panic(http.ErrAbortHandler)
}
