// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/audit"
	"github.com/lighterage/lighterage/agent/queue/roles"
)

// conn is the connection of a client and the one to the server that stands for it.
type conn struct {
	front *Front
	// outer is that of the client, with TLS if there is any; inner is that of the server, and nil until it is reached.
	// raw is what is below outer.
	outer, raw, inner net.Conn
	// headers says that the client understands them, acceptsStored that it wants all
	// messages as they are stored. Both are set before anything is passed on.
	headers, acceptsStored bool
	subscriptions          subscriptions
	serverID               uint64       // is what the server calls inner; it is set before greeted
	guest                  *Guest       // nil: it has not said who it is
	client                 roles.Client // is set before anything is passed on, and so is session
	session                *audit.Session
	memory                 *account // of what messages are inflated to

	context context.Context //nolint:containedctx // It ends with the connection.
	cancel  context.CancelFunc

	writing  sync.Mutex  // of outer
	renew    time.Time   // the deadline of writing
	parting  atomic.Bool // it is over, for a reason that was logged
	lastInfo atomic.Pointer[[]byte]
	greeted  atomic.Bool
	// listening says that more is read of what the server says: all that it said was passed on, or waits in buffers.
	listening atomic.Bool
	// said is how many bytes went over the wire.
	said        atomic.Int64
	leaves      sync.Once
	interrupted atomic.Bool   // so that nothing more is read of the client
	ended       chan struct{} // is closed when the server says nothing more
}

// relay passes on what both sides say until one of them ends. client and server are what was read of them before.
func (c *conn) relay(client, server []byte) {
	out := newPump(c.front, (*ofServer)(c), (*toClient)(c), &outbound{conn: c})
	out.memory, out.context, out.giveUp = c.memory, c.context, c.cancel
	in := newPump(c.front, c.outer, c.inner, &inbound{conn: c, stored: run{meter: &c.front.encoded}})
	go func() {
		defer close(c.ended)
		_ = out.run(server) // whichever side failed has ended
		// What the server said last, such as why it ends the connection, is written.
		_ = c.inner.Close()
		_ = c.outer.SetReadDeadline(time.Now())
	}()
	err := in.run(client)
	if c.interrupted.Load() {
		c.awaitQuiet(c.front.leaving.settled, c.front.leaving.mostSettled)
		c.part()
	} else {
		c.end(err)
	}
	c.cancel()
	<-c.ended
}

// natsProtocol is what the audit calls it.
const natsProtocol = "nats"

// toClient writes to the client, one at a time.
type toClient conn

// Write implements io.Writer.
func (c *toClient) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return (*conn)(c).write(b)
}

// ofServer reads what the server says.
type ofServer conn

// Read implements io.Reader.
func (c *ofServer) Read(b []byte) (int, error) {
	c.listening.Store(true)
	defer c.listening.Store(false)
	return c.inner.Read(b)
}

// Close implements io.Closer.
func (c *ofServer) Close() error { return c.inner.Close() }

const (
	// writeChunk is how many bytes are written with one deadline, so that a client that is only slow
	// is not taken for one that takes nothing.
	writeChunk = 256 << 10
	// paceRate, in bytes per second, is how fast a client has to take what it holds memory for while others wait, once
	// it has had its time to begin. It is that of the service's bodies.
	paceRate = 1 << 20
)

// errSlow says that a client holds memory that others wait for.
var errSlow = errors.New("the client is too slow")

// write writes to the client, for as long as that takes something. writing is held.
func (c *conn) write(b []byte) (written int, err error) {
	limits, begun := c.front.slow.Load(), time.Now()
	most := limits.patience + time.Duration(len(b))*time.Second/paceRate
	for now := begun; ; now = time.Now() {
		if now.After(c.renew) {
			if err := c.outer.SetWriteDeadline(now.Add(limits.patience)); err != nil {
				return written, err
			}
			c.renew = now.Add(limits.patience / 3)
		}
		n, err := c.writeOnce(b[:min(len(b), writeChunk)])
		written += n
		b = b[n:]
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.disconnected("it read nothing that it asked for", "patience", limits.patience.String())
		case err == nil && len(b) > 0 && c.memory.delays() && time.Since(begun) > most:
			err = errSlow
			c.disconnected("it holds buffer memory that other clients wait for", "patience", most.String())
		}
		if err != nil || len(b) == 0 {
			return written, err
		}
	}
}

// writeOnce writes, and measures now and then what that takes.
func (c *conn) writeOnce(b []byte) (n int, err error) {
	if !c.front.classes.Measures() {
		return c.outer.Write(b)
	}
	c.front.classes.Sent(len(b), meter.ThreadCPU(func() { n, err = c.outer.Write(b) }))
	return n, err
}

// disconnected logs, once, why the connection of a slow client ends.
func (c *conn) disconnected(why string, details ...any) {
	if c.parting.Swap(true) {
		return
	}
	c.front.options.Log.Warn("Slow client disconnected: "+why,
		append([]any{"client", c.outer.RemoteAddr().String()}, details...)...)
}

// farewell bounds how long it may take to tell a client why it is sent away.
const farewell = 2 * time.Second

// end tells the client why the connection ends, if it is to blame, in the words of the
// server of NATS, which clients know.
func (c *conn) end(err error) {
	var text string
	switch {
	case errors.Is(err, errCertificate), errors.Is(err, errAuthentication):
		c.front.Count(Unauthenticated)
		c.front.audit.Reject(audit.Unauthenticated, "", natsProtocol, c.outer.RemoteAddr().String())
		if errors.Is(err, errCertificate) {
			c.part() // It was told.
		} else {
			c.tell("Authorization Violation")
		}
		return
	case errors.Is(err, errPayload):
		c.front.Count(RefusedPuts)
		text = "Maximum Payload Violation"
	case errors.Is(err, errProtocol):
		text = "Unknown Protocol Operation"
	default:
		return
	}
	c.front.options.Log.Warn(
		"Client disconnected because of a protocol error", "client", c.outer.RemoteAddr().String(), "problem", err.Error(),
	)
	c.tell(text)
	if c.greeted.Load() {
		c.part()
	}
}

// tell tells the client what it is sent away for, if it takes that.
func (c *conn) tell(text string) {
	c.parting.Store(true)
	_ = c.outer.SetWriteDeadline(time.Now().Add(farewell)) // for who may be writing, too
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.outer.SetWriteDeadline(time.Now().Add(farewell))
	_, _ = c.outer.Write([]byte("-ERR '" + text + "'\r\n"))
}

// revoked ends the connection of a client whose operations are others now, in the words of the server.
func (c *conn) revoked(client roles.Client) {
	c.front.options.Log.Warn("Client is disconnected: its token, the CA of its certificate or its role has changed",
		"client", client.Name, "remote", c.outer.RemoteAddr().String())
	if c.greeted.Load() {
		c.tell("User Authentication Revoked")
	}
	c.cancel()
}

// sayEnding tells the client to go elsewhere.
func (c *conn) sayEnding() {
	if info, err := c.info(*c.lastInfo.Load(), true); err == nil {
		_, _ = (*toClient)(c).Write(info)
	}
}

// counting counts what goes over the wire of this connection.
type counting struct {
	net.Conn
	own *atomic.Int64
}

func (c counting) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.own.Add(int64(n))
	return n, err
}

func (c counting) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.own.Add(int64(n))
	return n, err
}

// CloseWrite ends what is written, if the connection can.
func (c counting) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
