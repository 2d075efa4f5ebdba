// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package fanout

import (
	_ "embed"
	"fmt"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/trees"
)

//go:embed report.md.tmpl
var template string

func cpu(s sample) float64  { return s.CPU.Seconds() }
func wall(s sample) float64 { return s.Wall.Seconds() }

// report has samples by cell.
func report(samples [][]sample, moved, slowly trees.Size) harness.Report {
	var rows [][]string
	for i, c := range cells {
		rows = append(rows, []string{
			c.String(), fmt.Sprintf("%.2f", harness.MedianOf(samples[i], cpu)),
			fmt.Sprintf("%.2f", harness.MedianOf(samples[i], wall)),
			harness.Grouped(harness.MedianOf(samples[i], func(s sample) float64 { return float64(s.Wire) })),
		})
	}
	return harness.Report{
		Name: name, Template: template, Targets: targets(samples),
		Data: map[string]any{
			"Table": harness.Table([]string{"receivers", "CPU s", "wall s", "bytes on the wire"}, rows),
			"Files": harness.Grouped(moved.Files), "Bytes": harness.Grouped(moved.Bytes),
			"SlowFiles": harness.Grouped(slowly.Files), "SlowBytes": harness.Grouped(slowly.Bytes), "Mbits": linkMbits,
		},
	}
}

// targets compares medians: what the third receiver adds may be less than nothing in a round.
func targets(samples [][]sample) []harness.Target {
	of := func(cell int) float64 { return harness.MedianOf(samples[cell], cpu) }
	return []harness.Target{
		{
			Name: "fanout-cpu-of-third", What: "CPU(3) - CPU(2), of CPU(1)", Measured: harness.Exactly((of(2) - of(1)) / of(0)),
			Bound: 0.1, Percent: true, Digits: 1,
		},
		{
			Name: "fanout-stalled-receiver", What: "wall time of two beside one that takes nothing, of two alone",
			Measured: harness.RatioOf(samples[3], samples[1], wall), Bound: 1.05, Digits: 2,
		},
		{
			Name:     "fanout-16-slow",
			What:     fmt.Sprintf("wall time of the last of 16 over %d Mbit/s each, of one alone", linkMbits),
			Measured: harness.RatioOf(samples[5], samples[4], wall), Bound: 1.1, Digits: 2,
		},
	}
}
