// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/movers"
	"github.com/lighterage/lighterage/hack/bench/trees"
)

//go:embed report.md.tmpl
var reportTemplate string

// tableOf is how the contenders of a field did.
type tableOf struct {
	field
	tree    trees.Size
	results []result
}

// result is the runs of a contender.
type result struct {
	name    string
	samples []sample
}

func (r result) median(of func(sample) float64) float64 { return harness.MedianOf(r.samples, of) }

func wall(s sample) float64    { return s.wall.Seconds() }
func cpu(s sample) float64     { return s.cpu.Seconds() }
func wire(s sample) float64    { return float64(s.wire) }
func send(s sample) float64    { return s.send.Seconds() }
func receive(s sample) float64 { return s.receive.Seconds() }

// result returns that of a contender, if it was measured.
func (t tableOf) result(name string) (r result, measured bool) {
	i := slices.IndexFunc(t.results, func(r result) bool { return r.name == name })
	if i < 0 {
		return result{}, false
	}
	return t.results[i], true
}

// Title is the name with a capital.
func (t tableOf) Title() string { return strings.ToUpper(t.name[:1]) + t.name[1:] }

// Copies is the table that is usual for statistics of copies: our own cases alone, with the CPU time of either side.
func (t tableOf) Copies() string {
	var rows [][]string
	for _, c := range []struct{ name, contender string }{
		{"none", oursNone}, {"zstd Fast", oursZstd}, {"deflate Fast", oursFast}, {"deflate Balanced", oursBalanced},
	} {
		if r, measured := t.result(c.contender); measured {
			rows = append(rows, []string{c.name, fmt.Sprintf("%.2f", r.median(wall)), known("%.0f", r.median(wire)),
				known("%.2f", r.median(send)), known("%.2f", r.median(receive))})
		}
	}
	rows = append(rows, []string{"deflate on the accelerator (z15 or later)", "", "", "", ""})
	return harness.Table([]string{"case", "elapsed s", "bytes transmitted", "send CPU s", "receive CPU s"}, rows)
}

func (t tableOf) String() string {
	var rows [][]string
	bytes := float64(t.tree.Bytes)
	for _, r := range t.results {
		least := slices.MinFunc(r.samples, func(a, b sample) int { return int(a.wall - b.wall) })
		most := slices.MaxFunc(r.samples, func(a, b sample) int { return int(a.wall - b.wall) })
		rows = append(rows, []string{
			r.name, fmt.Sprintf("%.2f (%.2f to %.2f)", r.median(wall), wall(least), wall(most)),
			fmt.Sprintf("%.0f", bytes/1e6/r.median(wall)), fmt.Sprintf("%.2f", r.median(cpu)),
			fmt.Sprintf("%.2f", r.median(cpu)/bytes*1e9), known("%.0f", r.median(wire)), known("%.2f", r.median(send)),
			known("%.2f", r.median(receive)),
		})
	}
	return fmt.Sprintf("%s: %s (%d files, %d links, %d directories, %.0f MB)\n\n", t.name, t.about, t.tree.Files,
		t.tree.Links, t.tree.Directories, bytes/1e6) + harness.Table([]string{
		"contender", "wall s (least to most)", "MB/s", "system CPU s", "CPU s per GB", "bytes on the wire", "send CPU s",
		"receive CPU s",
	}, rows)
}

// known formats a figure, or says that there is none.
func known(format string, figure float64) string {
	if figure == 0 {
		return "-"
	}
	return fmt.Sprintf(format, figure)
}

func report(ctx context.Context, runs int, rclone string, tables []tableOf) harness.Report {
	r := harness.Report{
		Name: "transfer", Template: reportTemplate, Data: map[string]any{"Runs": runs, "Tables": tables},
		Targets: targets(tables), Versions: append(movers.Versions(ctx, rclone),
			harness.Version(ctx, "igzip", "--version"), harness.Version(ctx, "socat", "-V")),
	}
	if len(tables) == 0 {
		return r
	}
	first := tables[0].results
	figures := []func(sample) float64{wall, cpu}
	bars := harness.Bars{
		Title: "Moving the tree " + tables[0].name, Names: []string{"wall s", "CPU s, whole system"}, Shared: true,
		Format: "%.2f", Value: func(group, name int) float64 { return first[group].median(figures[name]) },
	}
	for _, one := range first {
		bars.Groups = append(bars.Groups, one.name)
	}
	r.Drawing = harness.DrawBars(bars)
	return r
}

// targets compares like with like: rsync and tar do not read back what they wrote, so verify is None here.
func targets(tables []tableOf) []harness.Target {
	var all []harness.Target
	for _, t := range []struct {
		name, tree, ours, peer string
		of                     func(sample) float64
		bound                  float64
	}{
		{"none-wall-vs-stunnel", "mixed", oursNone, tlsNone, wall, 0.85},
		{"none-cpu-vs-stunnel", "mixed", oursNone, tlsNone, cpu, 0.95},
		{"none-wall-vs-rsync", "mixed", oursNone, rsyncNone, wall, 1.1},
		{"none-cpu-vs-rsync", "mixed", oursNone, rsyncNone, cpu, 1.5},
		{"zstd-wall-vs-stunnel", "mixed", oursZstd, tlsZstd, wall, 0.8},
		{"zstd-cpu-vs-stunnel", "mixed", oursZstd, tlsZstd, cpu, 0.95},
		{"deep-none-wall-vs-stunnel", "deep", oursNone, tlsNone, wall, 0.85},
		{"deep-none-cpu-vs-stunnel", "deep", oursNone, tlsNone, cpu, 0.95},
		{"deep-zstd-wall-vs-stunnel", "deep", oursZstd, tlsZstd, wall, 0.8},
		{"deep-zstd-cpu-vs-stunnel", "deep", oursZstd, tlsZstd, cpu, 0.95},
		{"deflate-wall-vs-rsync-zstd", "mixed", oursFast, rsyncZstd, wall, 0.75},
		{"deflate-cpu-vs-rsync-zstd", "mixed", oursFast, rsyncZstd, cpu, 1.0},
		{"deflate-wall-vs-tar-igzip-tls", "mixed", oursFast, tarIgzip, wall, 0.8},
		{"small-files-wall-vs-rsync", "small", oursNone, rsyncNone, wall, 0.7},
	} {
		i := slices.IndexFunc(tables, func(table tableOf) bool { return table.name == t.tree })
		if i < 0 {
			continue
		}
		ours, measured := tables[i].result(t.ours)
		peer, too := tables[i].result(t.peer)
		if measured && too {
			all = append(all, harness.Target{
				Name: t.name, What: t.ours + " by " + t.peer, Digits: 2, Bound: t.bound,
				Measured: harness.RatioOf(ours.samples, peer.samples, t.of),
			})
		}
	}
	return all
}
