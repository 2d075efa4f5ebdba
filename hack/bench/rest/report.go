// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

//go:embed report.md.tmpl
var reportTemplate string

func wall(t turn) float64 { return t.wall.Seconds() }

// cpu is at least one tick of the clock by which the system counts that of programs.
func cpu(t turn) float64 { return max(t.cpu, time.Millisecond).Seconds() }

// of are the turns in which somebody did something, round by round.
func of(turns []turn, who, what string) (found []turn) {
	for _, t := range turns {
		if t.who == who && t.what == what {
			found = append(found, t)
		}
	}
	return found
}

func (b *bench) report(ctx context.Context) harness.Report {
	return harness.Report{
		Name: "rest", Template: reportTemplate, Targets: b.targets(), Drawing: b.draw(),
		Data: map[string]any{
			"MiB": b.mib, "Types": typeTable(), "Stores": b.storeTable(), "Memory": b.workTable(b.inMemory),
			"Disk": b.workTable(b.onDisk), "DiskLimit": diskSpeed / 1e6, "DiskMeasured": b.diskMeasured / 1e6,
			"Programs": b.programTable(), "Receivers": b.receiverTable(),
			"Rounds": b.rounds, "DiskRounds": b.diskRounds, "Missing": b.missing,
		},
		Versions: []string{
			harness.Version(ctx, "gzip", "--version"), harness.Version(ctx, "pigz", "--version"),
			harness.Version(ctx, "igzip", "--version"), harness.Version(ctx, "zstd", "--version"),
			harness.Version(ctx, "cp", "--version"),
		},
	}
}

func typeTable() string {
	var rows [][]string
	for _, t := range recordTypes {
		rows = append(rows, []string{
			fmt.Sprint(t.number), t.name, fmt.Sprint(t.share), fmt.Sprint(t.names), fmt.Sprint(t.clocks), fmt.Sprint(t.timers),
			fmt.Sprint(t.counters), fmt.Sprint(t.reserve), fmt.Sprint(t.amountAt() + 4*t.counters + t.reserve),
		})
	}
	return harness.Table([]string{
		"type", "like the records of", "% of records", "names", "clocks", "timers", "counters", "reserved bytes", "bytes",
	}, rows)
}

func (b *bench) storeTable() string {
	var rows [][]string
	for _, s := range b.stores {
		rows = append(rows, []string{
			s.name, harness.Grouped(s.stored), fmt.Sprintf("%.3f", float64(s.stored)/float64(b.plain)),
		})
	}
	return harness.Table([]string{"stored as", "bytes", "of the records as they are"}, rows)
}

// workTable is empty where nothing was measured.
func (b *bench) workTable(turns []turn) string {
	if len(turns) == 0 {
		return ""
	}
	head := []string{"stored as"}
	for _, what := range []string{readWork, copyWork, reportWork} {
		head = append(head, what+": wall s", "CPU s")
	}
	var rows [][]string
	for _, s := range b.stores {
		row := []string{s.name}
		for _, what := range []string{readWork, copyWork, reportWork} {
			found := of(turns, s.name, what)
			row = append(row, fmt.Sprintf("%.3f", harness.MedianOf(found, wall)),
				fmt.Sprintf("%.3f", harness.MedianOf(found, cpu)))
		}
		rows = append(rows, row)
	}
	return harness.Table(head, rows)
}

func (b *bench) programTable() string {
	var names [][2]string
	for _, t := range b.programs {
		if key := [2]string{t.what, t.who}; !slices.Contains(names, key) {
			names = append(names, key)
		}
	}
	slices.SortFunc(names, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	var rows [][]string
	for _, name := range names {
		found := of(b.programs, name[1], name[0])
		speed := ""
		if name[0] == allWork {
			speed = fmt.Sprintf("%.0f", float64(b.plain)/1e6/harness.MedianOf(found, wall))
		}
		rows = append(rows, []string{
			map[string]string{allWork: "read all", copyWork: "copy"}[name[0]], name[1],
			fmt.Sprintf("%.3f", harness.MedianOf(found, wall)), fmt.Sprintf("%.3f", harness.MedianOf(found, cpu)), speed,
		})
	}
	return harness.Table([]string{"what", "by", "wall s", "CPU s", "plain MB/s"}, rows)
}

// targets were set before the measurement.
func (b *bench) targets() (all []harness.Target) {
	bytes := map[string]float64{}
	for _, s := range b.stores {
		bytes[s.name] = float64(s.stored)
	}
	if len(b.stores) > 0 {
		all = append(all, harness.Target{
			Name: "stacked-bytes", What: "bytes of run-length and cargo by those of run-length alone", Digits: 3, Bound: 0.35,
			Measured: harness.Exactly(bytes["run-length and cargo"] / bytes["run-length"]),
		})
	}
	compare := func(name, what string, ours, theirs []turn, figure func(turn) float64, bound float64, atLeast bool) {
		if len(ours) == 0 || len(theirs) == 0 {
			return
		}
		measured := harness.RatioOf(ours, theirs, figure)
		if atLeast {
			measured = measured.Inverse() // faster
		}
		all = append(all, harness.Target{
			Name: name, What: what, Digits: 2, Bound: bound, AtLeast: atLeast, Measured: measured,
		})
	}
	for _, app := range applications() {
		for _, what := range []string{readWork, copyWork} {
			compare("disk-"+what+"-"+app.name,
				"on the disk, "+what+" of "+app.name+" and cargo by that of "+app.name+", speed",
				of(b.onDisk, app.name+" and cargo", what), of(b.onDisk, app.name, what), wall, 1.5, true)
		}
	}
	igzip, cp := of(b.programs, igzipName, allWork), of(b.programs, cpName, copyWork)
	compare("all-vs-igzip", "reading all on one core by `igzip -dc`, speed",
		of(b.programs, ourGzip, allWork), igzip, wall, 0.95, true)
	compare("all-two-vs-igzip", "reading all on two cores by `igzip -dc` on one, speed",
		of(b.programs, ourGzipTwo, allWork), igzip, wall, 1.75, true)
	compare("copy-vs-cp", "CPU of copying as it rests without checking by cp's",
		of(b.programs, copyUnchecked, copyWork), cp, cpu, 1.3, false)
	compare("copy-checked-vs-cp", "CPU of copying as it rests and checking everything by cp's",
		of(b.programs, copyChecked, copyWork), cp, cpu, 2, false)
	for _, r := range receivers() {
		compare(r.target+"-vs-cp", "CPU of an agent that writes "+r.name+" by cp's",
			of(b.received, r.name, receiveWork), of(b.received, cpOf(r.from), receiveWork), cpu, r.bound, false)
	}
	return all
}

func (b *bench) draw() string {
	var bars []harness.Bars
	for _, chart := range []struct {
		title string
		turns []turn
	}{{"On the limited disk: wall s", b.onDisk}, {"In memory: wall s", b.inMemory}} {
		if len(chart.turns) == 0 {
			continue
		}
		works := []string{readWork, copyWork, reportWork}
		c := harness.Bars{
			Title: chart.title, Names: works, Shared: true, Format: "%.2f",
			Value: func(group, name int) float64 {
				return harness.MedianOf(of(chart.turns, b.stores[group].name, works[name]), wall)
			},
		}
		for _, s := range b.stores {
			c.Groups = append(c.Groups, s.name)
		}
		bars = append(bars, c)
	}
	return harness.DrawBars(bars...)
}
