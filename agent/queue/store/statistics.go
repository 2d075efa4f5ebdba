// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/timestamppb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Statistics are about what the stream holds now.
type Statistics struct {
	// QueueContent does not count what is with consumers that serve clients of gRPC and HTTP. Lag and Unreachable are
	// known to the leader's member alone.
	*wirev1.QueueContent
	// Used is what messages take in this member; nil when they are not kept in it.
	Used *Used
}

// Used is what the messages of a queue take in one member.
type Used struct {
	// FileBlocks and FileBytes are the files that hold messages, and MemoryBytes what they
	// take in memory; of a store that spills, all files that were not swept.
	FileBlocks, FileBytes, MemoryBytes uint64
}

// Statistics asks the server. It takes a walk over the files of the stream, of which there
// is one for some megabytes of messages.
func (s *Store) Statistics(ctx context.Context, conn *nats.Conn) (Statistics, error) {
	out, err := s.Streams.Statistics(ctx, conn)
	if err != nil {
		return Statistics{}, err
	}
	if s.options.Cluster == nil {
		out.Leader, out.Lag, out.Unreachable = s.options.Member, 0, 0
	}
	used := &Used{}
	if js, err := s.server.Jsz(nil); err == nil {
		used.MemoryBytes = js.Memory
	}
	if swept := s.Swept(); swept != nil {
		used.MemoryBytes += swept.InMemory
	}
	used.FileBlocks, used.FileBytes, err = s.blocks()
	out.Used = used
	return out, err
}

// Statistics asks the server.
func (s *Streams) Statistics(ctx context.Context, conn *nats.Conn) (Statistics, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, stream, err := Look(ctx, conn, s.queue)
	if err != nil {
		return Statistics{}, err
	}
	// What channels note and dead letters are in the stream as well, but no messages of the queue.
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter("$LIGHTERAGE.>"))
	if err != nil {
		return Statistics{}, fmt.Errorf("look at the stream of queue %s: %w", s.queue, err)
	}
	out := &wirev1.QueueContent{
		Messages: info.State.Msgs, Kept: info.State.Msgs, Bytes: info.State.Bytes, FirstSequence: info.State.FirstSeq,
		LastSequence: info.State.LastSeq, Consumers: uint64(info.State.Consumers), Created: timestamp(info.Created),
	}
	for subject, n := range info.State.Subjects {
		out.Messages -= min(n, out.Messages)
		if subject == DeadSubject(s.queue) {
			out.DeadLetters = n
		}
	}
	if out.Messages > 0 {
		first := info.State.FirstTime
		if len(info.State.Subjects) > 0 {
			if first, err = oldest(ctx, stream, s.queue); err != nil {
				return Statistics{}, fmt.Errorf("look for the oldest message of queue %s: %w", s.queue, err)
			}
		}
		out.OldestTime = timestamp(first)
	}
	if info.Cluster != nil {
		out.Leader = info.Cluster.Leader
		for _, replica := range info.Cluster.Replicas {
			out.Lag = max(out.Lag, replica.Lag)
			if replica.Offline {
				out.Unreachable++
			}
		}
	}
	consumers := stream.ListConsumers(ctx)
	for c := range consumers.Info() {
		if Serves(c.Name) {
			continue // it holds more than clients have
		}
		out.Unacknowledged += uint64(c.NumAckPending)
		out.Redelivered += uint64(c.NumRedelivered)
		out.Waiting += uint64(c.NumWaiting)
	}
	if err := consumers.Err(); err != nil {
		return Statistics{}, fmt.Errorf("list the consumers of queue %s: %w", s.queue, err)
	}
	return Statistics{QueueContent: out}, nil
}

// timestamp is nil for no time.
func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// oldest is when the first of the queue's own messages was put, zero when there is none any more.
func oldest(ctx context.Context, stream jetstream.Stream, queue string) (time.Time, error) {
	var out time.Time
	first := uint64(0)
	for _, subject := range Subjects(queue) {
		m, err := stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return time.Time{}, err
		}
		if first == 0 || m.Sequence < first {
			first, out = m.Sequence, m.Time
		}
	}
	return out, nil
}

// blocks counts the files that hold messages.
func (s *Store) blocks() (files, bytes uint64, err error) {
	if s.options.Memory {
		return 0, 0, nil
	}
	directory := filepath.Join(
		s.options.Directory, server.JetStreamStoreDir, server.DEFAULT_GLOBAL_ACCOUNT, "streams", s.options.Queue, "msgs",
	)
	err = filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".blk") {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		files++
		bytes += uint64(info.Size())
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return files, bytes, nil // a block was removed meanwhile, or none was written yet
	}
	if err != nil {
		return 0, 0, fmt.Errorf("count the blocks of queue %s: %w", s.options.Queue, err)
	}
	return files, bytes, nil
}

// Applied counts the changes that this member has taken over from whichever leads, of all streams and consumers; 0 for
// a queue of one. It grows while the store runs, but for when a stream or consumer goes.
func (s *Store) Applied() uint64 {
	if s.options.Cluster == nil {
		return 0
	}
	groups := s.server.Raftz(&server.RaftzOptions{})
	if groups == nil {
		return 0
	}
	var n uint64
	for _, account := range *groups {
		for _, group := range account {
			n += group.Applied
		}
	}
	return n
}
