// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/meter"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// errOlder is why a configuration is not looked at.
var errOlder = errors.New("a newer configuration is known")

// offer is a configuration that the manager has sent.
type offer[C Config] struct {
	config C
	result chan error // has space for one
}

// Service is what the agent serves with.
type Service[C Config] struct {
	// Passed is a number that changes when the agent has said something to a client or heard of one.
	Passed func() uint64
	// Reload puts a configuration into effect in place of another. After an error that one stays.
	Reload          func(ctx context.Context, before, c C) error
	ResetStatistics func(now time.Time)
	// Look does what else is due from time to time; nil: nothing is.
	Look func(ctx context.Context, c C)
}

// Follow puts configurations into effect that have changed, until the context ends: those that Read returns, and those
// that come by Set before. Set takes them as soon as Follow has returned, so an agent calls it before it reports that
// it serves. wait returns when the context has ended and nothing of it runs any more.
func (f *Frame[C]) Follow(ctx context.Context, s Service[C]) (wait func()) {
	f.mu.Lock()
	f.following = ctx.Done()
	f.mu.Unlock()
	var running sync.WaitGroup
	running.Go(func() { f.follow(ctx, s) })
	return running.Wait
}

func (f *Frame[C]) follow(ctx context.Context, s Service[C]) {
	ticker := time.NewTicker(f.Interval)
	defer ticker.Stop()
	read := f.Config()
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-f.offers:
			o.result <- f.take(ctx, s, o.config, true)
			continue
		case <-ticker.C:
		}
		f.idle.Look(s.Passed())
		c, err := f.Read()
		if err != nil {
			f.reject(err)
		} else {
			changed := !proto.Equal(c, read)
			read = c
			_ = f.take(ctx, s, c, changed) // It is noted, which reports tell.
		}
		if ctx.Err() == nil && s.Look != nil {
			s.Look(ctx, f.Config())
		}
	}
}

// Set has Follow put a configuration into effect that the manager sends as config.json has it, and waits for that. c is
// filled in. Errors have a code of gRPC.
func (f *Frame[C]) Set(ctx context.Context, encoded []byte, c C) error {
	if len(encoded) > wirev1.MaxSentConfig {
		return status.Errorf(
			codes.InvalidArgument, "the configuration has %d bytes; the limit is %d", len(encoded), wirev1.MaxSentConfig,
		)
	}
	if err := wirev1.UnmarshalConfig(encoded, c); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if c.GetGeneration() == 0 {
		return status.Error(codes.InvalidArgument, "the configuration lacks generation")
	}
	f.mu.Lock()
	following := f.following
	f.mu.Unlock()
	if following == nil {
		return status.Error(codes.Unavailable, ErrNotServing.Error())
	}
	o := offer[C]{config: c, result: make(chan error, 1)}
	select {
	case f.offers <- o:
	case <-following:
		return status.Error(codes.Unavailable, ErrNotServing.Error())
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	select {
	case err := <-o.result:
		switch {
		case errors.Is(err, errOlder):
			return status.Error(codes.FailedPrecondition, err.Error())
		case err != nil:
			return status.Error(codes.InvalidArgument, err.Error())
		}
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err() // It may be put into effect all the same.
	}
}

// take puts a configuration into effect unless it is in effect, was rejected or is older than one of these. changed is
// false for a file that is as it was.
func (f *Frame[C]) take(ctx context.Context, s Service[C], c C, changed bool) error {
	f.mu.Lock()
	before, rejected, problem := f.config, f.rejected, f.configError
	f.mu.Unlock()
	newest := max(before.GetGeneration(), rejected.GetGeneration())
	switch generation := c.GetGeneration(); {
	case generation > 0 && generation < newest, generation == 0 && newest > 0 && !changed:
		if !rejected.ProtoReflect().IsValid() {
			f.Note(nil)
		}
		return errOlder
	case proto.Equal(c, rejected):
		return errors.New(problem)
	case proto.Equal(c, before):
		f.Note(nil)
		return nil
	}
	if err := s.Reload(ctx, before, c); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("the agent ends: %w", err)
		}
		f.Note(err)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.rejected = c
		return err
	}
	f.adopt(c, s)
	return nil
}

// reject notes why there is no configuration to look at. One that was rejected is tried again when there is.
func (f *Frame[C]) reject(err error) {
	f.Note(err)
	var none C
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rejected = none
}

// Note keeps why a configuration cannot be used, and logs it once; nil: the one in effect is the one to use.
func (f *Frame[C]) Note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		var none C
		f.configError, f.rejected = "", none
		return
	}
	if text := err.Error(); text != f.configError {
		f.configError = text
		f.Log.Error("New configuration cannot be used; the one before stays", "error", text)
	}
}

// adopt notes a configuration that is in effect, and resets the counters if it says so.
func (f *Frame[C]) adopt(c C, s Service[C]) {
	var none C
	f.mu.Lock()
	defer f.mu.Unlock()
	f.config, f.rejected, f.configError = c, none, ""
	reset := c.GetResetStatistics()
	if reset == f.reset {
		return
	}
	f.reset = reset
	s.ResetStatistics(time.Now())
	if user, system, err := meter.ProcessCPU(); err == nil {
		f.cpuBase = user + system
		f.idle.Reset()
	}
}
