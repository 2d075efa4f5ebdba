// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
)

const (
	// maxConnections bounds the connections of a link that are open at once: the session, and a stream for blocks for
	// each of protocol.MaxStreams workers, and as many that end.
	maxConnections = 34
	// maxTaken is how many numbers in a row may be those of connections that somebody else opened.
	maxTaken = 64
)

// Options of a Link.
type Options struct {
	Store *objectstore.Store
	// Directory below the prefix of the store. It belongs to one attempt of one run.
	Directory string
	// First and Longest are the first and the longest pause before it is asked again for what is not there; 0: 50 ms
	// and 1 s.
	First, Longest time.Duration
	// SegmentSize is the most bytes of a segment that this side writes; 0: MaxSegment.
	SegmentSize int
	// Patience is how long what was closed waits for the other side; 0: 10 s.
	Patience time.Duration
	// Connections bounds those that are open at once; 0: maxConnections.
	Connections int
	// Renewal is how often an offer is renewed; 0: 1 min.
	Renewal time.Duration
}

// Link is one side of the connections below a directory. It is safe for concurrent use, but for Accept, which is called
// by one at a time.
type Link struct {
	options Options
	ctx     context.Context //nolint:containedctx // It ends with the link.
	cancel  context.CancelFunc
	// accepting ends when the link is closed.
	accepting     context.Context //nolint:containedctx // As above.
	stopAccepting context.CancelFunc
	conns         sync.WaitGroup
	slots         chan struct{}

	mu   sync.Mutex
	open map[*conn]struct{}
	// pending were dialed, and nobody has accepted them yet.
	pending []*conn
	next    uint64 // number of the next connection
	err     error  // see Err
	failed  chan struct{}
}

func (o Options) withDefaults() Options {
	if o.First == 0 {
		o.First = 50 * time.Millisecond
	}
	if o.Longest == 0 {
		o.Longest = time.Second
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = MaxSegment
	}
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	if o.Connections == 0 {
		o.Connections = maxConnections
	}
	if o.Renewal == 0 {
		o.Renewal = time.Minute
	}
	return o
}

// NewLink returns a Link. One side only dials, the other only accepts.
func NewLink(o Options) *Link {
	o = o.withDefaults()
	l := &Link{
		options: o, slots: make(chan struct{}, o.Connections), open: make(map[*conn]struct{}), failed: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.accepting, l.stopAccepting = context.WithCancel(l.ctx)
	return l
}

// DialContext opens a connection: it waits until the other side has accepted it. When ctx ends before, the next call
// goes on with the segment that this one has put, so that dialing for hours leaves no more than calls at once do.
func (l *Link) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.accepting, cancel)() //nolint:contextcheck // That of the link ends the dial, too.
	for range maxTaken {
		c, err := l.dialing()
		if err != nil {
			return nil, fmt.Errorf("connect through the object store: %w", err)
		}
		err = c.knock(ctx)
		switch {
		case errors.Is(err, objectstore.ErrExists), errors.Is(err, errSegment):
			// Somebody else's, or one of ours whose answer was lost: the other side gives it up.
			<-l.slots
		case err != nil:
			l.note(err)
			l.mu.Lock()
			l.pending = append(l.pending, c)
			l.mu.Unlock()
			return nil, fmt.Errorf("connect through the object store: %w", err)
		case l.start(c):
			return c, nil
		default:
			return nil, net.ErrClosed
		}
	}
	return nil, fmt.Errorf("connect through the object store: %d connections in a row are somebody else's", maxTaken)
}

// dialing returns the first connection that nobody has accepted yet, or the next one.
func (l *Link) dialing() (*conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accepting.Err() != nil {
		return nil, net.ErrClosed
	}
	if len(l.pending) > 0 {
		first := slices.MinFunc(l.pending, func(a, b *conn) int { return cmp.Compare(a.number, b.number) })
		l.pending = slices.DeleteFunc(l.pending, func(c *conn) bool { return c == first })
		return first, nil
	}
	select {
	case l.slots <- struct{}{}:
	default:
		return nil, fmt.Errorf("%d connections are open", l.options.Connections)
	}
	c := newConn(l, l.next, "d", "a")
	l.next++
	return c, nil
}

// Accept implements net.Listener: it waits for the next connection.
func (l *Link) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.accepting.Done():
		return nil, net.ErrClosed
	}
	c := newConn(l, l.next, "a", "d")
	err := c.reader.await(l.accepting)
	switch {
	case err == nil, errors.Is(err, errSegment):
		l.next++
		if !l.start(c) {
			return nil, net.ErrClosed
		}
		return c, nil // if it is broken, its first read says so
	case l.accepting.Err() != nil:
		err = net.ErrClosed
	}
	l.note(err)
	<-l.slots
	return nil, fmt.Errorf("wait for a connection through the object store: %w", err)
}

// start has a connection run, unless the link is closed. It has a slot, which it gives back when it ends.
func (l *Link) start(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accepting.Err() != nil {
		<-l.slots
		return false
	}
	l.open[c] = struct{}{}
	l.conns.Go(func() {
		c.run()
		l.mu.Lock()
		delete(l.open, c)
		l.mu.Unlock()
		<-l.slots
	})
	return true
}

// Close implements net.Listener. It closes all connections and waits until the other side has taken what was written,
// for Options.Patience at most.
func (l *Link) Close() error {
	l.stopAccepting()
	l.mu.Lock()
	for c := range l.open {
		_ = c.Close() // it returns nil
	}
	l.mu.Unlock()
	l.conns.Wait()
	l.cancel()
	return nil
}

// note keeps the first error that the store has given a reason for. What fails while the link is closed does not count.
func (l *Link) note(err error) {
	var known *failure.Error
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && l.accepting.Err() == nil && errors.As(err, &known) {
		l.err = err
		close(l.failed)
	}
}

// Failed is closed when the store has failed a connection, or the wait for one.
func (l *Link) Failed() <-chan struct{} { return l.failed }

// Err is why, nil if it has not. What the connections carry knows it as a lost connection only.
func (l *Link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Addr implements net.Listener.
func (l *Link) Addr() net.Addr { return address(l.options.Directory) }

// Sweep removes what is left below a directory: of an attempt that was superseded, or of one that ended. A request of
// somebody who was killed may still arrive later.
func Sweep(ctx context.Context, store *objectstore.Store, directory string) error {
	for object, err := range store.List(ctx, directory+"/") {
		if err != nil {
			return err
		}
		if store.Check(object.Name) != nil {
			continue // it is not ours
		}
		if err := store.Delete(ctx, object.Name); err != nil {
			return err
		}
	}
	return nil
}

// address is the directory of a link.
type address string

// Network implements net.Addr.
func (address) Network() string { return "objectstore" }

func (a address) String() string { return string(a) }

// pause waits longer each time.
type pause struct {
	options *Options
	last    time.Duration
}

func (p *pause) wait(ctx context.Context) error {
	p.last = min(max(p.options.First, p.last*3/2), p.options.Longest)
	timer := time.NewTimer(p.last)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
