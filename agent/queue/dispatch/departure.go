// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"time"

	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// departure says that a message was acknowledged or moved to the dead letters, and is given
// to nobody any more. It is in the log before the message is removed from the stream: the
// server confirms an acknowledgement before every member has removed the message, and
// forgets it with the consumer, which does not outlast the dispatcher.
type departure struct {
	Sequence uint64 `json:"s"`
	// Put is when the message was stored, in nanoseconds of Unix time. Another message has
	// the sequence when the end of the stream was lost, as by a power failure.
	Put int64 `json:"p"`
	// Nonce is part of the receipt by which it departed; 0: by none.
	Nonce uint64 `json:"n,omitempty"`
	// Dead says that it became a dead letter.
	Dead bool `json:"d,omitempty"`
}

// keptDepartures is how many count: many more than can be on their way out of the stream
// when the member that leads is killed.
const keptDepartures = windowMessages

// departures are the last ones.
type departures struct {
	order []departure // as they came; older ones than the last keptDepartures do not count
	of    map[uint64]departure
}

func newDepartures() *departures { return &departures{of: make(map[uint64]departure)} }

func (d *departures) add(x departure) {
	d.order = append(d.order, x)
	d.of[x.Sequence] = x
	if len(d.order) < 2*keptDepartures {
		return
	}
	for _, old := range d.order[:len(d.order)-keptDepartures] {
		if d.of[old.Sequence] == old {
			delete(d.of, old.Sequence)
		}
	}
	d.order = append([]departure(nil), d.last()...)
}

// last returns those that count.
func (d *departures) last() []departure { return d.order[max(0, len(d.order)-keptDepartures):] }

// has reports whether the message that was stored then under a sequence has departed.
func (d *departures) has(sequence uint64, put time.Time) bool {
	x, ok := d.of[sequence]
	return ok && x.Put == put.UnixNano()
}

// result says what a change by a receipt comes to whose message has departed: what was done
// by it is done also when it is asked for again. ok is false if it is not known.
func (d *departures) result(v verb, r receipt) (result messagesv1.ReceiptResult, ok bool) {
	x, ok := d.of[r.sequence]
	switch {
	case !ok || x.Nonce != r.nonce:
		return expired, false
	case v == acknowledge && !x.Dead, v == reject && x.Dead:
		return done, true
	default:
		return expired, true
	}
}
