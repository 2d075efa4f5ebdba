// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// QueueMessages counts messages and the bytes that they take as stored.
type QueueMessages struct {
	// count of messages, which is depth.
	// +optional
	Count int64 `json:"count"`
	// bytes as stored, with those of dead letters and of what channels and archives note, which take space as well.
	// +optional
	Bytes int64 `json:"bytes"`
}

// QueueRate counts something. Rates are per second over the last 10 to 20 seconds, as decimals.
type QueueRate struct {
	// count since the start or the last reset.
	// +optional
	Count int64 `json:"count"`
	// perSecond now.
	// +optional
	PerSecond string `json:"perSecond,omitempty"`
	// highPerSecond is the highest that was, summed over the members.
	// +optional
	HighPerSecond string `json:"highPerSecond,omitempty"`
}

// QueueStatistics are what the queue holds, and what its members did since their start or the last reset.
//
// +structType=atomic
type QueueStatistics struct {
	// depth is how many messages the queue holds, those included that a consumer has and did not acknowledge yet.
	// +optional
	Depth int64 `json:"depth"`
	// persistent messages, which are those of type File.
	// +optional
	Persistent QueueMessages `json:"persistent"`
	// nonPersistent messages, which are those of type Memory.
	// +optional
	NonPersistent QueueMessages `json:"nonPersistent"`
	// oldestMessageTime is when the oldest message was put.
	// +optional
	OldestMessageTime *metav1.Time `json:"oldestMessageTime,omitempty"`
	// contentTime is since when no member has said what the queue holds: depth, bytes, consumers, and what is with
	// these and of dead letters, are what was known then. Absent while members say it.
	// +optional
	ContentTime *metav1.Time `json:"contentTime,omitempty"`
	// averageSize of what the queue keeps as stored, in bytes: of messages, dead letters and what channels and archives
	// note.
	// +optional
	AverageSize int64 `json:"averageSize"`
	// averageUncompressedSize of the messages that were compressed, before that, in bytes.
	// +optional
	AverageUncompressedSize int64 `json:"averageUncompressedSize"`
	// recentUncompressedSize is the same of the last 10 to 20 seconds in which any was compressed.
	// +optional
	RecentUncompressedSize int64 `json:"recentUncompressedSize,omitempty"`
	// averageRatio of compressed messages: uncompressed divided by compressed bytes, as a decimal.
	// +optional
	AverageRatio string `json:"averageRatio,omitempty"`
	// recentRatio is the same of the last 10 to 20 seconds in which any was compressed.
	// +optional
	RecentRatio string `json:"recentRatio,omitempty"`
	// averageCompressSeconds is the CPU time that an engine took for one message that was put, as a decimal, on average
	// over all that it worked on, those that did not shrink included.
	// +optional
	AverageCompressSeconds string `json:"averageCompressSeconds,omitempty"`
	// recentCompressSeconds is the same of the last 10 to 20 seconds in which an engine worked on any.
	// +optional
	RecentCompressSeconds string `json:"recentCompressSeconds,omitempty"`
	// compressions of messages that were put.
	// +optional
	Compressions QueueRate `json:"compressions"`
	// decompressions of messages for clients.
	// +optional
	Decompressions QueueRate `json:"decompressions"`
	// puts that were acknowledged.
	// +optional
	Puts QueueRate `json:"puts"`
	// gets are messages that were delivered to clients.
	// +optional
	Gets QueueRate `json:"gets"`
	// storedFormGets of the gets were delivered compressed, since the client asked for that.
	// +optional
	StoredFormGets int64 `json:"storedFormGets"`
	// refusedPuts because of a limit, of a header that claims what the payload is not, or since the message could not
	// be stored.
	// +optional
	RefusedPuts int64 `json:"refusedPuts"`
	// duplicates were acknowledged and not stored again.
	// +optional
	Duplicates int64 `json:"duplicates"`
	// consumers of the queue, of which the channel is one.
	// +optional
	Consumers int64 `json:"consumers"`
	// unacknowledged messages are with a consumer, or were given back to be given out later.
	// +optional
	Unacknowledged int64 `json:"unacknowledged"`
	// redelivered of these were delivered before.
	// +optional
	Redelivered int64 `json:"redelivered"`
	// deadLetters were given out as often as spec.redelivery.maxDeliveries allows, or rejected by a client, or cannot
	// be sent by the channel. They are not in depth, but take space as messages do.
	// +optional
	DeadLetters int64 `json:"deadLetters,omitempty"`
	// connections of clients.
	// +optional
	Connections int64 `json:"connections"`
	// highWaterConnections is the sum of the most that each member has had at once.
	// +optional
	HighWaterConnections int64 `json:"highWaterConnections"`
	// opens of connections.
	// +optional
	Opens int64 `json:"opens"`
	// closes of connections.
	// +optional
	Closes int64 `json:"closes"`
	// refusedConnections because of limits.maxConnections.
	// +optional
	RefusedConnections int64 `json:"refusedConnections"`
	// failedAuthentications of clients.
	// +optional
	FailedAuthentications int64 `json:"failedAuthentications"`
	// forbiddenRequests of clients, for what their role does not allow.
	// +optional
	ForbiddenRequests int64 `json:"forbiddenRequests"`
	// fileBlocks are the files that hold messages, in all members. Absent with spec.engine.external, as what follows
	// about files and memory.
	// +optional
	FileBlocks *int64 `json:"fileBlocks,omitempty"`
	// fileBytes that these take.
	// +optional
	FileBytes *int64 `json:"fileBytes,omitempty"`
	// memoryBytes that messages take in memory, in all members. With storage.spill these are those of files that were
	// not swept.
	// +optional
	MemoryBytes *int64 `json:"memoryBytes,omitempty"`
	// volumeSync is how long it takes until a file of 512 bytes would survive the node, which members write every 10
	// seconds. It says how fast and how busy the volume is. Absent with type Memory and with spec.engine.external.
	// +optional
	VolumeSync *QueueVolumeSync `json:"volumeSync,omitempty"`
	// checkpoint is how long it takes until all that the store has written would survive the node: members sync the files
	// of the store that have changed, every 10 seconds, or each storage.sync.interval if that is longer. It is measured
	// beside the store's own syncs, which are of the same files at storage.sync.interval, and of which the store does not
	// tell. Absent as volumeSync, and with mode Always.
	// +optional
	Checkpoint *QueueVolumeSync `json:"checkpoint,omitempty"`
	// sweeps of the oldest files of messages from memory to the disk, since those that were not swept took more than
	// storage.size. Members look every second. Absent without storage.spill, as what follows about sweeps.
	// +optional
	Sweeps *int64 `json:"sweeps,omitempty"`
	// abortedSweeps ended with an error of the disk. What was not swept stays in memory.
	// +optional
	AbortedSweeps *int64 `json:"abortedSweeps,omitempty"`
	// sweptBytes of files.
	// +optional
	SweptBytes *int64 `json:"sweptBytes,omitempty"`
	// lastReset is when the member that has counted longest began: its start, or the last reset.
	// +optional
	LastReset *metav1.Time `json:"lastReset,omitempty"`
	// lastResetRequest is the value of the annotation lighterage.dev/reset-statistics that every member has acted upon.
	// +optional
	LastResetRequest string `json:"lastResetRequest,omitempty"`
}
