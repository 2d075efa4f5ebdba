// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wirev1

// What a member keeps free of its volume, in bytes. The API server refuses volumes by these figures, the manager says by them which messages
// a volume is too small for, and members act by them.
const (
	// QueueLeaseBytes is for what is kept of who has which message.
	QueueLeaseBytes = 16 << 20
	// QueueMaxIDBytes is the most for ids of messages that were given.
	QueueMaxIDBytes = 32 << 20

	// queuePart is the part of a volume that grows with it: once for ids, once for queueReserve.
	queuePart         = 32
	queueLeastReserve = 24 << 20
	queueMostReserve  = 512 << 20

	// QueueLeastVolume and QueueLeastVolumeOfThree are the smallest volumes that a member of a Queue of one and of three may have.
	QueueLeastVolume        = 64 << 20
	QueueLeastVolumeOfThree = 128 << 20
)

// QueueIDBytes is what ids of given messages may take of a volume. Several members keep each other's, in a stream which is as large for all,
// so that volumes of different sizes do not matter.
func QueueIDBytes(volume int64, members int) int64 {
	if members > 1 {
		return QueueMaxIDBytes
	}
	return min(QueueMaxIDBytes, volume/queuePart)
}

// QueueReserve is what is for blocks of messages that have partly left, until the server compacts them, for the copies that it makes to do
// so, for its indexes and the states of consumers, and for what is put until a limit has been moved.
func QueueReserve(volume int64) int64 {
	return min(queueLeastReserve+volume/queuePart, queueMostReserve)
}

// QueueShort is how much of QueueReserve has to be free for messages to be put, whatever a limit says. A stream that is as large as it may be
// leaves more: what is put pushes out the oldest, or is refused, and that takes two blocks of 8 MiB at most. So others have taken the rest.
func QueueShort(volume int64) int64 { return QueueReserve(volume) / 3 }

// QueueBeside is what a volume of so many bytes, or the part of a larger one that is for a queue, keeps for other things than messages.
func QueueBeside(volume int64, members int) int64 {
	return QueueLeaseBytes + QueueIDBytes(volume, members) + QueueReserve(volume)
}

// QueueRoom is what is surely left for messages of a volume that nobody else writes to: a tenth may be the file system's. It is 0 or less for
// one that is too small.
func QueueRoom(volume int64, members int) int64 {
	return volume - volume/10 - QueueBeside(volume, members)
}
