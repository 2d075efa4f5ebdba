// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// silent is an engine of class Hardware that bears no witness.
type silent struct{ codec.Engine }

func (silent) Name() string       { return "silent" }
func (silent) Class() codec.Class { return codec.Hardware }

// TestWitness: a block is counted as the accelerator's only when the call that made
// or expanded it says so.
func TestWitness(t *testing.T) {
	plain := corpus("xml", 30000)
	noSoftware := auto()
	noSoftware.SoftwareDisabled = true
	byHardware, _, err := newEncoder(
		t, frame.EncoderOptions{Engines: withHardware, Codec: codec.Deflate, Policy: auto()},
	).Append(nil, plain, true)
	if err != nil {
		t.Fatal(err)
	}
	for name, engine := range map[string]codec.Engine{
		"idle":   accelerator{goflate.New(), false},
		"silent": silent{goflate.New()},
	} {
		t.Run(name, func(t *testing.T) {
			engines := codec.NewRegistry(engine, goflate.New())
			for _, prefer := range []bool{true, false} {
				settings := auto()
				settings.PreferHardware = prefer
				e := newEncoder(t, frame.EncoderOptions{Engines: engines, Codec: codec.Deflate, Policy: settings})
				for i := range 3 {
					block, outcome, err := e.Append(nil, plain, false)
					if err != nil {
						t.Fatal(err)
					}
					h, err := frame.ParseHeader(block)
					if err != nil || h.Class != codec.Software || outcome.Path != meter.Software ||
						outcome.Reason != policy.SelfTestFailed {
						t.Errorf("hardware preferred %v, block %d: %+v, %+v, %v", prefer, i, h, outcome, err)
					}
				}
			}

			// The one block that was compressed already is sent; then the policy holds.
			e := newEncoder(t, frame.EncoderOptions{Engines: engines, Codec: codec.Deflate, Policy: noSoftware})
			for _, want := range []meter.Path{meter.Software, meter.Stored, meter.Stored} {
				if _, outcome, err := e.Append(nil, plain, false); err != nil || outcome.Path != want {
					t.Errorf("software disabled: got %+v, %v; want %v", outcome, err, want)
				}
			}

			out, outcome, err := newDecoder(t, engines).Decode(nil, byHardware)
			if err != nil || !bytes.Equal(out, plain) || outcome.Path != meter.Fallback {
				t.Errorf("expanded: %+v, %v", outcome, err)
			}
		})
	}
}

// picky is an accelerator that leaves short blocks to software.
type picky struct{ accelerator }

func (p picky) NewEncoder(level codec.Level) (codec.Encoder, error) {
	e, err := p.Engine.NewEncoder(level)
	return &pickyEncoder{Encoder: e}, err
}

func (p picky) NewDecoder() (codec.Decoder, error) {
	d, err := p.Engine.NewDecoder()
	return &pickyDecoder{Decoder: d}, err
}

type pickyEncoder struct {
	codec.Encoder
	used bool
}

func (e *pickyEncoder) Encode(dst, src []byte) (int, error) {
	e.used = len(src) >= 30000
	return e.Encoder.Encode(dst, src)
}

func (e *pickyEncoder) UsedHardware() bool { return e.used }

type pickyDecoder struct {
	codec.Decoder
	used bool
}

func (d *pickyDecoder) Decode(dst, src []byte) (int, error) {
	d.used = len(dst) >= 30000
	return d.Decoder.Decode(dst, src)
}

func (d *pickyDecoder) UsedHardware() bool { return d.used }

// TestWitnessOfEachCall: what a meter counts follows the witness from block to block.
func TestWitnessOfEachCall(t *testing.T) {
	engines := codec.NewRegistry(picky{accelerator{Engine: goflate.New()}}, goflate.New())
	always := auto()
	always.Mode = policy.Always
	encoder := newEncoder(t, frame.EncoderOptions{Engines: engines, Codec: codec.Deflate, Policy: always})
	decoder := newDecoder(t, engines)
	certain := newEncoder(t, frame.EncoderOptions{Engines: withHardware, Codec: codec.Deflate, Policy: always})
	var compressed, expanded meter.Meter
	for _, size := range []int{40000, 30000, 29999, 40000} {
		_, outcome, err := encoder.Append(nil, corpus("xml", size), false)
		if err != nil {
			t.Fatal(err)
		}
		compressed.Add(outcome)
		block, _, err := certain.Append(nil, corpus("xml", size), false)
		if err != nil {
			t.Fatal(err)
		}
		if _, outcome, err = decoder.Decode(nil, block); err != nil {
			t.Fatal(err)
		}
		expanded.Add(outcome)
	}
	// Once it was caught the accelerator is given no more to compress. Inflating in
	// software what is short is no fault.
	c, e := compressed.Snapshot(), expanded.Snapshot()
	if c.Hardware != (meter.Count{Operations: 2, Bytes: 70000}) ||
		c.Software != (meter.Count{Operations: 2, Bytes: 69999}) ||
		c.Compressed[policy.HardwareUsed] != 2 || c.Compressed[policy.SelfTestFailed] != 2 {
		t.Errorf("compressed: %+v", c)
	}
	if e.Hardware != (meter.Count{Operations: 3, Bytes: 110000}) ||
		e.Fallback != (meter.Count{Operations: 1, Bytes: 29999}) {
		t.Errorf("expanded: %+v", e)
	}
}

// oneLevel is an engine that has Fast alone.
type oneLevel struct{ codec.Engine }

func (oneLevel) HasLevel(level codec.Level) bool { return level == codec.Fast }

// TestShortfall: the reason tells a machine without an accelerator from one whose
// accelerator is of no use here.
func TestShortfall(t *testing.T) {
	high := auto()
	high.Level = codec.High
	lacking := codec.NewRegistry(oneLevel{accelerator{goflate.New(), true}}, goflate.New())
	zstd := codec.NewRegistry(accelerator{goflate.New(), true}, goflate.New(), gozstd.New())
	tests := []struct {
		name    string
		options frame.EncoderOptions
		want    policy.Reason
	}{
		{"absent", frame.EncoderOptions{Engines: plainMachine, Policy: auto()}, policy.NoAccelerator},
		{
			"not used", frame.EncoderOptions{Engines: plainMachine, Policy: auto(), Accelerator: policy.NotUsed},
			policy.SelfTestFailed,
		},
		{
			"no level", frame.EncoderOptions{Engines: plainMachine, Policy: auto(), Accelerator: policy.LacksLevel},
			policy.LevelNotAccelerated,
		},
		{"other level", frame.EncoderOptions{Engines: lacking, Policy: high}, policy.LevelNotAccelerated},
		{
			"other level, though verified", frame.EncoderOptions{Engines: lacking, Policy: high, Accelerator: policy.Verified},
			policy.LevelNotAccelerated,
		},
		{
			"verified without an engine",
			frame.EncoderOptions{Engines: plainMachine, Policy: auto(), Accelerator: policy.Verified}, policy.NoAccelerator,
		},
		{
			"an engine beats the state",
			frame.EncoderOptions{Engines: withHardware, Policy: auto(), Accelerator: policy.NotUsed}, policy.HardwareUsed,
		},
		{"other codec", frame.EncoderOptions{Engines: zstd, Codec: codec.Zstd, Policy: auto()}, policy.CodecNotAccelerated},
		{
			"other codec, though verified",
			frame.EncoderOptions{Engines: zstd, Codec: codec.Zstd, Policy: auto(), Accelerator: policy.Verified},
			policy.CodecNotAccelerated,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.options.Codec == 0 {
				test.options.Codec = codec.Deflate
			}
			if _, outcome, err := newEncoder(t, test.options).Append(nil, corpus("xml", 30000), true); err != nil ||
				outcome.Reason != test.want {
				t.Errorf("got %+v, %v; want %s", outcome, err, test.want)
			}
		})
	}
}
