// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"math"
	"sync"
	"syscall"
	"time"

	"github.com/lighterage/lighterage/agent/wire/queuevolume"
)

// largestBlock is what the server's largest file of messages has.
const largestBlock = 8 << 20

// leastRoom is what messages may take when there is no space at all, since 0 would not bound them.
const leastRoom = 64 << 10

// roomToNote is what has to be free for limits to be moved: the server writes them down.
const roomToNote = 256 << 10

// stepPart is the part of a volume by which its space has to differ for limits to be moved.
const stepPart = 128

// beside is what a volume, or the part of a larger one that is for a queue, has to keep for other
// things than its messages.
func beside(volume int64, members bool) int64 {
	if members {
		return queuevolume.Beside(volume, 3)
	}
	return queuevolume.Beside(volume, 1)
}

// Volume is what a member has of its volume, in bytes.
type Volume struct {
	// Size is that of the file system, and Free what can be written to it now.
	Size, Free int64
	// Used is what messages take that are there, leases and ids of several members included.
	Used int64
	// Room is what messages may take, those that are there included, so that the volume is not
	// full before they take that. It is never more than Options.Capacity, if that is given.
	Room int64
}

// Volume looks at the volume. It is cheap.
func (s *Store) Volume() (Volume, error) {
	js, err := s.server.Jsz(nil)
	if err != nil {
		return Volume{}, fmt.Errorf("ask the store of queue %s what it has: %w", s.options.Queue, err)
	}
	if js.Disabled {
		return Volume{}, fmt.Errorf("the store of queue %s was shut down", s.options.Queue)
	}
	// What is removed in between makes it seem to have more space, and what is put less. The first is there anyway soon
	// after.
	var fs syscall.Statfs_t
	if err := syscall.Statfs(s.options.Directory, &fs); err != nil {
		return Volume{}, fmt.Errorf("look at the volume of queue %s: %w", s.options.Queue, err)
	}
	unit := uint64(fs.Bsize)
	v := Volume{Size: signed(fs.Blocks * unit), Free: signed(fs.Bavail * unit), Used: signed(js.Store)}
	v.Room = roomOf(v, s.options.Capacity, s.options.Cluster != nil)
	return v, nil
}

func signed(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// roomOf counts what is there and what is free. So blocks that are half empty, a Raft log that has not been cut yet,
// and whatever else is on the volume count with what they really take.
func roomOf(v Volume, capacity int64, members bool) int64 {
	size := v.Size
	if capacity > 0 {
		size = min(size, capacity)
	}
	space := max(v.Used+v.Free-beside(size, members), leastRoom)
	if capacity > 0 {
		space = min(space, capacity)
	}
	return space
}

// Crowded returns an error when what is on the volume beside the messages leaves them so little that they fill it: less
// than about three quarters of what they would have of an otherwise empty one. So it does when there is no space for
// the longest message, of so many bytes, and while the volume is short of space for anything. It is nil when a queue is
// full as its limits say.
func (s *Store) Crowded(longest int64) error {
	if s.space == nil {
		return nil
	}
	v, err := s.Volume()
	if err != nil {
		return nil //nolint:nilerr // Failed tells of a store that does not say what it has.
	}
	_, short, _ := s.space.offer()
	if !short && !crowded(v, s.options.Capacity, s.options.Cluster != nil, longest) {
		return nil
	}
	become := "a message that is put is refused, or pushes out the oldest, as spec.limits.overflow says"
	if short {
		become = fmt.Sprintf(
			"only %d bytes are free, so messages are refused, whatever spec.limits.overflow says, until there are %d", v.Free,
			2*s.space.leastFree(v),
		)
	}
	return fmt.Errorf("%w: the volume of %d bytes can hold %d bytes of messages and holds %d; the rest is used by "+
		"something else, or by what acknowledged messages leave between others until these are acknowledged too; no "+
		"message that is there goes because of that, and %s",
		syscall.ENOSPC, v.Size, v.Room, v.Used, become)
}

func crowded(v Volume, capacity int64, members bool, longest int64) bool {
	return v.Room < min(longest, capacity) || narrow(v.Room, capacity, members) && v.Used >= v.Room-v.Room/10
}

// narrow says that a space is clearly less than that of an otherwise empty volume.
func narrow(space, capacity int64, members bool) bool {
	usual := capacity - beside(capacity, members)
	return space < usual/4*3-largestBlock
}

// space is what this member, and what others have told of theirs, have space for.
type space struct {
	queue    string
	member   string
	capacity int64
	members  bool // there are others
	look     func() (Volume, error)
	leads    func() bool
	now      func() time.Time

	// changing is held while this process reads the stream's configuration and writes it.
	changing sync.Mutex

	mu      sync.Mutex
	began   time.Time
	offered int64            // 0: nothing yet
	short   bool             // the volume takes no messages
	heard   map[string]heard // of other members, by their names
}

func newRoom(queue, member string, capacity int64, members bool) *space {
	r := &space{
		queue: queue, member: member, capacity: capacity, members: members, now: time.Now, heard: make(map[string]heard),
	}
	r.began = r.now()
	return r
}

// alone reports whether there is one and no other member has any.
func (r *space) alone() bool { return r != nil && !r.members }

// leastFree is how many bytes have to be free on a volume for messages to be put. A queue that has refused them takes
// them again when there are twice as many.
func (r *space) leastFree(v Volume) int64 { return queuevolume.Short(min(v.Size, r.capacity)) }

// offer is what messages may take on this member's volume now, and whether they may be put at all. It changes only by
// steps, or every put would move it.
func (r *space) offer() (offered int64, short, known bool) {
	now, err := r.look()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		enough := r.leastFree(now)
		r.short = now.Free < enough || r.short && now.Free < 2*enough
	}
	// On a volume that is so full the step would not be written down.
	if err == nil && now.Free >= roomToNote {
		r.offered = step(r.offered, now.Room, r.capacity)
	}
	return r.offered, r.short, r.offered > 0
}

// step is what is offered of a space after what was before. A block that has partly left is in what is kept free, and
// moves nothing: an oldest message that is dropped leaves such a block, and would make space for less again.
func step(before, space, capacity int64) int64 {
	width := max(min(space, capacity)/stepPart, 1<<20)
	next := max(min(space-width, capacity), leastRoom)
	if before == 0 || space < before-min(largestBlock, before/2) || next > before+2*width || next == capacity {
		return next
	}
	return before
}

// least is what every member has space for.
type least struct {
	bytes int64
	short bool
	// whole says that every other member has told, or had the time to.
	whole bool
	// of is the member with the least space, and silence for how long it has not been heard; 0 for this one.
	of      string
	silence time.Duration
}

const (
	// heardPatience is how long limits are not raised because a member has not been heard yet.
	heardPatience = 15 * time.Second
	// absence is how long the space of a member counts that is not heard any more. One that is restarted is back by
	// then; for one that is not, the others do not go without space.
	absence = 5 * time.Minute
	// silence is how long a member that is well is not heard at most.
	silence = 10 * time.Second
)

// least looks at this member's volume and at what so many others in all have told. It is not known while nothing was
// seen of the own one.
func (r *space) least(others int) (least, bool) {
	offered, short, known := r.offer()
	if !known {
		return least{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := least{bytes: offered, short: short, of: r.member}
	now, present := r.now(), 0
	for name, h := range r.heard {
		away := now.Sub(h.at)
		if away > absence {
			continue
		}
		present++
		out.short = out.short || h.Short && away <= silence
		if h.Offered < out.bytes {
			out.bytes, out.of, out.silence = h.Offered, name, away
		}
	}
	out.whole = present >= others || now.Sub(r.began) > heardPatience
	return out, true
}

// bounds are those limits of a stream that space has a say in.
type bounds struct {
	bytes      int64
	dropOldest bool
}

// slack is by how much a stream may hold more than it does when it drops its oldest and is kept from growing: small
// changes are not worth a new limit, and a member that has yet to take over acknowledgements holds more than the one
// that leads, and would cut messages that are to stay.
const slack = 4 << 20

// within is what a stream, which holds so many bytes and has some bounds, is to have of those that its settings say.
// Room takes away no message that is there: a stream that drops its oldest would be cut to a lower limit at once, so it
// keeps what it holds, and each message pushes out as much as it takes. When a volume is short of space, the stream
// refuses messages, which cuts nothing.
func within(spec, have bounds, l least, stored int64) bounds {
	bytes := min(spec.bytes, l.bytes)
	if !l.whole && have.bytes > 0 {
		bytes = min(bytes, have.bytes)
	}
	if !spec.dropOldest || l.short {
		return bounds{bytes: bytes}
	}
	floor := stored + slack
	if have.dropOldest {
		floor = max(stored, min(floor, have.bytes)) // or it would grow by that from look to look
	}
	return bounds{bytes: min(max(bytes, floor), spec.bytes), dropOldest: true}
}

// left is what a stream is to have when its settings change, until the member that leads looks at space again: nothing
// that space may be against.
func left(spec, have bounds) bounds {
	out := bounds{bytes: spec.bytes, dropOldest: spec.dropOldest && have.dropOldest}
	if have.bytes > 0 {
		out.bytes = min(out.bytes, have.bytes)
	}
	return out
}
