// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

func TestOutcomes(t *testing.T) {
	with := func(change func(*policy.Settings)) policy.Settings {
		s := auto()
		change(&s)
		return s
	}
	never := with(func(s *policy.Settings) { s.Mode = policy.Never })
	always := with(func(s *policy.Settings) { s.Mode = policy.Always })
	noSoftware := with(func(s *policy.Settings) { s.SoftwareDisabled = true })
	anywhere := with(func(s *policy.Settings) { s.PreferHardware = false })
	source, random := corpus("source", 65536), corpus("random", 65536)

	tests := []struct {
		name            string
		engines         *codec.Registry
		codec           codec.ID
		policy          policy.Settings
		plain           []byte
		path            meter.Path
		reason          policy.Reason
		readByPlain     meter.Path
		readWithSupport meter.Path
	}{
		{
			"no accelerator", plainMachine, codec.Deflate, auto(), source, meter.Software, policy.NoAccelerator, meter.Software,
			meter.Hardware,
		},
		{
			"software by choice", plainMachine, codec.Deflate, anywhere, source, meter.Software, policy.SoftwareUsed,
			meter.Software, meter.Hardware,
		},
		{
			"hardware", withHardware, codec.Deflate, auto(), source, meter.Hardware, policy.HardwareUsed, meter.Fallback,
			meter.Hardware,
		},
		{
			"hardware and nothing else", withHardware, codec.Deflate, noSoftware, source, meter.Hardware, policy.HardwareUsed,
			meter.Fallback, meter.Hardware,
		},
		{
			"too small for hardware", withHardware, codec.Deflate, auto(), source[:19999], meter.Software, policy.SoftwareUsed,
			meter.Software, meter.Hardware,
		},
		{
			"too small", plainMachine, codec.Deflate, auto(), source[:99], meter.Stored, policy.BelowMinimum, meter.Stored,
			meter.Stored,
		},
		{"empty", plainMachine, codec.Deflate, always, nil, meter.Stored, policy.BelowMinimum, meter.Stored, meter.Stored},
		{
			"software disabled", plainMachine, codec.Deflate, noSoftware, source, meter.Stored, policy.SoftwareDisabled,
			meter.Stored, meter.Stored,
		},
		{"never", withHardware, codec.Deflate, never, source, meter.Stored, policy.PolicyNever, meter.Stored, meter.Stored},
		{
			"peer refused", withHardware, codec.None, auto(), source, meter.Stored, policy.PeerRefused, meter.Stored,
			meter.Stored,
		},
		{
			"incompressible", plainMachine, codec.Deflate, auto(), random, meter.Stored, policy.Incompressible, meter.Stored,
			meter.Stored,
		},
		{
			"did not shrink", plainMachine, codec.Deflate, always, random, meter.Stored, policy.DidNotShrink, meter.Stored,
			meter.Stored,
		},
		{
			"hardware did not shrink it", withHardware, codec.Deflate, always, random, meter.Stored, policy.DidNotShrink,
			meter.Stored, meter.Stored,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := newEncoder(t, frame.EncoderOptions{
				Engines: test.engines, Codec: test.codec, Policy: test.policy,
			})
			block, outcome, err := e.Append(nil, test.plain, true)
			if err != nil {
				t.Fatal(err)
			}
			if outcome.Path != test.path || outcome.Reason != test.reason {
				t.Errorf("got %v, %v; want %v, %v", outcome.Path, outcome.Reason, test.path, test.reason)
			}
			if outcome.PlainBytes != len(test.plain) || outcome.WireBytes != len(block) {
				t.Errorf("counted %d and %d bytes of %d and %d", outcome.PlainBytes, outcome.WireBytes, len(test.plain), len(block))
			}
			if outcome.Reason.Attempted() && outcome.CPU <= 0 {
				t.Errorf("it cost %v", outcome.CPU)
			}
			for registry, want := range map[*codec.Registry]meter.Path{
				plainMachine: test.readByPlain, withHardware: test.readWithSupport,
			} {
				out, outcome, err := newDecoder(t, registry).Decode(nil, block)
				if err != nil || !bytes.Equal(out, test.plain) {
					t.Fatalf("decoded %d bytes, %v", len(out), err)
				}
				if outcome.Path != want || outcome.Reason != "" || outcome.PlainBytes != len(test.plain) ||
					outcome.WireBytes != len(block) {
					t.Errorf("decoding: got %+v, want path %v", outcome, want)
				}
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	good := frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto()}
	var codecError *frame.CodecError

	o := good
	o.Policy.Mode = ""
	if _, err := frame.NewEncoder(o); err == nil {
		t.Error("a policy without a mode is accepted")
	}
	o = good
	o.Codec = 0
	if _, err := frame.NewEncoder(o); !errors.As(err, &codecError) {
		t.Errorf("codec 0: %v", err)
	}
	o = good
	o.Engines = codec.NewRegistry()
	if _, err := frame.NewEncoder(o); !errors.As(err, &codecError) || codecError.Codec != codec.Deflate {
		t.Errorf("no engine: %v", err)
	}

	e := newEncoder(t, good)
	if out, _, err := e.Append([]byte("x"), make([]byte, frame.MaxPlain+1), false); !errors.Is(err, frame.ErrTooLarge) ||
		string(out) != "x" {
		t.Errorf("too long a block: %v", err)
	}
	block, _, err := e.Append([]byte("x"), corpus("xml", 1000), true)
	if err != nil || block[0] != 'x' {
		t.Fatalf("the next block: %v", err)
	}
	if _, _, err := newDecoder(t, codec.NewRegistry()).Decode(nil, block[1:]); !errors.As(err, &codecError) {
		t.Errorf("decoding without engines: %v", err)
	}

	closed, err := frame.NewEncoder(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if out, _, err := closed.Append([]byte("x"), corpus("xml", 1000), true); !errors.Is(err, codec.ErrClosed) ||
		string(out) != "x" {
		t.Errorf("after Close: %q, %v", out, err)
	}
}

// TestNoSoftwareEngineNeeded: a policy that forbids software needs no engine for it.
func TestNoSoftwareEngineNeeded(t *testing.T) {
	s := auto()
	s.SoftwareDisabled = true
	e := newEncoder(
		t,
		frame.EncoderOptions{Engines: codec.NewRegistry(accelerator{goflate.New(), true}), Codec: codec.Deflate, Policy: s},
	)
	if _, outcome, err := e.Append(nil, corpus("xml", 30000), true); err != nil || outcome.Path != meter.Hardware {
		t.Errorf("got %+v, %v", outcome, err)
	}
}
