// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"context"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
)

// inflateCost is what expanding one stream costs.
type inflateCost struct {
	compressed         int64 // length of the stream in bytes
	hardware, software time.Duration
}

// inflate proves that streams of all lengths are expanded by the accelerator,
// measures from which length on that is worth it, and writes both to the verdict.
// Inflating that works but in software is no failure of the proof: the first result
// says why.
func (p *proof) inflate(ctx context.Context, v *Verdict) (unused, failed *failure) {
	const what = "inflate"
	v.InflateMinSize = NeverInflate
	encoder, err := p.engines.Hardware.NewEncoder(v.Levels[0])
	if err != nil {
		return nil, selfTestFailed("%s: %v", what, err)
	}
	defer encoder.Close()

	var costs []inflateCost
	for size := sampleSize; size >= leastInflated; size /= 2 {
		n, err := encoder.Encode(p.stream, p.plain[:size])
		if err != nil {
			return nil, selfTestFailed("compress %d bytes: %v", size, err)
		}
		stream := p.stream[:n]
		if failed := p.expands(p.independent, stream, size, "compress a short block"); failed != nil {
			return nil, failed
		}
		if failed := p.expands(p.hardware, stream, size, what); failed != nil {
			return nil, failed
		}
		if unused := idle(p.hardware, what); unused != nil {
			return unused, nil
		}
		cost := inflateCost{compressed: int64(n)}
		for decoder, spent := range map[codec.Decoder]*time.Duration{p.hardware: &cost.hardware, p.software: &cost.software} {
			*spent, err = p.fastest(ctx, max(1, batch/size), func() error {
				_, err := decoder.Decode(p.out[:size], stream)
				return err
			})
			if err != nil {
				return nil, selfTestFailed("%s again: %v", what, err)
			}
		}
		if unused := idle(p.hardware, what); unused != nil {
			return unused, nil
		}
		costs = append(costs, cost)
	}
	v.InflateMinSize = worthwhile(costs)
	v.InflateHardware = sampleSize / costs[0].hardware.Seconds()
	v.InflateSoftware = sampleSize / costs[0].software.Seconds()
	return nil, nil
}

// worthwhile returns the length of the shortest stream from which on the accelerator
// is not slower than software at any length, and NeverInflate when there is none. The
// costs are those of ever shorter streams.
func worthwhile(costs []inflateCost) int64 {
	least := int64(NeverInflate)
	for _, c := range costs {
		if c.hardware > c.software {
			break
		}
		least = c.compressed
	}
	return least
}

const (
	// leastInflated is the length in bytes of the shortest plain block for which
	// inflating is measured. Streams that are shorter software inflates.
	leastInflated = 256
	// batch is how many plain bytes at least one measurement covers, so that short
	// blocks do not vanish in the clock's resolution.
	batch = 32 << 10
	// patience is the time after which a measurement is not repeated.
	patience = 3 * time.Millisecond
	// repeats is how often a measurement is repeated at most.
	repeats = 16
)

// fastest returns the CPU time of one call, from the best of several measurements of
// a number of calls each. There is at least one measurement, however long it takes.
func (p *proof) fastest(ctx context.Context, calls int, call func() error) (time.Duration, error) {
	var best, spent time.Duration
	for i := 0; i == 0 || i < repeats && spent < patience; i++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		var err error
		start := time.Now()
		cpu := p.engines.Stopwatch(func() {
			for n := 0; n < calls && err == nil; n++ {
				err = call()
			}
		})
		elapsed := time.Since(start)
		if err != nil {
			return 0, err
		}
		if cpu <= 0 {
			cpu = max(elapsed, time.Nanosecond) // a kernel that does not tell
		}
		if i == 0 || cpu < best {
			best = cpu
		}
		spent += elapsed
	}
	return max(best/time.Duration(calls), time.Nanosecond), nil
}
