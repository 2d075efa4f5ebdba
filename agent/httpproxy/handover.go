// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"net"
	"sync"
)

// handover is a listener whose connections were accepted elsewhere.
type handover struct {
	conns  chan *conn
	closed chan struct{}
	once   *sync.Once
}

func newHandover() handover {
	return handover{conns: make(chan *conn), closed: make(chan struct{}), once: new(sync.Once)}
}

// hand gives a connection to whoever accepts, or closes it if nobody does any more.
func (h *handover) hand(c *conn) {
	select {
	case h.conns <- c:
	case <-h.closed:
		c.Close()
	}
}

// Accept implements net.Listener.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handover) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (h *handover) Addr() net.Addr { return &net.TCPAddr{} }
