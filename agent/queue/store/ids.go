// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/wire/queuevolume"
)

// IDStream is the stream with the ids of messages that members gave to consumers. It is not
// the queue's own, so that a full queue can be emptied. No queue has such a name.
func IDStream(queue string) string { return queue + "_ids" }

// IDSubject is where these are put.
func IDSubject(queue string) string { return "$LIGHTERAGE.IDS." + queue }

// maxIDBytes bounds the stream of ids, beside Options.Capacity: about a million. Beyond it
// the oldest are forgotten.
const maxIDBytes = queuevolume.MaxIDBytes

// IDBytes is what the ids of given messages may take of a volume of so many bytes in a queue of
// one member.
func IDBytes(volume int64) int64 { return queuevolume.IDBytes(volume, 1) }

// EnsureIDs makes the stream IDStream, or changes it to the settings if it differs, as
// Ensure does. A queue of one member needs none.
func (s *Streams) EnsureIDs(ctx context.Context, conn *nats.Conn, settings Settings) error {
	want := jetstream.StreamConfig{
		Name: IDStream(s.queue), Subjects: []string{IDSubject(s.queue)},
		MaxMsgs: -1, MaxBytes: maxIDBytes, MaxMsgsPerSubject: -1, MaxMsgSize: -1, MaxConsumers: -1, MaxAge: settings.Window(),
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, Storage: jetstream.FileStorage,
		Replicas: max(settings.Replicas, 1), Duplicates: min(settings.Window(), defaultDuplicateWindow),
	}
	if s.memory {
		want.Storage = jetstream.MemoryStorage
	}
	return s.await(ctx, conn, want, 0)
}
