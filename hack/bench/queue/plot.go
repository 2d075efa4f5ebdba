// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// The drawing in pixels.
const (
	barWidth, barHeight = 26, 180
	groupGap            = 40
	leftMargin          = 20
	topMargin           = 50
)

var colours = []string{"#9aa5b1", "#e0a030", "#3a7ca5", "#2a9d5c"}

// plot draws the CPU time of a put for each size, as a share of the dearest.
func (r *report) plot() string {
	width := leftMargin*2 + len(sizes)*(len(contenders)*barWidth+groupGap)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n", width, topMargin+barHeight+50)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="16" font-size="13">CPU of a put, client and server, microseconds</text>`+"\n", leftMargin)
	for i, name := range contenders {
		fmt.Fprintf(&b, `<rect x="%d" y="24" width="10" height="10" fill="%s"/><text x="%d" y="33">%s</text>`+"\n", leftMargin+i*130, colours[i], leftMargin+i*130+14, name)
	}
	for g, size := range sizes {
		most := 0.0
		for _, name := range contenders {
			most = max(most, r.row(size, name).PutCPU)
		}
		left := leftMargin + g*(len(contenders)*barWidth+groupGap)
		for i, name := range contenders {
			cpu := r.row(size, name).PutCPU
			height := cpu / max(most, 1e-9) * (barHeight - 14)
			top := float64(topMargin+barHeight) - height
			fmt.Fprintf(&b, `<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s"/><text x="%d" y="%.1f" text-anchor="middle" font-size="9">%.0f</text>`+"\n",
				left+i*barWidth, top, barWidth-4, height, colours[i], left+i*barWidth+(barWidth-4)/2, top-3, cpu)
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d">%d bytes</text>`+"\n", left, topMargin+barHeight+16, size)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
