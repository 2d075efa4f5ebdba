// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/lighterage/lighterage/controllers/console/view"
	"github.com/lighterage/lighterage/controllers/explain"
	"github.com/lighterage/lighterage/controllers/overview"
)

const (
	// mostProblems and mostRuns are shown on a page. All are counted.
	mostProblems = 50
	mostRuns     = 200
	// Seconds after which pages are looked at again.
	often, seldom = 2, 10
)

// kindOf finds a kind by its name, and kindAt by its resource.
func (s *Server) kindOf(name string) (Kind, bool) {
	i := slices.IndexFunc(s.kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return s.kinds[i], true
}

func (s *Server) kindAt(resource string) (Kind, bool) {
	i := slices.IndexFunc(s.kinds, func(k Kind) bool { return k.Resource == resource })
	if i < 0 {
		return Kind{}, false
	}
	return s.kinds[i], true
}

// looked is what was read of a cluster.
type looked struct {
	side   view.Side
	status overview.Status
}

// look reads kinds of a cluster, one after the other; what fails is named.
func (s *Server) look(ctx context.Context, cluster int, kinds []Kind) looked {
	l := looked{side: view.Side{Context: s.clusters[cluster].Name(), Resource: "peers"}}
	var facts overview.Facts
	var failed string
	readable := 0
	for _, k := range kinds {
		objects, cut, err := s.read(ctx, cluster, k)
		kind := overview.Kind{Name: k.Name, Cut: cut}
		if err != nil {
			failed = cmp.Or(failed, trouble(err))
			kind.Objects.Err = errors.New(trouble(err))
			facts.Kinds = append(facts.Kinds, kind)
			continue
		}
		readable++
		for _, o := range objects {
			kind.Objects.Value = append(kind.Objects.Value, overview.Object{
				Namespace: o.GetNamespace(), Name: o.GetName(), Conditions: explain.Conditions(o),
			})
			l.side.Add(o, cluster, k.Resource)
		}
		facts.Kinds = append(facts.Kinds, kind)
	}
	if readable == 0 {
		l.side.Trouble = failed
	}
	for i := range l.side.Runs {
		facts.Runs = append(facts.Runs, l.side.Runs[i].Run)
	}
	l.status = overview.Summarise(&facts)
	return l
}

// lookAt reads kinds of all clusters at once.
func (s *Server) lookAt(ctx context.Context, kinds []Kind) []looked {
	all := make([]looked, len(s.clusters))
	var wait sync.WaitGroup
	for i := range s.clusters {
		wait.Go(func() { all[i] = s.look(ctx, i, kinds) })
	}
	wait.Wait()
	return all
}

type overviewBody struct {
	Wide, Narrow view.Drawing
	Flows        view.Table
	Problems     view.Table
	Runs         view.Table
	Kinds        []view.Table
	Clusters     int
}

func (s *Server) overview(w http.ResponseWriter, r *http.Request) {
	all := s.lookAt(r.Context(), s.kinds)
	sides := make([]view.Side, 0, len(all))
	statuses := make([]overview.Status, 0, len(all))
	for i := range all {
		sides = append(sides, all[i].side)
		statuses = append(statuses, all[i].status)
	}
	network := view.NetworkOf(sides)
	runs, notes := s.underWay(all)
	body := overviewBody{
		Wide: network.Draw(860), Narrow: network.Draw(336), Flows: network.Table(), Clusters: len(all),
		Problems: view.Problems(sides, statuses, s.resourceOf, mostProblems),
		Runs:     view.Runs("Runs under way", cut(runs, mostRuns), len(all) > 1),
	}
	body.Runs.Notes = append(notes, more(len(runs), mostRuns)...)
	for i := range all {
		body.Kinds = append(body.Kinds, view.Kinds(sides[i].Context, i, statuses[i].Kinds, s.resourceOf))
	}
	s.render(w, r, http.StatusOK, "overview", page{
		Title: "Overview", Here: "/", Refresh: often, Said: said(runs), Body: body,
	})
}

// resourceOf is the resource of a kind.
func (s *Server) resourceOf(kind string) string {
	k, _ := s.kindOf(kind)
	return k.Resource
}

// underWay are the runs of all clusters that have not ended, and what is missing of them.
func (s *Server) underWay(all []looked) (runs []view.Run, notes []string) {
	for i := range all {
		for j := range all[i].side.Runs {
			if run := &all[i].side.Runs[j]; !run.Idle() {
				runs = append(runs, *run)
			}
		}
		notes = append(notes, s.missing(all[i])...)
	}
	view.Sort(runs)
	return runs, notes
}

// missing says which runs of a cluster are not shown.
func (s *Server) missing(l looked) []string {
	if l.side.Trouble != "" {
		return []string{"cluster " + l.side.Context + ": " + l.side.Trouble}
	}
	var notes []string
	for _, note := range l.status.RunNotes {
		notes = append(notes, "cluster "+l.side.Context+": "+note)
	}
	return notes
}

type runsBody struct {
	Runs, Ended view.Table
	Sum         string
}

// runs shows what runs, and what has ended.
func (s *Server) runs(w http.ResponseWriter, r *http.Request) {
	var kinds []Kind
	for _, k := range s.kinds {
		if overview.HasRuns(k.Name) {
			kinds = append(kinds, k)
		}
	}
	all := s.lookAt(r.Context(), kinds)
	several := len(all) > 1
	active, notes := s.underWay(all)
	var ended []view.Run
	for i := range all {
		for j := range all[i].side.Runs {
			if run := &all[i].side.Runs[j]; run.Idle() {
				ended = append(ended, *run)
			}
		}
	}
	view.Sort(ended)
	body := runsBody{
		Runs:  view.Runs("Under way, or waiting", cut(active, mostRuns), several),
		Ended: view.Runs("Ended, scheduled, suspended or paused", cut(ended, mostRuns), several), Sum: said(active),
	}
	body.Runs.Notes = append(notes, more(len(active), mostRuns)...)
	body.Ended.Notes = more(len(ended), mostRuns)
	s.render(w, r, http.StatusOK, "runs", page{
		Title: "Runs", Here: "/runs", Refresh: often, Said: strings.SplitN(said(active), ";", 2)[0], Body: body,
	})
}

// said sums runs up.
func said(runs []view.Run) string {
	all := make([]overview.Run, 0, len(runs))
	for i := range runs {
		all = append(all, runs[i].Run)
	}
	return overview.Sum(all)
}

func cut(runs []view.Run, most int) []view.Run { return runs[:min(len(runs), most)] }

func more(n, most int) []string {
	if n <= most {
		return nil
	}
	return []string{fmt.Sprintf("and %d more, which the lists of their kinds have", n-most)}
}
