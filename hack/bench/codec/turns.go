// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// contender is one way to compress or inflate a corpus.
type contender struct {
	name string
	// pass does it once.
	pass  func(context.Context) (sample, error)
	close func() error
}

// sample is one pass.
type sample struct {
	cpu, wall time.Duration
	in, out   int64
}

// result sums up the passes of a contender over a corpus.
type result struct {
	contender, corpus string
	in, out           int64     // of one pass
	cpu, wall         []float64 // nanoseconds for each byte of plain data, by round

	// What was inflated, when it was.
	stream string
	codec  codec.ID
	level  codec.Level
}

// costs tells apart what is plain data: what goes in when compressing, what comes
// out when inflating.
type plainSide func(sample) int64

func plainIn(s sample) int64  { return s.in }
func plainOut(s sample) int64 { return s.out }

// ratio is compressed by original size. It has a meaning when compressing only.
func (r result) ratio() float64 { return float64(r.out) / float64(r.in) }

// speed is millions of plain bytes a second of CPU time.
func (r result) speed() float64 { return 1e3 / harness.Median(r.cpu) }

// wallSpeed is millions of plain bytes a second.
func (r result) wallSpeed() float64 { return 1e3 / harness.Median(r.wall) }

// faster returns how many times as fast as other r is, by CPU time.
func (r result) faster(other result) harness.Estimate { return harness.Ratio(other.cpu, r.cpu) }

// inTurn lets every contender pass over the corpus once to warm up, then again in
// rounds. It closes them.
func (b *bench) inTurn(
	ctx context.Context, corpus string, plain plainSide, g gather,
) (found []result, err error) {
	contenders := g.contenders
	defer func() {
		for _, c := range contenders {
			if c.close != nil {
				err = errors.Join(err, c.close())
			}
		}
	}()
	if g.err != nil {
		return nil, fmt.Errorf("prepare for %s: %w", corpus, g.err)
	}
	found = make([]result, len(contenders))
	for i, c := range contenders {
		s, err := c.pass(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s on %s: %w", c.name, corpus, err)
		}
		found[i] = result{contender: c.name, corpus: corpus, in: s.in, out: s.out}
	}
	return found, b.Rounds(b.rounds, func(round int) error {
		for _, i := range harness.Order(round, len(contenders)) {
			what := contenders[i].name + " on " + corpus
			s, err := harness.Undisturbed(what, func() (sample, error) { return contenders[i].pass(ctx) })
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			bytes := float64(plain(s))
			found[i].cpu = append(found[i].cpu, float64(s.cpu)/bytes)
			found[i].wall = append(found[i].wall, float64(s.wall)/bytes)
		}
		return nil
	})
}
