// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// readDeadline is that of a client's connection. An HTTP server moves it several times
// for each request, and each time the system's timer would have to be moved: here that
// is left where it is as long as it does not come too late, and when it comes too early
// the reading goes on.
type readDeadline struct {
	mu      sync.Mutex
	wanted  time.Time // zero: none
	set     time.Time // that of the connection below, which never comes after what is wanted
	reading bool
}

// over reports whether a deadline is one that wakes up who reads, rather than one of
// patience.
func over(t time.Time) bool { return !t.IsZero() && t.Unix() < farPast }

// farPast is a time in seconds that no deadline of patience has.
const farPast = 1 << 30

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	d := &c.patience
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = t
	if !d.reading {
		return nil // Read sees to it
	}
	return d.move(c.Conn)
}

// move makes the deadline below early enough. The lock is held.
func (d *readDeadline) move(c net.Conn) error {
	if d.wanted.IsZero() || !d.set.IsZero() && !d.set.After(d.wanted) {
		return nil
	}
	if err := c.SetReadDeadline(d.wanted); err != nil {
		return err
	}
	d.set = d.wanted
	return nil
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	d := &c.patience
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if over(d.wanted) {
			return 0, os.ErrDeadlineExceeded
		}
		if err := d.move(c.Conn); err != nil {
			return 0, err
		}
		d.reading = true
		d.mu.Unlock()
		n, err := c.Conn.Read(p)
		d.mu.Lock()
		d.reading = false
		if n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		// What was set has passed, and is of no use any more.
		if err := c.Conn.SetReadDeadline(time.Time{}); err != nil {
			return 0, err
		}
		d.set = time.Time{}
		if !over(d.wanted) && !d.wanted.IsZero() && !d.wanted.After(time.Now()) {
			c.server.stats.timedOut.Add(1)
			d.wanted = time.Unix(1, 0) // it stays over, and is counted once
			return 0, err
		}
	}
}
