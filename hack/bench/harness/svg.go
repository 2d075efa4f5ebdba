// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Canvas is an SVG that is drawn upon, in pixels. What is drawn takes further attributes, such as stroke="#fff".
type Canvas struct {
	Width, Height float64
	out           strings.Builder
}

// NewCanvas begins a white one.
func NewCanvas(width, height float64) *Canvas {
	c := &Canvas{Width: width, Height: height}
	fmt.Fprintf(&c.out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" `+
		`font-family="system-ui, Helvetica, Arial, sans-serif" font-size="13" fill="#1f2328">`+"\n", width, height)
	c.Rect(0, 0, width, height, "#ffffff")
	return c
}

// String is the whole document.
func (c *Canvas) String() string { return c.out.String() + "</svg>\n" }

// Where a text stands at its place. It begins there without one of these.
const (
	Middle = `text-anchor="middle"`
	End    = `text-anchor="end"`
)

// Text writes on a line.
func (c *Canvas) Text(x, y float64, text string, attributes ...string) {
	fmt.Fprintf(&c.out, `<text x="%.1f" y="%.1f"%s>%s</text>`+"\n", x, y, joined(attributes), html.EscapeString(text))
}

// Rect fills one.
func (c *Canvas) Rect(x, y, width, height float64, fill string, attributes ...string) {
	fmt.Fprintf(&c.out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"%s/>`+"\n", x, y, width, height, fill,
		joined(attributes))
}

// Line draws one.
func (c *Canvas) Line(x1, y1, x2, y2 float64, stroke string, attributes ...string) {
	fmt.Fprintf(&c.out, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"%s/>`+"\n", x1, y1, x2, y2, stroke,
		joined(attributes))
}

// Circle fills one.
func (c *Canvas) Circle(x, y, radius float64, fill string, attributes ...string) {
	fmt.Fprintf(&c.out, `<circle cx="%.1f" cy="%.1f" r="%g" fill="%s"%s/>`+"\n", x, y, radius, fill, joined(attributes))
}

func joined(attributes []string) string {
	if len(attributes) == 0 {
		return ""
	}
	return " " + strings.Join(attributes, " ")
}

// Scale maps figures to places.
type Scale struct {
	From, To   float64 // figures
	Start, End float64 // places
	Log        bool
}

// At is the place of a figure.
func (s Scale) At(v float64) float64 {
	if s.Log {
		return s.Start + (s.End-s.Start)*math.Log(v/s.From)/math.Log(s.To/s.From)
	}
	return s.Start + (s.End-s.Start)*(v-s.From)/(s.To-s.From)
}

// Ticks are round figures of the scale: one, two and five of every decade of a logarithmic one, else about five to ten.
func (s Scale) Ticks() []float64 {
	var all []float64
	if s.Log {
		for decade := math.Pow(10, math.Floor(math.Log10(s.From))); decade <= s.To; decade *= 10 {
			for _, step := range []float64{1, 2, 5} {
				if v := decade * step; v >= s.From && v <= s.To {
					all = append(all, v)
				}
			}
		}
		return all
	}
	span := s.To - s.From
	step := math.Pow(10, math.Floor(math.Log10(span)))
	switch {
	case span/step < 2:
		step /= 5
	case span/step < 5:
		step /= 2
	}
	for v := math.Ceil(s.From/step) * step; v <= s.To*(1+1e-9); v += step {
		all = append(all, v)
	}
	return all
}

// Across draws a line across the drawing at each tick of a scale from the bottom to the top, and what format makes of
// it.
func (c *Canvas) Across(y Scale, left, right float64, format func(float64) string) {
	for _, v := range y.Ticks() {
		c.Line(left, y.At(v), right, y.At(v), gridStroke)
		c.Text(left-8, y.At(v)+4, format(v), End)
	}
}

// Along draws one upwards at each of some figures of a scale from the left to the right.
func (c *Canvas) Along(x Scale, ticks []float64, top, bottom float64, format func(float64) string) {
	for _, v := range ticks {
		c.Line(x.At(v), top, x.At(v), bottom, gridStroke)
		c.Text(x.At(v), bottom+18, format(v), Middle)
	}
}

const gridStroke = "#eaeef2"
