// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestLabels places labels in crowds such as measurements make.
func TestLabels(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(1, seed))
		var points []point
		for i := range 20 {
			points = append(
				points,
				point{
					label: fmt.Sprintf("engine-%d Balanced", i%7), speed: 20 + r.Float64()*r.Float64()*900,
					ratio: 0.25 + r.Float64()*0.1,
				},
			)
		}
		a := axesOf(points)
		places := placeLabels(points, a)
		for i, place := range places {
			if place.left < 0 || place.right > plotWidth || place.top < 0 || place.bottom > plotHeight {
				t.Errorf("crowd %d: %s is outside: %+v", seed, points[i].label, place)
			}
			for j, other := range places {
				if i != j && place.overlaps(other) {
					t.Errorf("crowd %d: labels %d and %d overlap", seed, i, j)
				}
			}
			for j, p := range points {
				if x, y := a.x(p.speed), a.y(p.ratio); place.overlaps(
					rectangle{x - dotRadius, y - dotRadius, x + dotRadius, y + dotRadius},
				) {
					t.Errorf("crowd %d: label %d lies over point %d", seed, i, j)
				}
			}
		}
	}
}

func TestDraw(t *testing.T) {
	for _, points := range [][]point{
		nil,
		{{label: "one", speed: 100, ratio: 0.3}},
		{
			{label: "e Fast", speed: 100, ratio: 0.3, joins: "e"},
			{label: "e High", speed: 30, ratio: 0.25, joins: "e"},
			{label: "peer", speed: 90, ratio: 0.4, family: peer},
		},
	} {
		svg := draw(points)
		if err := xml.Unmarshal([]byte(svg), new(struct{ XMLName xml.Name })); err != nil {
			t.Errorf("%d points: %v", len(points), err)
		}
		for _, p := range points {
			if !strings.Contains(svg, ">"+p.label+"</text>") {
				t.Errorf("%s has no label", p.label)
			}
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%d points: a place is no number", len(points))
		}
	}
}
