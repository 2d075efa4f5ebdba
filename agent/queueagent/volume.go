// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// A store that gave up writing is started again when the volume has room for roomToStart
// bytes, or an eighth of it if it is small. On a full one it would fail again, and whoever
// starts agents would wait longer each time.
const (
	roomToStart = 32 << 20
	roomPart    = 8
)

const (
	// sweepPatience bounds one look for messages that were acknowledged before the start.
	sweepPatience = time.Minute
	sweepInterval = 30 * time.Second
)

// sweep reports whether there is nothing left that was acknowledged before the start.
func (a *Agent) sweep(ctx context.Context, s *store.Sweep) bool {
	ctx, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	removed, done, err := s.Run(ctx)
	if removed > 0 {
		a.options.Log.Info("Messages were removed that had been acknowledged before the last end", "messages", removed)
	}
	if err != nil && ctx.Err() == nil {
		a.options.Log.Warn("Acknowledged messages may be left in the queue", "error", err.Error())
	}
	return done
}

// keepSweeping goes on until consumers have acknowledged what they had before the start.
func (a *Agent) keepSweeping(ctx context.Context, s *store.Sweep) {
	ticker := time.NewTicker(min(sweepInterval, 5*a.options.Interval))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if a.sweep(ctx, s) {
			return
		}
	}
}

// idsPart is the part of a volume that ids of given messages may take in a queue of one member, of the
// twentieth that messages do not.
const idsPart = 32

// openIDs opens what members remember of messages that have left the queue. It is nil when they are
// to be lost with the only member's memory.
func openIDs(ctx context.Context, kept engine, conn *nats.Conn, o store.Options, settings store.Settings) (ids.Keeper, error) {
	shared := kept.Shared() || o.Cluster != nil
	if !shared && o.Memory {
		return nil, nil //nolint:nilnil // Nothing is remembered.
	}
	now, err := lookAt(ctx, kept, conn)
	if err != nil {
		return nil, err
	}
	if shared {
		if err := kept.EnsureIDs(ctx, conn, settings); err != nil {
			return nil, err
		}
		return ids.Share(ctx, ids.SharedOptions{
			Conn: conn, Stream: store.IDStream(o.Queue), Subject: store.IDSubject(o.Queue), Window: settings.Window(), Last: now.LastSequence,
		})
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(o.Directory, &s); err != nil {
		return nil, fmt.Errorf("look at the volume: %w", err)
	}
	return ids.Open(ids.Options{
		Directory: filepath.Join(o.Directory, "ids"), Window: settings.Window(), Last: now.LastSequence,
		SyncAlways: o.Sync.Always, SyncInterval: o.Sync.Every(), MaxBytes: int64(s.Blocks*uint64(s.Bsize)) / idsPart,
	})
}

// lookAt returns statistics as soon as the stream has a leader.
func lookAt(ctx context.Context, kept engine, conn *nats.Conn) (store.Statistics, error) {
	const pause = 200 * time.Millisecond
	for {
		now, err := kept.Statistics(ctx, conn)
		if err == nil {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return now, err
		case <-time.After(pause):
		}
	}
}

// watchStore tells when the store serves no more and would if it were started again.
func (a *Agent) watchStore(ctx context.Context, kept engine, directory string, failed chan<- error) {
	ticker := time.NewTicker(a.options.Interval)
	defer ticker.Stop()
	told := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		problem := kept.Failed()
		if problem == nil || ctx.Err() != nil {
			continue
		}
		enough := kept.Shared() // the volume is nobody's here
		var err error
		if !enough {
			enough, err = room(directory)
		}
		if err != nil {
			problem = fmt.Errorf("%w; %w", problem, err)
		}
		if enough || err != nil {
			failed <- fmt.Errorf("%w; it has to be started again", problem)
			return
		}
		if !told {
			a.options.Log.Error("Store waits for room on its volume: make the volume larger, or remove what else is on it", "error", problem.Error())
		}
		told = true
	}
}

// room reports whether a volume has enough of it for a start.
func room(directory string) (bool, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(directory, &s); err != nil {
		return false, fmt.Errorf("look at the volume: %w", err)
	}
	return s.Bavail*uint64(s.Bsize) >= min(roomToStart, s.Blocks*uint64(s.Bsize)/roomPart), nil
}
