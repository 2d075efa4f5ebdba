// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

const (
	boxWidth, boxHeight = 50.0, 24.0
	mapLeft, mapTop     = 190.0, 84.0
)

// noiseFill is the colour of what is noise.
const noiseFill = "#d1d9e0"

// shade is the colour of a regret in percent, and that of text upon it.
func shade(percent float64) (fill, text string) {
	switch {
	case percent <= 2:
		return "#aceebb", "#1f2328"
	case percent <= 5:
		return "#fae17d", "#1f2328"
	case percent <= 10:
		return "#fb8f44", "#1f2328"
	default:
		return "#cf222e", "#ffffff"
	}
}

// heatMap returns an SVG with a line for each kind of data and number of cores, and a column for each network and
// objective.
func heatMap(rows []row) string {
	var lines, columns []string
	at := map[[3]string]*row{}
	for i := range rows {
		r := &rows[i]
		line, column := lineOf(r), r.Network.String()
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
		if !slices.Contains(columns, column) {
			columns = append(columns, column)
		}
		at[[3]string{line, column, string(r.Objective)}] = r
	}
	group := boxWidth * float64(len(objectives))
	width, height := mapLeft+group*float64(len(columns))+20, mapTop+boxHeight*float64(len(lines))+20
	canvas := harness.NewCanvas(width, height)
	canvas.Text(mapLeft, 22, "By how many percent Auto is worse than the best fixed choice", `font-size="14"`)
	for i, legend := range []struct {
		percent float64
		text    string
	}{{0, "to 2"}, {3, "to 5"}, {7, "to 10"}, {11, "more"}, {-1, "noise"}} {
		fill, _ := shade(legend.percent)
		if legend.percent < 0 {
			fill = noiseFill
		}
		x := mapLeft + 500 + 70*float64(i)
		canvas.Rect(x, 10, 14, 14, fill)
		canvas.Text(x+19, 22, legend.text)
	}
	for j, column := range columns {
		x := mapLeft + group*float64(j)
		canvas.Text(x+group/2, mapTop-28, column, harness.Middle, `font-weight="bold"`)
		for k, o := range objectives {
			canvas.Text(x+boxWidth*(float64(k)+0.5), mapTop-8, string(o), harness.Middle)
		}
	}
	for i, line := range lines {
		y := mapTop + boxHeight*float64(i)
		canvas.Text(mapLeft-8, y+16, line, harness.End)
		for j, column := range columns {
			for k, o := range objectives {
				r := at[[3]string{line, column, string(o)}]
				if r == nil {
					continue
				}
				percent := 100 * r.regret()
				fill, text := shade(percent)
				if !r.counts(percentOver(1+r.regret(), r.RegretInterval), worstBound) {
					fill, text = noiseFill, "#1f2328"
				}
				x := mapLeft + group*float64(j) + boxWidth*float64(k)
				canvas.Rect(x, y, boxWidth, boxHeight, fill, `stroke="#ffffff"`)
				canvas.Text(x+boxWidth/2, y+16, fmt.Sprintf("%.1f", percent), harness.Middle, fmt.Sprintf(`style="fill:%s"`, text))
			}
		}
	}
	return canvas.String()
}

func lineOf(r *row) string {
	switch {
	case r.of() != transfers:
		return fmt.Sprintf("%s, %s of %s", r.Data, r.of(), harness.Grouped(r.Unit))
	case r.Cores == 1:
		return r.Data + ", 1 core"
	}
	return fmt.Sprintf("%s, %d cores", r.Data, r.Cores)
}
