// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queuefaults

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Rules are what Check has to know about the queue and its clients.
type Rules struct {
	// Window within which the queue knows a message by its id.
	Window time.Duration
	// InTurn are the consumers that are given one message at a time, so that they get
	// those of a key for the first time in the order in which they were put. What they did not
	// acknowledge, or what the queue did not confirm, they may get again later, behind others of its key.
	InTurn []string
	// OneByOne are the consumers that are given no message of a key before every earlier one of it was
	// acknowledged or rejected, or is a dead letter. What they get again they get before any later
	// one of its key: who has asked for messages after a later one was got gets no earlier one any more.
	OneByOne []string
	// Deposed is when a leader may not have known that there was another, which had been elected behind its back. Who
	// asks for messages then may get some that the other gave to somebody who acknowledged them, once more, except
	// those that are given one by one.
	Deposed []Span
}

// Span is a time with its beginning and its end.
type Span struct{ From, To time.Time }

func (s Span) contains(t time.Time) bool { return !t.Before(s.From) && !t.After(s.To) }

// Fault says which promise was broken.
type Fault string

// The faults that Check finds.
const (
	// Lost: a message whose put was acknowledged was never got.
	Lost Fault = "lost"
	// Dropped: a message was got, and has gone though nobody acknowledged it; or it was
	// rejected, and is not among the dead letters.
	Dropped Fault = "gone though nobody acknowledged it"
	// Twice: a message is in the stream at two places though it was put twice within the
	// window only, or at more in the stream behind a channel than before it, or as two dead letters.
	Twice Fault = "stored twice"
	// Again: a message was got by who asked after the queue had confirmed that it was
	// acknowledged or rejected, of a leader that knew that it was one.
	Again Fault = "got again after it was acknowledged"
	// Early: a message was got by who asked after another had got it, before the time was over for which it was the
	// other's.
	Early Fault = "got while it was with another"
	// Order: a message is before another of its key that was put earlier.
	Order Fault = "out of order"
	// Changed: what was got is not what was put.
	Changed Fault = "changed"
	// Unknown: what was got was never put.
	Unknown Fault = "never put"
	// Shared: two messages were acknowledged with the same place in the stream.
	Shared Fault = "two messages at one place"
)

// Violation is a promise that the queue did not keep.
type Violation struct {
	Fault Fault
	// ID of the message.
	ID string
	// Detail says what was seen.
	Detail string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.ID, v.Fault, v.Detail) }

// message is what is known of one.
type message struct {
	id                string
	key               string
	number            uint64
	digest            Digest
	firstPut, lastPut time.Time
	acknowledged      bool
	sequences         map[string][]uint64 // different ones, by stream
	got               int
	asked, rejected   bool      // somebody acknowledged it, or rejected it
	done              time.Time // when the queue confirmed that
	reportedAgain     bool
	passed            uint64 // the first later one of its key that was got before that; 0: none
	dead              map[uint64]time.Time
	heldSince, until  time.Time // who got it last, or extended that, has it
}

// checker reads a history once.
type checker struct {
	rules      Rules
	messages   map[string]*message
	byKey      map[string][]*message
	places     map[place]string
	turn       map[turn]uint64
	open       map[string][]*message // by key, those that nobody has acknowledged, as far as looked at
	front      map[string]reached
	violations []Violation
}

// place of a message in a stream.
type place struct {
	stream   string
	sequence uint64
}

// turn is the messages of a key as a consumer gets them.
type turn struct{ consumer, key string }

// reached is the highest number of a key that was got one by one, and when that was for the first time.
type reached struct {
	number uint64
	at     time.Time
}

// Check returns every promise that a queue did not keep, of a history that ended when the
// queue was empty. A message whose put was never acknowledged may be there or not.
func Check(events []Event, rules Rules) []Violation {
	c := &checker{
		rules: rules, messages: make(map[string]*message), byKey: make(map[string][]*message), places: make(map[place]string),
		turn: make(map[turn]uint64),
		open: make(map[string][]*message), front: make(map[string]reached),
	}
	for _, e := range events {
		c.read(e)
	}
	for _, key := range slices.Sorted(maps.Keys(c.byKey)) {
		for _, m := range c.byKey[key] {
			c.judge(m)
		}
		if key != "" {
			c.judgeOrder(c.byKey[key])
		}
	}
	return c.violations
}

func (c *checker) find(f Fault, id, format string, args ...any) {
	c.violations = append(c.violations, Violation{f, id, fmt.Sprintf(format, args...)})
}

func (c *checker) read(e Event) {
	m := c.messages[e.ID]
	if m == nil {
		if e.Kind != Put {
			c.find(Unknown, e.ID, "%s at place %d of the stream", e.Kind, e.Sequence)
			return
		}
		m = &message{
			id: e.ID, key: e.Key, number: e.Number, digest: e.Digest, firstPut: e.Time, sequences: make(map[string][]uint64),
			dead: make(map[uint64]time.Time),
		}
		c.messages[e.ID] = m
		c.byKey[e.Key] = append(c.byKey[e.Key], m)
		c.open[e.Key] = append(c.open[e.Key], m)
	}
	switch e.Kind {
	case Put:
		m.lastPut = e.Time
	case PutAcknowledged:
		m.acknowledged = true
		c.place(m, e)
	case Got:
		c.place(m, e)
		c.got(m, e)
	case GetAcknowledging:
		m.asked = true
	case Releasing:
		m.until = time.Time{}
	case Extended:
		m.hold(e)
	case Rejecting:
		m.rejected, m.until = true, time.Time{} // where it is full it is given out again
	case GetAcknowledged, Rejected:
		if m.done.IsZero() {
			m.done = e.Time
		}
	case GotDead:
		c.gotDead(m, e)
	case DeadAcknowledged:
		if m.dead[e.Sequence].IsZero() {
			m.dead[e.Sequence] = e.Time
		}
	}
}

func (c *checker) place(m *message, e Event) {
	if slices.Contains(m.sequences[e.Stream], e.Sequence) {
		return
	}
	m.sequences[e.Stream] = append(m.sequences[e.Stream], e.Sequence)
	c.take(m, e)
}

// take notes who is at a place.
func (c *checker) take(m *message, e Event) {
	at := place{e.Stream, e.Sequence}
	if other, ok := c.places[at]; ok {
		c.find(Shared, m.id, "%s at place %d of the stream, which is that of %s", e.Kind, e.Sequence, other)
		return
	}
	c.places[at] = m.id
}

// compare looks whether a message is what was put.
func (c *checker) compare(m *message, e Event) {
	if e.Digest != m.digest || e.Key != m.key || e.Number != m.number {
		c.find(
			Changed, m.id, "number %d of key %s with digest %.8x was put, %d of %s with %.8x was got", m.number, m.key, m.digest,
			e.Number, e.Key, e.Digest,
		)
	}
}

func (c *checker) got(m *message, e Event) {
	m.got++
	c.compare(m, e)
	if !m.done.IsZero() && e.Asked.After(m.done) && !m.reportedAgain && !c.deposed(e) {
		m.reportedAgain = true
		c.find(
			Again, m.id, "by %s, %v after the queue had confirmed its acknowledgement, at place %d of the stream", e.Consumer,
			e.Asked.Sub(m.done).Round(time.Millisecond), e.Sequence,
		)
	}
	if e.Asked.After(m.heldSince) && e.Time.Before(m.until) {
		c.find(
			Early, m.id, "by %s, %v too early, at place %d of the stream", e.Consumer,
			m.until.Sub(e.Time).Round(time.Millisecond), e.Sequence,
		)
	}
	m.hold(e)
	if m.key == "" {
		return
	}
	if slices.Contains(c.rules.OneByOne, e.Consumer) {
		c.gotOneByOne(m, e)
	}
	if m.got > 1 || !slices.Contains(c.rules.InTurn, e.Consumer) {
		return
	}
	t := turn{e.Consumer, m.key}
	if last := c.turn[t]; m.number < last {
		c.find(Order, m.id, "%s got number %d of key %s after number %d", e.Consumer, m.number, m.key, last)
	}
	c.turn[t] = max(c.turn[t], m.number)
}

// deposed reports whether a leader may have given a message that did not know of the other.
func (c *checker) deposed(e Event) bool {
	return !slices.Contains(c.rules.OneByOne, e.Consumer) &&
		slices.ContainsFunc(c.rules.Deposed, func(s Span) bool { return s.contains(e.Asked) })
}

// hold notes until when a message is to be given to nobody else.
func (m *message) hold(e Event) {
	if e.Until.After(m.until) {
		m.heldSince, m.until = e.Time, e.Until
	}
}

func (c *checker) gotOneByOne(m *message, e Event) {
	// Who asked before the later one was got may have been given this one before that, and hears of it late.
	front := c.front[m.key]
	if m.number < front.number && e.Asked.After(front.at) {
		c.find(
			Order, m.id, "%s got number %d of key %s, asked for %v after number %d was got", e.Consumer, m.number, m.key,
			e.Asked.Sub(front.at).Round(time.Millisecond), front.number,
		)
	}
	if m.number > front.number {
		c.front[m.key] = reached{m.number, e.Time}
	}
	// Those before it have left, or are on their way to the dead letters, which judge knows.
	open := c.open[m.key][:0]
	for _, earlier := range c.open[m.key] {
		switch {
		case earlier.number >= m.number:
			open = append(open, earlier)
		case earlier.acknowledged && !earlier.asked && !earlier.rejected:
			earlier.passed = m.number
		}
	}
	c.open[m.key] = open
}

func (c *checker) gotDead(m *message, e Event) {
	c.compare(m, e)
	done, known := m.dead[e.Sequence]
	if !known {
		m.dead[e.Sequence] = time.Time{}
		c.take(m, e)
		if len(m.dead) == 2 {
			c.find(Twice, m.id, "as dead letters at places %d of the stream", slices.Sorted(maps.Keys(m.dead)))
		}
		return
	}
	if !done.IsZero() && e.Asked.After(done) {
		c.find(
			Again, m.id,
			"by %s as a dead letter, %v after the queue had confirmed its acknowledgement, at place %d of the stream",
			e.Consumer, e.Asked.Sub(done).Round(time.Millisecond), e.Sequence,
		)
	}
}

func (c *checker) judge(m *message) {
	switch {
	case !m.acknowledged || len(m.dead) > 0:
	case m.got == 0:
		c.find(Lost, m.id, "number %d of key %s, acknowledged at %d", m.number, m.key, m.sequences[""])
	case !m.asked && m.rejected:
		c.find(
			Dropped, m.id, "number %d of key %s at %d was rejected, and is not among the dead letters", m.number, m.key,
			m.sequences[""],
		)
	case !m.asked:
		c.find(Dropped, m.id, "number %d of key %s at %d was got %d times", m.number, m.key, m.sequences[""], m.got)
	}
	if m.passed > 0 && len(m.dead) == 0 {
		c.find(Order, m.id, "number %d of key %s was got while nobody had acknowledged number %d", m.passed, m.key, m.number)
	}
	for _, stream := range slices.Sorted(maps.Keys(m.sequences)) {
		places := m.sequences[stream]
		within := m.lastPut.Sub(m.firstPut)
		switch {
		case stream == "" && len(places) > 1 && within < c.rules.Window:
			c.find(Twice, m.id, "at places %d of the stream, put within %v", places, within.Round(time.Millisecond))
		case stream != "" && len(places) > max(1, len(m.sequences[""])) && within < c.rules.Window:
			c.find(
				Twice, m.id, "at places %d of the stream %s, and %d of that where it was put", places, stream, m.sequences[""],
			)
		}
	}
}

// judgeOrder looks at the places in the streams: that consumers get messages in this order
// is JetStream's, as far as they are not given again.
func (c *checker) judgeOrder(messages []*message) {
	slices.SortFunc(messages, func(a, b *message) int { return cmp.Compare(a.number, b.number) })
	last := make(map[string]*message)
	for _, m := range messages {
		for _, stream := range slices.Sorted(maps.Keys(m.sequences)) { // of the others nobody knows whether it is there
			places := m.sequences[stream]
			if before := last[stream]; before != nil && slices.Min(places) < slices.Min(before.sequences[stream]) {
				c.find(
					Order, m.id, "number %d of key %s is at %d, number %d at %d", m.number, m.key, places, before.number,
					before.sequences[stream],
				)
			}
			last[stream] = m
		}
	}
}
