// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// spliceChunk is how much is moved before the deadlines and counters are touched again.
	spliceChunk = 4 << 20
	// spliceTick is how often they are touched when less moves.
	spliceTick = 10 * time.Second
)

var (
	errIdle    = errors.New("nothing moved for too long")
	errStalled = errors.New("the receiver took nothing for too long")
)

// splice joins two connections until both directions have ended, one broke or nothing moved for the idle timeout. It
// closes neither. Both are TCP, so that io.Copy has the kernel move the bytes without them entering this process.
type splice struct {
	client, target *net.TCPConn
	idle, tick     time.Duration
	// moved is when bytes last moved in either direction, in nanoseconds since start.
	start time.Time
	moved atomic.Int64
	in    *tally
	out   *tally
	// proven is called when the target has sent more than handshakeBytes, and may be called again.
	proven func()
}

func newSplice(client, target *net.TCPConn, idle time.Duration, metrics *Metrics, proven func()) *splice {
	return &splice{
		client: client, target: target, idle: idle, tick: min(spliceTick, idle/2+1), start: time.Now(),
		in:     &tally{Counter: metrics.bytes.WithLabelValues("in"), all: &metrics.passed},
		out:    &tally{Counter: metrics.bytes.WithLabelValues("out"), all: &metrics.passed},
		proven: proven,
	}
}

// tally is a counter of all connections that knows what this one has added.
type tally struct {
	prometheus.Counter
	own atomic.Int64
	all *atomic.Int64
}

// Add is of prometheus.Counter.
func (t *tally) Add(n float64) {
	t.Counter.Add(n)
	t.own.Add(int64(n))
	t.all.Add(int64(n))
}

// carried is what was moved so far.
func (s *splice) carried() Carried {
	return Carried{In: s.in.own.Load(), Out: s.out.own.Load(), Duration: time.Since(s.start)}
}

// run returns the error that ended the connection early, if any; abort is called as soon as there is one and must make
// both connections fail.
func (s *splice) run(abort func()) error {
	var wait sync.WaitGroup
	errs := make([]error, 2)
	move := func(i int, to, from *net.TCPConn, count prometheus.Counter, watched int64) {
		if errs[i] = s.move(to, from, count, watched); errs[i] != nil {
			abort()
		}
	}
	wait.Go(func() { move(0, s.target, s.client, s.in, 0) })
	wait.Go(func() { move(1, s.client, s.target, s.out, handshakeBytes) })
	wait.Wait()
	return errors.Join(errs...)
}

// move copies until from ends, and then ends to. Of what it moves first it watches so many bytes, and tells when they
// have passed.
func (s *splice) move(to, from *net.TCPConn, count prometheus.Counter, watched int64) error {
	for {
		chunk := int64(spliceChunk)
		if watched > 0 {
			chunk = watched
		}
		began := time.Now()
		// A read that times out has lost nothing. A write that does may have: it is given long enough to be final.
		if err := from.SetReadDeadline(began.Add(s.tick)); err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		if err := to.SetWriteDeadline(began.Add(s.tick + s.idle)); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
		n, err := io.Copy(to, &io.LimitedReader{R: from, N: chunk})
		if n > 0 {
			count.Add(float64(n))
			s.moved.Store(int64(time.Since(s.start)))
			if watched > 0 {
				if watched -= n; watched <= 0 {
					s.proven()
				}
			}
		}
		switch {
		case err == nil && n < chunk:
			if err := to.CloseWrite(); err != nil {
				return fmt.Errorf("ending a direction: %w", err)
			}
			return nil
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case time.Since(began) >= s.tick+s.idle:
			return errStalled
		case time.Since(s.start)-time.Duration(s.moved.Load()) > s.idle:
			return errIdle
		}
	}
}
