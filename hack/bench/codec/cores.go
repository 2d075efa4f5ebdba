// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// coresResult compares one core with all.
type coresResult struct {
	name, corpus string
	inflate      bool
	one, all     result
}

// scaling is how many times as fast all cores are, by the wall.
func (c coresResult) scaling() harness.Estimate { return harness.Ratio(c.one.wall, c.all.wall) }

// allCores measures the preferred engines with a worker for each core beside one
// worker.
func (b *bench) allCores(ctx context.Context, r *results) error {
	numbers, err := processors()
	if err != nil {
		return err
	}
	for _, d := range b.some() {
		harness.Log("%d cores on %s", len(numbers), d.name)
		for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
			for _, level := range []codec.Level{codec.Fast, codec.Balanced} {
				s, ok := b.preferred(id, level)
				if !ok {
					continue
				}
				blocks := split(d.plain, mainBlock)
				compress := func() (work, error) { return compressor(s, blocks) }
				if err := b.oneAndAll(ctx, r, coresResult{name: s.name(), corpus: d.name}, numbers, compress); err != nil {
					return err
				}
				if level != codec.Fast {
					continue
				}
				packs, err := pack(s, d.plain, mainBlock)
				if err != nil {
					return err
				}
				inflate := func() (work, error) { return inflater(s.engine, packs) }
				if err := b.oneAndAll(
					ctx, r, coresResult{name: s.engine.Name(), corpus: d.name, inflate: true}, numbers, inflate,
				); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// work is what one worker does: block i, of how many there are.
type work struct {
	blocks int
	do     func(i int) (plain int, err error)
	close  func() error
}

func compressor(s setting, blocks [][]byte) (work, error) {
	encoder, err := s.engine.NewEncoder(s.level)
	if err != nil {
		return work{}, err
	}
	dst := make([]byte, space(mainBlock))
	return work{blocks: len(blocks), close: encoder.Close, do: func(i int) (int, error) {
		_, err := encoder.Encode(dst, blocks[i])
		return len(blocks[i]), err
	}}, nil
}

func inflater(e codec.Engine, blocks []packed) (work, error) {
	decoder, err := e.NewDecoder()
	if err != nil {
		return work{}, err
	}
	dst := make([]byte, mainBlock)
	return work{blocks: len(blocks), close: decoder.Close, do: func(i int) (int, error) {
		return decoder.Decode(dst[:blocks[i].plain], blocks[i].bytes)
	}}, nil
}

func (b *bench) oneAndAll(
	ctx context.Context, r *results, c coresResult, numbers []int, newWork func() (work, error),
) error {
	// Enough passes that starting and the last block matter little.
	least, passes := 2*b.work, 1
	for {
		s, err := together(numbers[:1], newWork, passes)
		if err != nil {
			return err
		}
		if s.wall >= least {
			break
		}
		passes = max(passes*2, int(float64(passes)*float64(least)/float64(max(s.wall, time.Millisecond)))+1)
	}
	on := func(name string, numbers []int) contender {
		return contender{
			name: name, pass: func(context.Context) (sample, error) { return together(numbers, newWork, passes) },
		}
	}
	found, err := b.inTurn(ctx, c.corpus, plainIn, gather{
		contenders: []contender{on("one core", numbers[:1]), on("all cores", numbers)},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	c.one, c.all = found[0], found[1]
	r.cores = append(r.cores, c)
	return nil
}

// together lets one worker on each processor take blocks until all were done so
// many times.
func together(numbers []int, newWork func() (work, error), passes int) (sample, error) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	var next, plain, cpu atomic.Int64
	failures := make([]error, len(numbers))
	for i, number := range numbers {
		ready.Add(1)
		done.Go(func() {
			w, err := newWork()
			if err == nil {
				// Not unlocked: the thread ends with the goroutine, and its pinning with it.
				runtime.LockOSThread()
				err = pin(number)
			}
			ready.Done()
			<-start
			if err != nil {
				failures[i] = err
				return
			}
			cpu.Add(int64(meter.ThreadCPU(func() {
				for err == nil {
					at := int(next.Add(1)) - 1
					if at >= w.blocks*passes {
						break
					}
					var n int
					n, err = w.do(at % w.blocks)
					plain.Add(int64(n))
				}
			})))
			failures[i] = errors.Join(err, w.close())
		})
	}
	ready.Wait()
	began := time.Now()
	close(start)
	done.Wait()
	s := sample{wall: time.Since(began), cpu: time.Duration(cpu.Load()), in: plain.Load()}
	return s, errors.Join(failures...)
}
