// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queuevolume is how much of a Queue member's volume is for messages and how much for other things, in bytes.
// The API server rejects volumes by these figures, the manager says by them which messages a volume is too small for,
// and members reject messages by them.
package queuevolume

const (
	// LeaseBytes is for what is kept of who has which message.
	LeaseBytes = 16 << 20
	// MaxIDBytes is the most for ids of messages that were given.
	MaxIDBytes = 32 << 20

	// part of a volume is for ids, and as much for Reserve.
	part         = 32
	leastReserve = 24 << 20
	mostReserve  = 512 << 20

	// Least is the smallest volume that the member of a Queue of one may have.
	Least = 64 << 20
	// LeastOfThree is the smallest volume that a member of a Queue of three may have.
	LeastOfThree = 128 << 20
)

// IDBytes is what ids of given messages may take of a volume. Several members keep each other's, in a stream which is
// as large for all, so that volumes of different sizes do not matter.
func IDBytes(volume int64, members int) int64 {
	if members > 1 {
		return MaxIDBytes
	}
	return min(MaxIDBytes, volume/part)
}

// Reserve is what is for blocks of messages that have partly left, until the server compacts them, for the copies that
// it makes to do so, for its indexes and the states of consumers, and for what is put until the stream rejects it.
func Reserve(volume int64) int64 {
	return min(leastReserve+volume/part, mostReserve)
}

// Short is how much has to be free for messages to be put, whatever a limit says. A stream that is as large as it may
// be leaves more: Reserve, and what leases and ids do not take, less a block or two of 8 MiB. So others have taken the
// rest, or messages that were acknowledged between others.
func Short(volume int64) int64 { return Reserve(volume) / 2 }

// Beside is what a volume of so many bytes, or the part of a larger one that is for a queue, keeps for other things
// than messages.
func Beside(volume int64, members int) int64 {
	return LeaseBytes + IDBytes(volume, members) + Reserve(volume)
}

// ForMessages is what is surely left for messages of a volume that nobody else writes to: a tenth may be the file
// system's. It is 0 or less for one that is too small.
func ForMessages(volume int64, members int) int64 {
	return volume - volume/10 - Beside(volume, members)
}
