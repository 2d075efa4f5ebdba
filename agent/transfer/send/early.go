// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"net"
	"time"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
)

// early are connections for blocks that are made beside the session's own. The zero value has none.
type early struct {
	cancel context.CancelFunc
	began  time.Time
	// conns has a channel for each worker. It gives one connection, or none if that could not be made, and is closed.
	conns []chan net.Conn
}

// dialEarly begins to make the connections, if they are to be made early. They are to be ended.
func dialEarly(ctx context.Context, o *Options) early {
	if o.DialEarly == nil {
		return early{}
	}
	ctx, cancel := context.WithCancel(ctx)
	e := early{cancel: cancel, began: time.Now(), conns: make([]chan net.Conn, o.streams())}
	for i := range e.conns {
		conns := make(chan net.Conn, 1)
		e.conns[i] = conns
		go func() {
			defer close(conns)
			// A worker without one makes another, and says why when that fails, too.
			if conn, err := o.DialEarly(ctx); err == nil {
				conns <- conn
			}
		}()
	}
	return e
}

// take returns a worker's connection when it is the session's, nil if there is none.
func (e early) take(ctx context.Context, worker int, session []byte) net.Conn {
	if worker >= len(e.conns) {
		return nil
	}
	var conn net.Conn
	select {
	case conn = <-e.conns[worker]:
	case <-ctx.Done():
	}
	if conn == nil {
		return nil
	}
	if time.Since(e.began) > protocol.ClaimPatience/2 || protocol.WriteClaim(conn, session) != nil {
		_ = conn.Close()
		return nil
	}
	return conn
}

// end closes what was not taken.
func (e early) end() {
	if e.cancel == nil {
		return
	}
	e.cancel()
	for _, conns := range e.conns {
		for conn := range conns {
			_ = conn.Close()
		}
	}
}
