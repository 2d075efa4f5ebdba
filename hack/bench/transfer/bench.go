// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transfer measures what moving a tree of files costs: our agents beside rsync and a pipeline of tar, igzip and
// TLS, over loopback, in one run.
//
// Each contender moves the same tree from one directory in memory to another; wall time and the CPU time of the whole
// system, all that is not idle, are measured.
package transfer

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/movers"
	"github.com/lighterage/lighterage/hack/bench/trees"
)

type options struct {
	agent, rclone, work, only, match string
	cpu                              cpuCounter
	runs, size                       int
}

const (
	// speedRuns of each contender are what a result has at least.
	speedRuns = 11
	demoSize  = 1300 // MiB
)

// Benchmark measures speed.
func Benchmark() harness.Benchmark {
	o := &options{}
	return harness.Benchmark{
		Name: "transfer", About: "moving trees beside rsync, tar and rclone, over loopback; needs about 5 GiB of memory in -work",
		Flags: func(f *flag.FlagSet) {
			o.flags(f, "/dev/shm")
			f.IntVar(&o.runs, "runs", speedRuns, "runs of each contender; fewer are no result")
			f.StringVar(&o.rclone, "rclone", os.Getenv("LIGHTERAGE_RCLONE"), "rclone's binary")
			f.IntVar(&o.size, "size", demoSize, "MiB of the demo's tree; another is no result")
			f.StringVar(&o.match, "match", "", "measure only contenders with this in their name")
			f.Func("cpu-usage", "the file cpu.stat or cpuacct.usage of the control group that the benchmark runs in, whose CPU "+
				"time is counted instead of the whole system's, for a machine where others work",
				func(path string) error { o.cpu = cpuCounter(path); return nil })
		},
		Run: o.in(o.speed),
	}
}

// Memory measures how much memory agents take for trees that are large in one way.
func Memory() harness.Benchmark {
	o := &options{}
	return harness.Benchmark{
		Name: "memory", About: "how much memory agents take; needs 12 GiB in -work",
		Flags: func(f *flag.FlagSet) { o.flags(f, "/var/tmp") }, Run: o.in(o.memory),
	}
}

func (o *options) flags(f *flag.FlagSet, work string) {
	f.StringVar(&o.agent, "agent", "bin/agent", "the agent's binary")
	f.StringVar(&o.work, "work", work, "where trees and destinations are made, in a directory of their own")
	f.StringVar(&o.only, "only", "", "measure one tree alone")
}

// in runs with a directory to work in.
func (o *options) in(run func(context.Context, *harness.Run) error) func(context.Context, *harness.Run) error {
	return func(ctx context.Context, r *harness.Run) (err error) {
		if o.agent, err = filepath.Abs(o.agent); err != nil {
			return fmt.Errorf("find the agent: %w", err)
		}
		if o.work, err = os.MkdirTemp(o.work, "lighterage-bench-"); err != nil {
			return fmt.Errorf("make a directory for trees: %w", err)
		}
		defer os.RemoveAll(o.work)
		r.Partial = o.only != "" || o.match != "" || o.cpu != ""
		return run(ctx, r)
	}
}

// contender is one way to move a tree.
type contender struct {
	name string
	// setUp returns what moves the tree once, into an empty directory. What it starts ends with the context, and what it
	// needs is in a directory that is removed.
	setUp func(ctx context.Context, dir, source, destination string) (move func(context.Context) (moved, error), err error)
}

// moved is what a contender says of a run.
type moved struct {
	// wire is how many bytes crossed the wire, 0 if it does not say; send and receive are the CPU times of its two
	// processes.
	wire          int64
	send, receive time.Duration
	// sendPeak and receivePeak are how many bytes of memory the two had at most, 0 if that is not known.
	sendPeak, receivePeak int64
}

// sample is one run of a contender.
type sample struct {
	wall, cpu time.Duration
	moved
}

func (o *options) speed(ctx context.Context, r *harness.Run) error {
	if r.Quick {
		o.runs, o.size = 1, min(o.size, 100)
	}
	r.Partial = r.Partial || o.runs < speedRuns || o.size != demoSize
	if o.rclone == "" || !movers.HasSSHD() {
		harness.Log("rclone or %s is missing: without what needs them this is no result", movers.SSHD)
		r.Partial = true
	}
	var results []tableOf
	for _, f := range o.fields() {
		if o.only != "" && o.only != f.name {
			continue
		}
		f.contenders = slices.DeleteFunc(f.contenders, func(c contender) bool { return !strings.Contains(c.name, o.match) })
		table, err := o.move(ctx, r, f)
		if err != nil {
			return fmt.Errorf("tree %s: %w", f.name, err)
		}
		fmt.Printf("\n%s\n", table)
		results = append(results, table)
	}
	return r.Publish(ctx, report(ctx, o.runs, o.rclone, results))
}

// move has every contender move a tree, in turn.
func (o *options) move(ctx context.Context, r *harness.Run, f field) (tableOf, error) {
	source, destination := filepath.Join(o.work, f.name), filepath.Join(o.work, "destination")
	if err := f.make(ctx, *o, source); err != nil {
		return tableOf{}, fmt.Errorf("make it: %w", err)
	}
	defer func() { _ = os.RemoveAll(source) }()
	tree, err := trees.Measure(source)
	if err != nil {
		return tableOf{}, err
	}
	table := tableOf{field: f, tree: tree}
	for _, c := range f.contenders {
		table.results = append(table.results, result{name: c.name})
	}
	err = r.Rounds(o.runs, func(round int) error {
		for _, i := range harness.Order(round, len(f.contenders)) {
			c := f.contenders[i]
			s, err := harness.Undisturbed(c.name, func() (sample, error) {
				return measure(ctx, c, o.cpu, source, destination, tree)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			harness.Log("%s, run %d: %s: %.2f s wall, %.2f s CPU", f.name, round+1, c.name, s.wall.Seconds(), s.cpu.Seconds())
			table.results[i].samples = append(table.results[i].samples, s)
		}
		return nil
	})
	return table, err
}

// measure runs a contender once, into an empty directory, and holds what arrived against the source.
func measure(
	ctx context.Context, c contender, cpu cpuCounter, source, destination string, want trees.Size,
) (s sample, err error) {
	if err := os.Mkdir(destination, 0o755); err != nil { // read by the daemon's user
		return s, fmt.Errorf("make the destination: %w", err)
	}
	defer os.RemoveAll(destination)
	dir, err := os.MkdirTemp("", "lighterage-bench-")
	if err != nil {
		return s, fmt.Errorf("make a directory for %s: %w", c.name, err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	move, err := c.setUp(ctx, dir, source, destination)
	if err != nil {
		return s, err
	}
	busy, err := cpu.read()
	if err != nil {
		return s, err
	}
	start := time.Now()
	if s.moved, err = move(ctx); err != nil {
		return s, err
	}
	s.wall = time.Since(start)
	after, err := cpu.read()
	if err != nil {
		return s, err
	}
	s.cpu = after - busy
	got, err := trees.Measure(destination)
	if err == nil && got != want {
		err = fmt.Errorf("the destination has %+v, the source %+v", got, want)
	}
	return s, err
}

// shell is a pipeline that fails when a part of it does.
func shell(ctx context.Context, script string) *exec.Cmd {
	return exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", script)
}
