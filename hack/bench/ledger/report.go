// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

//go:embed report.md.tmpl
var template string

// millisecondsPerMB from seconds for a GiB.
const millisecondsPerMB = 1e3 * 1e6 / gib

func (o *options) report(cells []cell) harness.Report {
	var rows, sums [][]string
	var booked, system, reports []float64
	for _, c := range cells {
		of := func(figure func(round) line) float64 {
			return harness.MedianOf(c.rounds, func(r round) float64 { return figure(r).slope }) * millisecondsPerMB
		}
		cost := func(figure func(round) line) string { return fmt.Sprintf("%.3f", of(figure)) }
		rows = append(rows, []string{
			strconv.Itoa(c.record), c.codec,
			cost(func(r round) line { return r.push }), cost(func(r round) line { return r.pushStack }),
			cost(func(r round) line { return r.pull }), cost(func(r round) line { return r.pullStack }),
		})
		var ours, all []float64
		for _, r := range c.rounds {
			ours, all = append(ours, r.booked.slope), append(all, r.system.slope)
			reports = append(reports, r.reports)
		}
		booked, system = append(booked, ours...), append(system, all...)
		sums = append(sums, []string{
			strconv.Itoa(c.record), c.codec, cost(func(r round) line { return r.system }),
			cost(func(r round) line { return r.booked }),
			percent(harness.Ratio(ours, all)),
			cost(func(r round) line { return r.kernel }), cost(func(r round) line { return r.others }),
		})
	}
	return harness.Report{
		Name: "ledger", Template: template,
		Data: map[string]any{
			"Costs": harness.Table([]string{
				"record", "codec", "push: process", "push: network stack", "pull: process", "pull: network stack",
			}, rows),
			"Sums": harness.Table([]string{
				"record", "codec", "system", "booked", "explained", "kernel threads", "other processes",
			}, sums),
			"Network": o.networkText(), "Sizes": o.sizeText(),
			"PerReport": o.perReport.Microseconds(), "Connections": connections, "Reports": reportsPerSecond,
		},
		Targets: targets(booked, system, reports), Drawing: drawing(cells),
	}
}

// drawing has the CPU time of the system of each cell beside what is booked.
func drawing(cells []cell) string {
	figures := []func(round) line{
		func(r round) line { return r.system }, func(r round) line { return r.booked },
	}
	bars := harness.Bars{
		Title: "CPU milliseconds for each MB of uncompressed data, both sides", Names: []string{"system", "booked"},
		Shared: true, Format: "%.2f",
		Value: func(group, name int) float64 {
			return max(0, millisecondsPerMB*harness.MedianOf(cells[group].rounds, func(r round) float64 {
				return figures[name](r).slope
			}))
		},
	}
	for _, c := range cells {
		bars.Groups = append(bars.Groups, fmt.Sprintf("%s, records of %d B", c.codec, c.record))
	}
	return harness.DrawBars(bars)
}

// percent is an estimate with its interval; of one round there is none.
func percent(e harness.Estimate) string {
	figure := harness.Target{Percent: true}.Figure
	text := figure(e.Value)
	if !math.IsNaN(e.High) && !math.IsInf(e.High, 0) {
		text += " (" + figure(e.Low) + " to " + figure(e.High) + ")"
	}
	return text
}

func targets(booked, system, reports []float64) []harness.Target {
	explained := harness.Ratio(booked, system)
	worst := 0.0
	for _, share := range reports {
		worst = max(worst, share)
	}
	return []harness.Target{
		{
			Name: "explained-at-least", What: "booked by what the system spent, of all cells", Measured: explained,
			Bound: 0.9, AtLeast: true, Percent: true,
		},
		{
			Name: "explained-at-most", What: "the same", Measured: explained, Bound: 1.1, Percent: true,
		},
		{
			Name: "accounting", What: "reports by the CPU time of the run with the largest share",
			Measured: harness.Exactly(worst), Bound: 0.01, Percent: true, Digits: 3,
		},
	}
}

func (o *options) networkText() string {
	if o.network == nil {
		return fmt.Sprintf("The network was not calibrated (%v; others used %.0f %% of the processors' time), so that "+
			"nothing is booked for the network stack.", o.calibrateErr, 100*o.measured.Background)
	}
	return fmt.Sprintf("The network was calibrated just before: %.3f µs for an acknowledgement, %.3f µs for a segment "+
		"with "+
		"data, %.4f s for a GiB in segments; %.4f s for a GiB in bulk, runs from %.4f to %.4f s; others used %.1f %% of the "+
		"processors' time.", 1e6*o.measured.Acknowledgement, 1e6*o.measured.Segment, gib*o.measured.Byte,
		o.measured.Median.Seconds(), o.measured.Least.Seconds(), o.measured.Most.Seconds(), 100*o.measured.Background) +
		o.exercised()
}

// exercised says when the estimate for the network stack has no part in the result.
func (o *options) exercised() string {
	if o.measured.Acknowledgement+o.measured.Segment+o.measured.Byte > 0 {
		return ""
	}
	return " This kernel charges the work of interrupts to the processes that they interrupt, so nothing is left for the " +
		"estimate: what is explained here is the CPU time of processes alone."
}

func (o *options) sizeText() string {
	text := ""
	for i, size := range o.sizes {
		switch {
		case i == len(o.sizes)-1:
			text += " and "
		case i > 0:
			text += ", "
		}
		text += fmt.Sprintf("%g", float64(size)/gib)
	}
	return text
}
