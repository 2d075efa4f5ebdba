// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// maxSampleReads bounds how many sequences are looked at for a sample.
	maxSampleReads = 1 << 16
	// maxOrder is of how many sequences each is looked at once, in a random order. Where there are more they are drawn.
	maxOrder = 1 << 16
	// sparse is how many sequences have to be gone for each that is there before the next message is taken for one that
	// is gone.
	sparse = 64
)

// Sample calls visit with messages of the queue at random until visit returns false, or as many sequences were looked
// at as is worth while. No message is visited twice. Nothing is consumed, and no consumer sees a difference. Messages
// that come or go meanwhile may be among them or not.
func (s *Streams) Sample(
	ctx context.Context, conn *nats.Conn, seed uint64, visit func(header nats.Header, payload []byte) (bool, error),
) error {
	_, stream, err := Look(ctx, conn, s.queue)
	if err != nil {
		return err
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 {
		return nil
	}
	d := newDraw(state.FirstSeq, state.LastSeq, seed)
	for there, gone := 0, 0; there+gone < maxSampleReads; {
		sequence, ok := d.next()
		if !ok {
			return nil
		}
		m, err := s.at(ctx, stream, sequence, gone > sparse*(there+1))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			gone++
			continue
		}
		if err != nil {
			return fmt.Errorf("read message %d of queue %s: %w", sequence, s.queue, err)
		}
		if !s.own(m.Subject) || !d.first(m.Sequence) {
			gone++
			continue
		}
		there++
		if more, err := visit(m.Header, m.Data); err != nil || !more {
			return err
		}
	}
	return nil
}

// at reads the message with a sequence, or with next the first of the queue from there on.
func (s *Streams) at(
	ctx context.Context, stream jetstream.Stream, sequence uint64, next bool,
) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if next {
		return stream.GetMsg(ctx, sequence, jetstream.WithGetMsgSubject(">"))
	}
	return stream.GetMsg(ctx, sequence)
}

// own reports whether a subject is of the queue's messages.
func (s *Streams) own(subject string) bool {
	return subject == s.queue || strings.HasPrefix(subject, s.queue+".")
}

// draw draws sequences from a range.
type draw struct {
	low, span uint64
	random    *rand.Rand
	order     []int // of a short range
	had       map[uint64]struct{}
}

func newDraw(low, high, seed uint64) *draw {
	d := &draw{
		low: low, span: high - low + 1, random: rand.New(rand.NewPCG(seed, 0x7175_6575_65)), had: make(map[uint64]struct{}),
	}
	if d.span > 0 && d.span <= maxOrder {
		d.order = d.random.Perm(int(d.span))
	}
	return d
}

// next returns a sequence; of a short range each once.
func (d *draw) next() (sequence uint64, ok bool) {
	if d.span == 0 {
		return 0, false
	}
	if d.span > maxOrder {
		return d.low + d.random.Uint64N(d.span), true
	}
	if len(d.order) == 0 {
		return 0, false
	}
	sequence, d.order = d.low+uint64(d.order[0]), d.order[1:]
	return sequence, true
}

// first reports whether a message is met for the first time.
func (d *draw) first(sequence uint64) bool {
	_, had := d.had[sequence]
	d.had[sequence] = struct{}{}
	return !had
}
