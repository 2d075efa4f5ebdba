// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// family is whose a point is.
type family int

const (
	oursDeflate family = iota
	oursZstd
	peer
)

// point is one contender in the plot.
type point struct {
	label        string
	speed, ratio float64
	family       family
	// joins names those that are joined by a line: one engine's levels.
	joins string
}

// rectangle is a part of the plot that is taken.
type rectangle struct{ left, top, right, bottom float64 }

func (r rectangle) overlaps(o rectangle) bool {
	return r.left < o.right && o.left < r.right && r.top < o.bottom && o.top < r.bottom
}

const (
	plotWidth, plotHeight             = 880.0, 560.0
	plotLeft, plotRight               = 70.0, 30.0
	plotTop, plotBottom               = 56.0, 60.0
	labelSize, labelHeight, dotRadius = 12.0, 14.0, 5.0
)

// axes maps figures to places. Speed is logarithmic.
type axes struct{ minSpeed, maxSpeed, minRatio, maxRatio float64 }

func axesOf(points []point) axes {
	bySpeed := func(a, b point) int { return cmp.Compare(a.speed, b.speed) }
	byRatio := func(a, b point) int { return cmp.Compare(a.ratio, b.ratio) }
	a := axes{
		minSpeed: slices.MinFunc(points, bySpeed).speed / 1.35, maxSpeed: slices.MaxFunc(points, bySpeed).speed * 1.35,
		minRatio: slices.MinFunc(points, byRatio).ratio, maxRatio: slices.MaxFunc(points, byRatio).ratio,
	}
	margin := max(0.01, (a.maxRatio-a.minRatio)*0.1)
	a.minRatio, a.maxRatio = a.minRatio-margin, a.maxRatio+margin
	return a
}

func (a axes) x(speed float64) float64 {
	return plotLeft + (plotWidth-plotLeft-plotRight)*math.Log(speed/a.minSpeed)/math.Log(a.maxSpeed/a.minSpeed)
}

// y has the least ratio, which is the best, at the top.
func (a axes) y(ratio float64) float64 {
	return plotTop + (plotHeight-plotTop-plotBottom)*(ratio-a.minRatio)/(a.maxRatio-a.minRatio)
}

var fills = map[family]string{oursDeflate: "#0969da", oursZstd: "#1a7f37", peer: "#ffffff"}

// draw returns an SVG of the points with a label beside each.
func draw(points []point) string {
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="13" fill="#1f2328">
<rect width="%g" height="%g" fill="#ffffff"/>
`, plotWidth, plotHeight, plotWidth, plotHeight)
	if len(points) == 0 {
		return svg.String() + "</svg>\n"
	}
	a := axesOf(points)
	drawAxes(&svg, a)
	for _, s := range segments(points, a) {
		fmt.Fprintf(
			&svg, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-opacity="0.3" stroke-width="1.5"/>`+"\n",
			s.x1, s.y1, s.x2, s.y2, s.stroke,
		)
	}
	for i, place := range placeLabels(points, a) {
		p := points[i]
		x, y := a.x(p.speed), a.y(p.ratio)
		stroke := "#57606a"
		if p.family != peer {
			stroke = fills[p.family]
		}
		if distance := math.Hypot(place.anchorX()-x, place.anchorY()-y); distance > 22 {
			fmt.Fprintf(
				&svg, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#d0d7de"/>`+"\n", x, y, place.nearX(x),
				place.anchorY(),
			)
		}
		fmt.Fprintf(
			&svg, `<circle cx="%.1f" cy="%.1f" r="%g" fill="%s" stroke="%s" stroke-width="1.5"/>`+"\n", x, y, dotRadius,
			fills[p.family], stroke,
		)
		fmt.Fprintf(
			&svg, `<text x="%.1f" y="%.1f" font-size="%g">%s</text>`+"\n", place.left, place.bottom-3, labelSize, p.label,
		)
	}
	x := plotLeft
	for _, entry := range []struct {
		family family
		text   string
	}{{oursDeflate, "engines, deflate"}, {oursZstd, "engines, zstd"}, {peer, "programs"}} {
		fmt.Fprintf(
			&svg, `<circle cx="%g" cy="24" r="%g" fill="%s" stroke="#57606a"/><text x="%g" y="28.5">%s</text>`+"\n", x+5,
			dotRadius, fills[entry.family], x+16, entry.text,
		)
		x += 40 + 7*float64(len(entry.text))
	}
	svg.WriteString("</svg>\n")
	return svg.String()
}

// segment joins two levels of an engine.
type segment struct {
	x1, y1, x2, y2 float64
	stroke         string
}

func segments(points []point, a axes) []segment {
	last := map[string]point{}
	var all []segment
	for _, p := range points {
		if before, ok := last[p.joins]; ok && p.joins != "" {
			all = append(all, segment{a.x(before.speed), a.y(before.ratio), a.x(p.speed), a.y(p.ratio), fills[p.family]})
		}
		last[p.joins] = p
	}
	return all
}

func drawAxes(svg *strings.Builder, a axes) {
	bottom := plotHeight - plotBottom
	for _, decade := range []float64{1, 10, 100, 1000, 10000} {
		for _, step := range []float64{1, 2, 5} {
			speed := decade * step
			if speed < a.minSpeed || speed > a.maxSpeed {
				continue
			}
			fmt.Fprintf(svg, `<line x1="%.1f" y1="%g" x2="%.1f" y2="%g" stroke="#eaeef2"/><text x="%.1f" y="%g" text-anchor="middle">%g</text>`+"\n",
				a.x(speed), plotTop, a.x(speed), bottom, a.x(speed), bottom+18, speed)
		}
	}
	step := 0.02
	if a.maxRatio-a.minRatio > 0.2 {
		step = 0.05
	}
	for ratio := math.Ceil(a.minRatio/step) * step; ratio <= a.maxRatio; ratio += step {
		fmt.Fprintf(svg, `<line x1="%g" y1="%.1f" x2="%g" y2="%.1f" stroke="#eaeef2"/><text x="%g" y="%.1f" text-anchor="end">%.2f</text>`+"\n",
			plotLeft, a.y(ratio), plotWidth-plotRight, a.y(ratio), plotLeft-8, a.y(ratio)+4, ratio)
	}
	fmt.Fprintf(
		svg, `<text x="%g" y="%g" text-anchor="middle">MB/s on one core (faster to the right)</text>`+"\n",
		(plotLeft+plotWidth-plotRight)/2, plotHeight-18,
	)
	fmt.Fprintf(
		svg,
		`<text transform="translate(20 %g) rotate(-90)" text-anchor="middle">compressed / original (smaller upwards)</text>`+
			"\n",
		(plotTop+bottom)/2,
	)
}

func (r rectangle) anchorX() float64 { return (r.left + r.right) / 2 }
func (r rectangle) anchorY() float64 { return (r.top + r.bottom) / 2 }

// nearX is the edge towards x.
func (r rectangle) nearX(x float64) float64 { return min(max(x, r.left), r.right) }

// placeLabels returns where labels go: beside their points if there is space, else
// farther away, never over a point or another label, and rather not over a line, while any place is
// free.
func placeLabels(points []point, a axes) []rectangle {
	taken := make([]rectangle, 0, 2*len(points))
	for _, p := range points {
		x, y := a.x(p.speed), a.y(p.ratio)
		taken = append(taken, rectangle{x - dotRadius - 1, y - dotRadius - 1, x + dotRadius + 1, y + dotRadius + 1})
	}
	var lines []rectangle
	for _, s := range segments(points, a) {
		for along := 0.0; along <= 1; along += 0.02 {
			x, y := s.x1+along*(s.x2-s.x1), s.y1+along*(s.y2-s.y1)
			lines = append(lines, rectangle{x - 1, y - 1, x + 1, y + 1})
		}
	}
	places := make([]rectangle, len(points))
	for i, p := range points {
		places[i] = placeLabel(p, a, taken, lines)
		taken = append(taken, places[i])
	}
	return places
}

// acrossLine is how many units farther away a label goes rather than over a line.
const acrossLine = 14

func placeLabel(p point, a axes, taken, lines []rectangle) rectangle {
	x, y, width := a.x(p.speed), a.y(p.ratio), labelSize*0.56*float64(len(p.label))
	best, least := rectangle{}, math.Inf(1)
	for distance := dotRadius + 4; distance < 160; distance += 3 {
		for angle := 0.0; angle < 360; angle += 15 {
			sin, cos := math.Sincos(angle * math.Pi / 180)
			// The label's nearest edge or corner lies at the distance.
			centreX := x + cos*distance + math.Copysign(width/2, cos)*smooth(cos)
			centreY := y + sin*distance + math.Copysign(labelHeight/2, sin)*smooth(sin)
			r := rectangle{centreX - width/2, centreY - labelHeight/2, centreX + width/2, centreY + labelHeight/2}
			inside := r.left >= plotLeft && r.right <= plotWidth-4 && r.top >= plotTop && r.bottom <= plotHeight-plotBottom
			cost := distance
			if math.Abs(sin) > 0.01 {
				cost += 3 // beside the point reads best
			}
			if slices.ContainsFunc(lines, r.overlaps) {
				cost += acrossLine
			}
			if !inside || slices.ContainsFunc(taken, r.overlaps) {
				cost += 1000
			}
			if cost < least {
				best, least = r, cost
			}
		}
	}
	return best
}

// smooth makes labels slide along the point instead of jumping from edge to edge.
func smooth(f float64) float64 { return min(1, 1.5*math.Abs(f)) }
