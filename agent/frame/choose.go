// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/estimate"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// Chooser decides block by block how to compress. It is safe for concurrent use. What a
// policy.Controller says of its methods holds.
type Chooser interface {
	Choose(policy.Block) policy.Choice
	Observe(policy.Outcome)
}

// choosing is an encoder's part in choosing block by block.
type choosing struct {
	chooser Chooser
	engines map[policy.Option]codec.Engine
	sample  func(plain []byte, chosen policy.Option)
	// joinable is that of the options.
	joinable bool
	// workers are made when they are first needed.
	workers map[policy.Option]worker
	// trial takes the samples.
	trial policy.Option
}

func newChoosing(o EncoderOptions) (*choosing, error) {
	c := &choosing{
		chooser: o.Chooser, engines: o.Ways, joinable: o.Joinable, workers: make(map[policy.Option]worker),
		sample: o.Sample,
	}
	if c.sample == nil {
		c.sample = func([]byte, policy.Option) {}
	}
	// The least effort in software, and zstd first: it finds more to save than deflate does.
	options := make([]policy.Option, 0, len(o.Ways))
	for option, engine := range o.Ways {
		if option.Stored() || engine.Codec() != option.Codec || engine.Class() != option.Class ||
			!engine.HasLevel(option.Level) {
			return nil, fmt.Errorf(
				"engine %s is no way to compress as %v in %v at level %v", engine.Name(), option.Codec, option.Class, option.Level,
			)
		}
		options = append(options, option)
	}
	c.trial = slices.MinFunc(options, func(a, b policy.Option) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Level, b.Level), cmp.Compare(b.Codec, a.Codec))
	})
	return c, nil
}

// accelerator returns what is known of the accelerator for the codecs of the ways.
func (c *choosing) accelerator(o EncoderOptions) policy.Accelerator {
	codecs := false
	for option := range c.engines {
		if option.Class == codec.Hardware {
			return policy.Verified
		}
		codecs = codecs || option.Codec == codec.Deflate
	}
	if codecs {
		o.Codec = codec.Deflate
	}
	return accelerator(o)
}

// shared returns the engine of the accelerator; nil when no way uses one.
func (c *choosing) shared() codec.Engine {
	for option, engine := range c.engines {
		if option.Class == codec.Hardware {
			return engine
		}
	}
	return nil
}

// worker returns the one for an option.
func (c *choosing) worker(o policy.Option) (worker, error) {
	if w, ok := c.workers[o]; ok {
		return w, nil
	}
	engine, ok := c.engines[o]
	if !ok {
		return worker{}, fmt.Errorf(
			"codec %v in %v at level %v was chosen, which is not among the ways", o.Codec, o.Class, o.Level,
		)
	}
	w, err := newWorker(engine, o.Level, c.joinable)
	if err != nil {
		return worker{}, err
	}
	c.workers[o] = w
	return w, nil
}

func (c *choosing) close() error {
	var errs []error
	for _, w := range c.workers {
		errs = append(errs, w.encoder.Close())
	}
	return errors.Join(errs...)
}

// choose is compress where a chooser decides.
func (e *Encoder) choose(space, plain []byte) (policy.Decision, meter.Use, sample, int, error) {
	facts := policy.Facts{Size: int64(len(plain)), Codec: e.codec, Accelerator: e.accelerator}
	gate := policy.Decide(e.policy, facts)
	if gate.Class == codec.NoClass {
		return gate, meter.Use{}, sample{}, 0, nil
	}
	seen, err := e.expect(space, plain)
	if err != nil {
		return gate, meter.Use{}, seen, 0, fmt.Errorf("take a sample: %w", err)
	}
	if seen.verdict == estimate.Skip {
		e.choosing.sample(plain, policy.Option{})
		return policy.Decision{Codec: codec.None, Reason: policy.Incompressible}, meter.Use{}, seen, 0, nil
	}

	if gate.Class == codec.Hardware {
		if facts.Yield = policy.Yield(e.policy, e.shared, facts.Size); facts.Yield != "" {
			gate = policy.Decide(e.policy, facts)
		}
	}
	block := policy.Block{Size: len(plain), Predicted: seen.predicted.Size}
	block.Hardware, block.Software = policy.Classes(e.policy, facts)
	choice := e.choosing.chooser.Choose(block)
	e.choosing.sample(plain, choice.Option)
	if choice.Stored() {
		decision := policy.Decision{Codec: codec.None, Reason: choice.Reason}
		if seen.verdict == estimate.Probe {
			// Nobody wants to know.
			e.tracker.Observe(estimate.Probe, len(plain), seen.predicted, len(plain))
			decision.Reason = policy.Incompressible
		}
		return decision, meter.Use{}, seen, 0, nil
	}
	w, err := e.choosing.worker(choice.Option)
	if err != nil {
		return gate, meter.Use{}, seen, 0, err
	}
	decision := policy.Decision{
		Codec: choice.Codec, Class: choice.Class, Level: choice.Level, Reason: reasonOf(gate, choice, block),
	}
	var use meter.Use
	var n int
	cpu := meter.ThreadCPU(func() {
		decision, use, seen, n, err = e.work(w, decision, &seen, space, plain)
	})
	if err != nil {
		return decision, use, seen, n, err
	}
	wire := n
	if decision.Codec == codec.None {
		wire = len(plain)
		e.likeness.forget()
	}
	e.choosing.chooser.Observe(policy.Outcome{
		Option: choice.Option, Size: len(plain), Predicted: block.Predicted, Wire: wire, CPU: cpu.Seconds(),
	})
	return decision, use, seen, n, nil
}

// reasonOf is why a block is compressed as was chosen.
func reasonOf(gate policy.Decision, choice policy.Choice, block policy.Block) policy.Reason {
	switch {
	case choice.Reason != "":
		return choice.Reason
	case choice.Class == codec.Hardware:
		return policy.HardwareUsed
	case block.Hardware:
		return policy.SoftwareUsed // by choice
	default:
		return gate.Reason
	}
}

// expect finds out what a block promises, by a sample unless it is taken to be like those
// before.
func (e *Encoder) expect(space, plain []byte) (sample, error) {
	if !estimate.Judged(len(plain)) {
		return sample{verdict: estimate.Compress, predicted: estimate.Prediction{Size: len(plain) / 2, Worth: true}}, nil
	}
	if p, ok := e.likeness.recall(plain); ok {
		s := sample{verdict: estimate.Compress, predicted: p}
		if !p.Worth {
			s.verdict = estimate.Skip
		}
		return s, nil
	}
	w, err := e.choosing.worker(e.choosing.trial)
	if err != nil {
		return sample{}, err
	}
	return e.look(w.encoder, space, plain)
}
