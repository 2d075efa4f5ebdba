// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

//go:embed report.md.tmpl
var reportTemplate string

// Figures of a turn, in seconds.
func storeWall(s sample) float64    { return s.store.wall.Seconds() }
func storeClient(s sample) float64  { return s.store.client.Seconds() }
func storeSystem(s sample) float64  { return s.store.system.Seconds() }
func restoreWall(s sample) float64  { return s.restore.wall.Seconds() }
func restoreCPU(s sample) float64   { return s.restore.client.Seconds() }
func restoreTotal(s sample) float64 { return s.restore.system.Seconds() }

// onLink is how long the bytes of the objects take at the speed of the link, in seconds. onWire is how long those take
// that crossed it, with requests and the headers of packets.
func onLink(s sample) float64 { return float64(s.stored) * 8 / (linkMbits * 1e6) }
func onWire(s sample) float64 { return float64(s.store.wire) * 8 / (linkMbits * 1e6) }

// storeServer is what the server and the network stack spent.
func storeServer(s sample) float64 { return storeSystem(s) - storeClient(s) }

func (r result) median(of func(sample) float64) float64 { return harness.MedianOf(r.samples, of) }

// String is the table of a cell.
func (m measured) String() string {
	head := []string{"contender", "store: wall s (least to most)", "client CPU s", "system CPU s", "MB stored"}
	if m.limited {
		head = append(head, "MB on the link")
	} else {
		head = append(head, "restore: wall s", "client CPU s", "system CPU s")
	}
	var rows [][]string
	for _, r := range m.results {
		least, most := slices.MinFunc(r.samples, byWall), slices.MaxFunc(r.samples, byWall)
		seconds := func(of func(sample) float64) string { return fmt.Sprintf("%.2f", r.median(of)) }
		rows = append(rows, []string{
			r.name, fmt.Sprintf("%.2f (%.2f to %.2f)", r.median(storeWall), storeWall(least), storeWall(most)),
			seconds(storeClient), seconds(storeSystem),
			fmt.Sprintf("%.0f", r.median(func(s sample) float64 { return float64(s.stored) })/1e6),
		})
		row := &rows[len(rows)-1]
		if m.limited {
			*row = append(*row, fmt.Sprintf("%.0f", r.median(func(s sample) float64 { return float64(s.store.wire) })/1e6))
		} else {
			*row = append(*row, seconds(restoreWall), seconds(restoreCPU), seconds(restoreTotal))
		}
	}
	return fmt.Sprintf("%s: %s (%d files, %d links, %d directories, %.0f MB; %d runs)\n\n", m.name, m.about, m.tree.Files,
		m.tree.Links, m.tree.Directories, float64(m.tree.Bytes)/1e6, len(m.results[0].samples)) + harness.Table(head, rows)
}

// Floor says below what nobody comes who puts an object for each file: what the server and the network stack spend on
// our objects, at best on all cores at once.
func (m measured) Floor() string {
	i := slices.IndexFunc(m.results, func(r result) bool { return r.name == oursName })
	if m.limited || i < 0 {
		return ""
	}
	spent, cores := m.results[i].median(storeServer), runtime.NumCPU()
	return fmt.Sprintf("Server and network stack take %.2f s of CPU for our objects, %.0f µs for each. On %d cores that "+
		"is %.2f s at least, whatever the client does.\n", spent, spent*1e6/float64(m.tree.Files), cores, spent/float64(cores))
}

// Title is the name with a capital.
func (m measured) Title() string { return strings.ToUpper(m.name[:1]) + m.name[1:] }

func byWall(a, b sample) int { return int(a.store.wall - b.store.wall) }

// version of a program that hack/objectstores.sh built: such builds do not know their own.
func version(path string) string { return filepath.Base(filepath.Dir(path)) }

func (o *options) report(all []measured, beside *storage) harness.Report {
	return harness.Report{
		Name: "object", Template: reportTemplate, Data: map[string]any{
			"Cells": all, "Mbits": linkMbits, "Storage": beside,
		},
		Targets: targets(all), Drawing: draw(all),
		Versions: []string{version(o.versitygw), version(o.rclone), version(o.restic)},
	}
}

func draw(all []measured) string {
	figures := []func(sample) float64{storeWall, storeClient, storeSystem}
	var bars []harness.Bars
	for _, m := range all {
		b := harness.Bars{
			Title: "Storing: " + m.about, Names: []string{"wall s", "CPU s, client", "CPU s, whole system"}, Shared: true,
			Format: "%.1f", Value: func(group, name int) float64 { return m.results[group].median(figures[name]) },
		}
		for _, r := range m.results {
			b.Groups = append(b.Groups, r.name)
		}
		bars = append(bars, b)
	}
	return harness.DrawBars(bars...)
}

// targets were set before the measurement, for objects that are files. Those for archives have the same bounds.
func targets(all []measured) []harness.Target {
	var targets []harness.Target
	for _, t := range []struct {
		name, what, cell, peer string
		of, peers              func(sample) float64
		bound                  float64
	}{
		{"demo-wall-vs-restic", "wall of storing by restic's", "demo", resticName, storeWall, storeWall, 0.9},
		{"demo-cpu-vs-restic", "CPU of the client by restic's", "demo", resticName, storeClient, storeClient, 0.8},
		{
			"demo-system-cpu-vs-restic", "CPU of client, server and network by that with restic", "demo", resticName,
			storeSystem, storeSystem, 0.8,
		},
		{"small-wall-vs-rclone", "wall of storing by rclone's", "small", rcloneName, storeWall, storeWall, 0.9},
		{
			"link-wall-vs-rate", "wall of storing by the time of our objects at the link's speed", "link", oursName, storeWall,
			onLink, 1.05,
		},
		{
			"link-wall-vs-wire", "wall of storing by the time of what crossed the link", "link", oursName, storeWall, onWire,
			1.05,
		},
		{
			"link-wall-vs-compressed", "wall of storing by the time of restic's compressed objects at the link's speed", "link",
			resticName, storeWall, onLink, 1.05,
		},
	} {
		i := slices.IndexFunc(all, func(m measured) bool { return m.name == t.cell })
		if i < 0 {
			continue
		}
		for _, ours := range []struct{ name, suffix, what string }{
			{oursName, "", ""}, {archiveName, "-archive", ", with form Archive"},
		} {
			peer := t.peer
			if peer == oursName {
				peer = ours.name
			}
			targets = append(targets, harness.Target{
				Name: t.name + ours.suffix, What: t.what + ours.what, Digits: 2, Bound: t.bound,
				Measured: harness.Ratio(figures(all[i], ours.name, t.of), figures(all[i], peer, t.peers)),
			})
		}
	}
	return targets
}

// figures are those of a contender, round by round.
func figures(m measured, name string, of func(sample) float64) (all []float64) {
	for _, r := range m.results {
		if r.name != name {
			continue
		}
		for _, s := range r.samples {
			all = append(all, of(s))
		}
	}
	return all
}
