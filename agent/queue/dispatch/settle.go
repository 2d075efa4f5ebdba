// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	done    = wirev1.ReceiptResult_RECEIPT_RESULT_DONE
	expired = wirev1.ReceiptResult_RECEIPT_RESULT_EXPIRED
	invalid = wirev1.ReceiptResult_RECEIPT_RESULT_INVALID
	unknown = wirev1.ReceiptResult_RECEIPT_RESULT_UNKNOWN
)

// verb is what is done with messages that were got. Members of different versions tell
// each other the numbers, so they are permanent.
type verb uint8

const (
	acknowledge verb = iota
	release
	extend
	reject
	// unget takes back a giving out that nobody heard of.
	unget
)

// change does something with messages that were got.
type change struct {
	verb     verb
	receipts []receipt
	// after is the delay of a release or the time-out of an extension.
	after  time.Duration
	detail string
	// reply gets a result for each receipt. It has room for one.
	reply chan []wirev1.ReceiptResult

	results []wirev1.ReceiptResult
	left    int
}

// settled is what became of a message that was acknowledged or moved.
type settled struct {
	entries []*entry
	// removed says for each that it is out of the stream.
	removed []bool
	then    []func(wirev1.ReceiptResult)
}

func timestamp(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }

// request does what is asked, or begins it.
func (d *dispatcher) request(r any, now time.Time) {
	switch r := r.(type) {
	case *waiter:
		d.active = now
		if len(d.waiting) >= maxWaiting {
			d.answer(r, granted{err: ErrBusy})
			return
		}
		d.waiting = append(d.waiting, r)
	case *cancel:
		if !r.waiter.done {
			d.waiting = slices.DeleteFunc(d.waiting, func(w *waiter) bool { return w == r.waiter })
			d.answer(r.waiter, granted{})
		}
	case *change:
		d.active = now
		d.change(r, now)
	case *unburied:
		d.moving--
		d.log.Warn("A message stays in the queue and is given out again", "error", r.err.Error())
		r.entry.spared = true
		d.window.vacate(r.entry, now)
		r.then(unknown)
	case *settled:
		d.moving--
		for i, e := range r.entries {
			result := done
			if !r.removed[i] {
				result = unknown
				d.window.vacate(e, now)
			} else {
				d.window.remove(e, now)
			}
			r.then[i](result)
		}
	}
}

// find returns the message that a receipt is for, if it is in the client's hands still, or
// has not been given to another since.
func (d *dispatcher) find(r receipt) *entry {
	e := d.window.entries[r.sequence]
	if e == nil || e.nonce != r.nonce || e.busy {
		return nil
	}
	return e
}

// unread reports whether a message may be there that was not delivered since the start of
// the dispatcher.
func (d *dispatcher) unread(r receipt) bool {
	l, ok := d.former[r.sequence]
	return ok && r.sequence > d.highest && l.Nonce == r.nonce
}

func (d *dispatcher) change(c *change, now time.Time) {
	c.results = make([]wirev1.ReceiptResult, len(c.receipts))
	c.left = 1
	finished := func() {
		if c.left--; c.left == 0 {
			d.answers = append(d.answers, func() { c.reply <- c.results })
		}
	}
	var ack settled
	for i, r := range c.receipts {
		e := d.find(r)
		if e == nil {
			c.results[i] = expired
			if d.unread(r) {
				c.results[i] = unknown
			}
			continue
		}
		c.results[i] = done
		note := func(result wirev1.ReceiptResult) {
			c.results[i] = result
			finished()
		}
		switch c.verb {
		case acknowledge:
			c.left++
			d.window.occupy(e)
			ack.entries, ack.then = append(ack.entries, e), append(ack.then, note)
		case reject:
			c.left++
			if d.pile == deadLetters { // it is where it would go
				d.window.release(e, now, now)
				d.changed(e)
				note(done)
				continue
			}
			d.bury(e, &wirev1.DeadLetter{Reason: envelope.Rejected, Detail: c.detail, Deliveries: e.count}, note)
		case extend:
			d.window.extend(e, now.Add(c.after), now)
			d.changed(e)
		case unget, release:
			if c.verb == unget && e.count > 0 {
				e.count--
			}
			d.window.release(e, now.Add(c.after), now)
			d.changed(e)
		}
	}
	if len(ack.entries) > 0 {
		d.acknowledge(&ack)
	}
	finished()
}

const (
	// answersAtOnce bounds how many acknowledgements wait for the server at once, of one
	// request.
	answersAtOnce = 16
	answerTimeout = 5 * time.Second
)

// acknowledge removes messages from the stream and tells the loop when that is confirmed.
func (d *dispatcher) acknowledge(s *settled) {
	replies := make([]string, len(s.entries))
	for i, e := range s.entries {
		replies[i] = e.message.Reply
	}
	d.moving++
	go func() {
		s.removed = d.confirm(replies)
		d.tell(s)
	}()
}

// confirm acknowledges deliveries and says which are known to be.
func (d *dispatcher) confirm(replies []string) []bool {
	removed := make([]bool, len(replies))
	var group errgroup.Group
	group.SetLimit(answersAtOnce)
	for i, reply := range replies {
		group.Go(func() error {
			ctx, stop := context.WithTimeout(context.Background(), answerTimeout)
			defer stop()
			_, err := d.hub.options.Conn.RequestWithContext(ctx, reply, []byte("+ACK"))
			removed[i] = err == nil && d.hub.options.Failed() == nil
			return nil
		})
	}
	_ = group.Wait() // none returns an error
	return removed
}

// tell hands something to the loop, if there is one still.
func (d *dispatcher) tell(r any) bool {
	select {
	case d.requests <- r:
		return true
	case <-d.ended:
		return false
	}
}

// bury moves a message to the dead letters. Where there is no room for it, it is given out
// again.
func (d *dispatcher) bury(e *entry, why *wirev1.DeadLetter, then func(wirev1.ReceiptResult)) {
	d.window.occupy(e)
	d.moving++
	dead := envelope.DeadLetter(store.DeadSubject(d.hub.options.Queue), e.message, e.sequence, why)
	reply, sequence := e.message.Reply, e.sequence
	go func() {
		ctx, stop := context.WithTimeout(context.Background(), answerTimeout)
		defer stop()
		if _, err := d.js.PublishMsg(ctx, dead); err != nil {
			d.tell(&unburied{entry: e, then: then, err: fmt.Errorf("store the dead letter of message %d: %w", sequence, err)})
			return
		}
		d.tell(&settled{entries: []*entry{e}, removed: d.confirm([]string{reply}), then: []func(wirev1.ReceiptResult){then}})
	}()
}

// unburied is a message that could not be moved.
type unburied struct {
	entry *entry
	then  func(wirev1.ReceiptResult)
	err   error
}
