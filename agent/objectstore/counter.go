// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"io"
	"net/http"
	"sync/atomic"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Counter counts what was asked of stores, by what providers charge for: requests that write or list, those that read,
// and bytes of bodies. It does not count requests that delete, which are free. The zero value is ready; it is safe for
// concurrent use.
type Counter struct{ writes, reads, sent, received atomic.Uint64 }

// Wire is what was counted; nil before the first request.
func (c *Counter) Wire() *wirev1.StoreTraffic {
	t := &wirev1.StoreTraffic{
		WriteRequests: c.writes.Load(), ReadRequests: c.reads.Load(), SentBytes: c.sent.Load(),
		ReceivedBytes: c.received.Load(),
	}
	if t.GetWriteRequests() == 0 && t.GetReadRequests() == 0 {
		return nil
	}
	return t
}

// Reset has all begin again.
func (c *Counter) Reset() {
	for _, one := range []*atomic.Uint64{&c.writes, &c.reads, &c.sent, &c.received} {
		one.Store(0)
	}
}

// request counts one that is about to be sent. Its body counts as a whole.
func (c *Counter) request(r *http.Request) {
	if c == nil {
		return
	}
	switch {
	case r.Method == http.MethodDelete:
	case r.Method == http.MethodPut, r.Method == http.MethodPost, lists(r):
		c.writes.Add(1)
	default:
		c.reads.Add(1)
	}
	if r.ContentLength > 0 {
		c.sent.Add(uint64(r.ContentLength))
	}
}

// answer counts the body of one.
func (c *Counter) answer(r *http.Response) {
	if c != nil {
		r.Body = &receivedBody{r.Body, &c.received}
	}
}

// lists reports whether a request is for a list of objects, uploads or parts.
func lists(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	q := r.URL.Query()
	return q.Has("list-type") || q.Has("uploads") || q.Has("uploadId")
}

type receivedBody struct {
	io.ReadCloser
	bytes *atomic.Uint64
}

func (b *receivedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.Add(uint64(n))
	return n, err
}
