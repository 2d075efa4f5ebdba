// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/lighterage/lighterage/hack/bench/scale/bed"
	"github.com/lighterage/lighterage/hack/bench/scale/controlplane"
	"github.com/lighterage/lighterage/hack/bench/scale/fleet"
)

//go:embed report.md.tmpl
var reportTemplate string

type report struct {
	Command, Date, Took, Machine, Busy string
	World                              fleet.World
	Replicas                           int
	Steady, Silent                     time.Duration
	Arrivals                           int
	Targets                            []target
	Problems                           []string
	Figures, Objects, Requests         string
	all                                []result
}

func newReport(e extent, all []result, versions string, load float64, took time.Duration) *report {
	r := &report{
		Command: "make bench-scale", Date: time.Now().UTC().Format(time.DateOnly),
		Took: took.Round(time.Second).String(),
		Machine: fmt.Sprintf("%d cores, %s, %s, %s, %s", runtime.NumCPU(), processor(), runtime.GOARCH,
			runtime.Version(), versions),
		World: e.world, Replicas: fleet.Replicas, Steady: e.steady, Silent: e.silent, Arrivals: e.arrivals,
		Targets: targets(all),
		Figures: figures(all), Objects: objects(all[len(all)-1]), Requests: requests(all[len(all)-1]), all: all,
	}
	if e.name != "full" {
		r.Command += " BENCH=" + e.name
	}
	if load >= 0.5 {
		r.Busy = fmt.Sprintf(" Other work ran beside it: the load was %.1f when it began.", load)
	}
	for _, one := range all {
		for _, problem := range one.problems {
			r.Problems = append(r.Problems, fmt.Sprintf("%s Transfers: %s", grouped(one.world.Transfers), problem))
		}
	}
	return r
}

// row is a figure for each number of Transfers.
type row struct {
	name   string
	needs  stage
	format string
	of     func(result) float64
}

func cpuOf(of func(bed.Point) controlplane.Usage) func(result) float64 {
	return func(r result) float64 { return r.first.CPU(of) }
}

func coresOf(of func(bed.Point) controlplane.Usage) func(result) float64 {
	return func(r result) float64 { return r.steady.Cores(of) }
}

// arrivalOf is what a process takes for a run of another cluster, beyond what it takes in the steady state.
func arrivalOf(of func(bed.Point) controlplane.Usage) func(result) float64 {
	return func(r result) float64 {
		return 1e3 * (r.arrivals.CPU(of) - r.steady.Cores(of)*r.arrivals.Length().Seconds()) / float64(r.arrived)
	}
}

var rows = []row{
	{"first pass, s", haveFirst, "%.0f", func(r result) float64 { return r.first.Length().Seconds() }},
	{"manager, CPU s", haveFirst, "%.1f", cpuOf(bed.Manager)},
	{"gateway, CPU s", haveFirst, "%.1f", cpuOf(bed.Gateway)},
	{"API server, CPU s", haveFirst, "%.1f", cpuOf(bed.APIServer)},
	{"etcd, CPU s", haveFirst, "%.1f", cpuOf(bed.Etcd)},
	{"the fleet, CPU s", haveFirst, "%.1f", cpuOf(bed.Own)},
	{"reconciles", haveFirst, "%.0f", func(r result) float64 { return r.first.Reconciles() }},
	{"manager, MiB after it", haveFirst, "%.0f",
		func(r result) float64 { return float64(r.first.To.Manager.Resident) / mebibyte }},
	{"manager, MiB at most", haveFirst, "%.0f",
		func(r result) float64 { return float64(r.first.To.Manager.Peak) / mebibyte }},
	{"Deployments and StatefulSets that were changed after they had been made", haveFirst, "%.0f",
		func(r result) float64 { return float64(r.templates) }},
	{"machine idle, %", haveFirst, "%.0f", func(r result) float64 { return 100 * r.first.Idle() }},
	{"**steady state**: manager, cores", haveSteady, "%.2f", coresOf(bed.Manager)},
	{"gateway, cores", haveSteady, "%.2f", coresOf(bed.Gateway)},
	{"API server, cores", haveSteady, "%.2f", coresOf(bed.APIServer)},
	{"etcd, cores", haveSteady, "%.2f", coresOf(bed.Etcd)},
	{"the fleet, cores", haveSteady, "%.2f", coresOf(bed.Own)},
	{"manager, MiB at most", haveSteady, "%.0f", func(r result) float64 { return float64(r.resident) / mebibyte }},
	{"gateway, MiB", haveSteady, "%.0f",
		func(r result) float64 { return float64(r.steady.To.Gateway.Resident) / mebibyte }},
	{"API server, MiB", haveSteady, "%.0f",
		func(r result) float64 { return float64(r.steady.To.API.Resident) / mebibyte }},
	{"reconciles/s", haveSteady, "%.1f", func(r result) float64 { return r.steady.PerSecond(r.steady.Reconciles()) }},
	{"manager, CPU ms for each", haveSteady, "%.2f",
		func(r result) float64 { return 1e3 * r.steady.CPU(bed.Manager) / r.steady.Reconciles() }},
	{"reconcile of a Transfer or Delivery, p99, ms", haveSteady, "%.0f",
		func(r result) float64 { return r.steady.P99("transfer", "delivery") }},
	{"reconcile of any kind, p99, ms", haveSteady, "%.0f", func(r result) float64 { return r.steady.P99() }},
	{"answers of agents of runs/s", haveSteady, "%.1f", func(r result) float64 {
		from, to := r.steady.From.Asked, r.steady.To.Asked
		return r.steady.PerSecond(float64(to.Runs + to.Mute - from.Runs - from.Mute))
	}},
	{"answers of all agents/s", haveSteady, "%.1f", func(r result) float64 {
		return r.steady.PerSecond(float64(r.steady.To.Asked.All() - r.steady.From.Asked.All()))
	}},
	{"manager, CPU ms for each", haveSteady, "%.2f", func(r result) float64 {
		return 1e3 * r.steady.CPU(bed.Manager) / float64(r.steady.To.Asked.All()-r.steady.From.Asked.All())
	}},
	{"writes of progress/s", haveSteady, "%.1f",
		func(r result) float64 { return r.steady.PerSecond(float64(r.steady.ProgressWrites())) }},
	{"bytes of such a patch, mean", haveSteady, "%.0f", func(r result) float64 { return r.steady.ProgressBytes() }},
	{"oldest progress, s", haveSteady, "%.0f", func(r result) float64 { return r.oldest.Seconds() }},
	{"writes of statistics/s", haveSteady, "%.1f",
		func(r result) float64 { return r.steady.PerSecond(float64(r.steady.StatisticsWrites())) }},
	{"other writes/s", haveSteady, "%.1f",
		func(r result) float64 { return r.steady.PerSecond(float64(r.steady.Writes())) }},
	{"etcd, MB put in a minute", haveSteady, "%.1f",
		func(r result) float64 { return 60 * r.steady.PerSecond(r.steady.To.Put-r.steady.From.Put) / megabyte }},
	{"etcd's file, MB in a minute", haveSteady, "%.1f", func(r result) float64 {
		return 60 * r.steady.PerSecond(r.steady.To.Database-r.steady.From.Database) / megabyte
	}},
	{"machine idle, %", haveSteady, "%.0f", func(r result) float64 { return 100 * r.steady.Idle() }},
	{"**without a manager**: etcd, MB put in a minute", haveRestart, "%.1f", func(r result) float64 {
		return 60 * r.quiet.PerSecond(r.quiet.To.Put-r.quiet.From.Put) / megabyte
	}},
	{"**restart**: s until all was observed", haveRestart, "%.1f", result.observedAfter},
	{"manager, CPU s", haveRestart, "%.1f", func(r result) float64 { return r.restart.To.Manager.CPU.Seconds() }},
	{"manager, MiB at most", haveRestart, "%.0f",
		func(r result) float64 { return float64(r.restart.To.Manager.Peak) / mebibyte }},
	{"writes", haveRestart, "%.0f", func(r result) float64 { return float64(r.restart.Writes()) }},
	{"writes of progress", haveRestart, "%.0f", func(r result) float64 { return float64(r.restart.ProgressWrites()) }},
	{"writes of statistics", haveRestart, "%.0f",
		func(r result) float64 { return float64(r.restart.StatisticsWrites()) }},
	{"**a fifth silent**: answers of the others/s", haveSilent, "%.1f", func(r result) float64 {
		return r.silent.PerSecond(float64(r.silent.To.Asked.Runs - r.silent.From.Asked.Runs))
	}},
	{"the same agents before", haveSilent, "%.1f", func(r result) float64 {
		return r.steady.PerSecond(float64(r.steady.To.Asked.Runs - r.steady.From.Asked.Runs))
	}},
	{"**runs of other clusters** that the gateway admitted: s until they could begin", haveArrivals, "%.1f",
		func(r result) float64 { return r.arrivals.Length().Seconds() }},
	{"gateway, CPU ms for each", haveArrivals, "%.1f", arrivalOf(bed.Gateway)},
	{"API server, CPU ms for each", haveArrivals, "%.1f", arrivalOf(bed.APIServer)},
}

// figures is the table of what was measured.
func figures(all []result) string {
	head, lines := []string{"Transfers, and Deliveries"}, make([][]string, len(rows))
	for _, r := range all {
		head = append(head, grouped(r.world.Transfers))
		for i, one := range rows {
			cell := "-"
			if r.have >= one.needs {
				if f := one.of(r); !math.IsNaN(f) && !math.IsInf(f, 0) {
					cell = fmt.Sprintf(one.format, f)
				}
			}
			lines[i] = append(lines[i], cell)
		}
	}
	for i, one := range rows {
		lines[i] = append([]string{one.name}, lines[i]...)
	}
	return markdown(head, lines)
}

// objects is the table of how often the manager wrote objects in the first pass.
func objects(r result) string {
	if r.first.To.At.IsZero() {
		return ""
	}
	type written struct{ objects, writes, most int64 }
	all := map[string]*written{}
	for object, n := range r.first.To.Record.Written {
		if n -= r.first.From.Record.Written[object]; n == 0 {
			continue
		}
		if all[object.Resource] == nil {
			all[object.Resource] = &written{}
		}
		w := all[object.Resource]
		w.objects, w.writes, w.most = w.objects+1, w.writes+n, max(w.most, n)
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	var lines [][]string
	for _, name := range names {
		w := all[name]
		lines = append(lines,
			[]string{name, grouped(int(w.objects)), fmt.Sprintf("%.1f", float64(w.writes)/float64(w.objects)),
				fmt.Sprint(w.most)})
	}
	return markdown([]string{"", "written", "writes of each", "at most"}, lines)
}

// requests is the table of what was asked of the API server.
func requests(r result) string {
	if r.first.To.At.IsZero() {
		return ""
	}
	kinds := map[controlplane.Kind]bool{}
	for kind := range r.restart.To.Record.Requests {
		kinds[kind] = true
	}
	for kind := range r.first.To.Record.Requests {
		kinds[kind] = true
	}
	sorted := make([]controlplane.Kind, 0, len(kinds))
	for kind := range kinds {
		sorted = append(sorted, kind)
	}
	slices.SortFunc(sorted, func(a, b controlplane.Kind) int {
		return strings.Compare(b.Program+" "+a.Resource+" "+a.Verb, a.Program+" "+b.Resource+" "+b.Verb)
	})
	count := func(s bed.Span, kind controlplane.Kind) int64 {
		return s.Requests(func(k controlplane.Kind) bool { return k == kind })
	}
	var lines [][]string
	for _, kind := range sorted {
		first, steady, restart := count(r.first, kind), count(r.steady, kind), count(r.restart, kind)
		if first+steady+restart == 0 {
			continue
		}
		line := []string{strings.TrimPrefix(kind.Program, "lighterage-"), kind.Verb, kind.Resource, grouped(int(first)),
			"-", "-"}
		if r.have >= haveSteady {
			line[4] = fmt.Sprintf("%.2f", r.steady.PerSecond(float64(steady)))
		}
		if r.have >= haveRestart {
			line[5] = grouped(int(restart))
		}
		lines = append(lines, line)
	}
	return markdown([]string{"", "verb", "resource", "first pass", "steady state, by second", "restart"}, lines)
}

// grouped writes a number with commas.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// markdown makes a table.
func markdown(head []string, lines [][]string) string {
	var out strings.Builder
	write := func(cells []string) { out.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	write(head)
	out.WriteString("|" + strings.Repeat("---|", len(head)) + "\n")
	for _, line := range lines {
		write(line)
	}
	return out.String()
}

// processor is its name.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "an unknown processor"
}

func (r *report) write(directory string) error {
	parsed, err := template.New("report").Parse(reportTemplate)
	if err != nil {
		return fmt.Errorf("read the report's template: %w", err)
	}
	var text strings.Builder
	if err := parsed.Execute(&text, r); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return fmt.Errorf("make the directory for results: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(directory, "scale.md"), []byte(text.String()), 0o644),
		os.WriteFile(filepath.Join(directory, "scale.svg"), []byte(r.draw()), 0o644),
	)
}
