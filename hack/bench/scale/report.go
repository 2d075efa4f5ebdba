// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	_ "embed"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/scale/bed"
	"github.com/lighterage/lighterage/hack/bench/scale/controlplane"
	"github.com/lighterage/lighterage/hack/bench/scale/fleet"
)

//go:embed report.md.tmpl
var reportTemplate string

// report is scale.md and scale.svg.
func report(e extent, all []result, under result, problems []string) harness.Report {
	most := all[len(all)-1]
	return harness.Report{
		Name: "scale", Template: reportTemplate, Targets: append(targets(all), compared(most, under)...), Drawing: draw(all),
		Versions: []string{most.versions},
		Data: map[string]any{
			"World": e.world, "Replicas": fleet.Replicas, "Steady": e.steady, "Silent": e.silent, "Arrivals": e.arrivals,
			"Problems": problems, "Figures": figures(all), "Objects": objects(most), "Requests": requests(most),
			"Admitted": under.world.Admitted(), "Running": under.world.RunningTransfers(), "Limits": limits(most, under),
		},
	}
}

func problems(all []result) []string {
	var said []string
	for _, one := range all {
		for _, problem := range one.problems {
			said = append(said, name(one.world)+": "+problem)
		}
	}
	return said
}

// draw returns an SVG of memory and CPU time by the number of Transfers.
func draw(all []result) string {
	canvas, left := harness.NewCanvas(880, 360), 70.0
	for _, panel := range []struct {
		title string
		of    func(result) float64
		limit float64
	}{
		{"manager, MiB at most", func(r result) float64 { return float64(r.first.To.Manager.Peak) / mebibyte }, 512},
		{"manager, CPU s of the first pass", cpuOf(bed.Manager), 0},
	} {
		line := harness.Series{Colour: harness.Colours[3]}
		chart := harness.Lines{Title: panel.title, Along: "Transfers", Limit: panel.limit}
		for _, r := range all {
			chart.X = append(chart.X, float64(r.world.Transfers))
			line.Y = append(line.Y, r.at(haveFirst, panel.of))
		}
		chart.Series = []harness.Series{line}
		chart.Draw(canvas, left, 50, left+330, 310)
		left += 430
	}
	return canvas.String()
}

// row is a figure for each number of Transfers.
type row struct {
	name   string
	needs  stage
	format string
	of     func(result) float64
}

func cpuOf(of func(bed.Point) harness.Usage) func(result) float64 {
	return func(r result) float64 { return r.first.CPU(of) }
}

func coresOf(of func(bed.Point) harness.Usage) func(result) float64 {
	return func(r result) float64 { return r.steady.Cores(of) }
}

// arrivalOf is what a process takes for a run of another cluster, beyond what it takes in the steady state.
func arrivalOf(of func(bed.Point) harness.Usage) func(result) float64 {
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
	{"bookings of Statements/s", haveSteady, "%.1f",
		func(r result) float64 { return r.steady.PerSecond(float64(r.steady.Bookings())) }},
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
	{"bytes that a write of the manager adds to etcd, which stores the whole object, mean", haveRestart, "%.0f",
		result.writeBytes},
	{"**restart**: s until all was observed", haveRestart, "%.1f", result.observedAfter},
	{"manager, CPU s", haveRestart, "%.1f", func(r result) float64 { return r.restart.To.Manager.CPU.Seconds() }},
	{"manager, MiB at most", haveRestart, "%.0f",
		func(r result) float64 { return float64(r.restart.To.Manager.Peak) / mebibyte }},
	{"other writes", haveRestart, "%.0f", func(r result) float64 { return float64(r.restart.Writes()) }},
	{"writes of progress", haveRestart, "%.0f", func(r result) float64 { return float64(r.restart.ProgressWrites()) }},
	{"writes of statistics", haveRestart, "%.0f",
		func(r result) float64 { return float64(r.restart.StatisticsWrites()) }},
	{"bookings of Statements", haveRestart, "%.0f",
		func(r result) float64 { return float64(r.restart.Bookings()) }},
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
		head = append(head, harness.Grouped(r.world.Transfers))
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
	return harness.Table(head, lines)
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
	names := slices.Sorted(maps.Keys(all))
	var lines [][]string
	for _, name := range names {
		w := all[name]
		lines = append(lines,
			[]string{name, harness.Grouped(w.objects), fmt.Sprintf("%.1f", float64(w.writes)/float64(w.objects)),
				fmt.Sprint(w.most)})
	}
	return harness.Table([]string{"", "written", "writes of each", "at most"}, lines)
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
		line := []string{strings.TrimPrefix(kind.Program, "lighterage-"), kind.Verb, kind.Resource, harness.Grouped(first),
			"-", "-"}
		if r.have >= haveSteady {
			line[4] = fmt.Sprintf("%.2f", r.steady.PerSecond(float64(steady)))
		}
		if r.have >= haveRestart {
			line[5] = harness.Grouped(restart)
		}
		lines = append(lines, line)
	}
	return harness.Table([]string{"", "verb", "resource", "first pass", "steady state, by second", "restart"}, lines)
}
