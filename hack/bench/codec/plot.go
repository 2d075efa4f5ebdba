// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/lighterage/lighterage/hack/bench/harness"
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

// axes map figures to places. Speed is logarithmic, and the least ratio, which is the best, is at the top.
type axes struct{ speed, ratio harness.Scale }

func axesOf(points []point) axes {
	bySpeed := func(a, b point) int { return cmp.Compare(a.speed, b.speed) }
	byRatio := func(a, b point) int { return cmp.Compare(a.ratio, b.ratio) }
	least, most := slices.MinFunc(points, byRatio).ratio, slices.MaxFunc(points, byRatio).ratio
	margin := max(0.01, (most-least)*0.1)
	return axes{
		harness.Scale{
			From: slices.MinFunc(points, bySpeed).speed / 1.35, To: slices.MaxFunc(points, bySpeed).speed * 1.35,
			Start: plotLeft, End: plotWidth - plotRight, Log: true,
		},
		harness.Scale{From: least - margin, To: most + margin, Start: plotTop, End: plotHeight - plotBottom},
	}
}

func (a axes) x(speed float64) float64 { return a.speed.At(speed) }
func (a axes) y(ratio float64) float64 { return a.ratio.At(ratio) }

var fills = []string{oursDeflate: "#0969da", oursZstd: "#1a7f37", peer: "#ffffff"}

// draw returns an SVG of the points with a label beside each.
func draw(points []point) string {
	canvas := harness.NewCanvas(plotWidth, plotHeight)
	if len(points) == 0 {
		return canvas.String()
	}
	a := axesOf(points)
	const right, bottom = plotWidth - plotRight, plotHeight - plotBottom
	canvas.Along(a.speed, a.speed.Ticks(), plotTop, bottom, func(v float64) string { return fmt.Sprintf("%g", v) })
	canvas.Across(a.ratio, plotLeft, right, func(v float64) string { return fmt.Sprintf("%.2f", v) })
	canvas.Text((plotLeft+right)/2, plotHeight-18, "MB/s on one core (faster to the right)", harness.Middle)
	canvas.Text(0, 0, "compressed / original (smaller upwards)", harness.Middle,
		fmt.Sprintf(`transform="translate(20 %g) rotate(-90)"`, (plotTop+bottom)/2))
	for _, s := range segments(points, a) {
		canvas.Line(s.x1, s.y1, s.x2, s.y2, s.stroke, `stroke-opacity="0.3" stroke-width="1.5"`)
	}
	for i, place := range placeLabels(points, a) {
		p := points[i]
		x, y := a.x(p.speed), a.y(p.ratio)
		stroke := "#57606a"
		if p.family != peer {
			stroke = fills[p.family]
		}
		if distance := math.Hypot(place.anchorX()-x, place.anchorY()-y); distance > 22 {
			canvas.Line(x, y, place.nearX(x), place.anchorY(), "#d0d7de")
		}
		canvas.Circle(x, y, dotRadius, fills[p.family], `stroke="`+stroke+`" stroke-width="1.5"`)
		canvas.Text(place.left, place.bottom-3, p.label, fmt.Sprintf(`font-size="%g"`, labelSize))
	}
	x := plotLeft
	for family, text := range []string{"engines, deflate", "engines, zstd", "programs"} {
		canvas.Circle(x+5, 24, dotRadius, fills[family], `stroke="#57606a"`)
		canvas.Text(x+16, 28.5, text)
		x += 40 + 7*float64(len(text))
	}
	return canvas.String()
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
