// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

//go:embed report.md.tmpl
var reportText string

// report is http.md and http.svg.
func (b *bench) report(ctx context.Context) harness.Report {
	return harness.Report{
		Name: "http", Template: reportText, Targets: b.targets(), Drawing: b.draw(), Versions: versions(ctx),
		Data: map[string]any{
			"Rounds": b.rounds, "Turn": b.turn, "Connections": connections, "Suite": suite, "Many": manyConnections,
			"Cost": b.costTable(cpuOf), "Own": b.costTable(ownOf), "Engines": b.engineTable(), "BreakEven": b.breakEvenTable(),
			"Compressed": b.rateTable("xml", b.sizes, true), "Plain": b.rateTable("xml", b.sizes, false),
			"JSON": b.jsonTable(), "HTTP2": b.http2Table(), "Memory": b.memoryTable(),
		},
	}
}

func versions(ctx context.Context) []string {
	return []string{harness.Version(ctx, "nginx", "-v"), harness.Version(ctx, "haproxy", "-v"),
		harness.Version(ctx, "wrk", "-v"), harness.Version(ctx, "h2load", "--version")}
}

// draw returns an SVG of requests by second against the size of the body: a line for each contender, dashed where
// nothing is compressed.
func (b *bench) draw() string {
	chart := harness.Lines{Title: "requests by second; dashed: not compressed", Along: "bytes of the body", Log: true}
	for _, size := range b.sizes {
		chart.X = append(chart.X, float64(size))
	}
	for i, c := range b.all {
		for _, compressed := range []bool{true, false} {
			series := harness.Series{Label: c.name + ", gzip", Colour: harness.Colours[i], Dashed: !compressed}
			if !compressed {
				series.Label = c.name
			}
			for _, size := range b.sizes {
				series.Y = append(series.Y, b.median(key{c.name, "xml", size, "1.1", compressed}, requestsOf))
			}
			chart.Series = append(chart.Series, series)
		}
	}
	canvas := harness.NewCanvas(880, 480)
	chart.Draw(canvas, 74, 40, 770, 420)
	return canvas.String()
}

func sizesHead(first string, sizes []int) []string {
	head := []string{first}
	for _, size := range sizes {
		head = append(head, harness.Grouped(size))
	}
	return head
}

// row is a line of figures over the sizes.
func row(name string, sizes []int, format func(float64) string, of func(size int) float64) []string {
	row := []string{name}
	for _, size := range sizes {
		if f := of(size); f != 0 {
			row = append(row, format(f))
		} else {
			row = append(row, "")
		}
	}
	return row
}

func milliseconds(f float64) string { return strings.TrimPrefix(fmt.Sprintf("%.3f", f), "0") }

// costTable has the CPU time of a response, of the whole system or of contenders alone.
func (b *bench) costTable(of func(turn) float64) string {
	rows := [][]string{row("saved", b.sizes, func(f float64) string {
		return fmt.Sprintf("%.0f %%", f)
	}, func(size int) float64 {
		plain := b.median(key{ourName, "xml", size, "1.1", false}, wireOf)
		if plain == 0 {
			return 0
		}
		return 100 * (1 - b.median(key{ourName, "xml", size, "1.1", true}, wireOf)/plain)
	})}
	for _, compressed := range []bool{true, false} {
		for _, c := range b.all {
			name := c.name + ", gzip"
			if !compressed {
				name = c.name + ", none"
			}
			rows = append(rows, row(name, b.sizes, milliseconds, func(size int) float64 {
				return b.median(key{c.name, "xml", size, "1.1", compressed}, of)
			}))
		}
	}
	return harness.Table(sizesHead("body bytes", b.sizes), rows)
}

func (b *bench) engineTable() string {
	var rows [][]string
	for _, c := range b.engines {
		rows = append(rows, row(c.name+", "+c.coding, b.sizes, milliseconds, func(size int) float64 {
			return b.median(key{c.name, "xml", size, "1.1", true}, cpuOf)
		}))
	}
	rows = append(rows, row("none", b.sizes, milliseconds, func(size int) float64 {
		return b.median(key{ourName, "xml", size, "1.1", false}, cpuOf)
	}))
	return harness.Table(sizesHead("body bytes", b.sizes), rows)
}

func (b *bench) breakEvenTable() string {
	var rows [][]string
	for _, c := range b.engines {
		from := "at none of these sizes"
		if size := b.breakEven(c.name); size > 0 {
			from = harness.Grouped(size)
		}
		rows = append(rows, []string{c.name, from})
	}
	return harness.Table([]string{"engine", "cheaper than none from, bytes"}, rows)
}

func (b *bench) rateTable(kind string, sizes []int, compressed bool) string {
	var rows [][]string
	for _, c := range b.all {
		rows = append(rows, row(c.name, sizes, harness.Grouped[float64], func(size int) float64 {
			return b.median(key{c.name, kind, size, "1.1", compressed}, requestsOf)
		}))
	}
	for _, c := range b.all {
		rows = append(rows, row(c.name+", p99 ms", sizes, func(f float64) string {
			return fmt.Sprintf("%.1f", f)
		}, func(size int) float64 {
			return b.median(key{c.name, kind, size, "1.1", compressed}, p99Of)
		}))
	}
	return harness.Table(sizesHead("body bytes", sizes), rows)
}

// jsonTable is empty when no JSON was measured.
func (b *bench) jsonTable() string {
	if len(b.json) == 0 {
		return ""
	}
	return b.rateTable("json", b.json, true)
}

func (b *bench) http2Table() string {
	var rows [][]string
	for _, c := range b.all {
		row := []string{c.name}
		for _, compressed := range []bool{true, false} {
			k := key{c.name, "xml", 20000, "2", compressed}
			row = append(row, harness.Grouped(b.median(k, requestsOf)), milliseconds(b.median(k, cpuOf)))
		}
		rows = append(rows, row)
	}
	return harness.Table([]string{"", "gzip, requests/s", "ms of CPU", "none, requests/s", "ms of CPU"}, rows)
}

func (b *bench) memoryTable() string {
	var rows [][]string
	for _, c := range b.all {
		held := b.memory[c.name]
		if len(held) == 0 {
			continue
		}
		rows = append(rows, []string{c.name, mib(slices.Max(held)), mib(held[len(held)-1])})
	}
	return harness.Table([]string{"", "most, MiB", "at the end, MiB"}, rows)
}
