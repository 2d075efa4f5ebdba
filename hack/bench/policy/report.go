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

// part is the rows of one network and number of cores.
type part struct{ Title, Measured, Table string }

// report is policy.md and policy.svg.
func report(rows []row, w weekResult) harness.Report {
	median, most := noise(rows)
	return harness.Report{
		Name: benchmark, Template: reportTemplate, Targets: append(targets(rows), w.targets()...), Drawing: heatMap(rows), Data: map[string]any{
			"Rounds": fullGrid.rounds, "Longest": longest, "Prices": prices, "Noise": median, "MostNoise": most,
			"Networks": networks(rows), "SimulatedBlocks": simulatedBlocks, "SimulatedCores": simulatedCores,
			"Simulation": simulate(), "Week": w.table(), "WeekNoise": 100 * weekNoise,
		},
	}
}

func networks(rows []row) []part {
	var parts []part
	for len(rows) > 0 {
		first := &rows[0]
		end := slices.IndexFunc(rows, func(r row) bool { return r.Network != first.Network || r.Cores != first.Cores })
		if end < 0 {
			end = len(rows)
		}
		var lines [][]string
		for i := range rows[:end] {
			r := &rows[i]
			lines = append(lines, []string{
				r.Data, fmt.Sprint(r.Size >> 20), string(r.Objective), short(r.Objective, r.Auto.Value), r.Auto.Choice,
				r.Best.Choice, short(r.Objective, r.Best.Value), r.none(), fmt.Sprintf("%.1f", 100*r.regret()),
			})
		}
		parts = append(parts, part{
			Title:    fmt.Sprintf("%s, %d core(s)", first.Network, first.Cores),
			Measured: days(rows[:end]),
			Table: harness.Table([]string{
				"data", "MiB", "objective", "Auto", "most blocks", "best fixed", "its figure", "none", "regret, %",
			}, lines),
		})
		rows = rows[end:]
	}
	return parts
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
