// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/estimate"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// sample is what was found out about a block before it was compressed. The zero value
// is that of a block nobody looked at.
type sample struct {
	taken   bool
	verdict estimate.Verdict
	// predicted is what the block alone promises, corrected what it promises after what
	// earlier blocks became.
	predicted, corrected estimate.Prediction
	// counts are those of this block.
	counts meter.Estimate
}

// look takes a sample of a block with the encoder that would compress it, unless the block is taken to be as hopeless
// as those before. It overwrites space, which is as long as the block.
func (e *Encoder) look(encoder codec.Encoder, space, plain []byte) (sample, error) {
	if !estimate.Judged(len(plain)) {
		return sample{verdict: estimate.Compress}, nil
	}
	s := sample{taken: true}
	recalled := false
	var err error
	s.counts.CPU = meter.ThreadCPU(func() {
		if s.predicted, recalled = e.likeness.recall(plain); recalled && !s.predicted.Worth {
			return
		}
		recalled = false
		s.predicted, err = estimate.Predict(plain, space, encoder)
	})
	if err != nil {
		return sample{}, err
	}
	// Probes are as frequent among blocks that have no sample.
	s.verdict, s.corrected = e.tracker.Judge(len(plain), s.predicted)
	if !recalled {
		e.likeness.learn(len(plain), s)
	}
	return s, nil
}

// finding returns what a policy has to know of the sample.
func (s *sample) finding() policy.Sample {
	if s.verdict == estimate.Skip {
		return policy.Hopeless
	}
	return policy.Promising
}

// learn takes in that a block of a length was compressed to a size, which is the
// length when it did not shrink.
func (e *Encoder) learn(s *sample, length, size int) {
	if !s.taken {
		return
	}
	missed := e.tracker.Observe(s.verdict, length, s.predicted, size)
	if s.verdict == estimate.Probe {
		s.counts.Probes = 1
		if missed {
			s.counts.Missed = 1
		}
		return
	}
	s.counts.Found(length, s.corrected.Size, size)
}
