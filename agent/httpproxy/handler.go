// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lighterage/lighterage/agent/httpproxy/backend"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
)

// exchange is one request and what becomes of it.
type exchange struct {
	server     *Server
	generation *generation
	w          http.ResponseWriter
	r          *http.Request
	// conn is the client's on HTTP/1, where it serves one request at a time; else nil.
	conn *conn
	from peer

	prefers preference
	sent    negotiate.Sent
}

// ServeHTTP implements http.Handler.
func (g *generation) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.server.stats.begun.Add(1)
	defer g.server.stats.ended.Add(1)
	x := &exchange{server: g.server, generation: g, w: w, r: r}
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		if before := c.requests.Add(1) - 1; before > 0 {
			g.server.stats.reused.Add(1)
			c.link.look(before, false)
		}
		if x.from = c.from; r.ProtoMajor == 1 {
			x.conn = c
		}
	}
	switch {
	case r.Method == http.MethodConnect, r.Method == http.MethodTrace:
		// CONNECT would open a tunnel to a server of the client's choice, and TRACE would
		// show the client the fields that were added. The only tunnel is WebSocket, to the
		// backend (see wantsWebSocket).
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		x.refuse(http.StatusMethodNotAllowed, "This method is not passed on.")
		return
	case !sendable(r.RequestURI):
		x.refuse(http.StatusBadRequest,
			"The request's path or query contains a blank or a control character: percent-encode it.")
		return
	case g.unhealthy():
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(g.health.options.Interval.Seconds()))))
		x.refuse(http.StatusServiceUnavailable, "The backend does not pass its health check.")
		return
	}
	if len(g.offered) > 0 {
		accepted := negotiate.Parse(r.Header["Accept-Encoding"])
		c, acceptable := accepted.Choose(g.offered)
		if !acceptable {
			x.refuse(http.StatusNotAcceptable, "Accept-Encoding refuses everything that this server can send.")
			return
		}
		x.prefers = preference{accepted: accepted, coding: c, forced: !accepted.Accepts(negotiate.Identity)}
	}
	x.forward() //nolint:contextcheck // It has the request's.
}

// sendable reports whether a request target can be written into a request line of HTTP/1.
// HTTP/2 carries the target in a field of its own, where a blank does not end it; for a
// backend that reads it from a line, what follows the blank would be the protocol version.
func sendable(target string) bool {
	return !strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

func (g *generation) unhealthy() bool {
	h := g.health.get()
	return h.Checked && !h.Healthy
}

// forward asks the backend and sends what it answers.
func (x *exchange) forward() {
	out := x.outgoing()
	if out.Body != nil {
		// Nothing may read the body when the handler has returned.
		defer out.Body.Close()
	}
	inform := informer{w: x.w}
	res, err := x.generation.backend.Do(out, inform.inform)
	inform.stop()
	if err != nil {
		x.fail(err)
		return
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusSwitchingProtocols {
		x.switchProtocols(out, res)
		return
	}
	if res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone {
		x.server.stats.urlErrors.Add(1)
	}
	removeHopByHop(res.Header)
	if len(x.generation.offered) > 0 {
		vary(res.Header)
	}
	x.respond(res)
}

// fail answers a request for which there is no answer of the backend.
func (x *exchange) fail(err error) {
	switch {
	case x.r.Context().Err() != nil:
		// The client has gone. Whether anything of an answer would still reach it is not
		// known, so the connection is cut.
		panic(http.ErrAbortHandler)
	case errors.Is(err, backend.ErrTimeout):
		x.server.stats.timedOut.Add(1)
		x.log(err)
		x.refuse(http.StatusGatewayTimeout, "The backend did not answer in time.")
	default:
		x.log(err)
		x.refuse(http.StatusBadGateway, "The backend could not be reached, or its answer could not be read.")
	}
}

// log notes what is the backend's fault. The health check says it where it lasts.
func (x *exchange) log(err error) {
	x.server.failures.note(x.server.log.Warn, "Backend did not answer", "error", err.Error())
}

// refuse answers in the proxy's own name.
func (x *exchange) refuse(status int, message string) {
	h := x.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	vary(h)
	h.Set("Content-Length", strconv.Itoa(len(message)+1))
	x.writeHeader(status)
	_, _ = x.w.Write([]byte(message + "\n")) // the client may have gone
	x.server.stats.add(outcome{})
}

// vary says that the answer depends on Accept-Encoding, if that was not said.
func vary(h http.Header) {
	if fields := h["Vary"]; !negotiate.Directive(fields, "Accept-Encoding") && !negotiate.Directive(fields, "*") {
		h["Vary"] = append(slices.Clip(fields), "Accept-Encoding")
	}
}

// informer passes on responses with status 1xx until the answer is there.
type informer struct {
	w  http.ResponseWriter
	mu sync.Mutex
	// stopped keeps a late one from writing where the handler writes.
	stopped bool
}

func (i *informer) inform(code int, header http.Header) error {
	if code == http.StatusContinue {
		return nil // sent when the body is read
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return nil
	}
	removeHopByHop(header)
	h := i.w.Header()
	for k, v := range header {
		h[k] = v
	}
	i.w.WriteHeader(code)
	clear(h)
	return nil
}

func (i *informer) stop() {
	i.mu.Lock()
	i.stopped = true
	i.mu.Unlock()
}
