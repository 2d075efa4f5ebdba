// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package online

import (
	_ "embed"
	"fmt"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

//go:embed report.md.tmpl
var template string

func p50(t turn) float64  { return t.P50 }
func p99(t turn) float64  { return t.P99 }
func rate(t turn) float64 { return t.Rate }

func (b *bench) report() harness.Report {
	var rows [][]string
	for _, s := range states {
		cell := func(format string, of func(turn) float64) string {
			return fmt.Sprintf(format, harness.MedianOf(b.turns[s.name], of))
		}
		row := []string{s.text, cell("%.2f", p50), cell("%.2f", p99), b.over(s.name, p99), cell("%.0f", rate), "", "", ""}
		if s.windows != nil {
			row[5] = cell("%.2f", func(t turn) float64 { return t.cores })
			row[6] = cell("%.1f", func(t turn) float64 { return t.plain / 1e6 })
			row[7] = cell("%.1f", func(t turn) float64 { return t.wire / 1e6 })
		}
		rows = append(rows, row)
	}
	return harness.Report{
		Name: name, Template: template, Targets: b.targets(), Drawing: b.draw(),
		Data: map[string]any{
			"Table": harness.Table([]string{
				"the run", "p50 ms", "p99 ms", "p99 of alone's", "requests/s", "cores of the run", "MB/s of files",
				"MB/s on the wire",
			}, rows),
			"Rounds": b.rounds, "Turn": b.turn, "Body": harness.Grouped(bodySize), "Connections": connections,
			"Capacity": harness.Grouped(b.capacity), "Percent": 100 * share, "Limit": dayLimit, "Request": requests["sender"],
		},
	}
}

// over compares a state with none, with the interval.
func (b *bench) over(state string, figure func(turn) float64) string {
	if state == alone {
		return ""
	}
	e := harness.RatioOf(b.turns[state], b.turns[alone], figure)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", e.Value, e.Low, e.High)
}

func (b *bench) draw() string {
	bars := harness.Bars{
		Title: "Milliseconds until an answer was there", Names: []string{"p50", "p99"}, Shared: true, Format: "%.2f",
		Value: func(group, name int) float64 {
			return harness.MedianOf(b.turns[states[group].name], []func(turn) float64{p50, p99}[name])
		},
	}
	for _, s := range states {
		bars.Groups = append(bars.Groups, s.text)
	}
	return harness.DrawBars(bars)
}

// targets have no bound for the night, when nothing is to be protected, and none for level High.
func (b *bench) targets() []harness.Target {
	target := func(name, what, state string, figure func(turn) float64, bound float64) harness.Target {
		return harness.Target{
			Name: name, What: what + " alone's", Bound: bound, Digits: 2,
			Measured: harness.RatioOf(b.turns[state], b.turns[alone], figure),
		}
	}
	served := target("online-day-rate", "requests answered a second beside a run by day, of", byDay, rate, 0.99)
	served.AtLeast = true
	return []harness.Target{
		target("online-day-p99", "p99 beside a run by day, of", byDay, p99, 1.5),
		target("online-day-p50", "p50 beside a run by day, of", byDay, p50, 1.2),
		served,
		target("online-day-sized-p99", "p99 beside a run by day, the endpoint requesting 1 CPU, of", byDaySized, p99, 1.5),
		target("online-paused-p99", "p99 beside a run that no window lets run, of", paused, p99, 1.1),
	}
}
