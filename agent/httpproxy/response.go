// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

const (
	// maxWhole is the length up to which a body is held and compressed in one piece, in
	// bytes.
	maxWhole = 256 << 10
	// copySize is how much of a body that is passed on is held, in bytes.
	copySize = 64 << 10
)

// respond sends what the backend answered: the plan says how, the rest of this file sends header, body and trailers.
func (x *exchange) respond(res *http.Response) {
	p := x.generation.plan(x.r, x.prefers, res)
	switch p.way {
	case noBody:
		x.sendNoBody(res, x.foresee(p, res))
		return
	case inOnePiece, inParts:
		p = x.judge(p, res, res.ContentLength)
	}
	if c := x.server.collecting.Load(); c != nil {
		defer x.sample(res, c).end(false) // unless it was read to its end
	}
	switch p.way {
	case notAcceptable:
		x.refuse(http.StatusNotAcceptable,
			"Accept-Encoding refuses this response as it is, and it is not compressed because it sets a cookie across sites.")
		return
	case asItIs:
		x.passJudged(res, p)
		return
	}
	if reason := x.generation.governor.admit(); reason != "" {
		x.passForNow(res, p, reason)
		return
	}
	defer x.generation.governor.done()
	p = x.generation.share(p, res.ContentLength)
	if p.way == inOnePiece {
		x.sendWhole(res, p)
		return
	}
	x.stream(res, p)
}

// sendNoBody sends an answer that has no body.
func (x *exchange) sendNoBody(res *http.Response, p plan) {
	if tag := res.Header.Get("ETag"); tag != "" && res.StatusCode == http.StatusNotModified {
		res.Header.Set("ETag", x.sent.TagOf(tag, x.prefers.coding))
	}
	x.sendHeader(res, &outcome{coding: p.coding}, -1)
	x.server.stats.add(outcome{})
}

// pass sends a body as it is, as it arrives.
func (x *exchange) pass(res *http.Response, reason policy.Reason) {
	x.passJudged(res, plan{decision: policy.Decision{Reason: reason}})
}

// passJudged is pass for a body about whose class there may have been something to decide.
func (x *exchange) passJudged(res *http.Response, p plan) {
	o := stored(0, p.decision.Reason)
	x.sendHeader(res, &o, -1)
	n := int(x.copyBody(res.Body, res.ContentLength, func(part []byte) { o.drawn = x.draw(p, part) }))
	x.sendTrailers(res)
	o.meter.PlainBytes, o.meter.WireBytes = n, n
	x.learn(p, &o)
	x.server.stats.add(o)
}

// passForNow is pass for what could be compressed later: a client that refuses a body as
// it is is asked to try again.
func (x *exchange) passForNow(res *http.Response, p plan, reason policy.Reason) {
	if p.refusable {
		x.retryLater()
		return
	}
	x.pass(res, reason)
}

// retryLater tells the client that compression is at its limit.
func (x *exchange) retryLater() {
	x.w.Header().Set("Retry-After", "1")
	x.refuse(http.StatusServiceUnavailable,
		"Compression is at its limit, and Accept-Encoding refuses a response that is not compressed.")
}

// sendHeld sends a body that is here, as its outcome says.
func (x *exchange) sendHeld(res *http.Response, o outcome, body []byte) {
	x.server.stats.add(o) // first: who has the whole answer finds it counted
	x.sendHeader(res, &o, len(body))
	x.write(body)
	x.sendTrailers(res)
}

// sendHeader sends the header of an answer with an outcome. A length that is not negative replaces the backend's.
func (x *exchange) sendHeader(res *http.Response, o *outcome, length int) {
	h := res.Header
	if o.coding != negotiate.Identity {
		transformed(h, o.coding)
	}
	switch {
	case length < 0:
	case len(res.Trailer) > 0: // HTTP/1 needs a body without a length before them
		delete(h, "Content-Length")
	default:
		h["Content-Length"] = []string{strconv.Itoa(length)}
	}
	if o.body && x.generation.settings.Explain {
		h["Lighterage-Compression"] = []string{engineAndReason(o.engine, o.meter.Reason)}
	}
	to := x.w.Header()
	for k, v := range h {
		to[k] = v
	}
	for name := range res.Trailer {
		to["Trailer"] = append(to["Trailer"], name)
	}
	x.writeHeader(res.StatusCode)
}

// writeHeader sends the header of the answer. While the server drains, it asks the
// client to go elsewhere with its next request.
func (x *exchange) writeHeader(status int) {
	if x.server.draining.Load() {
		x.w.Header().Set("Connection", "close")
	}
	x.w.WriteHeader(status)
}

// transformed makes a header that of the body in a coding.
func transformed(h http.Header, c negotiate.Coding) {
	h["Content-Encoding"] = []string{c.String()}
	if tag := h.Get("ETag"); tag != "" {
		h.Set("ETag", negotiate.Tag(tag, c))
	}
	// What says something of the bytes is not true any more. Ranges are of the plain
	// body, and who has a part of the coded one must not join it with them.
	for _, name := range []string{
		"Content-Length", "Accept-Ranges", "Content-Md5", "Content-Digest", "Repr-Digest", "Digest",
	} {
		delete(h, name)
	}
}

// copyBody sends a body of a length, or of an unknown one when that is negative, and
// returns how long it was. What is there of the latter is sent before more is waited for. first is shown the first part.
func (x *exchange) copyBody(body io.Reader, length int64, first func(part []byte)) int64 {
	size := copySize
	if length >= 0 {
		size = int(min(length, copySize))
	}
	held := x.server.buffers.get(size)
	if held == nil {
		held = &buffer{b: make([]byte, 4<<10)}
	} else {
		defer x.server.buffers.put(held)
	}
	var total int64
	flush := length < 0
	if flush {
		x.flush() // the header, which may be all for a while
	}
	for {
		n, err := readReady(body, held.b, length >= 0)
		if n > 0 {
			if total == 0 {
				first(held.b[:n])
			}
			x.write(held.b[:n])
			total += int64(n)
			if flush {
				x.flush()
			}
		}
		if errors.Is(err, io.EOF) {
			return total
		}
		if err != nil {
			x.truncate(err)
		}
	}
}

// readReady reads once, and with all goes on as long as there is space and the next part
// has arrived: what is written at once costs the fewer calls of the system.
func readReady(body io.Reader, into []byte, all bool) (int, error) {
	n, err := body.Read(into)
	ready, ok := body.(interface{ Ready() bool })
	for all && ok && err == nil && n > 0 && n < len(into) && ready.Ready() {
		var more int
		more, err = body.Read(into[n:])
		n += more
	}
	return n, err
}

// write sends a part of a body, and on HTTP/1 what is held of the header with it. When
// the client has gone there is nothing left to do.
func (x *exchange) write(p []byte) {
	write := x.tryWrite
	if x.generation.settings.Policy.Mode == policy.Auto && x.server.classes.Measures() {
		write = x.measuredWrite
	}
	if err := write(p); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// measuredWrite is tryWrite that has classes learn what it takes.
func (x *exchange) measuredWrite(p []byte) error {
	var err error
	cpu := meter.ThreadCPU(func() { err = x.tryWrite(p) })
	x.server.classes.Sent(len(p), cpu)
	return err
}

func (x *exchange) tryWrite(p []byte) error {
	if x.conn != nil {
		return x.conn.corked(len(p), func() error {
			_, err := x.w.Write(p)
			x.flush()
			return err
		})
	}
	// On HTTP/1 the connection sees to it; here one stream of many may stand still.
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(x.generation.settings.Limits.StallTimeout))
	_, err := x.w.Write(p)
	return err
}

func (x *exchange) flush() {
	if f, ok := x.w.(http.Flusher); ok {
		f.Flush()
	}
}

// truncate ends an answer of which some was sent so that the client sees that the rest
// is missing.
func (x *exchange) truncate(err error) {
	if x.r.Context().Err() == nil {
		x.log(err)
	}
	panic(http.ErrAbortHandler)
}

// sendTrailers sends the fields that follow a body.
func (x *exchange) sendTrailers(res *http.Response) {
	h := x.w.Header()
	for name, values := range res.Trailer {
		h[http.TrailerPrefix+name] = values
	}
}
