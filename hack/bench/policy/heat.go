// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

const (
	boxWidth, boxHeight = 50.0, 24.0
	mapLeft, mapTop     = 130.0, 84.0
)

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
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="12" fill="#1f2328">
<rect width="%g" height="%g" fill="#ffffff"/>
<text x="%g" y="22" font-size="14">By how many percent Auto is worse than the best fixed choice</text>
`, width, height, width, height, mapLeft)
	for i, legend := range []struct {
		percent float64
		text    string
	}{{0, "to 2"}, {3, "to 5"}, {7, "to 10"}, {11, "more"}} {
		fill, _ := shade(legend.percent)
		x := mapLeft + 500 + 70*float64(i)
		fmt.Fprintf(
			&b, `<rect x="%g" y="10" width="14" height="14" fill="%s"/><text x="%g" y="22">%s</text>`+"\n", x, fill, x+19,
			legend.text,
		)
	}
	for j, column := range columns {
		x := mapLeft + group*float64(j)
		fmt.Fprintf(
			&b, `<text x="%g" y="%g" text-anchor="middle" font-weight="bold">%s</text>`+"\n", x+group/2, mapTop-28, column,
		)
		for k, o := range objectives {
			fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="middle">%s</text>`+"\n", x+boxWidth*(float64(k)+0.5), mapTop-8, o)
		}
	}
	for i, line := range lines {
		y := mapTop + boxHeight*float64(i)
		fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="end">%s</text>`+"\n", mapLeft-8, y+16, line)
		for j, column := range columns {
			for k, o := range objectives {
				r := at[[3]string{line, column, string(o)}]
				if r == nil {
					continue
				}
				percent := 100 * r.regret()
				fill, text := shade(percent)
				x := mapLeft + group*float64(j) + boxWidth*float64(k)
				fmt.Fprintf(&b, `<rect x="%g" y="%g" width="%g" height="%g" fill="%s" stroke="#ffffff"/><text x="%g" y="%g" text-anchor="middle" fill="%s">%.1f</text>`+"\n",
					x, y, boxWidth, boxHeight, fill, x+boxWidth/2, y+16, text, percent)
			}
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func lineOf(r *row) string {
	if r.Cores == 1 {
		return r.Data + ", 1 core"
	}
	return fmt.Sprintf("%s, %d cores", r.Data, r.Cores)
}
