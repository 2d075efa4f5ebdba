// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/pull"
	"github.com/lighterage/lighterage/agent/queue/store"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

const (
	done    = messagesv1.ReceiptResult_RECEIPT_RESULT_DONE
	expired = messagesv1.ReceiptResult_RECEIPT_RESULT_EXPIRED
	invalid = messagesv1.ReceiptResult_RECEIPT_RESULT_INVALID
	unknown = messagesv1.ReceiptResult_RECEIPT_RESULT_UNKNOWN
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
	// reply gets a result for each receipt. It has space for one.
	reply chan []messagesv1.ReceiptResult

	results []messagesv1.ReceiptResult
	left    int
}

// settled is what became of messages that are to be removed.
type settled struct {
	entries []*entry
	// removed says for each that it is out of the stream.
	removed []bool
	then    []func(messagesv1.ReceiptResult)
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
		switch {
		case r.waiter.done:
		case r.left:
			d.answer(r.waiter, granted{})
		default:
			r.waiter.late = true
		}
	case *change:
		d.active = now
		d.change(r, now)
	case *unburied:
		d.moving--
		if r.gone { // by a limit of the queue
			d.window.remove(r.entry, now)
			r.then(expired)
			return
		}
		d.log.Warn("A message stays in the queue and is given out again", "error", r.err.Error())
		r.entry.spared = true
		d.window.vacate(r.entry, now)
		r.then(unknown)
	case *buried:
		d.moving--
		d.depart(r.entry, true)
		d.remove(&settled{entries: []*entry{r.entry}, then: []func(messagesv1.ReceiptResult){r.then}})
	case *fetched:
		d.take(r, now)
	case *settled:
		d.moving--
		d.settle(r, now)
	}
}

// settle takes note of what was removed. What was not is removed by the next dispatcher; it
// is given to nobody in between.
func (d *dispatcher) settle(s *settled, now time.Time) {
	for i, e := range s.entries {
		if s.removed[i] {
			d.window.remove(e, now)
			s.then[i](done)
			continue
		}
		s.then[i](unknown)
		if d.hub.options.Failed() == nil {
			d.broken = fmt.Errorf("%w: an acknowledgement was not confirmed", pull.ErrConsumer)
		}
	}
}

// find returns the message that a receipt is for, if it is in the client's hands still, or
// has not been given to another since. Else it says what is known of the message.
func (d *dispatcher) find(v verb, r receipt) (*entry, messagesv1.ReceiptResult) {
	switch e := d.window.entries[r.sequence]; {
	case e != nil && e.nonce == r.nonce && e.busy:
		return nil, unknown // it is known soon
	case e != nil && e.nonce == r.nonce:
		return e, done
	case e != nil && !d.departed.has(e.sequence, e.put):
		return nil, expired
	}
	if result, ok := d.departed.result(v, r); ok {
		return nil, result
	}
	// It may be there and not be delivered yet since the start of the dispatcher. If all were, it has gone: by a limit of
	// the queue, or through somebody else.
	if l, ok := d.former[r.sequence]; ok && !d.delivered && r.sequence > d.highest && l.Nonce == r.nonce {
		return nil, unknown
	}
	return nil, expired
}

func (d *dispatcher) change(c *change, now time.Time) {
	c.results = make([]messagesv1.ReceiptResult, len(c.receipts))
	c.left = 1
	finished := func() {
		if c.left--; c.left == 0 {
			d.answers = append(d.answers, func() { c.reply <- c.results })
		}
	}
	var ack settled
	for i, r := range c.receipts {
		e, otherwise := d.find(c.verb, r)
		if e == nil {
			c.results[i] = otherwise
			continue
		}
		c.results[i] = done
		note := func(result messagesv1.ReceiptResult) {
			c.results[i] = result
			finished()
		}
		switch c.verb {
		case acknowledge:
			c.left++
			d.window.occupy(e)
			d.depart(e, false)
			ack.entries, ack.then = append(ack.entries, e), append(ack.then, note)
		case reject:
			c.left++
			if d.pile == deadLetters { // it is where it would go
				d.window.release(e, now, now)
				d.changed(e)
				note(done)
				continue
			}
			d.bury(e, &messagesv1.DeadLetter{Reason: envelope.Rejected, Detail: c.detail, Deliveries: e.count}, note)
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
		d.remove(&ack)
	}
	finished()
}

const (
	// answersAtOnce bounds how many acknowledgements wait for the server at once, of one
	// request.
	answersAtOnce = 16
	answerTimeout = 5 * time.Second
)

// remove removes messages from the stream when it is written that they have departed, and
// tells the loop when that is confirmed.
func (d *dispatcher) remove(s *settled) {
	replies := make([]string, len(s.entries))
	for i, e := range s.entries {
		replies[i] = e.reply
	}
	d.moving++
	d.answers = append(d.answers, func() {
		go func() {
			s.removed = d.confirm(replies)
			d.tell(s)
		}()
	})
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

// bury moves a message to the dead letters. Where there is no space for it, it is given out
// again.
func (d *dispatcher) bury(e *entry, why *messagesv1.DeadLetter, then func(messagesv1.ReceiptResult)) {
	d.window.occupy(e)
	d.moving++
	sequence, m, size := e.sequence, e.message, e.size
	go func() {
		if gone, err := d.move(sequence, m, size, why); gone || err != nil {
			d.tell(&unburied{entry: e, then: then, gone: gone, err: err})
			return
		}
		d.tell(&buried{entry: e, then: then})
	}()
}

// hold waits until a message of so many bytes may be read again that is not to be given out, unless the dispatcher
// ends. Those that are held take no more than what is read to be given out, or are a single one, and are no more than
// may wait for the server at once. drop ends it.
func (d *dispatcher) hold(size int) (drop func(), ok bool) {
	n := int64(min(max(size, d.bounds.fetch/answersAtOnce), d.bounds.fetch))
	if d.rereads.Acquire(d.lasting, n) != nil {
		return nil, false
	}
	return func() { d.rereads.Release(n) }, true
}

// move stores a message of so many bytes as a dead letter. One that is nil is read again, and held until it is stored;
// gone says that it is not in the stream any more.
func (d *dispatcher) move(sequence uint64, m *nats.Msg, size int, why *messagesv1.DeadLetter) (gone bool, err error) {
	if m == nil {
		drop, ok := d.hold(size)
		if !ok {
			return false, d.gone()
		}
		defer drop()
		stored, missing := d.read(sequence)
		switch {
		case missing:
			return true, nil
		case stored == nil:
			return false, fmt.Errorf("read message %d, which is to be a dead letter: the stream does not answer", sequence)
		}
		m = stored.message()
	}
	if m, err = d.hub.ordinary(m); err != nil {
		return false, fmt.Errorf("read message %d, which is to be a dead letter: %w", sequence, err)
	}
	dead := envelope.DeadLetter(store.DeadSubject(d.hub.options.Queue), m, sequence, why)
	id := []byte(dead.Header.Get(nats.MsgIdHdr))
	if _, ok := ids.Known(d.hub.options.IDs, id); ok {
		// It became this dead letter before, which was given to somebody since: who moved it was killed before that was
		// written.
		return false, nil
	}
	if why := d.hub.options.Quota.Admit(id); why != "" {
		return false, fmt.Errorf("store the dead letter of message %d: %s", sequence, why)
	}
	ctx, stop := context.WithTimeout(context.Background(), answerTimeout)
	defer stop()
	if _, err := d.js.PublishMsg(ctx, dead); err != nil {
		return false, fmt.Errorf("store the dead letter of message %d: %w", sequence, err)
	}
	return false, nil
}

// ordinary is a message that does not refer to a dictionary: a dead letter may stay longer than that. One that is corrupt
// is as it was.
func (h *Hub) ordinary(m *nats.Msg) (*nats.Msg, error) {
	if h.options.Decoding == nil {
		return m, nil
	}
	headers, payload, err := h.options.Decoding.Ordinary(m.Header, m.Data)
	if err != nil && !errors.Is(err, message.ErrCorrupt) {
		return nil, err
	}
	return &nats.Msg{Subject: m.Subject, Header: headers, Data: payload}, nil
}

// buried is a message that is among the dead letters, and where it was before.
type buried struct {
	entry *entry
	then  func(messagesv1.ReceiptResult)
}

// unburied is a message that could not be moved, or has gone before.
type unburied struct {
	entry *entry
	then  func(messagesv1.ReceiptResult)
	gone  bool
	err   error
}
