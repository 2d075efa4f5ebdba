// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"context"
	"fmt"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/estimate"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// decisionResults are what deciding costs.
type decisionResults struct {
	// estimates are of the estimate by itself, compressed of the preferred deflate
	// engine at Fast, measured in turn, one each for a corpus.
	estimates, compressed []result
	// modes are of whole blocks through frame.
	modes []modeResult
}

// modeResult compares what a block costs in each mode of a policy.
type modeResult struct {
	setting             setting
	never, auto, always result
}

// looks is how often one pass estimates each block, since it is quick.
const looks = 10

// decisions measures the estimate, and what data that do not shrink cost in each
// mode.
func (b *bench) decisions(ctx context.Context, r *results) error {
	fast, ok := b.preferred(codec.Deflate, codec.Fast)
	if !ok {
		return nil
	}
	for _, d := range b.data {
		harness.Log("decide on %s", d.name)
		var g gather
		g.add(compressing(fast, d.plain, mainBlock))
		g.add(estimating(fast, d.plain))
		found, err := b.inTurn(ctx, d.name, plainIn, g)
		if err != nil {
			return err
		}
		r.decisions.compressed = append(r.decisions.compressed, found[0])
		r.decisions.estimates = append(r.decisions.estimates, found[1])
		switch d.name {
		case "random", "zstd", "gzip", "packed":
		default:
			continue
		}
		for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
			for _, level := range []codec.Level{codec.Fast, codec.Balanced} {
				if s, ok := b.preferred(id, level); ok {
					if err := b.modes(ctx, r, d, s); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (b *bench) modes(ctx context.Context, r *results, d data, s setting) error {
	var g gather
	for _, mode := range []policy.Mode{policy.Never, policy.Auto, policy.Always} {
		g.add(framing(s, mode, d.plain))
	}
	found, err := b.inTurn(ctx, d.name, plainIn, g)
	if err != nil {
		return err
	}
	r.decisions.modes = append(
		r.decisions.modes, modeResult{setting: s, never: found[0], auto: found[1], always: found[2]},
	)
	return nil
}

// estimating is the prediction for each block by itself.
func estimating(s setting, plain []byte) (contender, error) {
	trial, err := s.engine.NewEncoder(s.level)
	if err != nil {
		return contender{}, err
	}
	blocks, scratch := split(plain, mainBlock), make([]byte, mainBlock)
	return contender{name: "estimate", close: trial.Close, pass: func(context.Context) (sample, error) {
		sample, err := timed(func() error {
			for range looks {
				for _, b := range blocks {
					if _, err := estimate.Predict(b, scratch[:len(b)], trial); err != nil {
						return err
					}
				}
			}
			return nil
		})
		sample.in = int64(len(plain)) * looks
		return sample, err
	}}, nil
}

// framing is a block's way through frame: decision, compression, checksum.
func framing(s setting, mode policy.Mode, plain []byte) (contender, error) {
	encoder, err := newFrameEncoder(s, mode)
	if err != nil {
		return contender{}, err
	}
	blocks, buf := split(plain, mainBlock), make([]byte, 0, frame.HeaderSize+mainBlock)
	return contender{name: fmt.Sprintf("%s, %s", s.name(), mode), close: encoder.Close,
		pass: func(context.Context) (sample, error) {
			out := 0
			sample, err := timed(func() error {
				for _, b := range blocks {
					header, payload, _, err := encoder.Next(buf, b, false)
					if err != nil {
						return err
					}
					out += len(header) + len(payload)
				}
				return nil
			})
			sample.in, sample.out = int64(len(plain)), int64(out)
			return sample, err
		}}, nil
}

func newFrameEncoder(s setting, mode policy.Mode) (*frame.Encoder, error) {
	return frame.NewEncoder(frame.EncoderOptions{
		Engines: codec.NewRegistry(s.engine), Codec: s.engine.Codec(), Policy: policy.Settings{Mode: mode, Level: s.level},
	})
}

// allocation is what one call allocates of Go's memory.
type allocation struct {
	name    string
	objects float64
}

// allocations counts objects for each block, in both directions, of engines and of
// frame.
func (b *bench) allocations(_ context.Context, r *results) error {
	const runs = 20
	plain := b.data[0].plain[:min(len(b.data[0].plain), mainBlock)]
	for _, s := range b.settings(codec.High) {
		harness.Log("allocations of %s", s.name())
		encoder, err := s.engine.NewEncoder(s.level)
		if err != nil {
			return err
		}
		decoder, err := s.engine.NewDecoder()
		if err != nil {
			return err
		}
		framer, err := newFrameEncoder(s, policy.Auto)
		if err != nil {
			return err
		}
		dst, back, framed := make([]byte, space(mainBlock)), make([]byte, mainBlock), make(
			[]byte, 0, frame.HeaderSize+mainBlock,
		)
		n := 0
		for _, c := range []struct {
			what string
			call func() error
		}{
			{"compress", func() (err error) { n, err = encoder.Encode(dst, plain); return err }},
			{"inflate", func() (err error) { _, err = decoder.Decode(back[:len(plain)], dst[:n]); return err }},
			{"frame", func() (err error) { _, _, err = framer.AppendAt(framed, 1, plain, false); return err }},
		} {
			if err := c.call(); err != nil {
				return fmt.Errorf("count what %s allocates to %s: %w", s.name(), c.what, err)
			}
			objects := testing.AllocsPerRun(runs, func() { _ = c.call() })
			r.allocations = append(r.allocations, allocation{s.name() + ", " + c.what, objects})
		}
		for _, closer := range []func() error{encoder.Close, decoder.Close, framer.Close} {
			if err := closer(); err != nil {
				return fmt.Errorf("close what %s opened: %w", s.name(), err)
			}
		}
	}
	return nil
}
