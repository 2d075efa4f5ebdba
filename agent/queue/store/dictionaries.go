// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// DictionaryStream is the stream with the dictionaries that messages refer to. It has as many replicas as the queue's
// own. No queue has such a name.
func DictionaryStream(queue string) string { return queue + "_dictionaries" }

// DictionarySubject is where one of them is kept, or, by the name "current", which is in use.
func DictionarySubject(queue, name string) string {
	return "$LIGHTERAGE.DICTIONARIES." + queue + "." + name
}

const (
	// MaxDictionaries is how many there are at most.
	MaxDictionaries = 16
	// MaxDictionaryEntry is the longest entry of one in bytes.
	MaxDictionaryEntry = 66 << 10
	// maxDictionaryBytes is what the server may keep of them, beside Options.Capacity. On the volume they are in
	// queuevolume.Reserve.
	maxDictionaryBytes = 2 << 20
)

// EnsureDictionaries makes the stream DictionaryStream, or changes it to the settings, as Ensure does.
func (s *Streams) EnsureDictionaries(ctx context.Context, conn *nats.Conn, settings Settings) error {
	want := jetstream.StreamConfig{
		Name: DictionaryStream(s.queue), Subjects: []string{DictionarySubject(s.queue, "*")},
		// No MaxBytes, which the server would reserve: a server of a release without dictionaries has no space for that, and
		// would not open its other streams.
		// Who trains them bounds their number. Here is space for more than that: where members replicate a stream, the server
		// counts a message beside the one that it takes the place of.
		MaxMsgs:  maxDictionaryBytes / MaxDictionaryEntry,
		MaxBytes: -1, MaxMsgsPerSubject: 1, MaxMsgSize: MaxDictionaryEntry, MaxConsumers: -1,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage,
		Replicas: max(settings.Replicas, 1), Duplicates: defaultDuplicateWindow,
		// Readers ask the member that leads: another one may lag behind.
		AllowDirect: false,
	}
	if s.memory {
		want.Storage = jetstream.MemoryStorage
	}
	return s.await(ctx, conn, want, 0)
}
