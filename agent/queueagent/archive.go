// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/archive"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// validateArchive refuses settings that neither writing nor restoring could work with.
func validateArchive(c *wirev1.QueueConfig) error {
	if a := c.GetArchive(); a != nil {
		if a.GetDirectory() == "" {
			return errors.New("the configuration lacks archive.directory")
		}
		for name, d := range map[string]*durationpb.Duration{"interval": a.GetInterval(), "retention": a.GetRetention()} {
			if d != nil && (d.CheckValid() != nil || d.AsDuration() < 0) {
				return fmt.Errorf("archive.%s is %v: use 0 or more", name, d.AsDuration())
			}
		}
	}
	if r := c.GetRestore(); r != nil {
		if r.GetDirectory() == "" {
			return errors.New("the configuration lacks restore.directory")
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
	r := archive.NewRestorer(archive.RestoreOptions{
		Conn: conn, Stream: c.GetQueue(), Leads: kept.Leader, Directory: wanted.GetDirectory(), Queue: wanted.GetQueue(),
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

// startArchive writes the archive that the configuration asks for, until the context ends. What is returned waits for
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
	r.archiver = archive.NewArchiver(archive.Options{
		Conn: r.conn, Stream: c.GetQueue(), Leads: r.store.Leader, Directory: c.GetArchive().GetDirectory(),
		Member: a.options.Member, Decoders: decoders,
		Log: a.options.Log, Poll: a.options.Interval / 2,
	}, settings)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.archiver.Run(ctx)
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
