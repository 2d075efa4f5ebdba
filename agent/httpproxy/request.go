// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
)

// hopByHop are the fields that are about a connection and not about what travels on it.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
	"Http2-Settings",
}

// removeHopByHop removes them, and those that Connection names.
func removeHopByHop(h http.Header) {
	for _, field := range h["Connection"] {
		for name := range strings.SplitSeq(field, ",") {
			if name = strings.TrimSpace(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// outgoing returns the request for the backend. It shares what it does not change with
// the client's.
func (x *exchange) outgoing() *http.Request {
	in := x.r
	h := make(http.Header, len(in.Header)+6)
	for k, v := range in.Header {
		h[k] = v
	}
	webSocket := wantsWebSocket(in)
	trailers := negotiate.Directive(in.Header["Te"], "trailers")
	removeHopByHop(h)
	if webSocket {
		h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{webSocketProtocol}
	}
	if trailers {
		h["Te"] = []string{"trailers"}
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{""} // else the library names itself
	}
	x.forwarded(h)
	x.conditions(h)

	target := new(url.URL)
	*target = *in.URL
	target.Scheme, target.Host, target.User = "http", x.generation.settings.Backend, nil
	if x.generation.settings.BackendServerName != "" {
		target.Scheme = "https"
	}
	out := (&http.Request{
		Method: in.Method, URL: target, Host: in.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, ContentLength: in.ContentLength, Trailer: in.Trailer,
	}).WithContext(in.Context())
	if in.ContentLength != 0 && in.Body != nil && in.Body != http.NoBody {
		out.Body = &requestBody{
			body: in.Body, control: http.NewResponseController(x.w), stall: x.generation.settings.Limits.StallTimeout,
		}
	}
	return out
}

// conditions makes the fields about codings what the backend is to see: it is asked for
// what it has, since what it compressed itself could not be decided about here.
func (x *exchange) conditions(h http.Header) {
	if len(x.generation.offered) == 0 {
		return
	}
	h["Accept-Encoding"] = []string{negotiate.Identity.String()}
	if v, ok := h["If-Match"]; ok {
		h["If-Match"] = mapFields(v, negotiate.IfMatch)
	}
	if v, ok := h["If-None-Match"]; ok {
		h["If-None-Match"] = mapFields(v, func(field string) string {
			return negotiate.IfNoneMatch(field, x.prefers.accepted, &x.sent)
		})
	}
}

func mapFields(fields []string, f func(string) string) []string {
	out := make([]string, len(fields))
	for i, field := range fields {
		out[i] = f(field)
	}
	return out
}

// forwarded says who asks: X-Forwarded-For, -Host and -Proto, and Forwarded (RFC 7239).
func (x *exchange) forwarded(h http.Header) {
	scheme := "http"
	if x.r.TLS != nil {
		scheme = "https"
	}
	if !x.from.trusted {
		for _, name := range []string{
			"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Real-Ip", "Forwarded",
		} {
			delete(h, name)
		}
	}
	if x.from.address != "" {
		appendList(h, "X-Forwarded-For", x.from.address)
	}
	if h["X-Forwarded-Host"] == nil {
		h["X-Forwarded-Host"] = []string{x.r.Host}
	}
	if h["X-Forwarded-Proto"] == nil {
		h["X-Forwarded-Proto"] = []string{scheme}
	}
	appendList(h, "Forwarded", x.from.element(x.r.Host, scheme))
}

// appendList appends an element to a list field, which becomes one field.
func appendList(h http.Header, name, element string) {
	if before := h[name]; len(before) > 0 {
		element = strings.Join(before, ", ") + ", " + element
	}
	h[name] = []string{element}
}

// requestBody is a body that the client may not stop sending for too long.
type requestBody struct {
	body    io.Reader
	control *http.ResponseController
	stall   time.Duration
	set     time.Time

	reading, closed atomic.Bool
}

var errBodyClosed = errors.New("the body of the request is closed")

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	b.reading.Store(true)
	defer b.reading.Store(false)
	if b.closed.Load() {
		return 0, errBodyClosed
	}
	if now := time.Now(); now.Sub(b.set) > b.stall/8 {
		b.set = now
		if err := b.control.SetReadDeadline(now.Add(b.stall)); err != nil {
			return 0, err
		}
	}
	n, err := b.body.Read(p)
	if errors.Is(err, io.EOF) {
		// What follows is the next request, which has its own time.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// Close implements io.Closer. It ends a Read that waits. The client's own body is left to
// the server, which knows whether the client waits to be told to send it; closing that
// here would wait for what does not come.
func (b *requestBody) Close() error {
	b.closed.Store(true)
	if b.reading.Load() {
		_ = b.control.SetReadDeadline(time.Unix(1, 0))
	}
	return nil
}
