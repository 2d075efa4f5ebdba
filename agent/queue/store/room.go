// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/nats-io/nats.go/jetstream"
)

// What is kept free of a volume beside what leases and ids may take: for blocks of messages that
// have partly left, until the server compacts them, for the copies that it makes to do so, for
// its indexes and the states of consumers, and for what is put until a limit has been moved.
const (
	leastReserve = 24 << 20
	mostReserve  = 512 << 20
	reservePart  = 32 // of the volume, beside leastReserve
)

// largestBlock is what the server's largest file of messages has.
const largestBlock = 8 << 20

// leastRoom is what messages may take when there is no room at all, since 0 would not bound them.
const leastRoom = 64 << 10

// roomToNote is what has to be free for limits to be moved: the server writes them down.
const roomToNote = 256 << 10

// stepPart is the part of a volume by which its room has to differ for limits to be moved.
const stepPart = 128

// IDBytes is what the ids of given messages may take of a volume of so many bytes in a queue of
// one member.
func IDBytes(volume int64) int64 { return min(maxIDBytes, volume/reservePart) }

// beside is what a volume, or the part of a larger one that is for a queue, has to keep for other
// things than its messages.
func beside(volume int64, members bool) int64 {
	ids := IDBytes(volume)
	if members {
		ids = maxIDBytes
	}
	return maxLeaseBytes + ids + min(leastReserve+volume/reservePart, mostReserve)
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
	// What is removed in between makes it seem to have more room, and what is put less. The first is there anyway soon after.
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

// roomOf counts what is there and what is free. So blocks that are half empty, a Raft log that has not been cut yet, and whatever
// else is on the volume count with what they really take.
func roomOf(v Volume, capacity int64, members bool) int64 {
	size := v.Size
	if capacity > 0 {
		size = min(size, capacity)
	}
	room := max(v.Used+v.Free-beside(size, members), leastRoom)
	if capacity > 0 {
		room = min(room, capacity)
	}
	return room
}

// Crowded returns an error when what is on the volume beside the messages leaves them so little
// that they fill it: less than about three quarters of what they would have of an otherwise empty one.
// It is nil when a queue is full as its limits say.
func (s *Store) Crowded() error {
	if s.room == nil {
		return nil
	}
	v, err := s.Volume()
	if err != nil || !crowded(v, s.options.Capacity, s.options.Cluster != nil) {
		return nil //nolint:nilerr // Failed tells of a store that does not say what it has.
	}
	return fmt.Errorf("%w: the volume of %d bytes has room for %d bytes of messages and %d are there; the rest is taken by something else, or by what "+
		"acknowledged messages leave between others until these are acknowledged too; puts are refused, or push out the oldest messages, as spec.limits.overflow says",
		syscall.ENOSPC, v.Size, v.Room, v.Used)
}

func crowded(v Volume, capacity int64, members bool) bool {
	usual := capacity - beside(capacity, members)
	return v.Room < usual/4*3-largestBlock && v.Used >= v.Room-v.Room/10
}

// room is what a member has told the stream that messages may take on its volume. Each writes it
// into the stream's metadata, and the stream is limited to the least.
type room struct {
	key      string // in the metadata
	capacity int64
	members  bool // there are others
	look     func() (Volume, error)

	mu      sync.Mutex
	offered int64 // 0: nothing yet
	told    int64 // what the stream was told
}

// roomKey is how the keys of members' room begin.
const roomKey = "lighterage.dev/room."

// offer is what messages may take now. It changes only by steps, or every put would move it.
func (r *room) offer() (offered int64, known bool) {
	now, err := r.look()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || now.Free < roomToNote {
		return r.offered, r.offered > 0
	}
	r.offered = step(r.offered, now.Room, r.capacity)
	return r.offered, true
}

// step is what is offered of a room after what was before. A block that has partly left is in what
// is kept free, and moves nothing: an oldest message that is dropped leaves such a block, and would make room for less again.
func step(before, room, capacity int64) int64 {
	width := max(min(room, capacity)/stepPart, 1<<20)
	next := max(min(room-width, capacity), leastRoom)
	if before == 0 || room < before-min(largestBlock, before/2) || next > before+2*width || next == capacity {
		return next
	}
	return before
}

// within limits a stream to what every member has room for, this one as it is now, and notes that in the metadata. It reports whether
// it is noted there already.
func (r *room) within(want *jetstream.StreamConfig, metadata map[string]string) (noted bool) {
	if r == nil || want.MaxBytes <= 0 {
		return true
	}
	noted = true
	if offered, known := r.offer(); known {
		text := strconv.FormatInt(offered, 10)
		noted = metadata[r.key] == text
		metadata[r.key] = text
	}
	for key, text := range metadata {
		if n, err := strconv.ParseInt(text, 10, 64); strings.HasPrefix(key, roomKey) && err == nil && n > 0 {
			want.MaxBytes = min(want.MaxBytes, n)
		}
	}
	return noted
}

// alone reports whether there is one and no other member has any.
func (r *room) alone() bool { return r != nil && !r.members }

// tell notes what the stream was told.
func (r *room) tell(metadata map[string]string) {
	if r == nil {
		return
	}
	n, err := strconv.ParseInt(metadata[r.key], 10, 64)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = n
}

// RoomChanged reports whether Ensure would give the stream another limit because of this member's
// volume. It is cheap.
func (s *Store) RoomChanged() bool {
	if s.room == nil {
		return false
	}
	offered, known := s.room.offer()
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	return known && offered != s.room.told
}
