// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger holds what would be booked for Transfers against what they cost the system: two agents move trees of
// several sizes over loopback, and the CPU time of the whole system, less what it uses while it idles, grows by so much
// for each GiB.
package ledger

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/lighterage/lighterage/agent/node"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/usage"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/transfer"
)

const (
	gib = 1 << 30
	// fileSize of the files of a tree.
	fileSize = 64 << 20
	// kept is for how long the machine is watched idle between runs.
	kept = 2 * time.Second
)

// recordLengths are those of the TCP/IP study.
var recordLengths = []int{80, 4096, 27998}

type options struct {
	agent, work string
	rounds      int
	sizes       []int64
	idle        time.Duration

	network      *usage.NetworkCost // nil: the machine was too busy to calibrate it
	measured     node.NetworkCost
	perReport    time.Duration
	calibrateErr error
}

// Benchmark is that of the ledger.
func Benchmark() harness.Benchmark {
	o := &options{}
	return harness.Benchmark{
		Name: "ledger", About: "what Transfers cost the system beside what is booked; needs about 9 GiB of memory in -work",
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&o.agent, "agent", "bin/agent", "the agent's binary")
			f.StringVar(&o.work, "work", "/dev/shm", "where trees and destinations are made, in a directory of their own")
			f.IntVar(&o.rounds, "rounds", 5, "rounds of each cell")
		},
		Run: o.run,
	}
}

// cell is one condition.
type cell struct {
	codec  string
	record int
	rounds []round
}

// line is a figure that grows with the GiB of a run: seconds for none, and for each GiB.
type line struct{ base, slope float64 }

// round is how the figures of its runs grow.
type round struct {
	// system is the CPU time of all, less what the system uses while it idles; booked is what the Statements of both sides
	// would have.
	system, booked line
	// push and pull are the CPU time of the processes, pushStack and pullStack the estimates for the network stack.
	push, pull, pushStack, pullStack line
	// others are processes that are not ours, kernel the threads of the kernel.
	others, kernel line
	// reports is the largest share of a run's CPU time that reporting takes.
	reports float64
}

// sample is one run.
type sample struct {
	moved                                                                  int64
	gib                                                                    float64
	system, booked, push, pull, pushStack, pullStack, others, kernel, wall float64
}

func (o *options) run(ctx context.Context, r *harness.Run) (err error) {
	o.sizes, o.idle = []int64{gib / 2, 1 * gib, 2 * gib, 4 * gib}, kept
	if r.Quick {
		o.sizes, o.idle, o.rounds = []int64{gib / 8, gib / 4, gib / 2, gib}, kept/4, 1
	}
	if o.agent, err = filepath.Abs(o.agent); err != nil {
		return fmt.Errorf("find the agent: %w", err)
	}
	if o.work, err = os.MkdirTemp(o.work, "lighterage-bench-"); err != nil {
		return fmt.Errorf("make a directory for trees: %w", err)
	}
	defer os.RemoveAll(o.work)
	if err := o.calibrate(ctx); err != nil && !r.Quick {
		return fmt.Errorf("nothing measured here would be a result: %w", err)
	}
	if o.perReport, err = costOfReport(ctx); err != nil {
		return fmt.Errorf("measure what a report costs: %w", err)
	}
	var cells []cell
	for _, record := range recordLengths {
		sources, err := o.makeTrees(record)
		if err != nil {
			return fmt.Errorf("make trees of records of %d bytes: %w", record, err)
		}
		for _, codec := range []string{"none", "deflate", "zstd"} {
			c := cell{codec: codec, record: record}
			err := r.Rounds(o.rounds, func(n int) error {
				one, err := o.round(ctx, c, n, sources)
				if err != nil {
					return err
				}
				harness.Log("%s, records of %d, round %d: %.2f of %.2f s for a GiB are booked", codec, record, n+1,
					one.booked.slope, one.system.slope)
				c.rounds = append(c.rounds, one)
				return nil
			})
			if err != nil {
				return fmt.Errorf("%s, records of %d: %w", codec, record, err)
			}
			cells = append(cells, c)
		}
		for _, source := range sources {
			if err := os.RemoveAll(source); err != nil {
				return fmt.Errorf("remove a tree: %w", err)
			}
		}
	}
	return r.Publish(ctx, o.report(cells))
}

// calibrate measures what the network costs, as the node agent does.
func (o *options) calibrate(ctx context.Context) error {
	cost, err := node.NetworkCPU(ctx)
	o.measured, o.calibrateErr = cost, err
	if err != nil {
		harness.Log("network: %v (%.0f %% background)", err, 100*cost.Background)
		return err
	}
	o.network = &usage.NetworkCost{
		PerGiB: cost.Median.Seconds(),
		Segments: &usage.SegmentCost{
			Acknowledgement: cost.Acknowledgement, Segment: cost.Segment, PerGiB: cost.Byte * gib,
		},
	}
	return nil
}

// round moves a tree of each size, with an idle window before and after each, and fits lines to what it took.
func (o *options) round(ctx context.Context, c cell, n int, sources map[int64]string) (round, error) {
	var samples []sample
	before, err := o.watch(ctx)
	if err != nil {
		return round{}, err
	}
	for _, i := range harness.Order(n, len(o.sizes)) {
		size := o.sizes[i]
		s, err := o.move(ctx, c, sources[size])
		if err != nil {
			return round{}, err
		}
		after, err := o.watch(ctx)
		if err != nil {
			return round{}, err
		}
		if s.moved != size {
			return round{}, fmt.Errorf("%d bytes of %d were moved", s.moved, size)
		}
		s.gib = float64(size) / gib
		s.system -= (before + after) / 2 * s.wall
		samples, before = append(samples, s), after
	}
	of := func(figure func(sample) float64) line { return fit(samples, figure) }
	one := round{
		system: of(func(s sample) float64 { return s.system }), booked: of(func(s sample) float64 { return s.booked }),
		push: of(func(s sample) float64 { return s.push }), pull: of(func(s sample) float64 { return s.pull }),
		pushStack: of(func(s sample) float64 { return s.pushStack }),
		pullStack: of(func(s sample) float64 { return s.pullStack }),
		others:    of(func(s sample) float64 { return s.others }), kernel: of(func(s sample) float64 { return s.kernel }),
	}
	for _, s := range samples {
		one.reports = max(one.reports, reportsPerSecond*s.wall*o.perReport.Seconds()/(s.push+s.pull))
	}
	return one, nil
}

// watch returns how much CPU time for each second the machine uses while nothing of ours runs.
func (o *options) watch(ctx context.Context) (float64, error) {
	before, _, err := harness.SystemCPU()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(o.idle):
	}
	after, _, err := harness.SystemCPU()
	return (after - before).Seconds() / time.Since(begin).Seconds(), err
}

// move is one run. system is still with what others use.
func (o *options) move(ctx context.Context, c cell, source string) (s sample, err error) {
	destination, dir := filepath.Join(o.work, "destination"), filepath.Join(o.work, "pair")
	defer os.RemoveAll(destination)
	defer os.RemoveAll(dir)
	for _, path := range []string{destination, dir} {
		if err := os.Mkdir(path, 0o755); err != nil {
			return s, fmt.Errorf("make a directory for a run: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pair, err := transfer.NewPair(ctx, dir, o.agent, source, destination, settings(c.codec))
	if err != nil {
		return s, err
	}
	ours := map[harness.PID]bool{pair.Receiver(): true}
	waiting, err := pair.Receiver().Usage() // what it took to start is in the CPU time of its process
	if err != nil {
		return s, err
	}
	people, threads, err := harness.CPUByProcess(nil)
	if err != nil {
		return s, err
	}
	delete(people, pair.Receiver())
	busy, _, err := harness.SystemCPU()
	if err != nil {
		return s, err
	}
	begin := time.Now()
	send, receive, err := pair.Move(ctx, func(sender harness.PID) { ours[sender] = true })
	if err != nil {
		return s, err
	}
	s.wall = time.Since(begin).Seconds()
	after, _, err := harness.SystemCPU()
	if err != nil {
		return s, err
	}
	peopleAfter, threadsAfter, err := harness.CPUByProcess(ours)
	if err != nil {
		return s, err
	}
	s.system = (after - busy).Seconds()
	s.others, s.kernel = grown(people, peopleAfter), grown(threads, threadsAfter)
	s.moved = int64(send.Report.GetProgress().GetBytes())
	s.push, s.pull = send.CPU.Seconds(), (receive.CPU - waiting.CPU).Seconds()
	// Each side is booked by its own manager, and nothing of what it says of the other one.
	pushed, pulled := usage.Of(send.Report, false, o.network).Send, usage.Of(receive.Report, false, o.network).Receive
	s.booked = time.Duration(pushed.Spent()+pulled.Spent()).Seconds() - waiting.CPU.Seconds()
	s.pushStack = time.Duration(pushed[usage.Network]).Seconds()
	s.pullStack = time.Duration(pulled[usage.Network]).Seconds()
	if state := receive.Report.GetState(); state != wirev1.AgentState_AGENT_STATE_SUCCEEDED {
		return s, errors.New("the receiver ended as " + state.String())
	}
	return s, nil
}

// grown is by how much the CPU time of processes grew, in seconds. What has ended meanwhile is not known.
func grown(before, after map[harness.PID]time.Duration) float64 {
	var all time.Duration
	for pid, spent := range after {
		all += max(0, spent-before[pid])
	}
	return all.Seconds()
}

// fit is the line of least squares through a figure of runs.
func fit(samples []sample, figure func(sample) float64) line {
	var x, y, xx, xy float64
	n := float64(len(samples))
	for _, s := range samples {
		f := figure(s)
		x, y, xx, xy = x+s.gib, y+f, xx+s.gib*s.gib, xy+s.gib*f
	}
	slope := (n*xy - x*y) / (n*xx - x*x)
	if math.IsNaN(slope) {
		return line{}
	}
	return line{base: (y - slope*x) / n, slope: slope}
}
