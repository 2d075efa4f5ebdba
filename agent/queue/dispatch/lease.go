// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
)

// lease says that a message was given out.
type lease struct {
	Sequence uint64 `json:"s"`
	// Put is when the message was stored, in nanoseconds of Unix time, for the reason that departures have it.
	Put int64 `json:"p"`
	// Count is how often it was given out.
	Count uint32 `json:"c"`
	// Until when nobody else gets it, in milliseconds of Unix time.
	Until int64 `json:"u"`
	// Nonce is part of the receipt of the last time; 0: it was given back.
	Nonce uint64 `json:"n,omitempty"`
}

// record is one message of the log.
type record struct {
	// All says that leases that are not in it are over.
	All    bool    `json:"all,omitempty"`
	Leases []lease `json:"leases"`
	// Departed are written before the messages are removed from the stream.
	Departed []departure `json:"departed,omitempty"`
}

const (
	// maxRecord bounds a record that is read, in bytes.
	maxRecord = 1 << 20
	// longestRecord bounds one that is written, which goes with its headers in one message: servers may take no more
	// than maxRecord.
	longestRecord = maxRecord - 1<<10
	// longestLease and longestDeparture are what each of these takes at most in a record.
	longestLease, longestDeparture = 128, 96
	// recordsUntilAll is after how many records one holds all leases and replaces them.
	recordsUntilAll = 256
	// bytesUntilAll is the same in bytes, so that the log is never full: a record is shorter
	// than maxRecord, and there are two logs in the stream.
	bytesUntilAll = 4 << 20
	writeTimeout  = 10 * time.Second
)

// errFenced says that another dispatcher writes the log.
var errFenced = errors.New("another dispatcher has taken over")

// of reports whether the lease is of the message that was stored then under its sequence.
func (l lease) of(put time.Time) bool { return l.Put == put.UnixNano() }

// parseRecord reads a record.
func parseRecord(data []byte) (record, error) {
	var r record
	if len(data) > maxRecord {
		return r, fmt.Errorf("a record of %d bytes; the limit is %d", len(data), maxRecord)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, fmt.Errorf("read a record of leases: %w", err)
	}
	return r, nil
}

// all returns what counts of the log: what is known of messages in the window, and of those that were given out before
// the start and were not delivered yet, as far as a record has space. There may be many times as many of the latter
// after several restarts. Those that clients have for longest go first.
func (d *dispatcher) all() record {
	r := record{Departed: d.departed.last()}
	for _, e := range d.window.entries {
		if e.count > 0 {
			r.Leases = append(r.Leases, leaseOf(e))
		}
	}
	former := make([]lease, 0, len(d.former))
	for sequence, l := range d.former {
		if sequence > d.highest {
			former = append(former, l)
		}
	}
	slices.SortFunc(former, func(a, b lease) int {
		return cmp.Or(cmp.Compare(b.Until, a.Until), cmp.Compare(a.Sequence, b.Sequence))
	})
	if left := r.add(former); left > 0 {
		d.log.Warn("The leases of some messages that were delivered before a restart cannot be stored, because the volume "+
			"is full; after another restart they may be redelivered before their visibility timeout",
			"messages", left)
	}
	return r
}

// add adds the first of leases, as many as there is space for, and returns how many it leaves.
func (r *record) add(leases []lease) (left int) {
	if space := longestRecord - 64 - len(
		r.Departed,
	)*longestDeparture - len(r.Leases)*longestLease; len(leases)*longestLease > space {
		size := func(v any) int {
			text, err := json.Marshal(v)
			if err != nil {
				return longestRecord
			}
			return len(text) + 1
		}
		space = longestRecord - 64 - size(r)
		for i, l := range leases {
			if space -= size(l); space < 0 {
				leases, left = leases[:i], len(leases)-i
				break
			}
		}
	}
	r.Leases = append(r.Leases, leases...)
	return left
}

func leaseOf(e *entry) lease {
	l := lease{Sequence: e.sequence, Put: e.put.UnixNano(), Count: e.count, Nonce: e.nonce}
	if !e.until.IsZero() {
		l.Until = e.until.UnixMilli()
	}
	return l
}

// leaseLog is where leases survive the dispatcher. It is not safe for concurrent use.
type leaseLog struct {
	js              jetstream.JetStream
	stream, subject string
	// last is the sequence of the last record; records and bytes are how much there is since
	// all leases were in one.
	last    uint64
	records int
	bytes   int
}

// load returns the leases of messages that have not departed, and those that have. A
// damaged record is left out, which is a matter of the log.
func (l *leaseLog) load(ctx context.Context, log *slog.Logger) (map[uint64]lease, *departures, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	stream, err := l.look(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("read who has which message: %w", err)
	}
	leases, departed := make(map[uint64]lease), newDepartures()
	for {
		m, err := l.next(ctx, stream)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return leases, departed, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read who has which message: %w", err)
		}
		l.last = m.Sequence
		l.records++
		l.bytes += len(m.Data)
		r, err := parseRecord(m.Data)
		if err != nil {
			log.Error(
				"A record of who has which messages is damaged; they may be got again early", "error", err.Error(), "stream",
				l.stream, "sequence", m.Sequence,
			)
			continue
		}
		if r.All {
			clear(leases)
			departed = newDepartures()
		}
		for _, x := range r.Leases {
			leases[x.Sequence] = x
		}
		for _, x := range r.Departed {
			delete(leases, x.Sequence)
			departed.add(x)
		}
	}
}

// look and next ask for the stream and the record after the last. A server that ends, or does not lead any more, takes
// the question with it: nobody waits for all of them as long as for one.
func (l *leaseLog) look(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return l.js.Stream(ctx, l.stream)
}

func (l *leaseLog) next(ctx context.Context, stream jetstream.Stream) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return stream.GetMsg(ctx, l.last+1, jetstream.WithGetMsgSubject(l.subject))
}

// write appends what has changed. all returns all that counts, and is asked now and then.
// After an error that is not errFenced it may be written or not.
func (l *leaseLog) write(ctx context.Context, r record, all func() record) error {
	m := &nats.Msg{Subject: l.subject, Header: nats.Header{}}
	if l.records >= recordsUntilAll || l.bytes >= bytesUntilAll {
		r = all()
		r.All = true
		m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	}
	var err error
	if m.Data, err = json.Marshal(r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	ack, err := l.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(l.last), jetstream.WithRetryAttempts(0))
	if jetstreamerror.Overtaken(err) {
		return fmt.Errorf("%w: %w", errFenced, err)
	}
	if err != nil {
		return fmt.Errorf("write who has which message: %w", err)
	}
	l.last = ack.Sequence
	if r.All {
		l.records, l.bytes = 0, 0
	}
	l.records++
	l.bytes += len(m.Data)
	return nil
}
