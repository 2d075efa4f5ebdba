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

// script chooses what it was told and notes what it is asked and told.
type script struct {
	next    policy.Choice
	asked   []policy.Block
	learned []policy.Outcome
}

func (s *script) Choose(b policy.Block) policy.Choice {
	s.asked = append(s.asked, b)
	return s.next
}

func (s *script) Observe(o policy.Outcome) { s.learned = append(s.learned, o) }

func software(id codec.ID, level codec.Level) policy.Option {
	return policy.Option{Codec: id, Class: codec.Software, Level: level}
}

func softwareWays() map[policy.Option]codec.Engine {
	ways := map[policy.Option]codec.Engine{}
	for _, level := range codec.Levels() {
		ways[software(codec.Deflate, level)], ways[software(codec.Zstd, level)] = goflate.New(), gozstd.New()
	}
	return ways
}

// TestChooser: every block goes the way that is chosen for it, and what became of it is told.
func TestChooser(t *testing.T) {
	s := &script{}
	e := newEncoder(
		t, frame.EncoderOptions{Engines: plainMachine, Codec: codec.Zstd, Policy: auto(), Chooser: s, Ways: softwareWays()},
	)
	d := newDecoder(t, plainMachine)
	plain := corpus("xml", 128<<10)
	for i, test := range []struct {
		choice policy.Choice
		reason policy.Reason
		path   meter.Path
		engine string
	}{
		{policy.Choice{Option: software(codec.Deflate, codec.High)}, policy.NoAccelerator, meter.Software, goflate.Name},
		{policy.Choice{Option: software(codec.Zstd, codec.Fast)}, policy.NoAccelerator, meter.Software, gozstd.Name},
		{
			policy.Choice{Option: software(codec.Zstd, codec.Balanced), Reason: policy.AcceleratorBusy}, policy.AcceleratorBusy,
			meter.Software, gozstd.Name,
		},
		{policy.Choice{Reason: policy.NetworkFaster}, policy.NetworkFaster, meter.Stored, ""},
		{policy.Choice{Reason: policy.CPUBudget}, policy.CPUBudget, meter.Stored, ""},
	} {
		s.next, s.learned = test.choice, nil
		block, outcome, err := e.Append(nil, plain, false)
		if err != nil {
			t.Fatal(err)
		}
		use := meter.Use{Codec: test.choice.Codec, Engine: test.engine, Level: test.choice.Level}
		if outcome.Reason != test.reason || outcome.Path != test.path || outcome.Use != use {
			t.Errorf("%+v: %+v", test.choice, outcome)
		}
		if asked := s.asked[i]; asked.Size != len(plain) || asked.Predicted < 1 || asked.Predicted > len(plain)/2 ||
			asked.Hardware || !asked.Software {
			t.Errorf("asked about %+v", asked)
		}
		want := 1
		if test.choice.Stored() {
			want = 0
		}
		if len(s.learned) != want || want == 1 && (s.learned[0].Option != test.choice.Option ||
			s.learned[0].Size != len(plain) ||
			s.learned[0].Wire != len(block)-frame.HeaderSize || s.learned[0].CPU <= 0 ||
			s.learned[0].Predicted != s.asked[i].Predicted) {
			t.Errorf("%+v: told %+v", test.choice, s.learned)
		}
		if out, _, err := d.Decode(nil, block); err != nil || !bytes.Equal(out, plain) {
			t.Errorf("%+v: decoded %d bytes, %v", test.choice, len(out), err)
		}
	}
}

// TestChooserIsNotAsked: where the policy leaves nothing to choose, and about what promises nothing.
func TestChooserIsNotAsked(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*frame.EncoderOptions)
		plain  []byte
		reason policy.Reason
	}{
		"noise":     {func(*frame.EncoderOptions) {}, corpus("random", 128<<10), policy.Incompressible},
		"too small": {func(*frame.EncoderOptions) {}, corpus("xml", 50), policy.BelowMinimum},
		"no codec":  {func(o *frame.EncoderOptions) { o.Codec = codec.None }, corpus("xml", 128<<10), policy.PeerRefused},
		"mode Never": {
			func(o *frame.EncoderOptions) { o.Policy.Mode = policy.Never }, corpus("xml", 128<<10), policy.PolicyNever,
		},
		"mode Always": {
			func(o *frame.EncoderOptions) { o.Policy.Mode = policy.Always }, corpus("xml", 128<<10), policy.NoAccelerator,
		},
	} {
		s := &script{}
		o := frame.EncoderOptions{
			Engines: plainMachine, Codec: codec.Deflate, Policy: auto(), Chooser: s, Ways: softwareWays(),
		}
		test.change(&o)
		if _, outcome, err := newEncoder(t, o).Append(nil, test.plain, false); err != nil || outcome.Reason != test.reason ||
			len(s.asked) > 0 {
			t.Errorf("%s: %+v, asked %d times, %v", name, outcome, len(s.asked), err)
		}
	}
}

// TestChooserLearnsOfFailures: what did not shrink counts as it is, and samples are taken again.
func TestChooserLearnsOfFailures(t *testing.T) {
	s := &script{next: policy.Choice{Option: software(codec.Deflate, codec.Fast)}}
	e := newEncoder(
		t,
		frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto(), Chooser: s, Ways: softwareWays()},
	)
	// Little blocks are not judged.
	_, outcome, err := e.Append(nil, corpus("random", 1000), false)
	if err != nil || outcome.Reason != policy.DidNotShrink || len(s.learned) != 1 || s.learned[0].Wire != 1000 {
		t.Errorf("%+v, %+v, %v", outcome, s.learned, err)
	}
}

// TestLikeBlocks: of many like blocks an eighth is sampled in the end, of noise a sixteenth; when they change all are
// again.
func TestLikeBlocks(t *testing.T) {
	s := &script{next: policy.Choice{Reason: policy.NetworkFaster}}
	e := newEncoder(
		t,
		frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto(), Chooser: s, Ways: softwareWays()},
	)
	buf := make([]byte, 0, 256<<10)
	sampled := func(plain []byte, n int) int {
		taken := 0
		for range n {
			_, outcome, err := e.Append(buf, plain, false)
			if err != nil {
				t.Fatal(err)
			}
			if outcome.Estimate.CPU > 0 {
				taken++
			}
		}
		return taken
	}
	xml, noise := corpus("xml", 128<<10), corpus("random", 128<<10)
	if n := sampled(xml, 5); n != 5 {
		t.Errorf("%d of the first 5 were sampled", n)
	}
	sampled(xml, 40)
	if n := sampled(xml, 80); n != 10 {
		t.Errorf("%d of 80 were sampled", n)
	}
	if n := sampled(noise, 12); n < 5 || n > 6 {
		t.Errorf("%d of 12 others were sampled", n)
	}
	sampled(noise, 60)
	if n := sampled(noise, 80); n != 5 {
		t.Errorf("%d of 80 without a promise were sampled", n)
	}
	// What does not look like noise is sampled without waiting for its turn.
	if n := sampled(xml, 4); n != 4 {
		t.Errorf("%d of 4 after noise were sampled", n)
	}
}

// TestChooserAndAccelerator: hardware is offered where it may be used, and no more once it did not do the work.
func TestChooserAndAccelerator(t *testing.T) {
	engine, _ := withHardware.Best(codec.Deflate, codec.Hardware, codec.Fast)
	option := policy.Option{Codec: codec.Deflate, Class: codec.Hardware, Level: codec.Fast}
	ways := softwareWays()
	ways[option] = engine
	s := &script{next: policy.Choice{Option: option}}
	e := newEncoder(
		t, frame.EncoderOptions{Engines: withHardware, Codec: codec.Zstd, Policy: auto(), Chooser: s, Ways: ways},
	)
	_, outcome, err := e.Append(nil, corpus("xml", 128<<10), false)
	if err != nil || outcome.Reason != policy.HardwareUsed || outcome.Path != meter.Hardware || !s.asked[0].Hardware ||
		outcome.Use.Engine != engine.Name() {
		t.Errorf("%+v, %v", outcome, err)
	}
	s.next = policy.Choice{Option: software(codec.Zstd, codec.Fast)}
	if _, outcome, err := e.Append(nil, corpus("xml", 128<<10), false); err != nil ||
		outcome.Reason != policy.SoftwareUsed {
		t.Errorf("software by choice: %+v, %v", outcome, err)
	}
	if _, outcome, err := e.Append(nil, corpus("xml", 10_000), false); err != nil ||
		outcome.Reason != policy.SoftwareUsed || s.asked[2].Hardware {
		t.Errorf("too small for hardware: %+v, %v", outcome, err)
	}
}

func TestWaysAreChecked(t *testing.T) {
	for name, ways := range map[string]map[policy.Option]codec.Engine{
		"another codec": {software(codec.Zstd, codec.Fast): goflate.New()},
		"another class": {{Codec: codec.Deflate, Class: codec.Hardware, Level: codec.Fast}: goflate.New()},
		"no codec":      {{}: goflate.New()},
		"no such level": {software(codec.Deflate, 9): goflate.New()},
	} {
		o := frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto(), Chooser: &script{}, Ways: ways}
		if _, err := frame.NewEncoder(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	s := &script{next: policy.Choice{Option: software(codec.Zstd, codec.High)}}
	ways := map[policy.Option]codec.Engine{software(codec.Deflate, codec.Fast): goflate.New()}
	e := newEncoder(
		t, frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto(), Chooser: s, Ways: ways},
	)
	if _, _, err := e.Append(nil, corpus("xml", 128<<10), false); err == nil {
		t.Error("a way that is not there was taken")
	}
}

// yielding is an accelerator whose gate gives a reason.
type yielding struct {
	codec.Engine
	reason *policy.Reason
}

func (y yielding) Enter(bool) policy.Reason { return *y.reason }

// TestChooserAndShares: while the accelerator yields, hardware is not offered to the chooser, and what software
// compresses says why.
func TestChooserAndShares(t *testing.T) {
	var reason policy.Reason
	engine := yielding{accelerator{goflate.New(), true}, &reason}
	option := policy.Option{Codec: codec.Deflate, Class: codec.Hardware, Level: codec.Fast}
	ways := softwareWays()
	ways[option] = engine
	for _, yields := range []policy.Reason{policy.AcceleratorShare, policy.AcceleratorBusy} {
		s := &script{next: policy.Choice{Option: software(codec.Zstd, codec.Fast)}}
		e := newEncoder(t, frame.EncoderOptions{
			Engines: withHardware, Codec: codec.Zstd, Policy: auto(), Chooser: s, Ways: ways,
		})
		reason = yields
		_, outcome, err := e.Append(nil, corpus("xml", 128<<10), false)
		if err != nil || outcome.Reason != yields || outcome.Path != meter.Software || s.asked[0].Hardware {
			t.Errorf("%+v, %v", outcome, err)
		}
		reason, s.next = "", policy.Choice{Option: option}
		_, outcome, err = e.Append(nil, corpus("xml", 128<<10), false)
		if err != nil || outcome.Reason != policy.HardwareUsed || !s.asked[1].Hardware {
			t.Errorf("after that: %+v, %v", outcome, err)
		}
	}
}

// refusing is an accelerator whose gate counts how often it is asked, and refuses.
type refusing struct {
	codec.Engine
	asked *int
}

func (r refusing) Enter(bool) policy.Reason {
	*r.asked++
	return policy.AcceleratorShare
}

// TestGateIsAskedLast: the gate is asked once for a block that is going to be compressed, and for no other.
func TestGateIsAskedLast(t *testing.T) {
	option := policy.Option{Codec: codec.Deflate, Class: codec.Hardware, Level: codec.Fast}
	for _, chooses := range []bool{false, true} {
		asked := 0
		engine := refusing{accelerator{goflate.New(), true}, &asked}
		o := frame.EncoderOptions{
			Engines: codec.NewRegistry(engine, goflate.New()), Codec: codec.Deflate, Policy: auto(),
		}
		if chooses {
			ways := softwareWays()
			ways[option] = engine
			o.Engines, o.Codec, o.Ways = withHardware, codec.Zstd, ways
			o.Chooser = &script{next: policy.Choice{Option: software(codec.Zstd, codec.Fast)}}
		}
		e := newEncoder(t, o)
		if _, outcome, err := e.Append(nil, corpus("random", 128<<10), false); err != nil || asked != 0 {
			t.Errorf("with a chooser %v: asked %d times for %+v, %v", chooses, asked, outcome, err)
		}
		_, outcome, err := e.Append(nil, corpus("xml", 128<<10), false)
		if err != nil || asked != 1 || outcome.Reason != policy.AcceleratorShare {
			t.Errorf("with a chooser %v: asked %d times for %+v, %v", chooses, asked, outcome, err)
		}
	}
}
