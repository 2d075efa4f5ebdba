// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/lighterage/lighterage/agent/longpath"
)

const (
	// maxAnswer bounds what is read of an answer that is not an object: a list of 1,000 keys of MaxKey bytes, written
	// as in URLs, has less.
	maxAnswer = 8 << 20
	maxHeader = 64 << 10

	dialTimeout = 10 * time.Second
	// idleTimeout bounds how long a connection may carry nothing in both directions. Servers may take minutes to
	// complete an upload.
	idleTimeout = 2 * time.Minute

	// maxIdle is how many connections are kept between requests.
	maxIdle = 32
	// writeBuffer takes the header and the body of a small object, which are sent at once then.
	writeBuffer = 32 << 10
)

// errTooLong says that a server does not end its answer.
var errTooLong = fmt.Errorf("the answer has more than %d bytes", maxAnswer)

// call is what is seen of the requests of one try, beside what the client library says of it.
type call struct {
	// object: the body of an answer is that of an object.
	object bool
	// network is why a request had no answer, or an answer no end.
	network error
	// status and headers of the last answer; 0: there was none.
	status int
	header http.Header
	// requests since something was got from a list.
	requests int
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// transport is the network with bounds. It does not use a proxy: the guard of addresses must see the server's.
type transport struct {
	inner   *http.Transport
	counter *Counter // nil: nobody counts
}

func newTransport(o Options, config *tls.Config) *transport {
	return &transport{counter: o.Counter, inner: &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			conn, err := o.Dial(ctx, address)
			if err != nil {
				return nil, err
			}
			longpath.Adapt(conn)
			return &idleConn{conn}, nil
		},
		TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout, DisableCompression: true,
		MaxResponseHeaderBytes: maxHeader, ResponseHeaderTimeout: idleTimeout,
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute, WriteBufferSize: writeBuffer,
	}}
}

func (t *transport) close() { t.inner.CloseIdleConnections() }

// errNoProgress says that a server answers lists for ever.
var errNoProgress = errors.New("the server goes on with a list and adds nothing to it")

// maxEmptyPages is how many pages of a list may have nothing that was asked for.
const maxEmptyPages = 64

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	c, _ := request.Context().Value(callKey{}).(*call)
	if c == nil {
		c = &call{}
	}
	c.status, c.header = 0, nil
	if c.requests++; c.requests > maxEmptyPages {
		c.network = errNoProgress
		return nil, errNoProgress
	}
	request, err := inMemory(request)
	if err != nil {
		c.network = err
		return nil, err
	}
	t.counter.request(request)
	response, err := t.inner.RoundTrip(request)
	if err != nil {
		c.network = err
		return nil, err
	}
	t.counter.answer(response)
	c.network, c.status, c.header = nil, response.StatusCode, response.Header
	if !c.object || response.StatusCode >= http.StatusMultipleChoices {
		response.Body = &boundedBody{body: response.Body, left: maxAnswer, call: c}
	}
	return response, nil
}

// inMemory has a request with a small body carry it in memory. Of other bodies it is not known how soon they can be
// read, so that the header would be sent before in a record and a packet of its own.
func inMemory(request *http.Request) (*http.Request, error) {
	if request.Body == nil || request.ContentLength <= 0 || request.ContentLength > writeBuffer {
		return request, nil
	}
	content := make([]byte, request.ContentLength)
	_, err := io.ReadFull(request.Body, content)
	if err := errors.Join(err, request.Body.Close()); err != nil {
		return nil, err
	}
	changed := *request
	changed.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	changed.Body, err = changed.GetBody()
	return &changed, err
}

// boundedBody is an answer that may not be longer than it has left.
type boundedBody struct {
	body io.ReadCloser
	left int64
	call *call
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.call.network = errTooLong
		return 0, errTooLong
	}
	n, err := b.body.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.call.network = err
	}
	return n, err
}

func (b *boundedBody) Close() error { return b.body.Close() }

// idleConn is a connection that fails when nothing crosses it for idleTimeout. Writing keeps the reader of the answer
// waiting.
type idleConn struct{ net.Conn }

func (c *idleConn) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(idleTimeout)) // a closed connection says so when it is read
	return c.Conn.Read(p)
}

func (c *idleConn) Write(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(idleTimeout))
	return c.Conn.Write(p)
}
