// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/zlibng"
)

// Find looks for the accelerator of this machine and proves that this program uses
// it, which takes a few tenths of a second where there is one and no time where
// there is none. The engine is nil unless the verdict is Verified. Its encoders and
// decoders implement codec.Witness, it has the levels that were proved, and its
// decoders leave to software what is shorter than the verdict's InflateMinSize.
//
// When the context ends first the verdict is NotUsed for the reason Interrupted.
func Find(ctx context.Context) (codec.Engine, Verdict) {
	return FindOn(ctx, ThisSystem())
}

// FindOn is Find with what the machine says of itself.
func FindOn(ctx context.Context, s System) (codec.Engine, Verdict) {
	present, message := s.Detect()
	if !present {
		return nil, Verdict{State: Absent, Reason: NoInstruction, Message: message}
	}
	hardware, err := zlibng.New(zlibng.Options{Hardware: true})
	if err != nil {
		return nil, notUsed(without(err))
	}
	software, err := zlibng.New(zlibng.Options{})
	if err != nil {
		return nil, notUsed(without(err))
	}
	verdict := Prove(ctx, Engines{Hardware: hardware, Software: software, Independent: goflate.New()})
	if verdict.State != Verified {
		return nil, verdict
	}
	engine, err := zlibng.New(zlibng.Options{Hardware: true, InflateMinSize: verdict.InflateMinSize})
	if err != nil {
		return nil, notUsed(without(err))
	}
	return proved{engine, verdict.Levels}, verdict
}

// CallTime returns how long the threads of this process have been, together and since it started, in calls in which the
// accelerator did the work.
func CallTime() time.Duration { return zlibng.CallTime() }

// ServiceTime returns an estimate of how long the accelerator has worked for this process since it started, without
// what its calls waited for each other and for other processes.
func ServiceTime() time.Duration { return zlibng.ServiceTime() }

func without(err error) *failure {
	return &failure{LibraryWithout, fmt.Sprintf(
		"this machine has DFLTCC, but this program has no library that can use it (%v): use the project's image", err)}
}

// proved is an engine with those of its levels that were proved.
type proved struct {
	codec.Engine
	levels []codec.Level
}

// HasLevel implements codec.Engine.
func (p proved) HasLevel(level codec.Level) bool { return slices.Contains(p.levels, level) }

// NewEncoder implements codec.Engine.
func (p proved) NewEncoder(level codec.Level) (codec.Encoder, error) {
	if !p.HasLevel(level) {
		return nil, fmt.Errorf("make a %s encoder: it was not proved to compress at level %v", p.Name(), level)
	}
	return p.Engine.NewEncoder(level)
}

// Unwrap implements codec.Wrapped.
func (p proved) Unwrap() codec.Engine { return p.Engine }
