// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/roles"
	"github.com/lighterage/lighterage/agent/wire/queuevolume"
)

// maxLeaseBytes bounds what is kept of who has which message, beside Options.Capacity.
const maxLeaseBytes = queuevolume.LeaseBytes

// LeaseStream is the stream with what is kept of who has which message. It is not the
// queue's own, so that a full queue can be emptied. No queue has such a name.
func LeaseStream(queue string) string { return queue + "_leases" }

// LeaseSubject is where that is kept for one of the queue's piles of messages.
func LeaseSubject(queue, pile string) string { return "$LIGHTERAGE.LEASES." + queue + "." + pile }

// The consumers by which clients of gRPC and HTTP are served have names that begin so. What
// these hold is with clients, or waits for one.
const (
	ServiceConsumer = roles.OwnConsumers + "service"
	DeadConsumer    = roles.OwnConsumers + "dead"
)

// Serves reports whether a consumer is one of these.
func Serves(consumer string) bool {
	return strings.HasPrefix(consumer, ServiceConsumer+"-") || strings.HasPrefix(consumer, DeadConsumer+"-")
}

// EnsureLeases makes the stream LeaseStream if it is not there. It may be repeated. Errors
// are *StreamError.
func (s *Streams) EnsureLeases(ctx context.Context, conn *nats.Conn, settings Settings) error {
	want := jetstream.StreamConfig{
		Name: LeaseStream(s.queue), Subjects: []string{LeaseSubject(s.queue, "*")},
		MaxMsgs: -1, MaxBytes: maxLeaseBytes, MaxMsgsPerSubject: -1, MaxMsgSize: -1, MaxConsumers: -1,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage,
		Replicas: max(settings.Replicas, 1), Duplicates: defaultDuplicateWindow, AllowRollup: true,
	}
	if s.memory {
		want.Storage = jetstream.MemoryStorage
	}
	return s.await(ctx, conn, want, 0)
}
