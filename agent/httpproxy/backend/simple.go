// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// maxInformational bounds the responses with status 1xx before an answer.
const maxInformational = 5

// long ago, which as a deadline ends every read and write at once.
var longAgo = time.Unix(1, 0)

// simple sends a request without a body.
func (b *Backend) simple(req *http.Request, inform Informational) (*http.Response, error) {
	ctx := req.Context()
	for {
		c := b.get()
		used := c != nil
		if c == nil {
			var err error
			if c, err = b.dial(ctx); err != nil {
				if ctx.Err() != nil {
					return nil, fmt.Errorf("connect to the backend: %w", context.Cause(ctx))
				}
				return nil, timeout(err)
			}
		}
		// Whoever waits for the backend is woken when the client has gone.
		stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(longAgo) })
		res, answered, err := b.exchange(c, req, inform)
		if err == nil {
			b.attach(c, res, req, stop)
			return res, nil
		}
		stop()
		c.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("ask the backend: %w", context.Cause(ctx))
		}
		err = timeout(err)
		if !used || answered || errors.Is(err, ErrTimeout) {
			return nil, fmt.Errorf("ask the backend: %w", err)
		}
		// The backend closed a connection that it had kept while the request was on its
		// way. There may be more of those; the number of them bounds the loop.
	}
}

// exchange sends a request and reads the header of the answer. Answered says that some
// of it came, also when there is an error.
func (b *Backend) exchange(
	c *conn, req *http.Request, inform Informational,
) (res *http.Response, answered bool, err error) {
	// It also bounds sending a header that the backend does not read.
	if err := c.wait(b.options.HeaderTimeout); err != nil {
		return nil, false, err
	}
	if err := req.Context().Err(); err != nil {
		return nil, false, err // it may have ended before the deadline was set
	}
	if err := req.Write(c.w); err != nil {
		return nil, false, err
	}
	if err := c.w.Flush(); err != nil {
		return nil, false, err
	}
	c.limit = b.options.MaxHeaderBytes
	if _, err := c.r.Peek(1); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, false, err
	}
	for range maxInformational + 1 {
		res, err := http.ReadResponse(c.r, req)
		if err != nil {
			return nil, true, err
		}
		switch {
		case res.StatusCode < 100:
			return nil, true, errStatus
		case res.StatusCode == http.StatusSwitchingProtocols:
			return nil, true, errUpgrade
		case res.StatusCode >= 200:
			c.limit = -1
			return res, true, nil
		case inform != nil:
			if err := inform(res.StatusCode, res.Header); err != nil {
				return nil, true, err
			}
		}
	}
	return nil, true, errInformations
}

// attach gives the answer a body that returns the connection when it was read.
func (b *Backend) attach(c *conn, res *http.Response, req *http.Request, stop func() bool) {
	r := &body{Reader: res.Body, backend: b, conn: c, stop: stop, ctx: req.Context(), keep: !res.Close}
	if res.ContentLength > 0 {
		r.patience = b.options.BodyTimeout
	}
	if res.Body == http.NoBody {
		_ = r.end(nil) // the end of nothing is no error
		return
	}
	if r.patience == 0 {
		r.wait(c)
	}
	res.Body = r
}

// body is that of an answer. Close may be called while Read waits, as of any body.
type body struct {
	io.Reader
	backend  *Backend
	stop     func() bool
	ctx      context.Context
	keep     bool
	patience time.Duration // how long the backend may send nothing; 0: any time

	mu    sync.Mutex
	conn  *conn // nil at the end
	ended error
}

// wait is that of the connection, and does not undo the end of the context.
func (r *body) wait(c *conn) {
	_ = c.wait(r.patience)
	if r.ctx.Err() != nil {
		_ = c.SetDeadline(longAgo)
	}
}

// Read implements io.Reader.
func (r *body) Read(p []byte) (int, error) {
	r.mu.Lock()
	c, ended := r.conn, r.ended
	r.mu.Unlock()
	if c == nil {
		return 0, ended
	}
	if r.patience > 0 {
		r.wait(c)
	}
	n, err := r.Reader.Read(p)
	if err != nil {
		return n, r.end(err)
	}
	return n, nil
}

// Ready reports whether Read would return at once, as far as is known.
func (r *body) Ready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn == nil || r.conn.r.Buffered() > 0 || r.conn.arrived()
}

// end gives up the connection, to the others if it can be used again, and returns what
// Read says from now on.
func (r *body) end(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.conn
	if c == nil {
		return r.ended // closed meanwhile
	}
	r.conn = nil
	undisturbed := r.stop()
	switch {
	case err == nil || errors.Is(err, io.EOF):
		r.ended = io.EOF
		if r.keep && undisturbed && c.r.Buffered() == 0 {
			r.backend.put(c)
			return r.ended
		}
	case r.ctx.Err() != nil:
		r.ended = fmt.Errorf("read the backend's answer: %w", context.Cause(r.ctx))
	default:
		r.ended = fmt.Errorf("read the backend's answer: %w", timeout(err))
	}
	c.Close()
	return r.ended
}

// Close implements io.Closer. A body that was not read to its end costs the connection.
func (r *body) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		r.stop()
		r.conn.Close()
		r.conn = nil
		r.ended = errClosed
	}
	return nil
}

var errClosed = errors.New("the answer's body is closed")
