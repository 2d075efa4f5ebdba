// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Colours of contenders, by their number.
var Colours = []string{"#57606a", "#9a6700", "#8250df", "#0969da", "#1a7f37"}

// Lines is a chart of figures by one that is varied.
type Lines struct {
	Title, Along string
	// X are the figures along.
	X []float64
	// Log says that both scales are logarithmic.
	Log bool
	// Limit is drawn across; 0: there is none.
	Limit  float64
	Series []Series
}

// Series is a line of a chart.
type Series struct {
	// Label at its end; empty: there is none.
	Label, Colour string
	Dashed        bool
	// Y has a figure for each of X; what is not above 0 was not measured.
	Y []float64
}

// Draw draws the chart with its axes between these places. Labels stand beyond the right one.
func (l Lines) Draw(c *Canvas, left, top, right, bottom float64) {
	least, most := math.Inf(1), l.Limit
	for _, s := range l.Series {
		for _, v := range s.Y {
			if v > 0 {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	c.Text(left, top-16, l.Title)
	if most == 0 {
		return
	}
	x := Scale{From: 0, To: slices.Max(l.X), Start: left, End: right}
	y := Scale{From: 0, To: most * 1.1, Start: bottom, End: top}
	if l.Log {
		x.From, x.Log, y.From, y.Log = slices.Min(l.X), true, least/1.1, true
	}
	c.Across(y, left, right, Grouped[float64])
	c.Along(x, l.X, top, bottom, Grouped[float64])
	c.Text((left+right)/2, bottom+42, l.Along, Middle)
	if l.Limit > 0 {
		c.Line(left, y.At(l.Limit), right, y.At(l.Limit), "#cf222e", dashes)
	}
	var taken []float64
	for _, s := range l.Series {
		if end, some := s.draw(c, l.X, x, y); some && s.Label != "" {
			at := apart(end, taken)
			taken = append(taken, at)
			c.Text(right+8, at+4, s.Label, `font-size="12"`, fmt.Sprintf(`style="fill:%s"`, s.Colour))
		}
	}
}

const dashes = `stroke-dasharray="5 4"`

// draw returns how high the line ends.
func (s Series) draw(c *Canvas, along []float64, x, y Scale) (end float64, some bool) {
	var points []string
	for i, v := range s.Y {
		if v > 0 {
			end = y.At(v)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x.At(along[i]), end))
			c.Circle(x.At(along[i]), end, 3, s.Colour)
		}
	}
	dash := ""
	if s.Dashed {
		dash = dashes
	}
	fmt.Fprintf(&c.out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" %s/>`+"\n",
		strings.Join(points, " "), s.Colour, dash)
	return end, len(points) > 0
}

// apart moves a label away from those that are there.
func apart(y float64, taken []float64) float64 {
	for step := 0.0; ; step += 2 {
		for _, candidate := range []float64{y + step, y - step} {
			if !slices.ContainsFunc(taken, func(t float64) bool { return math.Abs(candidate-t) < 14 }) {
				return candidate
			}
		}
	}
}

// Bars is a chart of bars in groups, each with a bar for every name.
type Bars struct {
	Title         string
	Groups, Names []string
	// Value of a bar; 0: there is none.
	Value func(group, name int) float64
	// Shared says that the groups have one scale; else each is scaled to its longest bar.
	Shared bool
	// Format of a value, such as %.2f.
	Format string
}

const (
	barLeft, barLength, barHeight  = 300.0, 480.0, 16.0
	barTop, groupGap, legendColumn = 52.0, 12.0, 170.0
)

func (b Bars) height() float64 {
	return barTop + float64(len(b.Groups))*(barHeight*float64(len(b.Names))+groupGap) + groupGap
}

// DrawBars draws charts, one below the other.
func DrawBars(all ...Bars) string {
	width, height := barLeft+barLength+80, 0.0
	for _, b := range all {
		height += b.height()
		width = max(width, groupGap+legendColumn*float64(len(b.Names)))
	}
	c, top := NewCanvas(width, height), 0.0
	for _, b := range all {
		b.draw(c, top)
		top += b.height()
	}
	return c.String()
}

func (b Bars) draw(c *Canvas, top float64) {
	c.Text(groupGap, top+18, b.Title, `font-size="14"`)
	for i, name := range b.Names {
		x := groupGap + legendColumn*float64(i)
		c.Rect(x, top+28, 12, 12, Colours[i])
		c.Text(x+18, top+38, name, `font-size="11"`)
	}
	most := make([]float64, len(b.Groups))
	for g := range b.Groups {
		for i := range b.Names {
			most[g] = max(most[g], b.Value(g, i))
		}
	}
	for g, group := range b.Groups {
		longest := most[g]
		if b.Shared {
			longest = slices.Max(most)
		}
		y := top + barTop + float64(g)*(barHeight*float64(len(b.Names))+groupGap)
		c.Text(barLeft-12, y+barHeight*float64(len(b.Names))/2+4, group, End)
		for i := range b.Names {
			v := b.Value(g, i)
			if v == 0 {
				continue
			}
			at, length := y+barHeight*float64(i), barLength*v/longest
			c.Rect(barLeft, at, length, barHeight-3, Colours[i])
			c.Text(barLeft+length+6, at+11, fmt.Sprintf(b.Format, v), `font-size="11"`)
		}
	}
}
