// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backend sends requests to the server behind a proxy, over HTTP/1.1 and
// connections that are used again.
//
// Requests without a body and without TLS, which are nearly all of those whose answers are worth
// compressing, are sent and answered on the goroutine that asks. That takes about half
// the CPU time of http.Transport, which has two goroutines for every connection. All
// others, and upgrades, go through http.Transport, which can send a body and read the
// answer to it at once. docs/decisions/028-http-data-path.md has the measurements.
package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/transport"
)

// Options of a Backend. Times of 0 take the default. HeaderTimeout and BodyTimeout end up to an eighth of them late,
// and no more than a second.
type Options struct {
	// Address is the host and port.
	Address string
	// DialTimeout bounds connecting. Default 5 s.
	DialTimeout time.Duration
	// HeaderTimeout bounds the time from the request's last byte to the end of the
	// answer's header. Default 60 s.
	HeaderTimeout time.Duration
	// BodyTimeout bounds how long a body of known length may stand still. Default 60 s.
	// One of unknown length, which may be a stream of events, may stand still for ever.
	BodyTimeout time.Duration
	// IdleTimeout is after what time an unused connection is closed. It should be
	// shorter than the backend's own. Default 30 s.
	IdleTimeout time.Duration
	// TLS to speak to the backend; nil: none.
	TLS *tls.Config
	// Egress dials. nil: one that permits neither loopback nor what is link-local.
	Egress *egress.Guard
	// Counter counts the bytes of connections; it may be nil.
	Counter *transport.Counter
	// MaxIdle bounds the unused connections that are kept. Default 256.
	MaxIdle int
	// MaxHeaderBytes bounds the header of an answer. Default 256 KiB.
	MaxHeaderBytes int
}

func (o *Options) setDefaults() {
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{
		{&o.DialTimeout, 5 * time.Second}, {&o.HeaderTimeout, time.Minute},
		{&o.BodyTimeout, time.Minute}, {&o.IdleTimeout, 30 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if o.Egress == nil {
		o.Egress = egress.NewGuard(egress.Policy{})
	}
	if o.MaxIdle == 0 {
		o.MaxIdle = 256
	}
	if o.MaxHeaderBytes == 0 {
		o.MaxHeaderBytes = 256 << 10
	}
}

// Backend sends requests to one server. It is safe for concurrent use.
type Backend struct {
	options Options
	general *http.Transport

	mu     sync.Mutex
	idle   []*conn // the one that was used last comes last
	closed bool
	timer  *time.Timer // closes what is unused for too long; nil when nothing is idle
}

// New returns a backend to which nobody has connected yet.
func New(o Options) *Backend {
	o.setDefaults()
	b := &Backend{options: o}
	b.general = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return b.connect(ctx)
		},
		TLSClientConfig:        o.TLS,
		TLSHandshakeTimeout:    o.DialTimeout,
		DisableCompression:     true,
		MaxIdleConns:           o.MaxIdle,
		MaxIdleConnsPerHost:    o.MaxIdle,
		IdleConnTimeout:        o.IdleTimeout,
		ResponseHeaderTimeout:  o.HeaderTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: int64(o.MaxHeaderBytes),
	}
	return b
}

var (
	// ErrTimeout says that the backend did not answer in time.
	ErrTimeout = errors.New("the backend did not answer in time")
	// ErrHeaderTooLong says that an answer's header is longer than MaxHeaderBytes.
	ErrHeaderTooLong = errors.New("the header of the backend's answer is too long")

	errInformations = errors.New("the backend sent too many informational responses")
	errStatus       = errors.New("the backend's answer has a status below 100, which is none")
	errUpgrade      = errors.New("the backend switched protocols without having been asked")
)

// Informational is told of responses with status 1xx that come before the answer.
// A nil one ignores them.
type Informational func(code int, header http.Header) error

// Do sends a request whose URL has a scheme, http or https as the options say, and a
// host, and returns the answer, whose body must be closed. A request that did not reach the backend because a
// connection had been closed is sent again if it has no body. Errors match ErrTimeout
// if the backend took too long, and the context's when that has ended.
func (b *Backend) Do(req *http.Request, inform Informational) (*http.Response, error) {
	if b.options.TLS == nil && simple(req) {
		return b.simple(req, inform)
	}
	if inform != nil {
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			return inform(code, http.Header(header))
		}}
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
	}
	res, err := b.general.RoundTrip(req)
	if err != nil {
		return nil, timeout(err)
	}
	if res.StatusCode < 100 {
		res.Body.Close()
		return nil, errStatus
	}
	return res, nil
}

// connect opens a connection, without TLS.
func (b *Backend) connect(ctx context.Context) (net.Conn, error) {
	c, err := b.options.Egress.Dial(ctx, b.options.DialTimeout, b.options.Address)
	if err != nil {
		return nil, fmt.Errorf("connect to the backend: %w", err)
	}
	return b.options.Counter.Count(c), nil
}

// simple reports whether a request has nothing to send after its header, and may be
// sent twice.
func simple(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		return false
	}
	return (req.Body == nil || req.Body == http.NoBody) && req.ContentLength == 0 && len(req.TransferEncoding) == 0 &&
		len(req.Trailer) == 0 && req.Header["Upgrade"] == nil && req.Header["Expect"] == nil
}

// timeout makes an error match ErrTimeout if that is what it is.
func timeout(err error) error {
	var t interface{ Timeout() bool }
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &t) && t.Timeout() {
		return errors.Join(ErrTimeout, err)
	}
	return err
}

// Close closes unused connections, and those in use when they become so or soon after.
func (b *Backend) Close() {
	b.mu.Lock()
	b.closed = true
	idle := b.idle
	b.idle = nil
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	b.mu.Unlock()
	for _, c := range idle {
		c.Close()
	}
	b.general.CloseIdleConnections()
}

// get returns an unused connection that is alive, or nil.
func (b *Backend) get() *conn {
	for {
		b.mu.Lock()
		if len(b.idle) == 0 {
			b.mu.Unlock()
			return nil
		}
		c := b.idle[len(b.idle)-1]
		b.idle = b.idle[:len(b.idle)-1]
		b.mu.Unlock()
		// A deadline that has passed since it was used would end the look at it.
		if c.wait(b.options.HeaderTimeout) == nil && c.alive() {
			return c
		}
		c.Close()
	}
}

// put keeps a connection for the next request.
func (b *Backend) put(c *conn) {
	c.since = time.Now()
	var old *conn
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		c.Close()
		return
	}
	if len(b.idle) == b.options.MaxIdle {
		old = b.idle[0]
		b.idle = append(b.idle[:0], b.idle[1:]...)
	}
	b.idle = append(b.idle, c)
	if b.timer == nil {
		b.timer = time.AfterFunc(b.options.IdleTimeout, b.expire)
	}
	b.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// expire closes the connections that nobody has used for too long.
func (b *Backend) expire() {
	b.mu.Lock()
	n := 0
	for n < len(b.idle) && time.Since(b.idle[n].since) >= b.options.IdleTimeout {
		n++
	}
	old := append([]*conn(nil), b.idle[:n]...)
	b.idle = append(b.idle[:0], b.idle[n:]...)
	switch {
	case b.closed || len(b.idle) == 0:
		b.timer = nil
	default:
		b.timer = time.AfterFunc(b.options.IdleTimeout-time.Since(b.idle[0].since), b.expire)
	}
	b.mu.Unlock()
	for _, c := range old {
		c.Close()
	}
}
