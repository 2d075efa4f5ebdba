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
func (x *exchange) stream(res *http.Response) {
	hold := [3]*buffer{}
	for i := range hold {
		if hold[i] = x.server.buffers.get(partSize); hold[i] == nil {
			for _, b := range hold[:i] {
				x.server.buffers.put(b)
			}
			x.passForNow(res, Busy)
			return
		}
	}
	p := newPump(res.Body, hold[0].b, hold[1].b[:partSize])
	defer func() {
		p.stop()
		for _, b := range hold {
			x.server.buffers.put(b)
		}
	}()
	first, err := p.take(hold[2].b[:partSize], firstBlock, firstPatience)
	switch {
	case errors.Is(err, io.EOF) && res.ContentLength < 0:
		x.sendWhole(res, first, nil) // short after all
	case err != nil && !errors.Is(err, io.EOF):
		x.fail(err)
	default:
		x.parts(res, p, first, err)
	}
}

// parts decides by the first block of a body and sends that and the rest.
func (x *exchange) parts(res *http.Response, p *pump, first []byte, err error) {
	size := res.ContentLength
	if size < 0 {
		// It goes on, so it is not below the minimum; hardware has to see enough of it.
		size = max(int64(len(first)), x.settings.Policy.SoftwareMinSize, 1)
	}
	s := streaming{exchange: x, d: x.decide(x.coding, size, x.forced)}
	if s.d.Class != codec.NoClass {
		s.begin(first)
		defer s.end()
	} else {
		s.reason = s.d.Reason
	}
	s.header(res)
	for part := first; ; {
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			x.truncate(err)
		}
		s.send(part, last)
		if last {
			break
		}
		part, err = p.take(part[:partSize:partSize], nextBlock, nextPatience)
	}
	x.trailers(res)
	s.count()
}

// streaming is a body on its way.
type streaming struct {
	*exchange
	d      policy.Decision
	reason policy.Reason
	path   meter.Path

	stream   *coding.Stream // nil when the parts go as they are
	encoders *encoders
	own      codec.StreamEncoder // nil when each part takes one
	out      *buffer
	padding  int

	plain, wire int64
	cpu         time.Duration
}

// begin looks at a sample if that is wanted, and gets what compressing takes. Without
// it, the parts go as they are.
func (s *streaming) begin(first []byte) {
	s.encoders, s.padding, s.reason = s.encodersOf(s.d.Codec, s.d.Class), s.exchange.padding(), s.d.Reason
	s.out = s.server.buffers.get(coding.Bound(partSize, s.padding))
	if s.out == nil {
		s.giveUp(Busy)
		return
	}
	own, err := s.encoders.hold()
	if err != nil {
		s.fault(err)
		return
	}
	s.own = own
	if own == nil && s.coding == negotiate.Zstd {
		s.giveUp(Busy)
		return
	}
	if s.d.NeedsSample && estimate.Judged(len(first)) {
		worth, err := s.worth(first)
		switch {
		case err != nil:
			s.fault(err)
			return
		case !worth:
			s.giveUp(policy.Incompressible)
			return
		}
	}
	s.stream = coding.NewStream(s.coding, s.padding)
}

func (s *streaming) worth(first []byte) (bool, error) {
	trial := s.own
	if trial == nil {
		lent, err := s.encoders.get()
		if err != nil {
			return false, err
		}
		defer s.encoders.put(lent)
		trial = lent
	}
	var expected estimate.Prediction
	var err error
	s.cpu += meter.ThreadCPU(func() { expected, err = estimate.Predict(first, s.out.b[:len(first)], trial) })
	return expected.Worth, err
}

func (s *streaming) fault(err error) {
	s.server.engineFailed(s.encoders, err)
	s.giveUp(EngineFailed)
}

// giveUp sends the parts as they are.
func (s *streaming) giveUp(reason policy.Reason) {
	s.reason = reason
	s.end()
}

// end gives back what begin got.
func (s *streaming) end() {
	if s.own != nil {
		s.encoders.release(s.own)
		s.own = nil
	}
	s.server.buffers.put(s.out)
	s.out = nil
}

// header sends the header of the answer.
func (s *streaming) header(res *http.Response) {
	engine := ""
	if s.stream != nil {
		engine = s.encoders.engine.Name()
		transformed(res.Header, s.coding)
	}
	s.explain(res.Header, engine, s.reason)
	s.copyHeader(res)
	s.writeHeader(res.StatusCode)
}

// send sends a part, and makes sure that it goes.
func (s *streaming) send(part []byte, last bool) {
	s.plain += int64(len(part))
	out := part
	if s.stream != nil {
		n, err := s.compress(part, last)
		if err != nil {
			s.server.engineFailed(s.encoders, err)
			panic(http.ErrAbortHandler) // it cannot be taken back that it is compressed
		}
		out = s.out.b[:n]
	}
	s.wire += int64(len(out))
	if len(out) > 0 {
		s.write(out)
	}
	if !last {
		s.flush()
	}
}

func (s *streaming) compress(part []byte, last bool) (n int, err error) {
	encoder, make := s.own, s.stream.Part
	if encoder == nil {
		lent, err := s.encoders.get()
		if err != nil {
			return 0, fmt.Errorf("compress a part: %w", err)
		}
		defer s.encoders.put(lent)
		encoder, make = lent, s.stream.LonePart
	}
	s.cpu += meter.ThreadCPU(func() { n, err = make(encoder, s.out.b, part, last) })
	if err != nil {
		return 0, fmt.Errorf("compress a part: %w", err)
	}
	if s.path, s.reason = pathOf(s.encoders, encoder, s.reason); len(part) == 0 &&
		s.encoders.engine.Class() == codec.Hardware {
		s.path, s.reason = meter.Hardware, s.d.Reason // there was nothing to use it for
	}
	return n, nil
}

// count counts the body.
func (s *streaming) count() {
	o := outcome{
		body: true,
		meter: meter.Outcome{
			Path: meter.Stored, Reason: s.reason, PlainBytes: int(s.plain), WireBytes: int(s.wire), CPU: s.cpu,
		},
	}
	if s.stream != nil {
		o.coding, o.engine, o.meter.Path = s.coding, s.encoders.engine.Name(), s.path
	}
	s.server.stats.add(o)
}
