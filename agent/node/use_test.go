// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/cpumf"
	"github.com/lighterage/lighterage/agent/node"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// fakeCounters are counters of the facility.
type fakeCounters struct {
	counters cpumf.Counters
	err      error
	closed   bool
}

func (f *fakeCounters) Read() (cpumf.Counters, error) { return f.counters, f.err }
func (f *fakeCounters) Close()                        { f.closed = true }

func TestAcceleratorUse(t *testing.T) {
	counting := &fakeCounters{
		counters: cpumf.Counters{Access: 1, Busy: 2, Elapsed: 3 * time.Second, CyclesPerSecond: 4},
	}
	broken := &fakeCounters{err: &cpumf.Error{Reason: cpumf.Failed, Message: "it broke", Err: syscall.EIO}}
	for name, test := range map[string]struct {
		open func() (node.Counters, error)
		want *wirev1.AcceleratorUse
	}{
		"not enabled": {nil, &wirev1.AcceleratorUse{CountersReason: "NotEnabled"}},
		"counting": {
			func() (node.Counters, error) { return counting, nil },
			&wirev1.AcceleratorUse{CountersReason: "Counting", Counters: &wirev1.AcceleratorCounters{
				AccessCycles: 1, BusyCycles: 2, ElapsedNanos: 3e9, CyclesPerSecond: 4,
			}},
		},
		"not there": {
			func() (node.Counters, error) {
				return nil, &cpumf.Error{Reason: cpumf.NotAuthorized, Message: "allow it"}
			},
			&wirev1.AcceleratorUse{CountersReason: "NotAuthorized", CountersMessage: "allow it"},
		},
		"broken": {
			func() (node.Counters, error) { return broken, nil },
			&wirev1.AcceleratorUse{CountersReason: "Failed", CountersMessage: "it broke"},
		},
		"another error": {
			func() (node.Counters, error) { return nil, errors.New("what") },
			&wirev1.AcceleratorUse{CountersReason: "Failed", CountersMessage: "what"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := profile(t, node.Options{
				Engines: []codec.Engine{goflate.New()}, OpenCounters: test.open,
				CallTime: func() time.Duration { return 5 * time.Second },
			})
			test.want.CallNanos = 5e9
			if diff := cmp.Diff(test.want, got.GetAcceleratorUse(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
	if !counting.closed {
		t.Error("the counters stay open")
	}
}
