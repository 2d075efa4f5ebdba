// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"math"
	"slices"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/scale/bed"
)

const (
	mebibyte = 1 << 20
	megabyte = 1e6
	// growthWindow is for how long the growth of etcd is bounded: until the API server has it compacted.
	growthWindow = 300
	// idleEnough is which part of the machine must be idle for times to say something about the manager.
	idleEnough = 0.2
	// linearly is by how much more than the number of objects something may grow.
	linearly = 1.2
)

// targets judges what was measured with the most objects, and how it has grown from one number to the next.
func targets(all []result) []harness.Target {
	most := all[len(all)-1]
	made := most.targets()
	if len(all) > 1 {
		made = append(made, growth(all[len(all)-2], most)...)
	}
	return made
}

// aim is a target for one number of Transfers.
type aim struct {
	name, what string
	needs      stage
	of         func(result) float64
	bound      float64
	digits     int
}

var aims = []aim{
	{"rss", "MiB of memory that the manager had at most", haveSteady, func(r result) float64 {
		return float64(r.steady.To.Manager.Peak) / mebibyte
	}, 512, 0},
	{"cpu-per-reconcile", "ms of the manager's CPU time for a reconcile, first pass and steady state", haveSteady,
		func(r result) float64 {
			s := bed.Span{From: r.first.From, To: r.steady.To}
			return 1e3 * s.CPU(bed.Manager) / s.Reconciles()
		}, 2, 1},
	{"progress-writes", "writes of progress in a second", haveSteady, func(r result) float64 {
		return r.steady.PerSecond(float64(r.steady.ProgressWrites()))
	}, 20, 1},
	{"progress-bytes", "bytes of the longest patch of progress", haveSteady, func(r result) float64 {
		return float64(r.steady.To.Record.LongestProgress)
	}, 3 << 10, 0},
	{"oldest-progress", "s that the progress of a run was old at most", haveSteady, func(r result) float64 {
		return r.oldest.Seconds()
	}, 300, 0},
	{"etcd-growth", "MB that the manager adds to etcd in five minutes", haveRestart, result.growth, 50, 1},
	{
		"restart", "s from the start of a process until it has observed everything", haveRestart, result.observedAfter, 60, 1,
	},
	{"restart-writes", "writes until then, but for progress and statistics of what runs, and bookings", haveRestart,
		func(r result) float64 { return float64(r.restart.Writes()) }, 0, 0},
	{"steady-cpu", "cores that the manager kept busy in the steady state", haveSteady, func(r result) float64 {
		return r.steady.Cores(bed.Manager)
	}, 0.5, 2},
	{"silent-slowdown", "% fewer answers of the other agents while a fifth is silent", haveSilent, result.slowdown, 10, 1},
}

// p99 counts where the machine had time.
var p99 = aim{"reconcile-p99", "ms that the slowest hundredth of reconciles took at least", haveSteady,
	func(r result) float64 { return r.steady.P99() }, 100, 0}

func (r result) targets() []harness.Target {
	judged := aims
	if r.have >= haveSteady && r.steady.Idle() >= idleEnough {
		judged = append(slices.Clone(aims), p99)
	}
	var list []harness.Target
	for _, a := range judged {
		list = append(list, harness.Target{
			Name: fmt.Sprintf("%s-%d", a.name, r.world.Transfers), What: a.what, Bound: a.bound, Digits: a.digits,
			Measured: harness.Exactly(r.at(a.needs, a.of)),
		})
	}
	return list
}

// at returns a figure, if it was measured.
func (r result) at(needs stage, figure func(result) float64) float64 {
	if r.have < needs {
		return missing
	}
	return figure(r)
}

// observedAfter is how many seconds after a restart everything was observed.
func (r result) observedAfter() float64 {
	if r.observed == 0 {
		return missing
	}
	return r.observed.Seconds()
}

// put is how many bytes etcd is given in a second, less what it is given without a manager.
func (r result) put() float64 {
	with := r.steady.PerSecond(r.steady.To.Put - r.steady.From.Put)
	return with - r.quiet.PerSecond(r.quiet.To.Put-r.quiet.From.Put)
}

// growth of etcd in MB.
func (r result) growth() float64 { return r.put() * growthWindow / megabyte }

// writeBytes is the mean of all writes in the steady state, most of which are of progress.
func (r result) writeBytes() float64 {
	s := r.steady
	return r.put() / s.PerSecond(float64(s.ProgressWrites()+s.StatisticsWrites()+s.Bookings()+s.Writes()))
}

// slowdown in percent. It is 0 where the others answer more often.
func (r result) slowdown() float64 {
	before := r.steady.PerSecond(float64(r.steady.To.Asked.Runs - r.steady.From.Asked.Runs))
	now := r.silent.PerSecond(float64(r.silent.To.Asked.Runs - r.silent.From.Asked.Runs))
	return max(0, 100*(1-now/before))
}

// growth from fewer objects to more.
func growth(less, more result) []harness.Target {
	factor := float64(more.world.Transfers) / float64(less.world.Transfers)
	target := func(name, what string, figure func(result) float64) harness.Target {
		measured := missing
		if less.have >= haveFirst && more.have >= haveFirst {
			measured = figure(more) / figure(less) / factor
		}
		return harness.Target{
			Name: name, Measured: harness.Exactly(measured), Bound: linearly, Digits: 2,
			What: fmt.Sprintf("%s from %d to %d Transfers, by the factor of these", what, less.world.Transfers,
				more.world.Transfers),
		}
	}
	return []harness.Target{
		target("first-pass-cpu-growth", "the manager's CPU time of the first pass", cpuOf(bed.Manager)),
		target("first-pass-rss-growth", "its memory after the first pass",
			func(r result) float64 { return float64(r.first.To.Manager.Resident) }),
	}
}

// missing is what could not be measured.
var missing = math.NaN()
