// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"
)

// conn is a connection: the stream that this side writes and the one that it reads.
type conn struct {
	link   *Link
	number uint64
	writer *writer
	reader *reader
	// ctx ends some time after the connection was closed.
	ctx    context.Context //nolint:containedctx // It ends with the connection.
	cancel context.CancelFunc
	once   sync.Once
}

func newConn(l *Link, number uint64, ours, theirs string) *conn {
	directory := l.options.Directory + "/" + strconv.FormatUint(number, 10) + "/"
	c := &conn{link: l, number: number}
	c.ctx, c.cancel = context.WithCancel(l.ctx)
	c.writer = newWriter(&l.options, directory+ours+"/")
	c.reader = newReader(&l.options, directory+theirs+"/")
	c.writer.failed, c.reader.failed = c.note, c.note
	return c
}

// note tells the link why a stream fails, before whoever reads or writes can know.
func (c *conn) note(err error) {
	if c.ctx.Err() == nil {
		c.link.note(err)
	}
}

// knock opens the stream that this side writes and waits until the other side has opened its own.
func (c *conn) knock(ctx context.Context) error {
	if err := c.writer.open(ctx); err != nil {
		return err
	}
	return c.reader.await(ctx)
}

// run reads and puts until both sides have closed the connection, or Options.Patience after this one has.
func (c *conn) run() {
	defer c.cancel()
	var reading sync.WaitGroup
	reading.Go(func() {
		if c.reader.run(c.ctx) {
			c.writer.discard()
		}
	})
	c.writer.run(c.ctx)
	reading.Wait()
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) { return c.reader.read(p) }

// Write implements net.Conn. What it wrote is put a moment later, together with what follows.
func (c *conn) Write(p []byte) (int, error) { return c.writer.write(p) }

// Close implements net.Conn. What was written is put still, and what comes is removed, for Options.Patience at most.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.reader.closed)
		c.writer.close()
		time.AfterFunc(c.link.options.Patience, c.cancel)
	})
	return nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.link.Addr() }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.link.Addr() }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.reader.deadline.set(t)
	c.writer.deadline.set(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.reader.deadline.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writer.deadline.set(t)
	return nil
}

// deadline is a time after which reads or writes fail.
type deadline struct {
	mu      sync.Mutex
	timer   *time.Timer
	expired chan struct{}
}

func newDeadline() *deadline { return &deadline{expired: make(chan struct{})} }

// set replaces the deadline; the zero time is none. What waits already is bound by it, too, unless a former one has
// passed.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.expired // the timer has run, or is about to close it
	}
	d.timer = nil
	select {
	case <-d.expired:
		d.expired = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	expired := d.expired
	if wait := time.Until(t); wait > 0 {
		d.timer = time.AfterFunc(wait, func() { close(expired) })
		return
	}
	close(expired)
}

func (d *deadline) done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired
}
