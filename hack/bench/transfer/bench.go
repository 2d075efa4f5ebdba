// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command transfer measures what moving a tree of files costs: our agents beside rsync and a pipeline of tar, igzip and
// TLS, over loopback, in one run.
//
// Each contender moves the same tree from one directory in memory to another, several times in turn; wall time and the
// CPU time of the whole system (all that is not idle, from /proc/stat) are measured, and medians reported.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	agent := flag.String("agent", "bin/agent", "the agent's binary")
	demo := flag.String("demo", "", "the tree of the demo (required)")
	work := flag.String("work", "", "a directory in memory for trees and destinations (required)")
	runs := flag.Int("runs", 5, "runs of each contender")
	out := flag.String("out", "docs/results", "the directory for transfer.md and transfer.svg")
	only := flag.String("only", "", "a tree to measure alone: mixed, demo or small; nothing is written then")
	match := flag.String("match", "", "measure only contenders with this in their name")
	usage := flag.String(
		"cpu-usage", "",
		"the file cpu.stat or cpuacct.usage of the control group that the benchmark runs in, whose CPU time is counted "+
			"instead of the whole system's, for a machine where others work; nothing is written then",
	)
	memory := flag.Bool(
		"memory", false,
		"measure how much memory agents take for trees that are large in one way, instead of speed; writes memory.md into "+
			"-out",
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(
		ctx,
		options{
			agent: *agent, demo: *demo, work: *work, out: *out, only: *only, match: *match, cpu: cpuCounter(*usage), runs: *runs,
			memory: *memory,
		},
	)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	agent, demo, work, out, only, match string
	cpu                                 cpuCounter
	runs                                int
	memory                              bool
}

// contender is one way to move a tree.
type contender struct {
	name string
	// setUp returns what moves the tree once, into an empty directory.
	setUp func(
		ctx context.Context, source, destination string,
	) (move func(context.Context) (moved, error), tearDown func(), err error)
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

func run(ctx context.Context, o options) error {
	if o.demo == "" && !o.memory || o.work == "" || o.runs < 1 {
		return errors.New("give -demo and -work, and at least one run")
	}
	agent, err := filepath.Abs(o.agent)
	if err != nil {
		return fmt.Errorf("find the agent: %w", err)
	}
	if o.memory {
		return measureMemory(ctx, agent, o.work, o.only, o.out)
	}
	var results []tableOf
	for _, f := range fields(agent) {
		if o.only != "" && o.only != f.name {
			continue
		}
		f.contenders = slices.DeleteFunc(f.contenders, func(c contender) bool { return !strings.Contains(c.name, o.match) })
		source, err := f.make(o)
		if err != nil {
			return err
		}
		table, err := f.run(ctx, o, source, filepath.Join(o.work, "destination"))
		if err != nil {
			return err
		}
		fmt.Printf("\n%s\n", table)
		results = append(results, table)
		if source != o.demo {
			if err := os.RemoveAll(source); err != nil {
				return fmt.Errorf("remove the tree: %w", err)
			}
		}
	}
	met := targets(results)
	if o.only == "" && o.match == "" && o.cpu == "" {
		if err := report(o.out, o.runs, results, met); err != nil {
			return err
		}
	}
	for _, t := range met {
		fmt.Println(t)
	}
	return nil
}

// measure runs a contender once, into an empty directory, and holds what arrived against the source.
func measure(
	ctx context.Context, c contender, cpu cpuCounter, source, destination string, want treeSize,
) (sample, error) {
	if err := os.RemoveAll(destination); err != nil {
		return sample{}, fmt.Errorf("empty the destination: %w", err)
	}
	if err := os.Mkdir(destination, 0o755); err != nil { //nolint:gosec // throwaway data, read by the daemon's user
		return sample{}, fmt.Errorf("make the destination: %w", err)
	}
	move, tearDown, err := c.setUp(ctx, source, destination)
	if err != nil {
		return sample{}, err
	}
	defer tearDown()
	busy, err := cpu.read()
	if err != nil {
		return sample{}, err
	}
	start := time.Now()
	said, err := move(ctx)
	wall := time.Since(start)
	if err != nil {
		return sample{}, err
	}
	after, err := cpu.read()
	if err != nil {
		return sample{}, err
	}
	got, err := measureTree(destination)
	if err != nil {
		return sample{}, err
	}
	if got != want {
		return sample{}, fmt.Errorf("the destination has %+v, the source %+v", got, want)
	}
	return sample{wall: wall, cpu: after - busy, moved: said}, nil
}
