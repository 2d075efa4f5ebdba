// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"
	"time"
)

//go:embed report.md.tmpl
var reportText string

// report is http.md and http.svg.
type report struct {
	*bench
	targets []target
	took    time.Duration
}

func newReport(b *bench, took time.Duration) *report {
	return &report{bench: b, targets: b.targets(), took: took}
}

func (r *report) write(ctx context.Context, out string) error {
	parsed, err := template.New("report").Parse(reportText)
	if err != nil {
		return fmt.Errorf("read the report's template: %w", err)
	}
	var text strings.Builder
	if err := parsed.Execute(&text, map[string]any{
		"Command": r.command(), "Date": time.Now().UTC().Format("2006-01-02"), "Took": r.took.Round(time.Second).String(),
		"Rounds": r.rounds, "Turn": r.turn.String(),
		"Connections": connections, "Machine": machine(ctx), "Suite": suite, "Busy": r.busy(),
		"Targets": targetTable(r.targets),
		"Cost":    r.costTable(), "Engines": r.engineTable(), "BreakEven": r.breakEvenTable(),
		"Compressed": r.rateTable("xml", r.sizes, true), "Plain": r.rateTable("xml", r.sizes, false), "JSON": r.jsonTable(),
		"HTTP2": r.http2Table(), "Memory": r.memoryTable(), "Many": manyConnections,
	}); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make the directory for results: %w", err)
	}
	for name, content := range map[string]string{"http.md": text.String(), "http.svg": r.draw()} {
		if err := os.WriteFile(filepath.Join(out, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("write the results: %w", err)
		}
	}
	return nil
}

func (r *report) command() string {
	if r.name != "full" {
		return "make bench-http BENCH=" + r.name
	}
	return "make bench-http"
}

// busy says what other work there was on the machine when it matters.
func (b *bench) busy() string {
	if b.load < 0.5 {
		return ""
	}
	return fmt.Sprintf("Other work ran beside it: the load was %.1f when it began.", b.load)
}

// table makes one of Markdown.
func table(head []string, rows [][]string) string {
	var out strings.Builder
	line := func(cells []string) { out.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(head)
	out.WriteString("|" + strings.Repeat("---|", len(head)) + "\n")
	for _, row := range rows {
		line(row)
	}
	return out.String()
}

func targetTable(targets []target) string {
	var rows [][]string
	for _, t := range targets {
		rows = append(rows, []string{t.name, t.what, fmt.Sprintf("%.*f", t.digits, t.measured), t.limit(), t.verdict()})
	}
	return table([]string{"target", "what", "measured", "bound", ""}, rows)
}

func (r *report) sizesHead(first string, sizes []int) []string {
	head := []string{first}
	for _, size := range sizes {
		head = append(head, grouped(float64(size)))
	}
	return head
}

// grouped writes a whole number with commas.
func grouped(f float64) string {
	s := fmt.Sprintf("%.0f", f)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// row is a line of figures over the sizes.
func (r *report) row(name string, sizes []int, format func(float64) string, of func(size int) float64) []string {
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

// costTable has the CPU time of a response: ours compressed, and everybody's.
func (r *report) costTable() string {
	var rows [][]string
	rows = append(rows, r.row("saved", r.sizes, func(f float64) string {
		return fmt.Sprintf("%.0f %%", f)
	}, func(size int) float64 {
		plain := r.median(key{ourName, "xml", size, "1.1", false}, wireOf)
		if plain == 0 {
			return 0
		}
		return 100 * (1 - r.median(key{ourName, "xml", size, "1.1", true}, wireOf)/plain)
	}))
	for _, compressed := range []bool{true, false} {
		for _, c := range r.all {
			name := c.name + ", gzip"
			if !compressed {
				name = c.name + ", none"
			}
			rows = append(rows, r.row(name, r.sizes, milliseconds, func(size int) float64 {
				return r.median(key{c.name, "xml", size, "1.1", compressed}, cpuOf)
			}))
		}
	}
	return table(r.sizesHead("body bytes", r.sizes), rows)
}

func (r *report) engineTable() string {
	var rows [][]string
	for _, c := range r.engines {
		rows = append(rows, r.row(c.name+", "+c.coding, r.sizes, milliseconds, func(size int) float64 {
			return r.median(key{c.name, "xml", size, "1.1", true}, cpuOf)
		}))
	}
	rows = append(rows, r.row("none", r.sizes, milliseconds, func(size int) float64 {
		return r.median(key{ourName, "xml", size, "1.1", false}, cpuOf)
	}))
	return table(r.sizesHead("body bytes", r.sizes), rows)
}

func (r *report) breakEvenTable() string {
	var rows [][]string
	for _, c := range r.engines {
		from := "at none of these sizes"
		if size := r.breakEven(c.name); size > 0 {
			from = grouped(float64(size))
		}
		rows = append(rows, []string{c.name, from})
	}
	return table([]string{"engine", "cheaper than none from, bytes"}, rows)
}

func (r *report) rateTable(kind string, sizes []int, compressed bool) string {
	var rows [][]string
	for _, c := range r.all {
		rows = append(rows, r.row(c.name, sizes, grouped, func(size int) float64 {
			return r.median(key{c.name, kind, size, "1.1", compressed}, requestsOf)
		}))
	}
	for _, c := range r.all {
		rows = append(rows, r.row(c.name+", p99 ms", sizes, func(f float64) string {
			return fmt.Sprintf("%.1f", f)
		}, func(size int) float64 {
			return r.median(key{c.name, kind, size, "1.1", compressed}, p99Of)
		}))
	}
	return table(r.sizesHead("body bytes", sizes), rows)
}

// jsonTable is empty when no JSON was measured.
func (r *report) jsonTable() string {
	if len(r.json) == 0 {
		return ""
	}
	return r.rateTable("json", r.json, true)
}

func (r *report) http2Table() string {
	var rows [][]string
	for _, c := range r.all {
		row := []string{c.name}
		for _, compressed := range []bool{true, false} {
			k := key{c.name, "xml", 20000, "2", compressed}
			row = append(row, grouped(r.median(k, requestsOf)), milliseconds(r.median(k, cpuOf)))
		}
		rows = append(rows, row)
	}
	return table([]string{"", "gzip, requests/s", "ms of CPU", "none, requests/s", "ms of CPU"}, rows)
}

func (r *report) memoryTable() string {
	var rows [][]string
	for _, c := range r.all {
		held := r.memory[c.name]
		if len(held) == 0 {
			continue
		}
		var most int64
		for _, n := range held {
			most = max(most, n)
		}
		rows = append(
			rows,
			[]string{
				c.name, fmt.Sprintf("%.0f", float64(most)/(1<<20)), fmt.Sprintf("%.0f", float64(held[len(held)-1])/(1<<20)),
			},
		)
	}
	return table([]string{"", "most, MiB", "at the end, MiB"}, rows)
}

// machine names what it ran on, and the versions of what was compared.
func machine(ctx context.Context) string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	parts := []string{
		fmt.Sprintf("%d cores, %s, %s", runtime.NumCPU(), model, firstLine(ctx, "uname", "-sr")),
		runtime.Version() + " " + runtime.GOARCH,
	}
	if libraries := os.Getenv("LIGHTERAGE_LIBRARIES"); libraries != "" {
		parts = append(parts, "libraries: "+strings.ReplaceAll(libraries, "@", " "))
	}
	for _, command := range [][]string{{"nginx", "-v"}, {"haproxy", "-v"}, {"wrk", "-v"}, {"h2load", "--version"}} {
		parts = append(parts, firstLine(ctx, command[0], command[1:]...))
	}
	return strings.Join(parts, ". ")
}
