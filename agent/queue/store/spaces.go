// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// roomSubject is where members tell each other what they have space for. It is stored nowhere: what a member had space
// for that does not say so any more is forgotten. Clients can neither put nor listen to it.
func roomSubject(queue string) string { return "$LIGHTERAGE.ROOM." + queue }

// heard is what another member tells.
type heard struct {
	Member string `json:"member"`
	// Offered is what messages may take on its volume in bytes.
	Offered int64 `json:"offered"`
	// Short says that none may be put.
	Short bool `json:"short,omitempty"`

	at time.Time
}

const (
	// Members are a few, whose names are those of hosts.
	mostHeard    = 16
	longestHeard = 4 << 10
	longestName  = 253
)

var errNotRoom = errors.New("it is not a member's report of free space")

func parseHeard(text []byte) (heard, error) {
	var h heard
	if len(text) > longestHeard {
		return heard{}, fmt.Errorf("%w: it has %d bytes", errNotRoom, len(text))
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return heard{}, errors.Join(errNotRoom, err)
	}
	if h.Member == "" || len(h.Member) > longestName || h.Offered <= 0 {
		return heard{}, errNotRoom
	}
	return h, nil
}

// hear notes what a member tells.
func (r *space) hear(text []byte) error {
	h, err := parseHeard(text)
	if err != nil || h.Member == r.member {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.heard[h.Member]; !known && len(r.heard) >= mostHeard {
		return fmt.Errorf("%w: more than %d members tell", errNotRoom, mostHeard)
	}
	h.at = r.now()
	r.heard[h.Member] = h
	return nil
}

// tell says what this member has space for, if that is known and another than what was told before, or always.
func (r *space) tell(conn *nats.Conn, before heard, always bool) (heard, error) {
	offered, short, known := r.offer()
	now := heard{Member: r.member, Offered: offered, Short: short}
	if !known || !always && now == before {
		return before, nil
	}
	text, err := json.Marshal(now)
	if err != nil {
		return before, fmt.Errorf("publish free space to members: %w", err)
	}
	if err := conn.Publish(roomSubject(r.queue), text); err != nil {
		return before, fmt.Errorf("publish free space to members: %w", err)
	}
	return now, nil
}

const (
	// roomInterval is between two looks at the space on the volume: less than it takes to write what the store keeps
	// free of it.
	roomInterval = 200 * time.Millisecond
	// roomAgain is between two looks of the member that leads at the stream, and how often members tell what has not
	// changed.
	roomAgain = time.Second
)

// KeepRoom moves the limit of the stream whenever members' volumes have space for less than it allows, or for more
// again, until the context ends. Only the member that leads does, and it touches no other setting. So a queue is full
// before a volume is, and messages are refused or dropped while those that are there can be got and make space. tell is
// given what keeps it from that, and nil after each time that nothing did.
func (s *Store) KeepRoom(ctx context.Context, conn *nats.Conn, tell func(error)) {
	if s.space == nil {
		return
	}
	if s.space.members {
		others, err := conn.Subscribe(roomSubject(s.options.Queue), func(m *nats.Msg) {
			_ = s.space.hear(m.Data) // What is no space of a member moves nothing.
		})
		if err != nil {
			tell(fmt.Errorf("subscribe to members' free space: %w", err))
			return // The connection is closed.
		}
		defer func() { _ = others.Unsubscribe() }() // It ends with the connection at the latest.
	}
	ticker := time.NewTicker(roomInterval)
	defer ticker.Stop()
	k := keeper{Store: s, conn: conn}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if s.Failed() != nil {
			continue
		}
		if err := k.turn(ctx, time.Now()); ctx.Err() == nil {
			tell(err)
		}
	}
}

// keeper is what KeepRoom remembers from turn to turn.
type keeper struct {
	*Store
	conn *nats.Conn

	told   heard // the others
	toldAt time.Time

	seen    least // when the limit was moved last
	movedAt time.Time
	problem error // that it had
}

// turn tells the others, and moves the limit if this member leads.
func (k *keeper) turn(ctx context.Context, now time.Time) error {
	var untold error
	if k.space.members {
		always := now.Sub(k.toldAt) >= roomAgain
		if k.told, untold = k.space.tell(k.conn, k.told, always); always {
			k.toldAt = now
		}
	}
	if !k.Leader() {
		k.seen, k.problem = least{}, nil // Another moves it meanwhile.
		return untold
	}
	l, known := k.space.least(0)
	l.of, l.silence, l.whole = "", 0, false
	if known && (l != k.seen || now.Sub(k.movedAt) >= roomAgain) {
		k.seen, k.movedAt = l, now
		if k.problem = k.moveLimit(ctx, k.conn); k.problem != nil {
			k.seen = least{}
		}
	}
	return errors.Join(untold, k.problem)
}

// moveLimit gives the stream the limit that there is space for. Whatever else the stream has stays. It does nothing
// before settings were given.
func (s *Streams) moveLimit(ctx context.Context, conn *nats.Conn) error {
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	s.space.changing.Lock()
	defer s.space.changing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, s.queue)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // It is made yet.
	}
	if err != nil {
		return fmt.Errorf("look at the stream of queue %s: %w", s.queue, err)
	}
	info := stream.CachedInfo()
	want := info.Config
	want.Metadata = ownMetadata(info.Config.Metadata)
	spec, noted := notedBounds(want.Metadata)
	if !noted {
		return nil
	}
	want.MaxBytes, want.Discard = spec.bytes, discard(spec.dropOldest)
	s.space.bound(&want, info.Config, signed(info.State.Bytes))
	if want.MaxBytes == info.Config.MaxBytes && want.Discard == info.Config.Discard {
		return nil
	}
	if _, err := js.UpdateStream(ctx, want); err != nil {
		return fmt.Errorf("limit the stream of queue %s to %d bytes: %w", s.queue, want.MaxBytes, err)
	}
	return nil
}

// bound limits what is wanted of a stream, which has a configuration and holds so many bytes, to what members have
// space for. A stream whose settings have no limit of bytes is left without one.
func (r *space) bound(want *jetstream.StreamConfig, have jetstream.StreamConfig, stored int64) {
	if want.MaxBytes <= 0 {
		return
	}
	spec, before := boundsOf(*want), boundsOf(have)
	now := left(spec, before)
	if r.leads() {
		if l, known := r.least(want.Replicas - 1); known {
			now = within(spec, before, l, stored)
		}
	}
	want.MaxBytes, want.Discard = now.bytes, discard(now.dropOldest)
}

func boundsOf(c jetstream.StreamConfig) bounds {
	return bounds{bytes: c.MaxBytes, dropOldest: c.Discard == jetstream.DiscardOld}
}

func discard(oldest bool) jetstream.DiscardPolicy {
	if oldest {
		return jetstream.DiscardOld
	}
	return jetstream.DiscardNew
}

// What the settings say of a stream's bounds is noted among its metadata by who applies them, so that the member that
// moves the limit need not have the same settings yet.
const (
	bytesKey    = "lighterage.dev/max-bytes"
	overflowKey = "lighterage.dev/overflow"
	overflowOld = "drop-oldest"
	overflowNew = "reject-new"
)

// noteBounds notes what the settings say.
func noteBounds(want *jetstream.StreamConfig) {
	delete(want.Metadata, bytesKey)
	delete(want.Metadata, overflowKey)
	if want.MaxBytes <= 0 {
		return
	}
	want.Metadata[bytesKey] = strconv.FormatInt(want.MaxBytes, 10)
	want.Metadata[overflowKey] = overflowNew
	if want.Discard == jetstream.DiscardOld {
		want.Metadata[overflowKey] = overflowOld
	}
}

func notedBounds(metadata map[string]string) (bounds, bool) {
	n, err := strconv.ParseInt(metadata[bytesKey], 10, 64)
	return bounds{bytes: n, dropOldest: metadata[overflowKey] == overflowOld}, err == nil && n > 0
}

// Narrowed says which other member, that is not heard any more, keeps messages from what the volumes of the rest have
// space for; empty if none does. Members that are there tell of their own volumes. It is known to the member that
// leads.
func (s *Store) Narrowed() string {
	if s.space == nil || !s.space.members || !s.Leader() {
		return ""
	}
	l, known := s.space.least(0)
	if !known || l.silence <= silence || !narrow(l.bytes, s.options.Capacity, true) {
		return ""
	}
	return fmt.Sprintf("messages may take %d bytes, because %s, which has not reported for %v, had no more free space; "+
		"its last report counts until it has been silent for %v",
		l.bytes, l.of, l.silence.Round(time.Second), absence)
}
