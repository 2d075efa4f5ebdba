// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/xml"
	"slices"
	"strings"
	"testing"
)

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		scale Scale
		want  []float64
	}{
		{Scale{From: 3, To: 60, Log: true}, []float64{5, 10, 20, 50}},
		{Scale{From: 0, To: 550}, []float64{0, 100, 200, 300, 400, 500}},
		{Scale{From: 0, To: 12}, []float64{0, 2, 4, 6, 8, 10, 12}},
	} {
		if got := c.scale.Ticks(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c.scale, got)
		}
	}
}

// TestCharts: they are XML, with all that was measured and nothing else.
func TestCharts(t *testing.T) {
	bars := func(group, name int) float64 { return []float64{0, 1, 2, 4}[2*group+name] }
	lines := Lines{
		Title: "T", Along: "x & y", X: []float64{10, 100, 1000}, Limit: 9,
		Series: []Series{
			{Label: "a<b", Colour: Colours[0], Y: []float64{1, 2, 3}},
			{Label: "c", Colour: Colours[1], Y: []float64{0, 2, 3}, Dashed: true},
		},
	}
	c := NewCanvas(500, 300)
	lines.Draw(c, 50, 50, 400, 250)
	lines.Log = true
	d := NewCanvas(500, 300)
	lines.Draw(d, 50, 50, 400, 250)
	nothing := NewCanvas(500, 300)
	Lines{Title: "T", X: []float64{1}, Series: []Series{{Y: []float64{0}}}}.Draw(nothing, 0, 0, 1, 1)
	for name, one := range map[string]struct {
		svg, element string
		want         int
	}{
		"bars": {DrawBars(
			Bars{Title: "A", Groups: []string{"g", "h"}, Names: []string{"n", "m"}, Value: bars, Format: "%.0f"},
			Bars{Title: "B", Groups: []string{"g", "h"}, Names: []string{"n", "m"}, Value: bars, Format: "%.0f", Shared: true},
		), "<rect", 1 + 2*(2+3)},
		"lines":   {c.String(), "<circle", 5},
		"log":     {d.String(), "<polyline", 2},
		"nothing": {nothing.String(), "<polyline", 0},
	} {
		if err := xml.Unmarshal([]byte(one.svg), new(struct{ XMLName xml.Name })); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := strings.Count(one.svg, one.element); got != one.want {
			t.Errorf("%s: %d of %s, want %d", name, got, one.element, one.want)
		}
		if strings.Contains(one.svg, "NaN") || strings.Contains(one.svg, "Inf") {
			t.Errorf("%s: a place is no number", name)
		}
	}
}
