// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
)

// leaseName is the last token of the subject of the lease.
const leaseName = "lead"

// maxLease bounds a message of the lease that is read, in bytes.
const maxLease = 4 << 10

// claim is what a member says that leads.
type claim struct {
	Member string `json:"member"`
	// Nonce tells one start of a member from another.
	Nonce uint64 `json:"nonce"`
	// Released says that the member does not lead any more.
	Released bool `json:"released,omitempty"`
}

// lease is by which one of several members leads. It is the last message of a subject. Each names the sequence of the
// one before (Nats-Expected-Last-Subject-Sequence), so of two members that would lead one is refused.
//
// Clocks are not compared. Who leads says so again and again, and stops leading a term after it began to say so the
// last time that it was heard. Others take over when they have seen the same message for longer than that, each by its
// own clock.
type lease struct {
	js                      jetstream.JetStream
	stream, subject, member string
	term                    time.Duration
	log                     *slog.Logger
	nonce                   uint64

	// Of who runs.
	mine     uint64 // sequence of what this member said last; 0: it does not lead
	sequence uint64 // that was seen last
	changed  time.Time
	looked   bool

	mu    sync.Mutex
	until time.Time // this member leads
	seen  claim     // by others or by this one
	at    time.Time // of seen
}

func newLease(js jetstream.JetStream, stream, subject, member string, term time.Duration, log *slog.Logger) *lease {
	return &lease{
		js: js, stream: stream, subject: subject, member: member, term: term, log: log, nonce: rand.Uint64(),
	} //nolint:gosec // It is no secret.
}

// Of a term: how often who leads says so and others look, how long others wait, and how long an answer may take.
func (l *lease) interval() time.Duration { return l.term / 5 }
func (l *lease) patience() time.Duration { return l.term + l.term/2 }
func (l *lease) timeout() time.Duration  { return l.term / 2 }

// run takes part until the context ends, and then lets others lead at once.
func (l *lease) run(ctx context.Context) {
	ticker := time.NewTicker(l.interval())
	defer ticker.Stop()
	for {
		if err := l.turn(ctx); err != nil && ctx.Err() == nil {
			l.log.Debug("Lease is tried again", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			l.release(context.WithoutCancel(ctx))
			return
		case <-ticker.C:
		}
	}
}

// turn leads on, or looks whether this member should.
func (l *lease) turn(ctx context.Context) error {
	if l.mine != 0 {
		return l.say(ctx, l.mine, false)
	}
	last, sequence, err := l.look(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	first := !l.looked
	if l.looked = true; first || sequence != l.sequence {
		l.sequence, l.changed = sequence, now
	}
	l.note(last, l.changed)
	switch {
	case last.Nonce == l.nonce && sequence != 0: // it was said, and the answer was lost
	case sequence == 0 || last.Released || now.Sub(l.changed) >= l.patience():
	case first && last.Member == l.member: // the one before of this name has ended
	default:
		return nil
	}
	return l.say(ctx, sequence, false)
}

// look returns what was said last; sequence 0: nothing.
func (l *lease) look(ctx context.Context) (last claim, sequence uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout())
	defer cancel()
	stream, err := l.js.Stream(ctx, l.stream)
	if err != nil {
		return last, 0, fmt.Errorf("look who leads: %w", err)
	}
	m, err := stream.GetLastMsgForSubject(ctx, l.subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return last, 0, nil
	}
	if err != nil {
		return last, 0, fmt.Errorf("look who leads: %w", err)
	}
	// What cannot be read is nobody's, and is taken over when it has not changed for long.
	if last, err = parseClaim(m.Data); err != nil {
		l.log.Error("Lease is damaged", "stream", l.stream, "sequence", m.Sequence, "error", err.Error())
	}
	return last, m.Sequence, nil
}

// parseClaim reads what a member said.
func parseClaim(data []byte) (claim, error) {
	var c claim
	if len(data) > maxLease {
		return c, fmt.Errorf("a claim of %d bytes; the limit is %d", len(data), maxLease)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return claim{}, fmt.Errorf("read a claim: %w", err)
	}
	return c, nil
}

// say claims the lease, or gives it up, after the message with a sequence.
func (l *lease) say(ctx context.Context, after uint64, released bool) error {
	c := claim{Member: l.member, Nonce: l.nonce, Released: released}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	m := &nats.Msg{
		Subject: l.subject, Data: data, Header: nats.Header{jetstream.MsgRollup: []string{jetstream.MsgRollupSubject}},
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout())
	defer cancel()
	began := time.Now()
	ack, err := l.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(after), jetstream.WithRetryAttempts(0))
	if err != nil {
		// It may have been said nevertheless: the next look tells. Until its term ends this member leads.
		l.mine = 0
		if jetstreamerror.Overtaken(err) {
			l.lead(time.Time{})
		}
		return fmt.Errorf("say who leads: %w", err)
	}
	if released {
		return nil
	}
	if !l.held() {
		l.log.Info("This member leads")
	}
	l.mine, l.sequence, l.changed = ack.Sequence, ack.Sequence, time.Now()
	l.lead(began.Add(l.term))
	l.note(c, began)
	return nil
}

// release lets another member lead at once.
func (l *lease) release(ctx context.Context) {
	l.lead(time.Time{})
	if l.mine == 0 {
		return
	}
	if err := l.say(ctx, l.mine, true); err != nil {
		l.log.Debug("Others lead when the term has ended", "error", err.Error())
	}
}

func (l *lease) lead(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = until
}

func (l *lease) note(c claim, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen, l.at = c, at
}

// held reports whether this member leads.
func (l *lease) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until)
}

// holder returns the member that leads, as far as is known; empty: none.
func (l *lease) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen.Released || time.Since(l.at) > l.patience() {
		return ""
	}
	return l.seen.Member
}
