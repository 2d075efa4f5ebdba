// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"math"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/scale/bed"
	"github.com/lighterage/lighterage/hack/bench/scale/controlplane"
)

// ofARun is what something amounts to for a Transfer that runs, in the first pass and while runs end, less what goes on
// in the steady state as long as the latter takes.
func (r result) ofARun(amount func(bed.Span) float64) float64 {
	steady := r.steady.PerSecond(amount(r.steady)) * r.ended.Length().Seconds()
	return (amount(r.first) + amount(r.ended) - steady) / float64(r.world.RunningTransfers())
}

// managerTime is CPU time in milliseconds.
func managerTime(s bed.Span) float64 { return 1e3 * s.CPU(bed.Manager) }

// managerRequests are all to the API server.
func managerRequests(s bed.Span) float64 {
	return float64(s.Requests(func(k controlplane.Kind) bool { return k.Program == controlplane.Manager }))
}

// lists of all Transfers from the API server, in both parts in which runs begin.
func (r result) lists() float64 {
	transfers := func(k controlplane.Kind) bool {
		return k == controlplane.Kind{Program: controlplane.Manager, Verb: "list", Resource: "transfers"}
	}
	return float64(r.first.Requests(transfers) + r.ended.Requests(transfers))
}

// most memory that a manager had.
func (r result) most() float64 {
	return float64(max(r.steady.To.Manager.Peak, r.ended.To.Manager.Peak)) / mebibyte
}

// limits is the table of two worlds, of which one has limits.
func limits(without, under result) string {
	var lines [][]string
	for _, one := range []row{
		{"first pass, s", haveFirst, "%.0f", func(r result) float64 { return r.first.Length().Seconds() }},
		{"s from then on until all Transfers have run and ended", haveEnded, "%.0f",
			func(r result) float64 { return r.ended.Length().Seconds() }},
		{"manager, CPU s of the first pass", haveFirst, "%.1f", cpuOf(bed.Manager)},
		{"manager, CPU s while runs end", haveEnded, "%.1f",
			func(r result) float64 { return r.ended.CPU(bed.Manager) }},
		{"manager, CPU ms for each Transfer that has run", haveEnded, "%.1f",
			func(r result) float64 { return r.ofARun(managerTime) }},
		{"requests of the manager for each", haveEnded, "%.1f",
			func(r result) float64 { return r.ofARun(managerRequests) }},
		{"API server, CPU s of the first pass", haveFirst, "%.1f", cpuOf(bed.APIServer)},
		{"API server, CPU s while runs end", haveEnded, "%.1f",
			func(r result) float64 { return r.ended.CPU(bed.APIServer) }},
		{"lists of all Transfers from the API server, one of which the cache makes", haveEnded, "%.0f", result.lists},
		{"limits of bandwidth that agents were told", haveEnded, "%.0f",
			func(r result) float64 { return float64(r.bandwidths) }},
		{"manager, MiB at most", haveEnded, "%.0f", result.most},
		{"**steady state**: manager, cores", haveSteady, "%.2f", coresOf(bed.Manager)},
		{"requests of the manager/s", haveSteady, "%.1f",
			func(r result) float64 { return r.steady.PerSecond(managerRequests(r.steady)) }},
		{"reconcile of a Transfer or Delivery, p99, ms", haveSteady, "%.0f",
			func(r result) float64 { return r.steady.P99("transfer", "delivery") }},
		{"reconcile of the CompressionPolicy, mean, ms", haveSteady, "%.1f",
			func(r result) float64 { return r.steady.To.MeanTime("compressionpolicy") }},
	} {
		line := []string{one.name}
		for _, r := range []result{without, under} {
			cell := "-"
			if f := r.at(one.needs, one.of); !math.IsNaN(f) && !math.IsInf(f, 0) {
				cell = fmt.Sprintf(one.format, f)
			}
			line = append(line, cell)
		}
		lines = append(lines, line)
	}
	return harness.Table([]string{name(without.world), "without limits", "with limits"}, lines)
}

// compared judges what limits cost.
func compared(without, under result) []harness.Target {
	target := func(name, what string, bound float64, needs stage, figure func(result) float64) harness.Target {
		return harness.Target{
			Name: fmt.Sprintf("%s-%d", name, under.world.Transfers), What: what + ", with limits, by that without",
			Measured: harness.Exactly(under.at(needs, figure) / without.at(needs, figure)), Bound: bound, Digits: 2,
		}
	}
	began := float64(under.world.RunningTransfers())
	return []harness.Target{
		target("limits-cpu", "the manager's CPU time for a Transfer that has run", 1.5, haveEnded,
			func(r result) float64 { return r.ofARun(managerTime) }),
		target("limits-requests", "its requests for a Transfer that has run", 1.5, haveEnded,
			func(r result) float64 { return r.ofARun(managerRequests) }),
		target("limits-rss", "its memory at most", 1.2, haveEnded, result.most),
		target("limits-steady-cpu", "cores that it kept busy in the steady state", 1.5, haveSteady,
			func(r result) float64 { return r.steady.Cores(bed.Manager) }),
		{
			Name: fmt.Sprintf("limits-lists-%d", under.world.Transfers), Digits: 2, Bound: 0.05,
			What:     "lists of all Transfers from the API server for each that was admitted",
			Measured: harness.Exactly((under.at(haveEnded, result.lists) - without.at(haveEnded, result.lists)) / began),
		},
	}
}
