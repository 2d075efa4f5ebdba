// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package codec measures what compressing and inflating blocks costs: every engine of this build at every level, on
// generated data and on data found on this machine, beside the programs igzip, pigz and zstd and beside loops in C over
// zlib-ng and ISA-L, in one run.
package codec

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/test/corpus"
	"github.com/lighterage/lighterage/test/corpus/found"
)

// extent is how much is measured.
type extent struct {
	bytes, rounds int           // of each corpus
	work          time.Duration // of a process in one round, at least
}

var (
	full  = extent{bytes: 16 << 20, rounds: 11, work: 150 * time.Millisecond}
	quick = extent{bytes: 2 << 20, rounds: 1, work: 20 * time.Millisecond}
)

// mainBlock is the block size of the main tables, which is that of a Transfer.
const mainBlock = 1 << 20

// Benchmark is this one.
func Benchmark() harness.Benchmark {
	memory := ""
	return harness.Benchmark{
		Name: "codec", About: "every engine beside igzip, pigz, zstd and loops in C",
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&memory, "tmp", "/dev/shm", "a directory in memory for the files that other programs read")
		},
		Run: func(ctx context.Context, r *harness.Run) (err error) {
			b := &bench{Run: r, extent: full, engines: measured(ctx)}
			if r.Quick {
				b.extent = quick
			}
			if len(b.engines) == 0 {
				return errors.New("this build has no engine that compresses")
			}
			if b.dir, err = os.MkdirTemp(memory, "lighterage-bench-codec-"); err != nil {
				return fmt.Errorf("make a directory in memory: %w", err)
			}
			defer os.RemoveAll(b.dir)
			if b.loops, err = buildLoops(ctx, b.dir); err != nil {
				return err
			}
			if b.data, err = b.collect(ctx); err != nil {
				return err
			}
			found, err := b.measure(ctx)
			if err != nil {
				return err
			}
			return r.Publish(ctx, newReport(b, found).whole(ctx))
		},
	}
}

// bench is what all measurements share.
type bench struct {
	*harness.Run
	extent
	dir     string // in memory
	engines []codec.Engine
	loops   []loop
	data    []data
}

// measure makes all measurements, one after the other.
func (b *bench) measure(ctx context.Context) (*results, error) {
	// Pinned: a thread that moves to the other core, or shares one with what it is
	// compared to, is what differs most between runs.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unpin, err := pinToOne()
	if err != nil {
		return nil, err
	}
	r := &results{}
	for _, part := range []func(context.Context, *results) error{
		b.compressAll, b.inflateAll, b.blockSizes, b.decisions, b.allocations,
	} {
		if err := part(ctx, r); err != nil {
			return nil, errors.Join(err, unpin())
		}
	}
	if err := unpin(); err != nil {
		return nil, err
	}
	return r, b.allCores(ctx, r)
}

// data are the bytes of a corpus.
type data struct {
	name, about string
	ordinary    bool
	plain       []byte
	digest      string
	path        string // of the same bytes as a file in memory
}

// results are all measurements.
type results struct {
	compress, inflate []result
	blocks            []blockResult
	cores             []coresResult
	decisions         decisionResults
	allocations       []allocation
}

// measured returns the engines that compress, the preferred ones of each codec first,
// and the accelerator when this program provably uses it.
func measured(ctx context.Context) []codec.Engine {
	all := slices.DeleteFunc(engines.All(), func(e codec.Engine) bool { return e.Codec() == codec.None })
	if accelerator, _ := hardware.Find(ctx); accelerator != nil {
		all = append(all, accelerator)
	}
	return all
}

var allLevels = []codec.Level{codec.Fast, codec.Balanced, codec.High}

// setting is an engine at a level.
type setting struct {
	engine codec.Engine
	level  codec.Level
}

func (s setting) name() string { return s.engine.Name() + " " + s.level.String() }

// settings returns every engine at every level it has, up to the highest given.
func (b *bench) settings(highest codec.Level) []setting {
	var all []setting
	for _, e := range b.engines {
		for _, level := range allLevels {
			if level <= highest && e.HasLevel(level) {
				all = append(all, setting{e, level})
			}
		}
	}
	return all
}

// preferred returns the setting that an agent would use without measuring first.
func (b *bench) preferred(id codec.ID, level codec.Level) (setting, bool) {
	for _, s := range b.settings(level) {
		if s.engine.Codec() == id && s.level == level {
			return s, true
		}
	}
	return setting{}, false
}

// collect makes or finds the corpora and writes them to files.
func (b *bench) collect(ctx context.Context) ([]data, error) {
	var all []data
	add := func(name, about string, ordinary bool, plain []byte) error {
		sum := sha256.Sum256(plain)
		// Zeros that nobody wrote are one page of the system, read faster than memory.
		plain = bytes.Clone(plain)
		path := filepath.Join(b.dir, name)
		if err := os.WriteFile(path, plain, 0o600); err != nil {
			return fmt.Errorf("write the corpus %s: %w", name, err)
		}
		all = append(all, data{name, about, ordinary, plain, hex.EncodeToString(sum[:]), path})
		return nil
	}
	generated := corpus.All()
	for _, ordinary := range []bool{true, false} {
		for _, c := range generated {
			if c.Ordinary != ordinary {
				continue
			}
			if err := add(c.Name, c.About, ordinary, c.Generate(b.bytes)); err != nil {
				return nil, err
			}
		}
		if !ordinary {
			continue
		}
		for _, c := range found.All() {
			plain, err := c.Collect(ctx, b.bytes)
			if errors.Is(err, found.ErrTooLittle) {
				harness.Log("left out: %v", err)
				continue
			}
			if err != nil {
				return nil, err
			}
			if err := add(c.Name, c.About, true, plain); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// ordinary returns the names of the corpora over which figures are averaged.
func (b *bench) ordinary() []string {
	var names []string
	for _, d := range b.data {
		if d.ordinary {
			names = append(names, d.name)
		}
	}
	return names
}

// some returns those of the corpora that stand for the others where measuring all
// would take too long: text, binary and real data.
func (b *bench) some() []data {
	var chosen []data
	for _, d := range b.data {
		switch d.name {
		case "xml", "records", "programs":
			chosen = append(chosen, d)
		}
	}
	return chosen
}

// split cuts data into blocks.
func split(plain []byte, block int) [][]byte {
	var blocks [][]byte
	for len(plain) > 0 {
		n := min(block, len(plain))
		blocks = append(blocks, plain[:n:n])
		plain = plain[n:]
	}
	return blocks
}
