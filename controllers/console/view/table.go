// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lighterage/lighterage/controllers/overview"
	"github.com/lighterage/lighterage/controllers/table"
)

const (
	// unknown is what stands for figures that are not known.
	unknown = "-"
	// longest text of a cell. Messages of conditions have 32 KiB at most, names 253 characters.
	longest = 2000
)

// Table has a title and rows of cells. With Legend, each row has a bar: the table is that of a picture.
type Table struct {
	Title   string
	Columns []Column
	Rows    []Row
	// Legend names the parts of bars, in their order; those of one part need none.
	Legend []string
	// Bars: rows have one, which is drawn in the second column.
	Bars bool
	// Palette is "states" where the parts of bars are states.
	Palette string
	// Notes say what is missing.
	Notes []string
}

// Column is one of a Table.
type Column struct {
	Title string
	// Number: cells are aligned at the right.
	Number bool
	// Wide: the column is shown where there is space for it only.
	Wide bool
}

// Row is one of a Table.
type Row struct {
	Cells []Cell
	Bar   []Part
	// Why is a text of its own below the row.
	Why string
	// Marked: it is the one that the others are compared with.
	Marked bool
}

// Cell is a text, the object that it is about, and the state that it tells.
type Cell struct {
	Text  string
	Link  *Link
	State overview.State
	// Wide: as that of the column.
	Wide, Number bool
}

// Link is to the page of an object.
type Link struct {
	// Cluster is the number of the cluster, as the console counts them.
	Cluster                   int
	Resource, Namespace, Name string
}

// Part is one of a bar: where it begins and how wide it is, in percent of the longest bar of the picture.
type Part struct {
	// Class is the place in the legend.
	Class    int
	X, Width float64
}

func text(s string) Cell {
	s = table.Printable(s)
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "..."
	}
	return Cell{Text: s}
}

func stateCell(s overview.State) Cell { return Cell{Text: string(s), State: s} }

// columns are read from titles: one that begins with # has numbers, one that ends with + is wide.
func columns(titles ...string) []Column {
	all := make([]Column, 0, len(titles))
	for _, title := range titles {
		c := Column{Number: strings.HasPrefix(title, "#"), Wide: strings.HasSuffix(title, "+")}
		c.Title = strings.TrimSuffix(strings.TrimPrefix(title, "#"), "+")
		all = append(all, c)
	}
	return all
}

// Half reports whether the table needs half of a wide page only.
func (t Table) Half() bool { return len(t.Columns) <= 5 }

// add appends a row, whose cells take after their columns. Bars have no cell.
func (t *Table) add(cells ...Cell) *Row {
	row := Row{Cells: slices.Clone(cells)}
	for i := range row.Cells {
		if i < len(t.Columns) {
			row.Cells[i].Wide, row.Cells[i].Number = t.Columns[i].Wide, t.Columns[i].Number
		}
	}
	t.Rows = append(t.Rows, row)
	return &t.Rows[len(t.Rows)-1]
}

// figure is a Table with bars that is being made.
type figure struct {
	Table

	values [][]float64
}

func newFigure(title string, legend []string, titles ...string) *figure {
	return &figure{Table: Table{Title: title, Columns: columns(titles...), Legend: legend, Bars: true}}
}

// bar appends a row whose bar has these parts.
func (f *figure) bar(parts []float64, label string, cells ...string) *Row {
	all := []Cell{text(label)}
	for _, c := range cells {
		all = append(all, text(c))
	}
	f.values = append(f.values, parts)
	return f.add(all...)
}

// done scales the bars to the longest. What is no number, or negative, is 0.
func (f *figure) done() Table {
	most := 0.0
	for _, parts := range f.values {
		sum := 0.0
		for i := range parts {
			if math.IsNaN(parts[i]) || parts[i] < 0 || parts[i] > math.MaxFloat64/1e9 {
				parts[i] = 0
			}
			sum += parts[i]
		}
		most = max(most, sum)
	}
	for i, parts := range f.values {
		at := 0.0
		for class, value := range parts {
			if value <= 0 {
				continue
			}
			width := value / most * 100
			f.Rows[i].Bar = append(f.Rows[i].Bar, Part{Class: class, X: at, Width: width})
			at += width
		}
	}
	return f.Table
}

// Age is how long ago something was: 12s, 4m, 3h, 9d.
func Age(now, then time.Time) string {
	d := now.Sub(then)
	switch {
	case then.IsZero():
		return unknown
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return d.Truncate(time.Second).String()
	case d < 2*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Hour).String(), "0m0s")
	}
	return strings.TrimSuffix((d/24).Truncate(time.Hour).String(), "h0m0s") + "d"
}
