// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
	"github.com/lighterage/lighterage/controllers/overview"
)

// Add notes what an object says of its cluster, which has this number. Deliveries of one cluster are a part of their
// Transfers.
func (s *Side) Add(object explain.Object, cluster int, resource string) {
	run := func(r overview.Run) { s.Runs = append(s.Runs, Run{r, cluster, s.Context, resource}) }
	switch o := object.(type) {
	case *v1alpha1.Peer:
		s.Peers = append(s.Peers, *o)
	case *v1alpha1.Queue:
		s.Queues = append(s.Queues, *o)
	case *v1alpha1.Transfer:
		run(overview.OfTransfer(o))
	case *v1alpha1.CompressionTrial:
		run(overview.OfTrial(o))
	case *v1alpha1.Delivery:
		if o.Spec.Peer != "" {
			run(overview.OfDelivery(o))
		}
	}
}

// Sort puts runs of several clusters in the order in which they are shown.
func Sort(runs []Run) {
	slices.SortStableFunc(runs, func(a, b Run) int {
		return cmp.Or(overview.Compare(&a.Run, &b.Run), cmp.Compare(a.Cluster, b.Cluster))
	})
}

// Kinds is a table of how many objects of each kind are in which state.
func Kinds(title string, cluster int, counts []overview.Count, resource func(kind string) string) Table {
	f := newFigure(title, []string{"failed", "stalled", "waiting", "working", "ready", "resting"}, "Kind", "#Total",
		"#Failed", "#Stalled", "#Waiting+", "#Working+", "#Ready+", "#Resting+")
	f.Palette = "states"
	for _, c := range counts {
		var parts []float64
		cells := []string{fmt.Sprint(c.Total)}
		for _, s := range []overview.State{
			overview.Failed, overview.Stalled, overview.Waiting, overview.Working, overview.Ready, overview.Resting,
		} {
			parts = append(parts, float64(c.States[s]))
			n := unknown
			if c.States[s] > 0 {
				n = fmt.Sprint(c.States[s])
			}
			cells = append(cells, n)
		}
		if c.Note != "" && c.Total == 0 {
			cells[0] = unknown
		}
		row := f.bar(parts, c.Kind, cells...)
		row.Cells[0].Link = &Link{Cluster: cluster, Resource: resource(c.Kind)}
		row.Why = text(c.Note).Text
	}
	return f.done()
}

// Problems is a table of the objects of all sides that somebody should look at, the worst first.
func Problems(sides []Side, statuses []overview.Status, resource func(kind string) string, most int) Table {
	t := Table{Title: "Needs attention", Columns: columns("Object", "State", "Cluster+", "Why")}
	type found struct {
		overview.Problem

		cluster int
	}
	var all []found
	for i := range statuses {
		for _, p := range statuses[i].Problems {
			all = append(all, found{p, i})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return overview.Worse(a.State, b.State) })
	for i, p := range all {
		if i == most {
			t.Notes = append(t.Notes, fmt.Sprintf("and %d more, which the lists of their kinds have", len(all)-i))
			break
		}
		name := text(p.Kind + " " + strings.TrimPrefix(p.Namespace+"/"+p.Name, "/"))
		name.Link = &Link{p.cluster, resource(p.Kind), p.Namespace, p.Name}
		t.add(name, stateCell(p.State), text(sides[p.cluster].Context),
			text(strings.TrimPrefix(p.Reason+": "+p.Message, ": ")))
	}
	return t
}
