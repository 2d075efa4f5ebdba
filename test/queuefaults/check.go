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
	// those of a key in the order in which they were put.
	InTurn []string
}

// Fault says which promise was broken.
type Fault string

// The faults that Check finds.
const (
	// Lost: a message whose put was acknowledged was never got.
	Lost Fault = "lost"
	// Twice: a message is in the stream at two places though it was put twice within the
	// window only.
	Twice Fault = "stored twice"
	// Again: a message was got by who asked after the queue had confirmed that it was
	// acknowledged.
	Again Fault = "got again after it was acknowledged"
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
	sequences         []uint64 // different ones
	got               int
	done              time.Time // when the queue confirmed its acknowledgement
	reportedAgain     bool
}

// checker reads a history once.
type checker struct {
	rules      Rules
	messages   map[string]*message
	byKey      map[string][]*message
	places     map[uint64]string
	turn       map[turn]uint64
	violations []Violation
}

// turn is the messages of a key as a consumer gets them.
type turn struct{ consumer, key string }

// Check returns every promise that a queue did not keep, of a history that ended when the
// queue was empty. A message whose put was never acknowledged may be there or not.
func Check(events []Event, rules Rules) []Violation {
	c := &checker{
		rules: rules, messages: make(map[string]*message), byKey: make(map[string][]*message), places: make(map[uint64]string), turn: make(map[turn]uint64),
	}
	for _, e := range events {
		c.read(e)
	}
	for _, key := range slices.Sorted(maps.Keys(c.byKey)) {
		for _, m := range c.byKey[key] {
			c.judge(m)
		}
		c.judgeOrder(c.byKey[key])
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
		m = &message{id: e.ID, key: e.Key, number: e.Number, digest: e.Digest, firstPut: e.Time}
		c.messages[e.ID] = m
		c.byKey[e.Key] = append(c.byKey[e.Key], m)
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
	case GetAcknowledged:
		if m.done.IsZero() {
			m.done = e.Time
		}
	}
}

func (c *checker) place(m *message, e Event) {
	if slices.Contains(m.sequences, e.Sequence) {
		return
	}
	m.sequences = append(m.sequences, e.Sequence)
	if other, ok := c.places[e.Sequence]; ok && other != m.id {
		c.find(Shared, m.id, "%s at place %d of the stream, which is that of %s", e.Kind, e.Sequence, other)
		return
	}
	c.places[e.Sequence] = m.id
}

func (c *checker) got(m *message, e Event) {
	m.got++
	if e.Digest != m.digest || e.Key != m.key || e.Number != m.number {
		c.find(Changed, m.id, "number %d of key %s with digest %.8x was put, %d of %s with %.8x was got", m.number, m.key, m.digest, e.Number, e.Key, e.Digest)
	}
	if !m.done.IsZero() && e.Asked.After(m.done) && !m.reportedAgain {
		m.reportedAgain = true
		c.find(Again, m.id, "by %s, %v after the queue had confirmed its acknowledgement, at place %d of the stream", e.Consumer, e.Asked.Sub(m.done).Round(time.Millisecond), e.Sequence)
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

func (c *checker) judge(m *message) {
	if m.acknowledged && m.got == 0 {
		c.find(Lost, m.id, "number %d of key %s, acknowledged at %d", m.number, m.key, m.sequences)
	}
	if len(m.sequences) > 1 && m.lastPut.Sub(m.firstPut) < c.rules.Window {
		c.find(Twice, m.id, "at places %d of the stream, put within %v", m.sequences, m.lastPut.Sub(m.firstPut).Round(time.Millisecond))
	}
}

// judgeOrder looks at the places in the stream: that consumers get messages in this order
// is JetStream's, as far as they are not given again.
func (c *checker) judgeOrder(messages []*message) {
	slices.SortFunc(messages, func(a, b *message) int { return cmp.Compare(a.number, b.number) })
	var last *message
	for _, m := range messages {
		if len(m.sequences) == 0 {
			continue // nobody knows whether it is there
		}
		if last != nil && slices.Min(m.sequences) < slices.Min(last.sequences) {
			c.find(Order, m.id, "number %d of key %s is at %d, number %d at %d", m.number, m.key, m.sequences, last.number, last.sequences)
		}
		last = m
	}
}
