// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"io"
	"time"
)

// leaving is how clients are sent away by a member that ends. Libraries of NATS tell their
// users that it does, and stay connected until they are cut.
type leaving struct {
	// quiet is for how long neither side says anything when nothing is pending. Clients that
	// are never quiet are interrupted after most.
	quiet, most time.Duration
	// What a client has put by then is answered: that is over when nothing was said for
	// settled, or after mostSettled.
	settled, mostSettled time.Duration
	// each is between two clients, of which many come to another member; all bounds the sum.
	each, all time.Duration
	// introduced is until when clients have said who they are that are about to.
	introduced time.Duration
}

var defaultLeaving = leaving{
	quiet: 500 * time.Millisecond, most: 3 * time.Second, settled: 200 * time.Millisecond, mostSettled: 2 * time.Second,
	each: time.Millisecond, all: 3 * time.Second, introduced: 2 * time.Second,
}

// leave sends the client away, once. What the client has said until then is passed on and
// answered; what it says afterwards nobody has read, and it says it again elsewhere. A
// message that it was given and has not acknowledged is given again.
func (c *conn) leave(after time.Duration) {
	if !c.greeted.Load() {
		// It is told when it has said who it is, for which it need not take long.
		_ = c.raw.SetDeadline(time.Now().Add(c.front.leaving.introduced))
		return
	}
	c.leaves.Do(func() {
		go c.sayEnding() // which a client that does not read would hold up
		go func() {
			l := c.front.leaving
			c.pause(after)
			c.awaitQuiet(l.quiet, l.most)
			c.interrupted.Store(true)
			_ = c.outer.SetReadDeadline(time.Now())
		}()
	})
}

// awaitQuiet waits until nothing was said for a while, or until the limit.
func (c *conn) awaitQuiet(quiet, limit time.Duration) {
	const looks = 5
	said, same := c.said.Load(), 0
	for deadline := time.Now().Add(limit); same < looks; {
		left := time.Until(deadline)
		if left <= 0 || !c.pause(min(quiet/looks, left)) {
			return
		}
		if now := c.said.Load(); now != said {
			said, same = now, 0
		} else {
			same++
		}
	}
}

// pause reports whether there is still a server to answer afterwards.
func (c *conn) pause(d time.Duration) bool {
	select {
	case <-c.front.context.Done():
		return false
	case <-c.ended:
		return false
	case <-time.After(d):
		return true
	}
}

// part ends what is written. Bytes that were not read would make the kernel forget what was
// written before, so what still comes is read for a moment.
func (c *conn) part() {
	if half, ok := c.outer.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = c.outer.SetReadDeadline(time.Now().Add(farewell / 4))
	_, _ = io.Copy(io.Discard, c.outer)
}
