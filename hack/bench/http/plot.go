// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"
)

const (
	plotWidth, plotHeight = 880.0, 480.0
	plotLeft, plotRight   = 74.0, 110.0
	plotTop, plotBottom   = 40.0, 60.0
)

var strokes = []string{"#57606a", "#9a6700", "#8250df", "#0969da"}

// draw returns an SVG of requests by second against the size of the body: a line for each
// contender, dashed where nothing is compressed.
func (r *report) draw() string {
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="13" fill="#1f2328">
<rect width="%g" height="%g" fill="#ffffff"/>
`, plotWidth, plotHeight, plotWidth, plotHeight)
	least, most := math.Inf(1), 0.0
	for _, size := range r.sizes {
		for _, c := range r.all {
			for _, compressed := range []bool{true, false} {
				if n := r.median(key{c.name, "xml", size, "1.1", compressed}, requestsOf); n > 0 {
					least, most = min(least, n), max(most, n)
				}
			}
		}
	}
	if most == 0 {
		return svg.String() + "</svg>\n"
	}
	a := scale{float64(r.sizes[0]), float64(r.sizes[len(r.sizes)-1]), least / 1.1, most * 1.1}
	a.grid(&svg, r.sizes)
	var ends []float64
	for i, c := range r.all {
		for _, compressed := range []bool{true, false} {
			var path strings.Builder
			last := 0.0
			for _, size := range r.sizes {
				if n := r.median(key{c.name, "xml", size, "1.1", compressed}, requestsOf); n > 0 {
					fmt.Fprintf(&path, "%.1f,%.1f ", a.x(float64(size)), a.y(n))
					last = a.y(n)
				}
			}
			dash, label := "", c.name+", gzip"
			if !compressed {
				dash, label = ` stroke-dasharray="5 4"`, c.name
			}
			fmt.Fprintf(
				&svg, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n", path.String(),
				strokes[i%len(strokes)], dash,
			)
			at := apart(last, ends)
			ends = append(ends, at)
			fmt.Fprintf(
				&svg, `<text x="%g" y="%.1f" fill="%s" font-size="12">%s</text>`+"\n", plotWidth-plotRight+8, at+4,
				strokes[i%len(strokes)], label,
			)
		}
	}
	svg.WriteString("</svg>\n")
	return svg.String()
}

// apart moves a label away from those that are there.
func apart(y float64, taken []float64) float64 {
	for step := 0.0; ; step += 2 {
		for _, candidate := range []float64{y + step, y - step} {
			free := true
			for _, t := range taken {
				free = free && math.Abs(candidate-t) >= 14
			}
			if free {
				return candidate
			}
		}
	}
}

// scale maps figures to places, both logarithmically.
type scale struct{ minX, maxX, minY, maxY float64 }

func (a scale) x(v float64) float64 {
	return plotLeft + (plotWidth-plotLeft-plotRight)*math.Log(v/a.minX)/math.Log(a.maxX/a.minX)
}

func (a scale) y(v float64) float64 {
	return plotTop + (plotHeight-plotTop-plotBottom)*(1-math.Log(v/a.minY)/math.Log(a.maxY/a.minY))
}

func (a scale) grid(svg *strings.Builder, sizes []int) {
	bottom := plotHeight - plotBottom
	for _, size := range sizes {
		x := a.x(float64(size))
		fmt.Fprintf(
			svg,
			`<line x1="%.1f" y1="%g" x2="%.1f" y2="%g" stroke="#eaeef2"/><text x="%.1f" y="%g" text-anchor="middle">%s</text>`+
				"\n",
			x, plotTop, x, bottom, x, bottom+18, grouped(float64(size)),
		)
	}
	for decade := 10.0; decade <= 1e6; decade *= 10 {
		for _, step := range []float64{1, 2, 5} {
			if v := decade * step; v >= a.minY && v <= a.maxY {
				fmt.Fprintf(
					svg,
					`<line x1="%g" y1="%.1f" x2="%g" y2="%.1f" stroke="#eaeef2"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`+
						"\n",
					plotLeft, a.y(v), plotWidth-plotRight, a.y(v), plotLeft-8, a.y(v)+4, grouped(v),
				)
			}
		}
	}
	fmt.Fprintf(
		svg, `<text x="%g" y="%g" text-anchor="middle">bytes of the body</text>`+"\n", (plotLeft+plotWidth-plotRight)/2,
		plotHeight-18,
	)
	fmt.Fprintf(svg, `<text x="%g" y="24">requests by second; dashed: not compressed</text>`+"\n", plotLeft)
}
