// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queuefaults

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Kind says what a client saw or did.
type Kind string

// The kinds of events.
const (
	// Put: a client is about to put a message, for the first time or once more.
	Put Kind = "put"
	// PutAcknowledged: the queue said that it has the message, at Sequence.
	PutAcknowledged Kind = "put-acknowledged"
	// Got: a consumer got the message, which the queue has at Sequence.
	Got Kind = "got"
	// GetAcknowledging: a consumer is about to acknowledge the message. From now on it may be gone.
	GetAcknowledging Kind = "get-acknowledging"
	// GetAcknowledged: the queue said that it knows of the consumer's acknowledgement.
	GetAcknowledged Kind = "get-acknowledged"
	// Releasing: a consumer is about to give the message back.
	Releasing Kind = "releasing"
	// Extended: the queue said that the message is the consumer's until Until.
	Extended Kind = "extended"
	// Rejecting: a consumer is about to have the message moved to the dead letters.
	Rejecting Kind = "rejecting"
	// Rejected: the queue said that the message is there.
	Rejected Kind = "rejected"
	// GotDead: a consumer got the message as a dead letter, which the queue has at Sequence.
	GotDead Kind = "got-dead"
	// DeadAcknowledged: the queue said that it knows of the acknowledgement of the dead letter at Sequence.
	DeadAcknowledged Kind = "dead-acknowledged"
)

// Digest is the SHA-256 of a message's payload.
type Digest [sha256.Size]byte

// Event is one. Which fields are set depends on its kind.
type Event struct {
	Kind Kind      `json:"kind"`
	Time time.Time `json:"time"`
	// ID is what the queue knows duplicates by.
	ID string `json:"id"`
	// Key and Number, from 1 on without gaps, say which message of which order it is. Without a key
	// the order does not count.
	Key    string `json:"key,omitempty"`
	Number uint64 `json:"number,omitempty"`
	Digest Digest `json:"digest,omitzero"`
	// Stream is empty for that of the queue into which messages are put, and names that of another queue to
	// which a channel leads. Sequence is the place there.
	Stream   string `json:"stream,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
	Consumer string `json:"consumer,omitempty"`
	// Asked is when the client asked for what it Got: a message can be on its way for long.
	Asked time.Time `json:"asked,omitzero"`
	// Until when nobody else is to get what the client Got or Extended, unless it gives it back. Zero: nothing was
	// promised.
	Until time.Time `json:"until,omitzero"`
}

// History is what clients saw, in the order in which they saw it. It is safe for
// concurrent use.
type History struct {
	mu     sync.Mutex
	events []Event
	counts map[Kind]int
}

// Add notes an event, with the time at which it is noted.
func (h *History) Add(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.Time = time.Now()
	h.events = append(h.events, e)
	if h.counts == nil {
		h.counts = make(map[Kind]int)
	}
	h.counts[e.Kind]++
}

// Events returns those up to now.
func (h *History) Events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Event(nil), h.events...)
}

// Count returns how many events of a kind there are.
func (h *History) Count(kind Kind) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts[kind]
}

// WriteTo writes one line of JSON for each event.
func (h *History) WriteTo(w io.Writer) (int64, error) {
	counted := &counter{w: w}
	buffered := bufio.NewWriter(counted)
	encoder := json.NewEncoder(buffered)
	for _, e := range h.Events() {
		if err := encoder.Encode(e); err != nil {
			return counted.n, fmt.Errorf("write the history: %w", err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return counted.n, fmt.Errorf("write the history: %w", err)
	}
	return counted.n, nil
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
