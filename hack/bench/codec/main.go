// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command codec measures what compressing and inflating blocks costs: every engine
// of this build at every level, on generated data and on data found on this
// machine, beside the programs igzip, pigz and zstd and beside loops in C over
// zlib-ng and ISA-L, in one run.
//
// Contenders take turns, so that noise hits all of them alike; medians are
// reported. It writes codec.md and codec.svg and ends with a line for each target.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

func main() {
	name := flag.String("extent", "full", "how much is measured: full, or quick for a look that is no result")
	out := flag.String(
		"out", "", "the directory for codec.md and codec.svg (default: docs/results; dist/bench when quick)",
	)
	tmp := flag.String("tmp", "/dev/shm", "a directory in memory for the files that other programs read")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *name, *out, *tmp)
	if ctx.Err() != nil {
		err = errors.New("interrupted; nothing was written")
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// extent is how much is measured.
type extent struct {
	bytes int // of each corpus
	// Contenders that are slow take part in fewer rounds, never fewer than least: as
	// many as they do within patience on one corpus.
	rounds, least int
	patience      time.Duration
	work          time.Duration // of a process in one round, at least
	out, command  string
}

var extents = map[string]extent{
	"full": {bytes: 16 << 20, rounds: 7, least: 3, patience: 700 * time.Millisecond, work: 150 * time.Millisecond,
		out: "docs/results", command: "make bench-codec"},
	"quick": {bytes: 4 << 20, rounds: 3, least: 1, patience: 200 * time.Millisecond, work: 50 * time.Millisecond,
		out: "dist/bench", command: "make bench-codec BENCH=quick"},
}

// mainBlock is the block size of the main tables, which is that of a Transfer.
const mainBlock = 1 << 20

func run(ctx context.Context, name, out, tmp string) error {
	e, ok := extents[name]
	if !ok {
		return fmt.Errorf("unknown extent %q: use full or quick", name)
	}
	if out != "" {
		e.out = out
	}
	b := &bench{extent: e, log: os.Stderr, engines: measured(ctx), busy: busy()}
	if len(b.engines) == 0 {
		return errors.New("this build has no engine that compresses")
	}
	var err error
	if b.dir, err = os.MkdirTemp(tmp, "lighterage-bench-codec-"); err != nil {
		return fmt.Errorf("make a directory in memory: %w", err)
	}
	defer os.RemoveAll(b.dir)

	start := time.Now()
	if b.loops, err = buildLoops(ctx, b.dir); err != nil {
		return err
	}
	if b.data, err = b.collect(ctx); err != nil {
		return err
	}
	results, err := b.measure(ctx)
	if err != nil {
		return err
	}
	report := newReport(b, results, time.Since(start))
	if err := report.write(ctx); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "wrote codec.md and codec.svg to %s\n", e.out)
	for _, t := range report.targets {
		fmt.Println(t.line())
	}
	return nil
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
