// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

//go:embed report.md.tmpl
var reportTemplate string

// table is the rows of one network and number of cores, of one part.
type table struct{ Title, Measured, Table string }

// report is policy.md and policy.svg.
func report(rows []row, w weekResult) harness.Report {
	median, most := noise(rows)
	return harness.Report{
		Name: benchmark, Template: reportTemplate, Targets: append(targets(rows), w.targets()...), Drawing: heatMap(rows),
		Data: map[string]any{
			"Rounds": cellLimits.rounds, "Longest": longest, "Quiet": 100 * quiet, "Learning": learning, "Prices": prices,
			"Noise": median, "MostNoise": most, "Networks": networks(rows), "SimulatedBlocks": simulatedBlocks,
			"SimulatedCores": simulatedCores, "Simulation": simulate(), "Week": w.table(), "WeekNoise": 100 * weekNoise,
		},
	}
}

func networks(rows []row) []table {
	var tables []table
	for len(rows) > 0 {
		first := &rows[0]
		end := slices.IndexFunc(rows, func(r row) bool {
			return r.of() != first.of() || r.Network != first.Network || r.Cores != first.Cores
		})
		if end < 0 {
			end = len(rows)
		}
		var lines [][]string
		for i := range rows[:end] {
			r := &rows[i]
			lines = append(lines, []string{
				r.data(), fmt.Sprintf("%.3g", float64(r.Size)/(1<<20)), string(r.Objective),
				short(r.Objective, r.Auto.Value), r.Auto.Choice, r.Best.Choice, short(r.Objective, r.Best.Value), r.none(),
				fmt.Sprintf("%.1f", 100*r.regret()), r.noise(),
			})
		}
		tables = append(tables, table{
			Title:    first.title(),
			Measured: days(rows[:end]),
			Table: harness.Table([]string{
				"data", "MiB", "objective", "Auto", "mostly", "best fixed", "its figure", "none", "regret, %", "noise, %",
			}, lines),
		})
		rows = rows[end:]
	}
	return tables
}

// days says when rows were measured.
func days(rows []row) string {
	var all []string
	for i := range rows {
		all = append(all, rows[i].Measured)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " and ")
}

// short is a value with a unit, small costs included.
func short(o policy.Objective, v float64) string {
	if o == policy.Cost {
		return fmt.Sprintf("%.5f USD", v)
	}
	if o == policy.Bytes {
		return fmt.Sprintf("%.2f MB", v/1e6)
	}
	return fmt.Sprintf("%.3f s", v)
}

// title is that of the table that a row is in.
func (r *row) title() string {
	switch r.of() {
	case messages:
		return fmt.Sprintf("Messages, %s", r.Network)
	case bodies:
		return fmt.Sprintf("Bodies, %s", r.Network)
	}
	return fmt.Sprintf("%s, %d core(s)", r.Network, r.Cores)
}

// data names them with their length.
func (r *row) data() string {
	if r.Unit == 0 {
		return r.Data
	}
	return r.Data + ", " + length(r.Unit)
}

// noise is empty where it was not measured. What is marked is noise.
func (r *row) noise() string {
	switch {
	case r.Noise == nil:
		return ""
	case r.isNoise():
		return fmt.Sprintf("%.1f: noise", 100**r.Noise)
	}
	return fmt.Sprintf("%.1f", 100**r.Noise)
}
