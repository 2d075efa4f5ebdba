// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"fmt"
	"net"
	"sync/atomic"
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

// Pace bounds how fast connections write, all together, in bytes on the wire. It is safe for concurrent use, and may be
// changed while they do.
type Pace struct {
	// limiter is nil while they write as fast as they can. Whoever reserves bytes holds on to one: its burst does not
	// change.
	limiter atomic.Pointer[rate.Limiter]
}

// NewPace returns a pace of MinPace to MaxPace bytes per second; 0: as fast as connections can.
func NewPace(bytesPerSecond uint64) (*Pace, error) {
	p := &Pace{}
	return p, p.Set(bytesPerSecond)
}

// Set changes the pace. A write that waits already does so for a few ticks of the pace before at most.
func (p *Pace) Set(bytesPerSecond uint64) error {
	if bytesPerSecond == 0 {
		p.limiter.Store(nil)
		return nil
	}
	if bytesPerSecond < MinPace || bytesPerSecond > MaxPace {
		return fmt.Errorf("a pace of %d bytes per second: use %d to %d", bytesPerSecond, uint64(MinPace), uint64(MaxPace))
	}
	burst := min(bytesPerSecond*uint64(paceTick)/uint64(time.Second), maxBurst)
	p.limiter.Store(rate.NewLimiter(rate.Limit(bytesPerSecond), int(burst))) //nolint:gosec // It is at most maxBurst.
	return nil
}

// BytesPerSecond is the pace; 0: as fast as connections can.
func (p *Pace) BytesPerSecond() float64 {
	if limiter := p.limiter.Load(); limiter != nil {
		return float64(limiter.Limit())
	}
	return 0
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
	limiter := c.pace.limiter.Load()
	if limiter == nil {
		return c.Conn.Read(p)
	}
	n, err := c.Conn.Read(p[:min(len(p), limiter.Burst())])
	if n > 0 {
		time.Sleep(limiter.ReserveN(time.Now(), n).Delay())
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
		part := p[done:]
		if limiter := c.pace.limiter.Load(); limiter != nil {
			part = part[:min(len(part), limiter.Burst())]
			time.Sleep(limiter.ReserveN(time.Now(), len(part)).Delay())
		}
		n, err := c.Conn.Write(part)
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
