// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/lighterage/lighterage/hack/bench/scale/bed"
)

const (
	plotWidth, plotHeight = 880.0, 360.0
	plotTop, plotBottom   = 50.0, 50.0
	panelWidth            = 360.0
)

// panel is a chart of one figure by the number of Transfers.
type panel struct {
	title string
	left  float64
	needs stage
	of    func(result) float64
	limit float64
}

var panels = []panel{
	{"manager, MiB at most", 70, haveFirst,
		func(r result) float64 { return float64(r.first.To.Manager.Peak) / mebibyte }, 512},
	{"manager, CPU s of the first pass", 500, haveFirst, cpuOf(bed.Manager), 0},
}

// draw returns an SVG of memory and CPU time.
func (r *report) draw() string {
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="13" fill="#1f2328">
<rect width="%g" height="%g" fill="#ffffff"/>
`, plotWidth, plotHeight, plotWidth, plotHeight)
	for _, p := range panels {
		p.draw(&svg, r.all)
	}
	svg.WriteString("</svg>\n")
	return svg.String()
}

func (p panel) draw(svg *strings.Builder, all []result) {
	right, top, largest := float64(all[len(all)-1].world.Transfers), p.limit, plotHeight-plotBottom
	for _, r := range all {
		if r.have >= p.needs {
			top = max(top, p.of(r))
		}
	}
	if top == 0 {
		return
	}
	x := func(n int) float64 { return p.left + (panelWidth-30)*float64(n)/right }
	y := func(v float64) float64 { return largest - (largest-plotTop)*v/(top*1.1) }
	fmt.Fprintf(svg, `<text x="%g" y="28">%s</text>`+"\n", p.left, p.title)
	for step := range 5 {
		v := top * float64(step) / 4
		fmt.Fprintf(svg,
			`<line x1="%g" y1="%.1f" x2="%g" y2="%.1f" stroke="#eaeef2"/><text x="%g" y="%.1f" text-anchor="end">%.0f</text>`+
				"\n",
			p.left, y(v), p.left+panelWidth-30, y(v), p.left-8, y(v)+4, v)
	}
	if p.limit > 0 {
		fmt.Fprintf(svg, `<line x1="%g" y1="%.1f" x2="%g" y2="%.1f" stroke="#cf222e" stroke-dasharray="5 4"/>`+"\n",
			p.left, y(p.limit), p.left+panelWidth-30, y(p.limit))
	}
	var line strings.Builder
	for _, r := range all {
		fmt.Fprintf(svg, `<text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", x(r.world.Transfers), largest+20,
			grouped(r.world.Transfers))
		if r.have < p.needs {
			continue
		}
		fmt.Fprintf(&line, "%.1f,%.1f ", x(r.world.Transfers), y(p.of(r)))
		fmt.Fprintf(svg, `<circle cx="%.1f" cy="%.1f" r="4" fill="#0969da"/>`+"\n", x(r.world.Transfers), y(p.of(r)))
	}
	fmt.Fprintf(svg, `<polyline points="%s" fill="none" stroke="#0969da" stroke-width="2"/>`+"\n", line.String())
	fmt.Fprintf(svg, `<text x="%g" y="%g" text-anchor="middle">Transfers</text>`+"\n", p.left+(panelWidth-30)/2,
		plotHeight-10)
}
