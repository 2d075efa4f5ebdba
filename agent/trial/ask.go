// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/httpproxy/coding"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/sampling"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// MaxAgents is how many agents a trial asks at most.
	MaxAgents = 256
	// maxItems is how many bodies or messages a sample has at most.
	maxItems = 16384
	// askPatience is how long an agent may take beyond the time for which it collects.
	askPatience = 2 * time.Minute
)

// Agents are who gives samples.
type Agents struct {
	// Unit is that of bodies, where all agents are asked, or messages, where one is.
	Unit wirev1.TrialUnit
	// Addresses are for people, and Connect makes a connection to the n-th of them; what it returns is called with
	// close.
	Addresses []string
	Connect   func(ctx context.Context, n int) (conn grpc.ClientConnInterface, close func(), err error)
	// Duration for which to collect bodies.
	Duration time.Duration
}

// Ask takes a sample of about size bytes from agents. Those that do not answer are left out and counted as long as any
// does. No item is an error for which failure.Is finds SOURCE_EMPTY.
func Ask(ctx context.Context, a Agents, size int64, seed uint64) (*Sample, error) {
	s := &Sample{Unit: a.Unit}
	ask := a.any
	switch a.Unit {
	case wirev1.TrialUnit_TRIAL_UNIT_BODY:
		s.Overhead, ask = coding.Overhead, a.all
	case wirev1.TrialUnit_TRIAL_UNIT_MESSAGE:
		s.Overhead = messageOverhead
	default:
		return nil, fmt.Errorf("a sample of unit %v: use bodies or messages", a.Unit)
	}
	if err := ask(
		ctx, s, sampling.Request{MaxBytes: size, MaxItems: maxItems, Duration: a.Duration, Seed: seed},
	); err != nil {
		return nil, err
	}
	if len(s.Items) == 0 {
		return nil, s.nothing(a.Duration)
	}
	return s, nil
}

func (s *Sample) nothing(duration time.Duration) error {
	text := "the queue holds no message to sample: put some, or wait until there are, and begin another run"
	switch {
	case s.UnreadableItems > 0:
		text = fmt.Sprintf("none of %d messages of the queue that were looked at could be inflated", s.UnreadableItems)
	case s.Unit == wirev1.TrialUnit_TRIAL_UNIT_BODY:
		text = fmt.Sprintf("no body of spec.contentTypes of the HTTPEndpoint, that may be compressed and is not yet, "+
			"passed within %v: begin another run while there is traffic, or set a longer spec.source.httpEndpoint.duration",
			duration)
	}
	if s.SilentAgents > 0 {
		text += fmt.Sprintf("; %d of %d agents did not answer: %v", s.SilentAgents, s.SilentAgents+s.Agents, s.Silence)
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY, "%s", text)
}

// all asks all agents at once, each for its share.
func (a Agents) all(ctx context.Context, s *Sample, r sampling.Request) error {
	n := len(a.Addresses)
	r.MaxBytes, r.MaxItems = max(r.MaxBytes/int64(max(n, 1)), sampling.MaxItem), max(r.MaxItems/max(n, 1), 1)
	var mu sync.Mutex
	var wait sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wait.Go(func() {
			items, seen, err := a.fetch(ctx, i, r)
			if err != nil {
				errs[i] = err
				return
			}
			mu.Lock()
			defer mu.Unlock()
			s.add(items, seen)
		})
	}
	wait.Wait()
	return s.answered(ctx, errs)
}

// any asks one after the other until one answers.
func (a Agents) any(ctx context.Context, s *Sample, r sampling.Request) error {
	var errs []error
	for i := range a.Addresses {
		items, seen, err := a.fetch(ctx, i, r)
		if err == nil {
			s.add(items, seen)
			break
		}
		errs = append(errs, err)
	}
	return s.answered(ctx, errs)
}

// answered counts who gave no sample, nil among the errors being who did. When nobody gave one that is a failure, in
// the words of the first who was asked.
func (s *Sample) answered(ctx context.Context, errs []error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	first := errors.New("there is none")
	if len(errs) > 0 {
		first = errs[0]
	}
	if s.Agents > 0 {
		if s.SilentAgents = int64(len(errs)); len(errs) > 0 {
			s.Silence = first
		}
		return nil
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST,
		"none of %d agents gave a sample: %w; where NetworkPolicies are in force, one must let this trial's pod reach "+
			"these ports",
		len(errs), first)
}

func (a Agents) fetch(ctx context.Context, n int, r sampling.Request) ([]sampling.Item, sampling.Seen, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Duration+askPatience)
	defer cancel()
	conn, done, err := a.Connect(ctx, n)
	if err != nil {
		return nil, sampling.Seen{}, fmt.Errorf("connect to %s: %w", a.Addresses[n], err)
	}
	defer done()
	items, seen, err := sampling.Fetch(ctx, conn, r)
	if err != nil {
		return nil, seen, fmt.Errorf("ask %s: %w", a.Addresses[n], err)
	}
	return items, seen, nil
}

// add takes in what an agent gave.
func (s *Sample) add(items []sampling.Item, seen sampling.Seen) {
	for _, item := range items {
		s.Items = append(s.Items, item.Content)
		if item.Cut() {
			s.CutItems++
		}
	}
	s.Agents++
	s.TotalItems += seen.Items
	s.TotalBytes += seen.Bytes
	s.UnreadableItems += seen.Unreadable
}

// messageOverhead is what the headers of a compressed message take.
func messageOverhead(codec.ID) int { return message.HeaderBound }
