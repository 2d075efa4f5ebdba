// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bufio"
	"context"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// A short answer is there with one read; of a long one the rest is read to where it is
	// wanted.
	readBuffer  = 8 << 10
	writeBuffer = 4 << 10
)

// conn is a connection to the backend, used by one request at a time.
type conn struct {
	net.Conn
	raw syscall.RawConn // nil when the connection has no file descriptor
	r   *bufio.Reader
	w   *bufio.Writer
	// limit is how many bytes may still be read; negative: any number.
	limit int
	since time.Time // when it became unused
	until time.Time // the deadline that was set last, unless the end of a context was; zero: none

	// What looks needs, here so that it allocates nothing.
	look  func(fd uintptr) bool
	quiet bool
}

func (b *Backend) dial(ctx context.Context) (*conn, error) {
	inner, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, limit: -1}
	c.r, c.w = bufio.NewReaderSize(c, readBuffer), bufio.NewWriterSize(inner, writeBuffer)
	if s, ok := inner.(syscall.Conn); ok {
		if c.raw, err = s.SyscallConn(); err != nil {
			c.raw = nil
		}
	}
	c.look = c.peek
	return c, nil
}

// Read implements io.Reader for the buffer.
func (c *conn) Read(p []byte) (int, error) {
	if c.limit < 0 {
		return c.Conn.Read(p)
	}
	if c.limit == 0 {
		return 0, ErrHeaderTooLong
	}
	n, err := c.Conn.Read(p[:min(len(p), c.limit)])
	c.limit -= n
	return n, err
}

// wait bounds how long reads and writes may take from now on: 0 by nothing. A deadline that comes up to an eighth of
// the time, and no more than a second, too late is left where it is, since moving one takes longer than looking at the
// clock.
func (c *conn) wait(d time.Duration) error {
	var until time.Time
	if d > 0 {
		now, late := time.Now(), min(d/8, time.Second)
		if left := c.until.Sub(now); left >= d && left <= d+late {
			return nil
		}
		until = now.Add(d + late)
	} else if c.until.IsZero() {
		return nil
	}
	c.until = until
	return c.SetDeadline(until)
}

// alive reports whether an unused connection can be used: the backend has neither
// closed it nor sent something. What a backend sends before it is asked must never be
// taken for the answer to the next request.
func (c *conn) alive() bool {
	return c.r.Buffered() == 0 && (c.raw == nil || c.looks() && c.quiet)
}

// arrived reports whether there is something to read, or an end, on a connection in use.
func (c *conn) arrived() bool { return c.raw != nil && c.looks() && !c.quiet }

// looks finds out whether the connection is quiet, and reports whether it could.
func (c *conn) looks() bool {
	c.quiet = false
	return c.raw.Read(c.look) == nil
}

// peek looks for something to read without waiting for it.
func (c *conn) peek(fd uintptr) bool {
	var one [1]byte
	for {
		_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err == unix.EINTR {
			continue
		}
		c.quiet = err == unix.EAGAIN
		return true
	}
}
