// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/queue/archive"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// validateArchive refuses settings that neither writing nor restoring could work with.
func validateArchive(c *wirev1.QueueConfig) error {
	if a := c.GetArchive(); a != nil {
		if a.GetDirectory() == "" && a.GetStore() == nil {
			return errors.New("the configuration lacks archive.directory or archive.store")
		}
		for name, d := range map[string]*durationpb.Duration{"interval": a.GetInterval(), "retention": a.GetRetention()} {
			if d != nil && (d.CheckValid() != nil || d.AsDuration() < 0) {
				return fmt.Errorf("archive.%s is %v: use 0 or more", name, d.AsDuration())
			}
		}
	}
	if r := c.GetRestore(); r != nil {
		if (r.GetDirectory() == "") == (r.GetStore() == nil) {
			return errors.New("the configuration needs either restore.directory or restore.store")
		}
		if (r.GetQueue() == "") == (r.GetPath() == "") {
			return errors.New("the configuration needs either restore.queue or restore.path")
		}
	}
	return nil
}

// restore fills the queue from the archive that the configuration names, which only one member does; the others wait
// for it.
func (a *Agent) restore(
	ctx context.Context, kept engine, conn *nats.Conn, c *wirev1.QueueConfig, decoders *codec.Registry,
	failed <-chan error,
) error {
	wanted := c.GetRestore()
	if wanted == nil {
		return nil
	}
	a.say("the archive is not restored yet")
	place := archive.Place{Directory: wanted.GetDirectory()}
	if wanted.GetStore() != nil {
		var err error
		if place.Store, err = a.openStore(wanted.GetStore(), c); err != nil {
			return err
		}
		defer place.Store.Close()
	}
	r := archive.NewRestorer(archive.RestoreOptions{
		Conn: conn, Stream: c.GetQueue(), Leads: kept.Leader, Place: place, Queue: wanted.GetQueue(),
		Path:       wanted.GetPath(),
		Everything: wanted.GetEverything(), MaxMessage: maxMessage(c), Decoders: decoders, Log: a.options.Log,
		RetryPause: restorePatience * a.options.Interval,
	})
	a.restorer.Store(r)
	ended := make(chan error, 1)
	defer beside(ctx, func(ctx context.Context) { ended <- r.Run(ctx) })()
	select {
	case err := <-ended:
		return err
	case err := <-failed:
		return err
	}
}

// restorePatience is how many times the interval of looking for changes it takes until a restore that failed is tried
// again.
const restorePatience = 5

// archivers write the archive on the claim and that in the object store, each on its own: neither waits for the other.
// They are nil where there is no such archive.
type archivers struct{ claim, store *archive.Archiver }

func (w archivers) each(f func(*archive.Archiver)) {
	for _, one := range []*archive.Archiver{w.claim, w.store} {
		if one != nil {
			f(one)
		}
	}
}

// startArchive writes the archives that the configuration asks for, until the context ends. What is returned waits for
// that, and may be called several times.
func (a *Agent) startArchive(
	ctx context.Context, r *running, c *wirev1.QueueConfig, decoders *codec.Registry,
) (wait func(), err error) {
	if c.GetArchive() == nil {
		return func() {}, nil
	}
	settings, err := a.archiveSettings(ctx, c)
	if err != nil {
		return nil, err
	}
	archiver := func(place archive.Place) *archive.Archiver {
		return archive.NewArchiver(archive.Options{
			Conn: r.conn, Stream: c.GetQueue(), Leads: r.store.Leader, Place: place,
			Member: a.options.Member, Decoders: decoders, Decoding: r.channels.decoding,
			Log: a.options.Log, Poll: a.options.Interval / 2,
		}, settings)
	}
	if directory := c.GetArchive().GetDirectory(); directory != "" {
		r.archivers.claim = archiver(archive.Place{Directory: directory})
	}
	closeStore := func() {}
	if c.GetArchive().GetStore() != nil {
		store, err := a.openStore(c.GetArchive().GetStore(), c)
		if err != nil {
			return nil, err
		}
		closeStore = store.Close
		r.archivers.store = archiver(archive.Place{Store: store})
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	r.archivers.each(func(one *archive.Archiver) { running.Go(func() { one.Run(ctx) }) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		running.Wait()
		closeStore()
	}()
	return func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(archiveEnd): // Its volume does not answer, and the store must be closed all the same.
			a.options.Log.Warn(
				"The archive's claim does not answer; the end does not wait for it", "timeout", archiveEnd.String(),
			)
		}
	}, nil
}

// openStore opens an object store, which dials what the configuration in effect permits.
func (a *Agent) openStore(store *wirev1.ObjectStoreConfig, c *wirev1.QueueConfig) (*objectstore.Store, error) {
	permitted, err := egress.Parse(c.GetDialPolicy())
	if err != nil {
		return nil, err
	}
	a.stores.Set(permitted)
	options := objectstore.FromWire(store, a.stores)
	options.Counter = &a.asked
	opened, err := objectstore.New(options)
	if err != nil {
		return nil, fmt.Errorf("use the object store of the archive: %w", err)
	}
	return opened, nil
}

// archiveEnd is how long the end of the agent waits for the archive.
const archiveEnd = 10 * time.Second

func (a *Agent) archiveSettings(ctx context.Context, c *wirev1.QueueConfig) (archive.Settings, error) {
	resolved, err := compression.Read(c.GetCompression())
	if err != nil {
		return archive.Settings{}, err
	}
	s := archive.Settings{
		Interval: c.GetArchive().GetInterval().AsDuration(), RangeBytes: size(c.GetArchive().GetMaxRangeBytes()),
		Retention:   c.GetArchive().GetRetention().AsDuration(),
		Compression: archive.Compression{Policy: resolved.Policy, Codecs: resolved.Codecs},
	}
	s.Compression.Engines, s.Compression.Accelerator = a.options.Engines(ctx, resolved)
	return s, nil
}

// archiveStatus is nil where this member does not write.
func archiveStatus(a *archive.Archiver) *wirev1.QueueArchiveStatus {
	if a == nil {
		return nil
	}
	s := a.Status()
	if s.Path == "" && s.LastError == nil {
		return nil
	}
	return &wirev1.QueueArchiveStatus{
		Path: s.Path, Sequence: s.Sequence, Ranges: s.Index.Ranges, Bytes: s.Index.Bytes, Messages: s.Index.Messages,
		PlainBytes:   s.Index.PlainBytes,
		WrittenBytes: s.Index.WrittenBytes, Passed: s.Index.Passed, LastTime: timeOf(s.LastTime),
		LastError:     failure.ToWire(s.LastError),
		LastErrorTime: timeOf(s.LastErrorTime), Compression: compression.Report(s.Compression),
	}
}

func restoreStatus(r *archive.Restorer) *wirev1.QueueRestoreStatus {
	if r == nil {
		return nil
	}
	s := r.Status()
	out := &wirev1.QueueRestoreStatus{
		Done: s.Done, Path: s.Path, Sequence: s.Sequence, LastSequence: s.Last, Messages: s.Messages, Bytes: s.Bytes,
		ArchiveBytes: s.ArchiveBytes,
		Elapsed:      durationpb.New(s.Elapsed), CpuNanos: count(int64(s.CPU)), LastError: failure.ToWire(s.LastError),
	}
	if s.LastError != nil {
		out.LastErrorTime = timeOf(s.LastErrorTime)
	}
	return out
}

func timeOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
