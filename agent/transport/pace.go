// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/time/rate"
)

const (
	// MinPace is the least pace in bytes per second. The 16 MiB that all streams together may have in one block each
	// then take a minute, well within what a receiver waits.
	MinPace = 256 << 10
	// MaxPace is the greatest pace in bytes per second.
	MaxPace = 1 << 50

	// paceTick is how much time's worth of bytes may be written at once.
	paceTick = 20 * time.Millisecond
	maxBurst = 1 << 20
)

// Pace bounds how fast connections write, all together, in bytes on the wire. It is safe for concurrent use.
type Pace struct{ limiter *rate.Limiter }

// NewPace returns a pace of MinPace to MaxPace bytes per second.
func NewPace(bytesPerSecond int64) (*Pace, error) {
	if bytesPerSecond < MinPace || bytesPerSecond > MaxPace {
		return nil, fmt.Errorf("a pace of %d bytes per second: use %d to %d", bytesPerSecond, int64(MinPace), int64(MaxPace))
	}
	burst := min(bytesPerSecond*int64(paceTick)/int64(time.Second), maxBurst)
	return &Pace{rate.NewLimiter(rate.Limit(bytesPerSecond), int(burst))}, nil
}

// Meter returns a connection whose bytes are counted and that neither writes nor reads faster than a pace, together
// with others of it; nil: not counted, or as fast as it can.
func Meter(conn net.Conn, counter *Counter, pace *Pace) net.Conn {
	conn = counter.Count(conn)
	if pace != nil {
		conn = heldConn{pacedConn{conn, pace}}
	}
	return conn
}

// heldConn is a pacedConn that reads no faster, too: the other side waits when it is not read from.
type heldConn struct{ pacedConn }

func (c heldConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:min(len(p), c.pace.limiter.Burst())])
	if n > 0 {
		time.Sleep(c.pace.limiter.ReserveN(time.Now(), n).Delay())
	}
	return n, err
}

// pacedConn writes no faster than its pace. A write waits also when the connection is closed meanwhile, for a few ticks
// at most.
type pacedConn struct {
	net.Conn
	pace *Pace
}

func (c pacedConn) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		part := p[done:min(len(p), done+c.pace.limiter.Burst())]
		time.Sleep(c.pace.limiter.ReserveN(time.Now(), len(part)).Delay())
		n, err := c.Conn.Write(part)
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
