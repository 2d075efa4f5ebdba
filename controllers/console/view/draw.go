// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/lighterage/lighterage/controllers/overview"
)

const (
	// mostDrawn is how many clusters a drawing has at most. The table beside it has all.
	mostDrawn = 10
	boxHeight = 46
)

// Drawing is a map. Lengths are those of its own coordinates.
type Drawing struct {
	Width, Height float64
	Boxes         []Box
	Arrows        []Arrow
	// Left out: so many clusters are not drawn.
	LeftOut int
}

// Box is a cluster.
type Box struct {
	// X and Y are the upper left corner.
	X, Y, Width, Height float64
	Name, Note          string
	Context             bool
	State               overview.State
}

// Arrow is a flow between two clusters.
type Arrow struct {
	// Path is the line, as SVG has it, and Head the three corners of what points.
	Path, Head string
	// X and Y are the middle of its text, which is about as wide as Wide.
	X, Y, Wide float64
	Text       string
	State      overview.State
	// Thick is the width of the line.
	Thick float64
}

type point struct{ x, y float64 }

func (p point) plus(q point, times float64) point { return point{p.x + q.x*times, p.y + q.y*times} }

// Draw lays a network out in a width: beside each other where there is space, or else below each other.
func (n *Network) Draw(width float64) Drawing {
	count := min(len(n.Places), mostDrawn)
	d := Drawing{Width: width, LeftOut: len(n.Places) - count}
	narrow := width < 500
	box := point{176, boxHeight}
	if narrow {
		box.x = 132
	}
	centres := n.centres(&d, count, narrow, box)
	most := int64(1)
	for i := range n.Flows {
		most = max(most, n.Flows[i].Rate)
	}
	within := make([]string, count)
	for i := range n.Flows {
		f := &n.Flows[i]
		switch {
		case f.From >= count || f.To >= count:
		case f.From == f.To:
			within[f.From] = "within: " + f.Text()
		default:
			a := arrow(centres[f.From], centres[f.To], box)
			a.Text, a.State = f.Text(), f.State
			if narrow {
				a.Text = f.short()
			}
			a.Wide = 6.6*float64(utf8.RuneCountInString(a.Text)) + 8
			a.X = min(max(a.X, a.Wide/2), width-a.Wide/2)
			a.Thick = 1.5
			if f.Rate > 0 {
				a.Thick += 3 * math.Sqrt(float64(f.Rate)/float64(most))
			}
			d.Arrows = append(d.Arrows, a)
		}
	}
	for i, c := range centres {
		p := &n.Places[i]
		note := within[i]
		switch {
		case len(p.Notes) > 0:
			note = p.Notes[0]
		case !p.Context:
			note = "seen through its Peer"
		}
		d.Boxes = append(d.Boxes, Box{
			X: c.x - box.x/2, Y: c.y - box.y/2, Width: box.x, Height: box.y, Name: overview.Fit(p.Name, int(box.x/7.6)),
			Note: overview.Fit(note, int(box.x/6.1)), Context: p.Context, State: p.State,
		})
	}
	return d
}

// centres of boxes: one in the middle, two opposite each other, more on an ellipse, or from side to side.
func (n *Network) centres(d *Drawing, count int, narrow bool, box point) []point {
	switch {
	case count <= 1:
		d.Height = box.y + 24
		return []point{{d.Width / 2, d.Height / 2}}[:count]
	case count == 2 && narrow:
		d.Height = 2*box.y + 150
		return []point{{d.Width / 2, 12 + box.y/2}, {d.Width / 2, d.Height - 12 - box.y/2}}
	case count == 2:
		d.Height = 148
		return []point{{12 + box.x/2, d.Height / 2}, {d.Width - 12 - box.x/2, d.Height / 2}}
	}
	all := make([]point, 0, count)
	if narrow {
		const step = 80
		d.Height = 24 + box.y + step*float64(count-1)
		for i := range count {
			left := 8 + box.x/2
			if i%2 == 1 {
				left = d.Width - left
			}
			all = append(all, point{left, 12 + box.y/2 + step*float64(i)})
		}
		return all
	}
	d.Height = 130 + 46*float64(count)
	for i := range count {
		angle := math.Pi*2*float64(i)/float64(count) - math.Pi
		all = append(all, point{
			d.Width/2 + math.Cos(angle)*(d.Width/2-12-box.x/2), d.Height/2 + math.Sin(angle)*(d.Height/2-14-box.y/2),
		})
	}
	return all
}

// arrow is a curve from one box to another. It bends to its left, so that two of opposite directions lie apart.
func arrow(from, to, box point) Arrow {
	length := math.Hypot(to.x-from.x, to.y-from.y)
	if length == 0 {
		return Arrow{}
	}
	along := point{(to.x - from.x) / length, (to.y - from.y) / length}
	aside := point{along.y, -along.x}
	bend := min(34, length/5)
	middle := point{(from.x + to.x) / 2, (from.y + to.y) / 2}.plus(aside, bend)
	begin, end := edge(from, middle, box), edge(to, middle, box)
	back := math.Hypot(middle.x-end.x, middle.y-end.y)
	point0 := point{(middle.x - end.x) / back, (middle.y - end.y) / back}
	foot, wing := end.plus(point0, 11), point{-point0.y, point0.x}
	a, b := foot.plus(wing, 5.5), foot.plus(wing, -5.5)
	// Nearer to where the curve begins, so that texts of opposite directions lie apart.
	label := point{curve(begin.x, middle.x, end.x), curve(begin.y, middle.y, end.y)}
	return Arrow{
		Path: fmt.Sprintf("M%.1f %.1fQ%.1f %.1f %.1f %.1f", begin.x, begin.y, middle.x, middle.y, foot.x, foot.y),
		Head: fmt.Sprintf("%.1f,%.1f %.1f,%.1f %.1f,%.1f", end.x, end.y, a.x, a.y, b.x, b.y),
		X:    label.x, Y: label.y,
	}
}

// curve is a point of a curve of the second degree, at two fifths of its length.
func curve(begin, control, end float64) float64 {
	const t = 0.4
	return (1-t)*(1-t)*begin + 2*t*(1-t)*control + t*t*end
}

// edge is where the line from the centre of a box to a point leaves the box.
func edge(centre, to, box point) point {
	dx, dy := to.x-centre.x, to.y-centre.y
	reach := math.Inf(1)
	if dx != 0 {
		reach = box.x / 2 / math.Abs(dx)
	}
	if dy != 0 {
		reach = min(reach, box.y/2/math.Abs(dy))
	}
	if math.IsInf(reach, 1) || reach > 1 {
		reach = 1
	}
	return centre.plus(point{dx, dy}, reach).plus(point{dx, dy}, 3/math.Max(math.Hypot(dx, dy), 1))
}
