// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

// The race detector allocates, so this test is not for it.

package frame_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

func TestAllocations(t *testing.T) {
	always := auto()
	always.Mode = policy.Always
	for _, test := range []struct {
		engines  *codec.Registry
		settings policy.Settings
	}{{plainMachine, auto()}, {plainMachine, always}, {withHardware, always}} {
		settings := test.settings
		e := newEncoder(t, frame.EncoderOptions{Engines: test.engines, Codec: codec.Deflate, Policy: settings})
		d := newDecoder(t, test.engines)
		var m meter.Meter
		for _, c := range codectest.Corpora() {
			plain := c.Generate(100_000)
			wire := make([]byte, 0, frame.HeaderSize+len(plain))
			out := make([]byte, 0, len(plain))
			allocs := codectest.Allocations(func() {
				block, outcome, err := e.Append(wire, plain, false)
				if err != nil {
					t.Fatal(err)
				}
				m.Add(outcome)
				_, outcome, err = d.Decode(out, block)
				if err != nil {
					t.Fatal(err)
				}
				m.Add(outcome)
			})
			if allocs != 0 {
				t.Errorf("%s, mode %s: %v allocations a block", c.Name, settings.Mode, allocs)
			}
		}
	}
}
