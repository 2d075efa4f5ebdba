// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// A store that gave up writing is started again when the volume has space for minSpaceToStart
// bytes, or an eighth of it if it is small. On a full one it would fail again, and whoever
// starts agents would wait longer each time.
const (
	minSpaceToStart = 32 << 20
	spacePart       = 8
)

// keepSpace has the stream reject messages while a volume is short of space until stop is called, also when the context
// has ended: clients that are being sent away, and whatever else writes to a volume, may fill it meanwhile. With
// external servers it does nothing.
func (a *Agent) keepSpace(ctx context.Context, kept engine, conn *nats.Conn) (stop func()) {
	return beside(context.WithoutCancel(ctx), func(ctx context.Context) {
		kept.KeepSpace(ctx, conn, func(err error) { a.noteLimit(err, time.Now()) })
	})
}

// limitPatience is how long the stream's limits may fail to be looked at or changed before anybody is told: while
// members elect who leads they cannot be.
const limitPatience = time.Minute

// noteLimit notes what keeps the stream from rejecting messages while a volume is short of space, and from taking them
// again afterwards; nil: nothing does.
func (a *Agent) noteLimit(err error, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.unmoved = unmoved{}
		return
	}
	if a.unmoved.err == nil {
		a.unmoved.since = now
	}
	a.unmoved.err = err
	if !a.unmoved.told && now.Sub(a.unmoved.since) > limitPatience {
		a.unmoved.told = true
		a.options.Log.Warn(
			"The stream could not be closed or opened as the free space of volumes asks", "error", err.Error(), "since",
			a.unmoved.since,
		)
	}
}

// unmoved is why the stream can be neither closed nor opened as the space asks.
type unmoved struct {
	err   error
	since time.Time
	told  bool
}

// problem is nil until it has lasted for long enough to be told.
func (u unmoved) problem() error {
	if !u.told {
		return nil
	}
	return fmt.Errorf("since %s the stream could be neither closed nor opened as the free space of the volumes asks, so "+
		"they may become full, or messages are rejected while there is space: %w",
		u.since.UTC().Format(time.RFC3339), u.err)
}

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

// openIDs opens what members remember of messages that have left the queue. It is nil when they are
// to be lost with the only member's memory.
func openIDs(
	ctx context.Context, kept engine, conn *nats.Conn, o store.Options, settings store.Settings,
) (ids.Keeper, error) {
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
			Conn: conn, Stream: store.IDStream(o.Queue), Subject: store.IDSubject(o.Queue), Window: settings.Window(),
			Last: now.LastSequence,
		})
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(o.Directory, &s); err != nil {
		return nil, fmt.Errorf("look at the volume: %w", err)
	}
	volume := size(s.Blocks * uint64(s.Bsize))
	if o.Spill != nil {
		volume = min(volume, o.Spill.Volume)
	}
	return ids.Open(ids.Options{
		Directory: filepath.Join(o.Directory, "ids"), Window: settings.Window(), Last: now.LastSequence,
		SyncAlways: o.Sync.Always, SyncInterval: o.Sync.Every(), MaxBytes: store.IDBytes(volume),
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
		var unusable error
		if !kept.Shared() { // else the volume is nobody's here
			unusable = usable(directory)
		}
		if unusable == nil {
			failed <- fmt.Errorf("%w; it has to be started again", problem)
			return
		}
		if !told {
			a.tellUnusable(problem, unusable)
		}
		told = true
	}
}

func (a *Agent) tellUnusable(problem, unusable error) {
	remedy := "check the storage behind it, and delete the pod to mount it again"
	if full(unusable) {
		remedy = "make the volume larger, or remove what else is on it"
	}
	a.options.Log.Error("Store waits for its volume: "+remedy, "error", problem.Error(), "volume", unusable.Error())
}

// awaitVolume returns why a start failed. While that is the volume's fault it waits, because another start would fail
// as well, and whoever starts agents waits longer each time; reports say so meanwhile.
func (a *Agent) awaitVolume(ctx context.Context, o store.Options, problem error) error {
	if problem == nil || o.Memory || o.Directory == "" {
		return problem // There is no volume, as with external servers.
	}
	ticker := time.NewTicker(a.options.Interval)
	defer ticker.Stop()
	for told := false; ; told = true {
		unusable := usable(o.Directory)
		if unusable == nil {
			return problem
		}
		if !told {
			a.tellUnusable(problem, unusable)
		}
		a.mu.Lock()
		a.held = fmt.Errorf("%w; %w", problem, unusable)
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil // told to end before it began
		case <-ticker.C:
		}
	}
}

// storageFailure is why the volume does not do what the queue needs of it, whose longest message has so many bytes; nil
// if it does. limit is why the stream's limits cannot be changed.
func storageFailure(kept engine, directory string, longest int, limit error) *wirev1.Failure {
	problem := kept.Failed()
	if problem == nil {
		if problem = kept.Crowded(int64(longest)); problem == nil {
			return limitFailure(limit)
		}
		return volumeFailure(problem)
	}
	if unusable := usable(directory); unusable != nil {
		problem = fmt.Errorf("%w; %w", problem, unusable)
	}
	return volumeFailure(problem)
}

// limitFailure is that of limits which cannot be changed. Nothing is wrong with the volume, so no reason may say so:
// who reads that a volume has failed may remove it, and the messages with it.
func limitFailure(problem error) *wirev1.Failure {
	if problem == nil {
		return nil
	}
	return failure.ToWire(failure.New(wirev1.FailureReason_FAILURE_REASON_INTERNAL, "%w", problem))
}

// volumeFailure tells a volume that is full from one that is broken.
func volumeFailure(problem error) *wirev1.Failure {
	switch {
	case problem == nil:
		return nil
	case full(problem):
		return failure.ToWire(failure.New(wirev1.FailureReason_FAILURE_REASON_STORAGE_FULL, "%w", problem))
	default:
		return failure.ToWire(failure.New(wirev1.FailureReason_FAILURE_REASON_STORAGE_FAILED, "%w", problem))
	}
}

func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// usable returns why a store cannot be started on a volume: there is too little space, or it cannot be written.
func usable(directory string) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(directory, &s); err != nil {
		return fmt.Errorf("look at the volume: %w", err)
	}
	free, least := s.Bavail*uint64(s.Bsize), min(minSpaceToStart, s.Blocks*uint64(s.Bsize)/spacePart)
	if free < least {
		return fmt.Errorf("%w: %d bytes of the volume are free, and a start takes %d", syscall.ENOSPC, free, least)
	}
	if err := writeAndSync(filepath.Join(directory, probeName)); err != nil {
		return fmt.Errorf("write to the volume: %w", err)
	}
	return nil
}
