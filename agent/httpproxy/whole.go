// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/estimate"
	"github.com/lighterage/lighterage/agent/httpproxy/coding"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// readWhole reads a body of known length and sends it in one piece. Until it is there
// nothing was sent, so a backend that breaks off gives the client an error and not a
// half answer.
func (x *exchange) readWhole(res *http.Response, size int) {
	in := x.server.buffers.get(size)
	if in == nil {
		x.passForNow(res, Busy)
		return
	}
	body := in.b[:size]
	if _, err := io.ReadFull(res.Body, body); err != nil {
		x.server.buffers.put(in)
		x.fail(fmt.Errorf("read %d bytes of the backend's answer: %w", size, err))
		return
	}
	x.sendWhole(res, body, in)
}

// sendWhole compresses a body that is here and sends it. It gives back the buffer that
// holds the body, which is nil if somebody else does, as soon as that is not needed.
func (x *exchange) sendWhole(res *http.Response, body []byte, in *buffer) {
	defer func() { x.server.buffers.put(in) }()
	d := x.decide(x.coding, int64(len(body)), x.forced)
	if d.Class == codec.NoClass {
		x.sendStored(res, body, "", d.Reason, 0)
		return
	}
	encoders := x.encodersOf(d.Codec, d.Class)
	p := compressed{n: -1, reason: d.Reason}
	p.run(x, encoders, d, body)
	defer x.server.buffers.put(p.out)
	switch {
	case p.n < 0 && p.reason == Busy && x.forced && x.repeatable():
		x.retryLater()
		return
	case p.n < 0:
		x.sendStored(res, body, encoders.engine.Name(), p.reason, p.cpu)
		return
	}
	engine, length := encoders.engine.Name(), len(body)
	x.server.buffers.put(in)
	in = nil
	transformed(res.Header, x.coding)
	x.setLength(res, p.n)
	x.explain(res.Header, engine, p.reason)
	x.copyHeader(res)
	// Who has the whole answer finds it counted.
	x.server.stats.add(outcome{coding: x.coding, engine: engine, body: true, meter: meter.Outcome{
		Path: p.path, Reason: p.reason, PlainBytes: length, WireBytes: p.n, CPU: p.cpu,
	}})
	x.writeHeader(res.StatusCode)
	x.write(p.out.b[:p.n])
	x.trailers(res)
}

// sendStored sends a body that is here as it is.
func (x *exchange) sendStored(res *http.Response, body []byte, tried string, reason policy.Reason, cpu time.Duration) {
	x.setLength(res, len(body))
	if !reason.Attempted() {
		tried = ""
	}
	x.explain(res.Header, tried, reason)
	x.copyHeader(res)
	x.server.stats.add(outcome{body: true, meter: meter.Outcome{
		Path: meter.Stored, Reason: reason, PlainBytes: len(body), WireBytes: len(body), CPU: cpu,
	}})
	x.writeHeader(res.StatusCode)
	x.write(body)
	x.trailers(res)
}

// compressed is what became of trying to compress a body.
type compressed struct {
	out    *buffer // holds it; to be given back
	n      int     // the length; negative: it is sent as it is, for the reason
	reason policy.Reason
	path   meter.Path
	cpu    time.Duration
}

// run looks at a sample if the decision wants one, and compresses. What it takes is taken
// when its turn has come: many may wait for theirs.
func (p *compressed) run(x *exchange, encoders *encoders, d policy.Decision, body []byte) {
	encoder, err := encoders.get()
	if err != nil {
		x.engineFailed(p, encoders, err)
		return
	}
	defer encoders.put(encoder)
	padding := x.padding()
	// What would not shrink need not fit, unless it must not be sent as it is.
	space := max(len(body)-1, 0) + padding
	if x.forced {
		space = coding.Bound(len(body), padding)
	}
	if p.out = x.server.buffers.get(max(space, len(body))); p.out == nil {
		p.reason = Busy
		return
	}
	out := p.out.b
	p.cpu = meter.ThreadCPU(func() {
		if d.NeedsSample && estimate.Judged(len(body)) {
			var expected estimate.Prediction
			if expected, err = estimate.Predict(body, out[:len(body)], encoder); err != nil {
				return
			}
			if !expected.Worth {
				p.reason = policy.Incompressible
				return
			}
		}
		p.n, err = coding.Whole(encoder, x.coding, out[:space], body, padding)
	})
	switch {
	case errors.Is(err, codec.ErrDoesNotFit):
		p.n, p.reason = -1, policy.DidNotShrink
	case err != nil:
		x.engineFailed(p, encoders, err)
	case p.n >= 0:
		p.path, p.reason = pathOf(encoders, encoder, d.Reason)
	}
}

func (x *exchange) engineFailed(p *compressed, encoders *encoders, err error) {
	p.n, p.reason = -1, EngineFailed
	x.server.engineFailed(encoders, err)
}

// engineFailed notes what must not happen, and may with every response.
func (s *Server) engineFailed(e *encoders, err error) {
	s.failures.note(s.log.Error, "Engine failed", "engine", e.engine.Name(), "error", err.Error())
}

// pathOf says what did the work of the last call. An engine that is allowed hardware
// does not always use it.
func pathOf(encoders *encoders, encoder codec.Encoder, reason policy.Reason) (meter.Path, policy.Reason) {
	if encoders.engine.Class() != codec.Hardware {
		return meter.Software, reason
	}
	if w, ok := encoder.(codec.Witness); ok && !w.UsedHardware() {
		return meter.Software, policy.SelfTestFailed
	}
	return meter.Hardware, reason
}

// padding returns a random length up to the one of the settings.
func (x *exchange) padding() int {
	if x.settings.Padding == 0 {
		return 0
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return int(binary.LittleEndian.Uint64(b[:]) % uint64(x.settings.Padding+1))
}
