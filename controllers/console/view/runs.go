// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lighterage/lighterage/controllers/overview"
	"github.com/lighterage/lighterage/controllers/table"
)

// Run is one of a cluster.
type Run struct {
	overview.Run

	// Cluster is the number of the cluster, and Context its name.
	Cluster  int
	Context  string
	Resource string
}

// Progress is what a page shows of a run that has figures.
type Progress struct {
	Percent int32
	// Text has figures in words.
	Text string
}

// ProgressOf is the progress of a run; nil where nothing of it is known.
func ProgressOf(r *overview.Run) *Progress {
	if !r.Measured() || r.ID == "" && r.BytesTotal == 0 {
		return nil
	}
	parts := []string{fmt.Sprintf(
		"%s of %s, %d of %d files", table.Bytes(r.Bytes), table.Bytes(r.BytesTotal), r.Files, r.FilesTotal,
	)}
	if r.Active() && r.BytesPerSecond > 0 {
		parts = append(parts, table.Rate(float64(r.BytesPerSecond)))
	}
	if left := r.Left(); left != "" {
		parts = append(parts, left+" left")
	}
	if len(r.Cost) > 0 {
		parts = append(parts, "cost so far "+r.Cost.String())
	}
	return &Progress{Percent: r.Percent, Text: strings.Join(parts, " · ")}
}

// Runs is a table of runs. With several clusters it names those.
func Runs(title string, runs []Run, several bool) Table {
	titles := []string{"Run", "#Progress", "State", "Cluster+", "Other side+", "Phase", "#Rate", "#Left", "#Cost", "Node+"}
	f := newFigure(title, nil, titles...)
	for i := range runs {
		r := &runs[i]
		name := r.Namespace + "/" + r.Name
		if r.Kind != "Transfer" {
			name = r.Kind + " " + name
		}
		percent, rate, phase := unknown, unknown, cmp.Or(r.Phase, string(r.State))
		if r.Measured() {
			percent = fmt.Sprintf("%d %%", r.Percent)
		}
		if r.Active() && r.BytesPerSecond > 0 {
			rate = table.Rate(float64(r.BytesPerSecond))
		}
		if r.Attempt > 1 {
			phase += fmt.Sprintf(", attempt %d", r.Attempt)
		}
		row := f.bar([]float64{float64(r.Percent)}, name, percent, string(r.State), r.Context, cmp.Or(r.Side(), unknown),
			phase, rate, cmp.Or(r.Left(), unknown), cmp.Or(r.Cost.String(), unknown), cmp.Or(r.Node, unknown))
		row.Cells[0].Link = &Link{r.Cluster, r.Resource, r.Namespace, r.Name}
		row.Cells[2].State = r.State
		if why := r.Why(); why != "" {
			row.Why = text(why).Text
		}
	}
	t := f.done()
	// Bars of progress are of 100 percent, not of the longest.
	for i := range runs {
		t.Rows[i].Bar = nil
		if runs[i].Measured() {
			t.Rows[i].Bar = []Part{{Class: bySoftware, Width: float64(min(max(runs[i].Percent, 0), 100))}}
		}
	}
	if !several {
		t.drop(3)
	}
	return t
}

// drop removes a column.
func (t *Table) drop(i int) {
	t.Columns = append(t.Columns[:i:i], t.Columns[i+1:]...)
	for r := range t.Rows {
		cells := t.Rows[r].Cells
		t.Rows[r].Cells = append(cells[:i:i], cells[i+1:]...)
	}
}
