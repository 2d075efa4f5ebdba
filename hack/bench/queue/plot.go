// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// The drawing in pixels.
const (
	barWidth, barHeight = 26, 160
	groupGap            = 40
	leftMargin          = 20
	panelTop            = 50 // of title and legend
	panelHeight         = panelTop + barHeight + 40
)

var colours = []string{"#9aa5b1", "#e0a030", "#3a7ca5", "#2a9d5c", "#b05060"}

// panel is bars in groups.
type panel struct {
	title  string
	groups []string
	names  []string
	// value of a bar; 0: there is none.
	value func(group, name int) float64
}

func (r *report) panels() []panel {
	var groups []string
	for _, size := range sizes {
		groups = append(groups, grouped(size)+" bytes")
	}
	of := func(t table, names []string, figure func(row) float64) func(group, name int) float64 {
		return func(group, name int) float64 {
			row, _ := t.row(sizes[group], names[name])
			return figure(row)
		}
	}
	all := append(append([]string(nil), contenders...), broker)
	panels := []panel{
		{
			"CPU of a put, client and server, microseconds", groups, all,
			of(r.Memory, all, func(r row) float64 { return r.PutCPU }),
		},
		{
			"CPU of a get, client and server, microseconds", groups, all,
			of(r.Memory, all, func(r row) float64 { return r.GetCPU }),
		},
		{
			fmt.Sprintf("Puts a second on a disk of %.0f MB/s", r.DiskLimit), groups, contenders,
			of(r.Disk, contenders, func(r row) float64 { return r.PutRate }),
		},
	}
	var loads []string
	for _, s := range stretches {
		if s.mbits > 0 {
			loads = append(loads, grouped(s.size)+" bytes")
		}
	}
	return append(panels, panel{
		fmt.Sprintf("Messages a second by a channel over %d Mbit/s", linkMbits), loads,
		channelCodecs, func(group, name int) float64 {
			j, _ := journeyOf(r.journeys, stretches[group], channelCodecs[name]) // the limited ones come first
			return j.rate
		},
	})
}

// plot draws the panels, each group scaled to its longest bar.
func (r *report) plot() string {
	panels := r.panels()
	width := 0
	for _, p := range panels {
		width = max(width, leftMargin*2+len(p.groups)*(len(p.names)*barWidth+groupGap))
	}
	var b strings.Builder
	fmt.Fprintf(
		&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n",
		width, len(panels)*panelHeight,
	)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for i, p := range panels {
		p.draw(&b, i*panelHeight)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p panel) draw(b *strings.Builder, top int) {
	fmt.Fprintf(b, `<text x="%d" y="%d" font-size="13">%s</text>`+"\n", leftMargin, top+16, p.title)
	for i, name := range p.names {
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="10" height="10" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			leftMargin+i*130, top+24, colours[i], leftMargin+i*130+14, top+33, name)
	}
	for g, group := range p.groups {
		most := 0.0
		for i := range p.names {
			most = max(most, p.value(g, i))
		}
		left := leftMargin + g*(len(p.names)*barWidth+groupGap)
		for i := range p.names {
			v := p.value(g, i)
			if v == 0 {
				continue
			}
			height := v / most * (barHeight - 14)
			y := float64(top+panelTop+barHeight) - height
			fmt.Fprintf(b, `<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s"/><text x="%d" y="%.1f" text-anchor="middle" font-size="9">%.0f</text>`+"\n",
				left+i*barWidth, y, barWidth-4, height, colours[i], left+i*barWidth+(barWidth-4)/2, y-3, v)
		}
		fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", left, top+panelTop+barHeight+16, group)
	}
}
