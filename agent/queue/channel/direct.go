// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/scan"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// idlePause is between two looks for messages at the end of a stream. It doubles, up to idleMost, until there is one.
const (
	idlePause = 20 * time.Millisecond
	idleMost  = 250 * time.Millisecond
)

// position is how far a receiver has come in a stream.
type position struct {
	sequence uint64
	// put is when the stream stored the latest message up to the sequence; zero: not known.
	put time.Time
}

func positionOf(a *wirev1.ChannelAccepted) position {
	p := position{sequence: a.GetPosition()}
	if at := a.GetPositionTime(); at != nil {
		p.put = at.AsTime()
	}
	return p
}

// has reports whether the receiver had a message when it told its position. One that was put after all that it had is
// another than the one of that sequence which it has: the stream lost its end in between.
func (p position) has(l *letter) bool {
	return l.sequence <= p.sequence && (p.put.IsZero() || !l.stored.After(p.put))
}

// begins is the first sequence that a receiver may lack, in a stream whose messages begin with a sequence. Those up to
// its position are given again only behind the end that the stream has lost, so if the message at the position is what
// the receiver has, it has all before it.
func (x *session) begins(ctx context.Context, p position, first uint64) (uint64, error) {
	first = max(first, 1)
	if p.sequence < first || p.put.IsZero() {
		return p.sequence + 1, nil
	}
	at, err := x.look(ctx, p.sequence)
	if err != nil {
		return 0, err
	}
	if at != nil && !at.Time.After(p.put) {
		return p.sequence + 1, nil
	}
	return first, nil // Another has its place, or it has left, or it is not there again yet.
}

// look returns the message with a sequence in the eyes of the member that leads; nil if there is none.
func (x *session) look(ctx context.Context, sequence uint64) (m *scan.Message, err error) {
	reader, err := scan.NewReader(x.options.Conn, x.options.Stream)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	if m, err = reader.Ahead(ctx, sequence); err != nil || m == nil || m.Sequence != sequence {
		return nil, err
	}
	return m, nil
}

// errHeaders is why a message cannot be sent whose headers the library of NATS cannot read.
var errHeaders = errors.New("its headers cannot be read")

// direct hands out what the stream has from a sequence on, and waits for more, without a consumer.
func (x *session) direct(ctx context.Context, from uint64) (err error) {
	reader, err := scan.NewReader(x.options.Conn, x.options.Stream)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	hand := func(m *scan.Message) error {
		own := m.Subject == x.options.Stream || strings.HasPrefix(m.Subject, x.options.Stream+".")
		if !own {
			return nil // of channels, archives and dead letters
		}
		l := &letter{
			id: ids.Message{
				ID: []byte(m.Header.Get(jetstream.MsgIDHeader)), Sequence: m.Sequence, Stored: m.Time,
			},
			sequence: m.Sequence, subject: m.Subject, headers: m.Header, payload: m.Payload, stored: m.Time,
		}
		if m.Unread {
			l.damage = errHeaders
		}
		select {
		case x.letters <- l:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	pause := idlePause
	for {
		news := x.share.news()
		last, unread, err := reader.Fetch(ctx, from, x.options.BatchMessages, maxBatchBytes, hand)
		if err != nil {
			return err
		}
		from = max(from, last+1)
		if unread {
			ahead, err := reader.Ahead(ctx, from)
			if err != nil {
				return err
			}
			if ahead != nil {
				// The one that could not be read may have gone since, and this be a sound one behind it.
				if err := hand(ahead); err != nil {
					return err
				}
				from = ahead.Sequence + 1
			}
		}
		switch {
		case last > 0 || unread:
			pause = idlePause
		case idle(ctx, news, pause):
			pause = idlePause // It may be at this replica a little later.
		default:
			pause = min(2*pause, idleMost)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// idle waits, and reports whether it was for news.
func idle(ctx context.Context, news <-chan struct{}, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-news:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
