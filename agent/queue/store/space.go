// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/wire/queuevolume"
)

// leastLimit is what messages may take when there is no space at all, since 0 would not bound them.
const leastLimit = 64 << 10

// Volume is what a member has of its volume, in bytes.
type Volume struct {
	// Size is what all files together can have, and Free what can be written now.
	Size, Free int64
}

// Volume looks at the volume. It is cheap. Of a store that spills the volume is what its files may take.
func (s *Store) Volume() (Volume, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(s.options.Directory, &fs); err != nil {
		return Volume{}, fmt.Errorf("look at the volume of queue %s: %w", s.options.Queue, err)
	}
	unit := uint64(fs.Bsize)
	v := Volume{Size: signed((fs.Blocks - fs.Bfree + fs.Bavail) * unit), Free: signed(fs.Bavail * unit)}
	if s.spilling == nil {
		return v, nil
	}
	v, err := s.spilling.within(v)
	if err != nil {
		return Volume{}, fmt.Errorf("look at the files of queue %s: %w", s.options.Queue, err)
	}
	return v, nil
}

func signed(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// Crowded returns an error while the volume is short of space, so that messages are rejected, or when it is too small
// for the longest message, of so many bytes. It is nil when a queue is full as its limits say.
func (s *Store) Crowded(longest int64) error {
	if s.space == nil {
		return nil
	}
	v, err := s.space.look()
	if err != nil {
		return nil //nolint:nilerr // Failed tells of a volume that cannot be looked at.
	}
	if limit := s.space.limit(v); limit < min(longest, s.options.Capacity) {
		return fmt.Errorf("%w: the volume of %d bytes has space for %d bytes of messages beside its reserve",
			syscall.ENOSPC, v.Size, limit)
	}
	if !s.space.shortOf(v) {
		return nil
	}
	least := s.space.leastFree(v)
	return fmt.Errorf("%w: only %d of %d bytes of the volume are free, so messages are rejected, whatever "+
		"spec.limits.overflow says, until there are %d; the rest is used by something else, or by what acknowledged "+
		"messages leave between others until these are acknowledged too; no message that is there is removed",
		syscall.ENOSPC, v.Free, v.Size, 2*least)
}

// space limits a stream to what this member's volume has space for, and closes it while a member's volume is short.
type space struct {
	queue    string
	member   string
	capacity int64
	members  int
	look     func() (Volume, error)
	leads    func() bool
	now      func() time.Time

	// changing is held while this process reads the stream's configuration and writes it.
	changing sync.Mutex

	mu    sync.Mutex
	short bool                 // this member's volume takes no messages
	heard map[string]time.Time // when others last said so of theirs
}

func newSpace(queue, member string, capacity int64, members int) *space {
	return &space{
		queue: queue, member: member, capacity: capacity, members: members, now: time.Now, heard: make(map[string]time.Time),
	}
}

// alone reports whether there is one and no other member has any.
func (r *space) alone() bool { return r != nil && r.members == 1 }

// limit is what messages may take of a volume, whatever is on it.
func (r *space) limit(v Volume) int64 {
	reserve := queuevolume.Beside(min(v.Size, r.capacity), r.members)
	return max(min(r.capacity, v.Size-reserve), leastLimit)
}

// leastFree is how many bytes have to be free on a volume for messages to be put. A queue that has rejected them takes
// them again when there are twice as many.
func (r *space) leastFree(v Volume) int64 { return queuevolume.Short(min(v.Size, r.capacity)) }

// shortOf notes whether the volume is short of space.
func (r *space) shortOf(v Volume) bool {
	least := r.leastFree(v)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.short = v.Free < least || r.short && v.Free < 2*least
	return r.short
}

// closed reports whether a member's volume is short of space.
func (r *space) closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for member, at := range r.heard {
		if now.Sub(at) > silence {
			delete(r.heard, member)
		}
	}
	return r.short || len(r.heard) > 0
}

// bounds are those limits of a stream that space has a say in.
type bounds struct {
	bytes      int64
	dropOldest bool
}

// shut are those of a stream that rejects messages, which cuts nothing.
var shut = bounds{bytes: leastLimit}

// slack is by how much a stream may hold more than it does when it drops its oldest and has more than its limit: a
// member that has yet to take over acknowledgements holds more than the one that leads, and would cut messages that are
// to stay.
const slack = 4 << 20

// within is what a stream, which holds so many bytes and has some bounds, is to have of those that its settings say,
// with space for so many. Space takes away no message that is there: a stream that drops its oldest would be cut to a
// lower limit at once, so it keeps what it holds, and each message pushes out as much as it takes.
func within(spec, have bounds, limit, stored int64) bounds {
	out := bounds{bytes: min(spec.bytes, limit), dropOldest: spec.dropOldest}
	if !spec.dropOldest {
		return out
	}
	floor := stored + slack
	if have.dropOldest {
		floor = max(stored, min(floor, have.bytes)) // or it would grow by that from look to look
	}
	out.bytes = min(max(out.bytes, floor), spec.bytes)
	return out
}

// bound limits what is wanted of a stream, which has a configuration and holds so many bytes. A stream whose settings
// have no limit of bytes is left without one. Only the member that leads opens a stream that is shut.
func (r *space) bound(want *jetstream.StreamConfig, have jetstream.StreamConfig, stored int64) {
	if want.MaxBytes <= 0 {
		return
	}
	now := boundsOf(*want)
	v, err := r.look()
	if err == nil {
		r.shortOf(v)
	}
	switch {
	case r.closed() || !r.leads() && boundsOf(have) == shut:
		now = shut
	case err == nil:
		now = within(now, boundsOf(have), r.limit(v), stored)
	case have.MaxBytes > 0:
		now = boundsOf(have)
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

// spaceSubject is where members tell each other that their volumes are short of space. It is stored nowhere, and
// clients can neither put nor listen to it.
func spaceSubject(queue string) string { return "$LIGHTERAGE.ROOM." + queue }

// report is what a member tells.
type report struct {
	Member string `json:"member"`
	// Offered is what messages may take on its volume in bytes. Members of earlier releases want to know it.
	Offered int64 `json:"offered"`
	// Short says that none may be put.
	Short bool `json:"short,omitempty"`
}

const (
	// Members are a few, whose names are those of hosts.
	mostHeard     = 16
	longestReport = 4 << 10
	longestName   = 253
)

var errNoReport = errors.New("it is not a member's report of free space")

func parseReport(text []byte) (report, error) {
	var r report
	if len(text) > longestReport {
		return report{}, fmt.Errorf("%w: it has %d bytes", errNoReport, len(text))
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return report{}, errors.Join(errNoReport, err)
	}
	if r.Member == "" || len(r.Member) > longestName {
		return report{}, errNoReport
	}
	return r, nil
}

// hear notes what a member tells.
func (r *space) hear(text []byte) error {
	told, err := parseReport(text)
	if err != nil || told.Member == r.member {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.heard, told.Member); !told.Short {
		return nil
	}
	if len(r.heard) >= mostHeard {
		return fmt.Errorf("%w: more than %d members tell", errNoReport, mostHeard)
	}
	r.heard[told.Member] = r.now()
	return nil
}

const (
	// spaceInterval is between two looks at the free space of the volume: less than it takes to write what has to be
	// free there.
	spaceInterval = 50 * time.Millisecond
	// spaceAgain is between two looks of the member that leads at the stream, and how often members tell what has not
	// changed.
	spaceAgain = time.Second
	// silence is how long a report counts.
	silence = 10 * time.Second
)

// KeepSpace has the stream reject messages while a member's volume is short of space, until the context ends. Only the
// member that leads changes the stream, and it touches no other setting. So a queue is full before a volume is, and
// messages that are there can be got and make space. tell is given what keeps it from that, and nil after each time
// that nothing did.
func (s *Store) KeepSpace(ctx context.Context, conn *nats.Conn, tell func(error)) {
	if s.space == nil {
		return
	}
	if !s.space.alone() {
		others, err := conn.Subscribe(spaceSubject(s.options.Queue), func(m *nats.Msg) {
			_ = s.space.hear(m.Data) // What is no report moves nothing.
		})
		if err != nil {
			tell(fmt.Errorf("subscribe to members' free space: %w", err))
			return // The connection is closed.
		}
		defer func() { _ = others.Unsubscribe() }() // It ends with the connection at the latest.
	}
	ticker := time.NewTicker(spaceInterval)
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

// keeper is what KeepSpace remembers from turn to turn.
type keeper struct {
	*Store
	conn *nats.Conn

	told   report // the others
	toldAt time.Time

	closed  bool // when the stream was looked at last
	movedAt time.Time
	problem error // that it had
}

// turn tells the others, and looks at the stream if this member leads.
func (k *keeper) turn(ctx context.Context, now time.Time) error {
	v, err := k.space.look()
	if err != nil {
		return err
	}
	told := report{Member: k.space.member, Offered: k.space.limit(v), Short: k.space.shortOf(v)}
	if !k.space.alone() && (told != k.told || now.Sub(k.toldAt) >= spaceAgain) {
		text, err := json.Marshal(told)
		if err == nil {
			err = k.conn.Publish(spaceSubject(k.space.queue), text)
		}
		if err != nil {
			return fmt.Errorf("publish free space to members: %w", err)
		}
		k.told, k.toldAt = told, now
	}
	if !k.Leader() {
		k.movedAt, k.problem = time.Time{}, nil // Another does it meanwhile.
		return nil
	}
	if closed := k.space.closed(); closed != k.closed || now.Sub(k.movedAt) >= spaceAgain {
		k.closed, k.movedAt = closed, now
		k.problem = k.moveLimit(ctx, k.conn)
	}
	return k.problem
}

// What settings say of a stream's bounds is noted among its metadata by who applies them: the member that leads may not
// have read them yet, and the former ones may remove messages.
const (
	bytesKey    = "lighterage.dev/max-bytes"
	overflowKey = "lighterage.dev/overflow"
	overflowOld = "drop-oldest"
	overflowNew = "reject-new"
)

func noteBounds(metadata map[string]string, settings bounds) {
	metadata[bytesKey], metadata[overflowKey] = strconv.FormatInt(settings.bytes, 10), overflowNew
	if settings.dropOldest {
		metadata[overflowKey] = overflowOld
	}
}

// notedBounds are those of the settings of a stream, or those that it has if none are noted.
func notedBounds(c jetstream.StreamConfig) bounds {
	n, err := strconv.ParseInt(c.Metadata[bytesKey], 10, 64)
	if err != nil {
		return boundsOf(c)
	}
	return bounds{bytes: n, dropOldest: c.Metadata[overflowKey] == overflowOld}
}

// moveLimit gives the stream the limit that there is space for. Whatever else the stream has stays.
func (s *Streams) moveLimit(ctx context.Context, conn *nats.Conn) error {
	s.space.changing.Lock()
	defer s.space.changing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	js, stream, err := Look(ctx, conn, s.queue)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // It is made yet.
	}
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	want := info.Config
	want.Metadata = ownMetadata(info.Config.Metadata)
	settings := notedBounds(info.Config)
	noteBounds(want.Metadata, settings)
	want.MaxBytes, want.Discard = settings.bytes, discard(settings.dropOldest)
	s.space.bound(&want, info.Config, signed(info.State.Bytes))
	if want.MaxBytes <= 0 || boundsOf(want) == boundsOf(info.Config) {
		return nil
	}
	if _, err := js.UpdateStream(ctx, want); err != nil {
		return fmt.Errorf("limit the stream of queue %s to %d bytes: %w", s.queue, want.MaxBytes, err)
	}
	return nil
}
