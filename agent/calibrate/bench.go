// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package calibrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
)

// Bench measures engines on a sample, in blocks of the usual size. The fastest of
// several rounds counts: what else runs on the machine only ever makes a round slower.
type Bench struct {
	// Sample is compressed and inflated.
	Sample []byte
	// Items, where there are any, are compressed and inflated one by one in place of the sample. None is empty or
	// longer than a block.
	Items [][]byte
	// Overhead is what carries the form of a compressed item, in bytes; nil: nothing does.
	Overhead func(codec.ID) int
	// DictionaryOverhead is the same where the engine is one of codec.WithDictionary; 0: Overhead says it.
	DictionaryOverhead int
	// Budget is about how much CPU time a call may take. Every engine has one round in
	// any case, and a second one when the first took no more than the budget.
	Budget time.Duration
	// Rounds are how many every engine has whatever they take, at least one. The first one pays
	// for memory that nobody has touched yet, which makes some engines look several times slower.
	Rounds int
}

// runner is one engine in a measurement.
type runner struct {
	figure Figure
	best   time.Duration
	// work does one block.
	work  func(i int) error
	close func() error
}

// Compress measures what the engines do at a level, which they must have. There is a
// figure for each, with an error where one could not be measured.
func (b *Bench) Compress(ctx context.Context, engines []codec.Engine, level codec.Level) []Figure {
	plain, size := b.blocks()
	out := make([]byte, bound(frame.DefaultBlock))
	runners := make([]*runner, len(engines))
	for i, e := range engines {
		r := &runner{figure: Figure{Engine: e.Name(), PlainBytes: size}}
		runners[i] = r
		overhead := 0
		if b.Overhead != nil {
			overhead = b.Overhead(e.Codec())
		}
		if b.DictionaryOverhead > 0 && codec.HasDictionary(e) {
			overhead = b.DictionaryOverhead
		}
		encoder, err := e.NewEncoder(level)
		if err != nil {
			r.figure.Err = err
			continue
		}
		lengths, wires := make([]int, len(plain)), make([]int, len(plain)) // of the round before
		r.close = encoder.Close
		r.work = func(i int) error {
			n, err := encoder.Encode(out, plain[i])
			r.figure.CompressedBytes += int64(n - lengths[i])
			wire := min(n+overhead, len(plain[i]))
			r.figure.WireBytes += int64(wire - wires[i])
			lengths[i], wires[i] = n, wire
			return err
		}
	}
	b.run(ctx, runners, len(plain))
	return figures(runners, fmt.Sprintf("compress the sample at level %v", level))
}

// Inflate measures how fast the engines inflate what the first of them that can
// compress made of the sample. An engine that inflates it to anything else has an
// error.
func (b *Bench) Inflate(ctx context.Context, engines []codec.Engine) []Figure {
	plain, size := b.blocks()
	packed, err := pack(engines, plain)
	out := make([]byte, frame.DefaultBlock)
	runners := make([]*runner, len(engines))
	for i, e := range engines {
		r := &runner{figure: Figure{Engine: e.Name(), PlainBytes: size, Err: err}}
		runners[i] = r
		if err != nil {
			continue
		}
		decoder, err := e.NewDecoder()
		if err != nil {
			r.figure.Err = err
			continue
		}
		r.close = decoder.Close
		if r.figure.Err = check(decoder, packed, plain, out); r.figure.Err != nil {
			continue
		}
		r.work = func(i int) error {
			_, err := decoder.Decode(out, packed[i])
			return err
		}
	}
	b.run(ctx, runners, len(plain))
	return figures(runners, "inflate the sample")
}

// run has the runners work by turns until the budget is spent.
func (b *Bench) run(ctx context.Context, runners []*runner, n int) {
	var spent time.Duration
	for round := 0; round < max(b.Rounds, 1) || spent < b.Budget; round++ {
		worked := false
		for _, r := range runners {
			if r.figure.Err == nil && ctx.Err() != nil {
				r.figure.Err = context.Cause(ctx)
			}
			if r.figure.Err != nil {
				continue
			}
			cpu := timed(func() {
				for i := range n {
					if r.figure.Err = r.work(i); r.figure.Err != nil {
						return
					}
				}
			})
			if round == 0 || cpu < r.best {
				r.best = cpu
			}
			spent += cpu
			worked = true
		}
		if !worked {
			return
		}
	}
}

// timed returns the CPU time of a function. Where the kernel does not tell it is the
// time by the clock.
func timed(f func()) time.Duration {
	start := time.Now()
	if cpu := meter.ThreadCPU(f); cpu > 0 {
		return cpu
	}
	return max(time.Since(start), time.Nanosecond)
}

// figures closes the runners and returns what they found.
func figures(runners []*runner, doing string) []Figure {
	found := make([]Figure, len(runners))
	for i, r := range runners {
		if r.close != nil {
			r.figure.Err = errors.Join(r.figure.Err, r.close())
		}
		if r.figure.Err != nil {
			r.figure.Err = fmt.Errorf("let %s %s: %w", r.figure.Engine, doing, r.figure.Err)
		} else {
			r.figure.BytesPerSecond = float64(r.figure.PlainBytes) / r.best.Seconds()
		}
		found[i] = r.figure
	}
	return found
}

// blocks returns what is compressed in one piece each, and how many bytes that is.
func (b *Bench) blocks() (all [][]byte, size int64) {
	if all = b.Items; len(all) == 0 {
		all = blocks(b.Sample)
	}
	for _, one := range all {
		size += int64(len(one))
	}
	return all, size
}

func blocks(sample []byte) [][]byte {
	var all [][]byte
	for len(sample) > 0 {
		n := min(frame.DefaultBlock, len(sample))
		all = append(all, sample[:n])
		sample = sample[n:]
	}
	return all
}

// bound is enough for what any engine makes of n bytes.
func bound(n int) int { return n + n/8 + 1024 }

// pack compresses blocks with the first engine that can.
func pack(engines []codec.Engine, plain [][]byte) ([][]byte, error) {
	err := errors.New("no engine compresses")
	for _, e := range engines {
		var packed [][]byte
		packed, err = packWith(e, plain)
		if err == nil {
			return packed, nil
		}
	}
	return nil, err
}

func packWith(e codec.Engine, plain [][]byte) (_ [][]byte, err error) {
	encoder, err := codec.NewLowestEncoder(e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, encoder.Close()) }()
	packed := make([][]byte, len(plain))
	for i, block := range plain {
		out := make([]byte, bound(len(block)))
		n, err := encoder.Encode(out, block)
		if err != nil {
			return nil, fmt.Errorf("let %s compress the sample: %w", e.Name(), err)
		}
		packed[i] = out[:n]
	}
	return packed, nil
}

// check inflates everything once and compares.
func check(decoder codec.Decoder, packed, plain [][]byte, out []byte) error {
	for i := range packed {
		n, err := decoder.Decode(out, packed[i])
		if err != nil {
			return err
		}
		if !bytes.Equal(out[:n], plain[i]) {
			return errors.New("it inflates to other bytes")
		}
	}
	return nil
}
