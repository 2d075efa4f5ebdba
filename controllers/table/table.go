// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package table formats tables for terminals: aligned columns, and the units in them.
package table

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Rows are the lines of a table. Lines may have different numbers of cells.
type Rows [][]string

// Add appends a line.
func (r *Rows) Add(cells ...string) { *r = append(*r, cells) }

// Addf appends a line with a name and a formatted text.
func (r *Rows) Addf(name, format string, values ...any) { r.Add(name, fmt.Sprintf(format, values...)) }

// Text returns the lines with aligned cells, each after indent and without blanks at its end. Cells are made Printable,
// because what they show comes from a cluster.
func (r Rows) Text(indent string) string {
	var aligned, out strings.Builder
	tabs := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, cells := range r {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(tabs, "\t")
			}
			fmt.Fprint(tabs, Printable(cell))
		}
		fmt.Fprintln(tabs)
	}
	_ = tabs.Flush() // a strings.Builder accepts every write
	for line := range strings.Lines(aligned.String()) {
		out.WriteString(strings.TrimRight(indent+line, " \n") + "\n")
	}
	return out.String()
}

// Printable replaces control characters by blanks, so that text from a cluster neither ends a line nor commands a
// terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// Wrap breaks a text between words, so that lines have at most width characters where words are not longer. Lines after
// the first one start with indent. It is made Printable. A width of 0 breaks nothing.
func Wrap(text, indent string, width int) string {
	text = Printable(text)
	if width <= 0 {
		return text
	}
	var out strings.Builder
	used := 0
	for first := true; ; first = false {
		word := strings.TrimLeft(text, " ")
		blanks := text[:len(text)-len(word)]
		if word == "" {
			return out.String()
		}
		word, text = word[:wordEnd(word)], word[wordEnd(word):]
		length := utf8.RuneCountInString(word)
		if used += len(blanks) + length; used > width && !first {
			blanks, used = "\n"+indent, len(indent)+length
		}
		out.WriteString(blanks + word)
	}
}

// wordEnd is the length of the first word.
func wordEnd(text string) int {
	if i := strings.IndexByte(text, ' '); i >= 0 {
		return i
	}
	return len(text)
}

// Bytes formats a number of bytes, which is not negative, in binary units.
func Bytes[N int64 | float64](n N) string {
	if n < 1024 {
		return fmt.Sprintf("%.0f B", float64(n))
	}
	value, unit := float64(n), -1
	for ; value >= 1024 && unit < 4; unit++ {
		value /= 1024
	}
	return fmt.Sprintf("%.2f %ciB", value, "KMGTP"[unit])
}

// Rate formats bytes a second in decimal units, as networks have them.
func Rate(perSecond float64) string {
	switch {
	case perSecond >= 1e9:
		return fmt.Sprintf("%.2f GB/s", perSecond/1e9)
	case perSecond >= 1e6:
		return fmt.Sprintf("%.1f MB/s", perSecond/1e6)
	default:
		return fmt.Sprintf("%.1f kB/s", perSecond/1e3)
	}
}
