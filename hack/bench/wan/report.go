// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wan

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/movers"
)

//go:embed wan.md.tmpl
var wideTemplate string

//go:embed links.md.tmpl
var linksTemplate string

func wall(s sample) float64 { return s.wall.Seconds() }
func cpu(s sample) float64  { return s.cpu.Seconds() }
func sent(s sample) float64 { return float64(s.sent) / 1e6 }

// share of the link that the files' bytes take in the time.
func (m measured) share(seconds float64) float64 {
	return float64(m.tree.Bytes) * 8 / 1e6 / float64(m.speed()) / seconds
}

// String is the table of a cell.
func (m measured) String() string {
	var rows [][]string
	for _, r := range m.results {
		least, most := slices.MinFunc(r.samples, byWall), slices.MaxFunc(r.samples, byWall)
		median := harness.MedianOf(r.samples, wall)
		rows = append(rows, []string{
			r.name, fmt.Sprintf("%.2f (%.2f to %.2f)", median, wall(least), wall(most)),
			fmt.Sprintf("%.1f", 100*m.share(median)), fmt.Sprintf("%.1f", harness.MedianOf(r.samples, sent)),
			fmt.Sprintf("%.2f", harness.MedianOf(r.samples, cpu)),
		})
	}
	return harness.Table([]string{
		"contender", "wall s (least to most)", "% of the link", "MB on the link", "system CPU s",
	}, rows)
}

func byWall(a, b sample) int { return int(a.wall - b.wall) }

func (m measured) of(name string) []sample {
	for _, r := range m.results {
		if r.name == name {
			return r.samples
		}
	}
	return nil
}

// best is the peer whose median is the shortest.
func (m measured) best() string {
	peers := slices.DeleteFunc(slices.Clone(m.results), func(r result) bool {
		return r.name == ours || r.name == oursHigh
	})
	return slices.MinFunc(peers, func(a, b result) int {
		return cmp.Compare(harness.MedianOf(a.samples, wall), harness.MedianOf(b.samples, wall))
	}).name
}

// targets of the cells that were measured.
func targets(all []measured) (targets []harness.Target) {
	for _, m := range all {
		mine := m.of(ours)
		byBest := harness.RatioOf(mine, m.of(m.best()), wall)
		switch m.name {
		case "long":
			whole := make([]float64, len(mine))
			walls := make([]float64, len(mine))
			for i, s := range mine {
				whole[i], walls[i] = m.share(1), wall(s)
			}
			targets = append(targets, harness.Target{
				Name: "wan-long-share", What: "bytes of the files by what the link carries in the time",
				Measured: harness.Ratio(whole, walls), Bound: 0.85, AtLeast: true, Percent: true, Digits: 1,
			})
		case "lossy":
			targets = append(targets, harness.Target{
				Name: "wan-lossy-speed", What: "speed by that of the best peer, " + m.best() + ", while 1 % of all packets is lost",
				Measured: byBest.Inverse(), Bound: 3, AtLeast: true, Digits: 2,
			})
		case "small":
			targets = append(targets, harness.Target{
				Name: "wan-small-wall", What: "wall of many small files by that of the best peer, " + m.best(),
				Measured: byBest, Bound: 0.5, Digits: 2,
			})
		default:
			targets = append(targets, harness.Target{
				Name: "wan-" + m.name + "-wall", What: fmt.Sprintf("wall over %d Mbit/s by that of %s", m.mbits, viaStunnel),
				Measured: harness.RatioOf(mine, m.of(viaStunnel), wall), Bound: 0.85, Digits: 2,
			})
		}
	}
	return targets
}

func (o *options) report(ctx context.Context, all []measured) harness.Report {
	var cells strings.Builder
	for _, m := range all {
		fmt.Fprintf(&cells, "## %s\n\n%s. Runs of each contender: %d.\n\n%s\n", strings.ToUpper(m.name[:1])+m.name[1:],
			m.about, len(m.of(ours)), m)
	}
	names := make([]string, len(o.contenders))
	for i, one := range o.contenders {
		names[i] = one.name
	}
	return harness.Report{
		Name: o.name, Template: o.template, Targets: targets(all),
		Versions: append(movers.Versions(ctx, o.rclone), harness.Version(ctx, "tar", "--version")),
		Data: map[string]string{
			"Link": fmt.Sprintf("%d Mbit/s and a round-trip time of %s", linkMbits, linkRTT), "Cells": cells.String(),
		},
		Drawing: harness.DrawBars(harness.Bars{
			Title: "Wall time in seconds", Names: names, Format: "%.1f",
			Groups: func() (groups []string) {
				for _, m := range all {
					groups = append(groups, m.name)
				}
				return groups
			}(),
			Value: func(group, i int) float64 { return harness.MedianOf(all[group].of(names[i]), wall) },
		}),
	}
}
