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

// sendWhole reads a body of known length and sends it in one piece. Until it is there
// nothing was sent, so a backend that breaks off gives the client an error and not a
// half answer.
func (x *exchange) sendWhole(res *http.Response, p plan) {
	size := int(res.ContentLength)
	in := x.server.buffers.get(size)
	if in == nil {
		x.passForNow(res, p, Busy)
		return
	}
	body := in.b[:size]
	if _, err := io.ReadFull(res.Body, body); err != nil {
		x.server.buffers.put(in)
		x.fail(fmt.Errorf("read %d bytes of the backend's answer: %w", size, err))
		return
	}
	x.sendOnePiece(res, p, body, in)
}

// sendOnePiece compresses a body that is here, if that is planned, and sends it. It gives back the buffer that holds
// the body, which is nil if somebody else does, as soon as that is not needed.
func (x *exchange) sendOnePiece(res *http.Response, p plan, body []byte, in *buffer) {
	o := stored(len(body), p.decision.Reason)
	o.drawn = x.draw(p, body)
	if p.way == inOnePiece {
		begun := time.Now()
		out := x.compress(p, body, &o)
		o.elapsed = time.Since(begun)
		if out != nil {
			x.server.buffers.put(in)
			body, in = out.b[:o.meter.WireBytes], out
		}
	}
	defer x.server.buffers.put(in)
	x.learn(p, &o)
	if o.meter.Reason == Busy && p.refusable {
		x.retryLater()
		return
	}
	x.sendHeld(res, o, body)
}

// compress looks at a sample if the plan wants one, and compresses a body. It returns the buffer that begins with the
// result, or nil if the body is sent as it is, and notes in the outcome which, and why. What it takes is taken when its
// turn has come: many may wait for theirs.
func (x *exchange) compress(p plan, body []byte, o *outcome) *buffer {
	encoders := x.generation.encodersOf(p.decision.Codec, p.decision.Class)
	encoder, err := encoders.get()
	if err != nil {
		x.server.engineFailed(encoders, err)
		o.meter.Reason = EngineFailed
		return nil
	}
	defer encoders.put(encoder)
	padding := randomPadding(x.generation.settings.Padding)
	// What would not shrink need not fit, unless it must not be sent as it is.
	space := max(len(body)-1, 0) + padding
	if p.forced {
		space = coding.Bound(len(body), padding)
	}
	out := x.server.buffers.get(max(space, len(body)))
	if out == nil {
		o.meter.Reason = Busy
		return nil
	}
	n := 0
	expected := estimate.Prediction{Worth: true}
	judged := p.decision.NeedsSample && estimate.Judged(len(body))
	if judged {
		o.meter.Estimate.CPU = meter.ThreadCPU(func() {
			expected, err = estimate.Predict(body, out.b[:len(body)], encoder)
		})
		o.meter.CPU = o.meter.Estimate.CPU
	}
	if err == nil && expected.Worth {
		o.meter.CPU += meter.ThreadCPU(func() {
			n, err = coding.Whole(encoder, p.coding, out.b[:space], body, padding)
		})
	}
	switch {
	case errors.Is(err, codec.ErrDoesNotFit):
		o.engine, o.meter.Reason = encoders.engine.Name(), policy.DidNotShrink
		if judged {
			o.meter.Estimate.Found(len(body), expected.Size, len(body))
		}
	case err != nil:
		x.server.engineFailed(encoders, err)
		o.meter.Reason = EngineFailed
	case !expected.Worth:
		o.meter.Reason = policy.Incompressible
	default:
		o.coding, o.engine, o.meter.WireBytes = p.coding, encoders.engine.Name(), n
		o.meter.Path, o.meter.Reason = pathOf(encoders, encoder, p.decision.Reason)
		o.meter.Use = use(p, encoders)
		if judged {
			o.meter.Estimate.Found(len(body), expected.Size, n)
		}
		return out
	}
	x.server.buffers.put(out)
	return nil
}

// use is what compresses by a plan.
func use(p plan, encoders *encoders) meter.Use {
	return meter.Use{Codec: p.decision.Codec, Engine: encoders.engine.Name(), Level: p.decision.Level}
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

// randomPadding returns a random length up to a limit.
func randomPadding(limit int) int {
	if limit == 0 {
		return 0
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return int(binary.LittleEndian.Uint64(b[:]) % uint64(limit+1))
}
