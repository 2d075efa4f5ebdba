// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/queue/audit"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/roles"
)

// conn is the connection of a client and the one to the server that stands for it.
type conn struct {
	front *Front
	// outer is that of the client, with TLS if there is any; inner is that of the server.
	// raw is what is below outer.
	outer, raw, inner net.Conn
	// headers says that the client understands them, acceptsStored that it wants all
	// messages as they are stored. Both are set before anything is passed on.
	headers, acceptsStored bool
	subscriptions          subscriptions
	given                  []ids.Message // is used again, by who reads what the server says
	serverID               uint64        // is what the server calls inner; it is set before greeted
	guest                  *Guest        // nil: it has not said who it is
	client                 roles.Client  // is set before anything is passed on, and so is session
	session                *audit.Session

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

// keepInfo keeps what the server said of itself last.
func (c *conn) keepInfo(args []byte) {
	kept := append([]byte(nil), args...)
	c.lastInfo.Store(&kept)
}

// serve passes on what both sides say until one of them ends.
func (c *conn) serve() {
	defer c.close()
	defer func() {
		if c.guest != nil {
			c.guest.Leave()
		}
	}()
	client, server, err := c.greet()
	if err != nil {
		c.end(err)
		return
	}
	c.session = c.front.audit.Begin(c.client, natsProtocol, c.outer.RemoteAddr().String())
	defer func() {
		c.session.Bytes.Store(c.said.Load())
		c.session.End()
	}()
	c.greeted.Store(true)
	if c.front.draining.Load() {
		c.leave(0)
	}
	out := newPump((*ofServer)(c), (*toClient)(c), outbound{c}, c.front.turns)
	out.memory, out.taker, out.context, out.giveUp = c.front.inflated, &taker{cut: c.tooSlow}, c.context, c.cancel
	in := newPump(c.outer, c.inner, inbound{c}, c.front.turns)
	go func() {
		defer close(c.ended)
		_ = out.run(server) // whichever side failed has ended
		// What the server said last, such as why it ends the connection, is written.
		_ = c.inner.Close()
		_ = c.outer.SetReadDeadline(time.Now())
	}()
	err = in.run(client)
	if c.interrupted.Load() {
		c.awaitQuiet(c.front.leaving.settled, c.front.leaving.mostSettled)
		c.part()
	} else {
		c.end(err)
	}
	c.close()
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

// farewell bounds how long it may take to tell a client why it is sent away.
const farewell = 2 * time.Second

// end tells the client why the connection ends, if it is to blame, in the words of the
// server of NATS, which clients know.
func (c *conn) end(err error) {
	var text string
	switch {
	case errors.Is(err, errCertificate):
		c.front.counters.unauthenticated.Add(1)
		c.front.audit.Reject(audit.Unauthenticated, "", natsProtocol, c.outer.RemoteAddr().String())
		c.part() // It was told.
		return
	case errors.Is(err, errAuthentication):
		c.front.counters.unauthenticated.Add(1)
		c.front.audit.Reject(audit.Unauthenticated, "", natsProtocol, c.outer.RemoteAddr().String())
		c.tell("Authorization Violation")
		return
	case errors.Is(err, errPayload):
		c.front.counters.refusedPuts.Add(1)
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
	if !c.greeted.Load() {
		return
	}
	c.part()
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
func (c *conn) revoked() {
	c.front.options.Log.Warn("Client is disconnected: its token, the CA of its certificate or its role has changed",
		"client", c.client.Name, "remote", c.outer.RemoteAddr().String())
	if c.greeted.Load() {
		c.tell("User Authentication Revoked")
	}
	c.close()
}

// sayEnding tells the client to go elsewhere.
func (c *conn) sayEnding() {
	args := c.lastInfo.Load()
	if args == nil || !c.greeted.Load() {
		return
	}
	if info, err := c.info(*args, true); err == nil {
		_, _ = (*toClient)(c).Write(info)
	}
}

func (c *conn) close() {
	c.cancel()
	_ = c.raw.Close()
	_ = c.inner.Close()
}

// counting counts what goes over the wire, of all connections and of this one.
type counting struct {
	net.Conn
	all, own *atomic.Int64
}

func (c counting) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.all.Add(int64(n))
	c.own.Add(int64(n))
	return n, err
}

func (c counting) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.all.Add(int64(n))
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
