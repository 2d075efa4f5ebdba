// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/objectstore"
)

const (
	// maxSenders is how many senders a relay serves at once; others wait.
	maxSenders = 4
	// relayConnections bounds those of one sender: a session, a call of the gateway, protocol.MaxStreams for blocks, and
	// two that end. With maxSenders it bounds the memory that whoever writes to the bucket can take: 320 MiB.
	relayConnections = 20
	// maxOffers and maxListed bound what is looked at in one list.
	maxOffers, maxListed = 256, 10_000
	// tidyRounds is after how many looks at the offers everything else is looked at.
	tidyRounds = 60
	// firstBytes is how long a connection may take to say something.
	firstBytes = time.Minute
	// lastBytes is how long one direction of a connection may take to end when the other has.
	lastBytes = 30 * time.Second
)

// RelayOptions of Relay.
type RelayOptions struct {
	// Options of the links. Directory and Connections are chosen.
	Options
	// Dial connects to where all connections of senders go on to.
	Dial func(ctx context.Context) (net.Conn, error)
	Log  *slog.Logger
	// Interval is how often offers are looked for; 0: 5 s.
	Interval time.Duration
	// Silence is how long a sender may not have renewed its offer before it is taken for dead; 0: five renewals.
	Silence time.Duration
}

// Relay takes up the connections that senders make through a store and has them go on to one address, until the context
// ends, whose cause it returns, or the store rejects a request. It reads nothing of what they carry.
func Relay(ctx context.Context, o RelayOptions) error {
	o.Options = o.withDefaults()
	o.Connections = relayConnections
	o.Interval, o.Silence = cmp.Or(o.Interval, 5*time.Second), cmp.Or(o.Silence, 5*o.Renewal)
	ctx, fail := context.WithCancelCause(ctx)
	r := &relay{
		RelayOptions: o, fail: fail, senders: map[string]*sender{}, orphans: map[string]bool{},
		slots: make(chan struct{}, maxSenders),
	}
	defer r.serving.Wait()
	defer fail(nil)
	tick := time.NewTicker(o.Interval)
	defer tick.Stop()
	for round := 0; ; round++ {
		err := r.look(ctx, round%tidyRounds == 0)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, objectstore.ErrUnavailable):
			o.Log.Warn("The store does not answer", "error", err.Error())
		case err != nil:
			return fmt.Errorf("look for senders in the object store: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

type relay struct {
	RelayOptions
	// fail ends the relay.
	fail    context.CancelCauseFunc
	serving sync.WaitGroup
	slots   chan struct{}

	// What follows belongs to look.
	senders map[string]*sender
	// orphans are of senders without an offer, and were so the last time.
	orphans map[string]bool
}

// sender is one whose offer was seen.
type sender struct {
	// version of the offer, seen first at a time.
	version string
	seen    time.Time
	// stop has it served no more; nil: it is not served.
	stop context.CancelFunc
	// taken: another relay has it, or had it when it was killed.
	taken atomic.Bool
	// again: it could not be taken up, as the store did not answer.
	again atomic.Bool
}

// look serves the senders whose offers are there, and no others.
func (r *relay) look(ctx context.Context, tidy bool) error {
	now, present, listed, all := time.Now(), map[string]bool{}, 0, true
	for object, err := range r.Store.List(ctx, offers) {
		if err != nil {
			return err
		}
		if listed++; listed > maxListed || len(present) == maxOffers {
			all = false
			break
		}
		id, ok := parseID(object.Name)
		if !ok || object.Name != offers+id {
			continue
		}
		present[id] = true
		s := r.senders[id]
		if s == nil {
			s = &sender{}
			r.senders[id] = s
		}
		if version := object.ETag + object.Modified.String(); s.version != version {
			s.version, s.seen = version, now
		}
	}
	for id, s := range r.senders {
		silent := now.Sub(s.seen) > r.Silence
		switch {
		case (present[id] || !all) && !silent:
			r.begin(ctx, id, s)
			continue
		case s.stop != nil && !s.taken.Load():
			s.stop() // what is left is removed as serving it ends
		case silent:
			r.Log.Info("A sender has not renewed its offer, which is removed", "id", id)
			if err := clean(ctx, r.Store, id); err != nil {
				return err
			}
		}
		delete(r.senders, id)
	}
	if tidy && all {
		return r.tidy(ctx, present)
	}
	return nil
}

// begin has a sender served if it is not, and there is a place.
func (r *relay) begin(ctx context.Context, id string, s *sender) {
	if s.stop != nil && !s.again.Swap(false) {
		return
	}
	select {
	case r.slots <- struct{}{}:
	default:
		return
	}
	serving, stop := context.WithCancel(ctx)
	s.stop = stop
	r.serving.Go(func() {
		defer func() { <-r.slots }()
		defer stop()
		err := r.serve(serving, id, s)
		switch {
		case serving.Err() != nil || err == nil:
		case errors.Is(err, objectstore.ErrUnavailable):
			r.Log.Warn("A sender cannot be taken up yet", "id", id, "error", err.Error())
			s.again.Store(true)
			return
		default:
			r.fail(err)
		}
		if ctx.Err() == nil && !s.taken.Load() {
			if err := clean(ctx, r.Store, id); err != nil {
				r.Log.Warn("What is left of a sender cannot be removed", "id", id, "error", err.Error())
			}
		}
	})
}

// serve joins the connections of a sender until the context ends.
func (r *relay) serve(ctx context.Context, id string, s *sender) error {
	_, err := r.Store.Put(ctx, relays+id, strings.NewReader("1"), 1, objectstore.PutOptions{IfAbsent: true})
	if errors.Is(err, objectstore.ErrExists) {
		// A killed relay's connections cannot be continued. The sender notices and makes another offer.
		s.taken.Store(true)
		r.Log.Info("Another relay has or had a sender", "id", id)
		return nil
	}
	if err != nil {
		return fmt.Errorf("take up a sender: %w", err)
	}
	r.Log.Info("A sender is served", "id", id)
	o := r.Options
	o.Directory = connections + id
	link := NewLink(o)
	defer context.AfterFunc(ctx, func() { _ = link.Close() })()
	var joined sync.WaitGroup
	for {
		var conn net.Conn
		if conn, err = link.Accept(); err != nil {
			break
		}
		joined.Go(func() { r.join(ctx, conn) })
	}
	_ = link.Close() // it returns nil
	joined.Wait()
	r.Log.Info("A sender is not served any more", "id", id)
	return err
}

// join has a connection go on to where all go. That is dialed when there is something to say, since the other side
// waits for a handshake for a short time only.
func (r *relay) join(ctx context.Context, near net.Conn) {
	defer near.Close()
	first := make([]byte, 32<<10)
	_ = near.SetReadDeadline(time.Now().Add(firstBytes))
	n, err := near.Read(first)
	if err != nil {
		return
	}
	_ = near.SetReadDeadline(time.Time{})
	far, err := r.Dial(ctx)
	if err != nil {
		r.Log.Warn("A connection cannot go on", "error", err.Error())
		return
	}
	defer far.Close()
	defer context.AfterFunc(ctx, func() { _ = far.Close() })()
	if _, err := far.Write(first[:n]); err != nil {
		return
	}
	ended := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(far, near)
		if half, ok := far.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		ended <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(near, far)
		_ = near.Close() // what was written is put still
		ended <- struct{}{}
	}()
	<-ended
	select {
	case <-ended:
	case <-time.After(lastBytes):
	}
}

// tidy removes what belongs to senders without an offer, now and the last time: requests of somebody who was killed may
// arrive late.
func (r *relay) tidy(ctx context.Context, present map[string]bool) error {
	orphans, listed := map[string]bool{}, 0
	for object, err := range r.Store.List(ctx, root) {
		if err != nil {
			return err
		}
		if listed++; listed > maxListed {
			break
		}
		id, ok := parseID(object.Name)
		switch {
		case !ok || present[id] || r.senders[id] != nil || r.Store.Check(object.Name) != nil:
		case r.orphans[id]:
			if err := r.Store.Delete(ctx, object.Name); err != nil {
				return err
			}
		default:
			orphans[id] = true
		}
	}
	r.orphans = orphans
	return nil
}
