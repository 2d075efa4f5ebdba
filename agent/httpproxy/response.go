// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
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

// send sends what the backend answered.
func (x *exchange) send(res *http.Response) {
	if !hasBody(x.r.Method, res.StatusCode) {
		x.sendHeader(res)
		return
	}
	x.sample(res)
	reason := x.skip(res)
	if reason != "" {
		x.pass(res, reason)
		return
	}
	// What is known so far may be enough to leave it alone.
	if size := res.ContentLength; size >= 0 {
		if d := x.decide(x.coding, size, x.forced); d.Class == codec.NoClass {
			x.pass(res, d.Reason)
			return
		}
	}
	if reason := x.governor.admit(); reason != "" {
		x.passForNow(res, reason)
		return
	}
	defer x.governor.done()
	if size := res.ContentLength; size >= 0 && size <= maxWhole {
		x.readWhole(res, int(size))
		return
	}
	x.stream(res)
}

// skip returns why a body is not compressed whatever its length and content, or "".
func (x *exchange) skip(res *http.Response) policy.Reason {
	if len(x.offered) == 0 {
		if x.settings.Policy.SoftwareDisabled && x.settings.Policy.Mode != policy.Never && len(x.settings.Codings) > 0 {
			return policy.SoftwareDisabled
		}
		return policy.PolicyNever
	}
	if reason := untouchable(x.r.Header, res.StatusCode, res.Header); reason != "" {
		return reason
	}
	switch {
	case x.coding == negotiate.Identity:
		return policy.PeerRefused
	case !x.settings.SparesCrossSiteCookies || !setsCrossSiteCookie(x.r.Header, res.Header):
	default:
		return CrossSiteCookie
	}
	if !x.forced && !x.types.Match(res.Header.Get("Content-Type")) {
		return OtherContentType
	}
	return ""
}

// sendHeader sends an answer that has no body. That to HEAD is as that to GET would be,
// as far as is known without the body.
func (x *exchange) sendHeader(res *http.Response) {
	h := res.Header
	switch {
	case res.StatusCode == http.StatusNotModified:
		if tag := h.Get("ETag"); tag != "" {
			h.Set("ETag", x.sent.TagOf(tag, x.coding))
		}
	case x.r.Method == http.MethodHead && hasBody(http.MethodGet, res.StatusCode) && x.skip(res) == "":
		size := res.ContentLength
		if size < 0 {
			size = unknownSize
		}
		if d := x.decide(x.coding, size, x.forced); d.Class != codec.NoClass {
			transformed(h, x.coding)
		}
	}
	x.copyHeader(res)
	x.writeHeader(res.StatusCode)
	x.server.stats.add(outcome{meter: meter.Outcome{Path: meter.Stored}})
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

// copyHeader puts the header of an answer where it is sent from.
func (x *exchange) copyHeader(res *http.Response) {
	h := x.w.Header()
	for k, v := range res.Header {
		h[k] = v
	}
	for name := range res.Trailer {
		h["Trailer"] = append(h["Trailer"], name)
	}
}

// explain says in the header what was done, if that is wanted.
func (x *exchange) explain(h http.Header, engine string, reason policy.Reason) {
	if x.settings.Explain {
		h["Lighterage-Compression"] = []string{engineAndReason(engine, reason)}
	}
}

// pass sends a body as it is, as it arrives. When the client refuses that, and asking
// changed nothing, it is told so instead.
func (x *exchange) pass(res *http.Response, reason policy.Reason) {
	if x.forced && reason == CrossSiteCookie && x.repeatable() {
		x.refuse(
			http.StatusNotAcceptable,
			"Accept-Encoding refuses this response as it is, and it is not compressed because it sets a cookie across sites.",
		)
		return
	}
	x.explain(res.Header, "", reason)
	x.copyHeader(res)
	x.writeHeader(res.StatusCode)
	n := x.copyBody(res.Body, res.ContentLength)
	x.trailers(res)
	x.stored(n, reason)
}

// passForNow is pass for what could be compressed later: a client that refuses a body as
// it is is asked to try again.
func (x *exchange) passForNow(res *http.Response, reason policy.Reason) {
	if x.forced && x.repeatable() {
		x.retryLater()
		return
	}
	x.pass(res, reason)
}

// repeatable reports whether asking changed nothing at the backend, so that the client may
// be told to ask again. The answer to any other request is sent even where the client
// refuses its coding: it must learn what became of the request.
func (x *exchange) repeatable() bool {
	return x.r.Method == http.MethodGet || x.r.Method == http.MethodHead
}

// retryLater tells the client that compression is at its limit.
func (x *exchange) retryLater() {
	x.w.Header().Set("Retry-After", "1")
	x.refuse(http.StatusServiceUnavailable,
		"Compression is at its limit, and Accept-Encoding refuses a response that is not compressed.")
}

// copyBody sends a body of a length, or of an unknown one when that is negative, and
// returns how long it was. What is there of the latter is sent before more is waited for.
func (x *exchange) copyBody(body io.Reader, length int64) int64 {
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
	if err := x.tryWrite(p); err != nil {
		panic(http.ErrAbortHandler)
	}
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
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(x.settings.Limits.StallTimeout))
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

// trailers sends the fields that follow a body.
func (x *exchange) trailers(res *http.Response) {
	h := x.w.Header()
	for name, values := range res.Trailer {
		h[http.TrailerPrefix+name] = values
	}
}

// setLength says how long a body is, unless fields follow it, for which HTTP/1 needs a
// body without a length.
func (x *exchange) setLength(res *http.Response, n int) {
	if len(res.Trailer) > 0 {
		delete(res.Header, "Content-Length")
		return
	}
	res.Header["Content-Length"] = []string{strconv.Itoa(n)}
}
