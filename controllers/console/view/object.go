// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
	"github.com/lighterage/lighterage/controllers/overview"
)

// Object is the page of one.
type Object struct {
	Kind, Namespace, Name string
	State                 overview.State
	// Why is what keeps it from its purpose; "" if nothing does.
	Why string
	// Progress of its run; nil where it has none, or no figures.
	Progress *Progress
	// Moving: it is worth a look every two seconds.
	Moving bool
	// Conditions, Pictures and Facts in the order in which they are shown.
	Conditions Table
	Pictures   []Table
	Facts      []Table
	Next       []string
	Notes      []string
	Acts       []Act
}

// ObjectOf is the page of an object, of which there is a report.
func ObjectOf(object explain.Object, report *explain.Report, now time.Time) Object {
	o := Object{
		Kind: report.Kind, Namespace: report.Namespace, Name: report.Name, State: report.State,
		Conditions: conditionsOf(report, now), Acts: Acts(object),
	}
	state, why := overview.StateOf(explain.Conditions(object))
	o.Why = attention(state, why)
	if run := runOf(object); run != nil {
		o.State, o.Moving, o.Progress = run.State, run.Active(), ProgressOf(run)
		if run.Why() != "" {
			o.Why = text(run.Why()).Text
		}
	}
	drawn := pictures(object, report, now)
	o.Pictures = drawn.all
	if report.Explanation != nil {
		for _, s := range report.Tables() {
			o.Facts = append(o.Facts, section(s))
		}
		for _, note := range append(report.Notes, report.Assumptions...) {
			o.Notes = append(o.Notes, text(note).Text)
		}
	}
	for _, s := range report.Sections {
		if !drawn.hides(s.Title) {
			o.Facts = append(o.Facts, section(s))
		}
	}
	for _, next := range report.Next {
		o.Next = append(o.Next, text(next).Text)
	}
	return o
}

// runOf is the run of an object; nil where its kind has none.
func runOf(object explain.Object) *overview.Run {
	switch typed := object.(type) {
	case *v1alpha1.Transfer:
		return new(overview.OfTransfer(typed))
	case *v1alpha1.CompressionTrial:
		return new(overview.OfTrial(typed))
	case *v1alpha1.Delivery:
		return new(overview.OfDelivery(typed))
	}
	return nil
}

func conditionsOf(report *explain.Report, now time.Time) Table {
	t := Table{Title: "Conditions", Columns: columns("Condition", "Status", "#For", "Reason and message")}
	for _, c := range report.Conditions {
		since := unknown
		if c.Since != nil {
			since = Age(now, *c.Since)
		}
		row := t.add(text(c.Type), text(string(c.Status)), text(since), text(strings.Trim(c.Reason+": "+c.Message, ": ")))
		if c.Means != "" {
			row.Why = text("What it means: " + c.Means).Text
			row.Marked = report.State == overview.Failed || report.State == overview.Stalled || report.State == overview.Waiting
		}
	}
	return t
}

// section shows a section of a report. If its first row is in capitals, these are titles of columns.
func section(s explain.Section) Table {
	t := Table{Title: text(s.Title).Text}
	rows := s.Legible()
	if len(rows) > 0 && len(rows[0]) > 2 && strings.ToUpper(rows[0][0]) == rows[0][0] && rows[0][0] != "" {
		var titles []string
		for _, title := range rows[0] {
			titles = append(titles, strings.ToUpper(title[:min(len(title), 1)])+strings.ToLower(title[min(len(title), 1):]))
		}
		t.Columns, rows = columns(titles...), rows[1:]
	}
	for _, cells := range rows {
		var row []Cell
		for _, c := range cells {
			row = append(row, text(c))
		}
		t.add(row...)
	}
	return t
}

// Act is something that may be done to an object.
type Act struct {
	// Name is a word for addresses: run, suspend, pause or resume.
	Name, Title string
	// Effect says what it does.
	Effect string
}

// Acts are those that make sense for an object as it is.
func Acts(object explain.Object) []Act {
	if object.GetDeletionTimestamp() != nil {
		return nil
	}
	switch typed := object.(type) {
	case *v1alpha1.CompressionTrial:
		return []Act{run("CompressionTrial", false)}
	case *v1alpha1.Drill:
		return []Act{run("Drill", typed.Spec.Suspend)}
	case *v1alpha1.Transfer:
		if typed.Spec.Suspend || typed.Spec.Pause {
			return []Act{resume, run("Transfer", true)}
		}
		return []Act{run("Transfer", false), pause, suspend}
	}
	return nil
}

// Names of acts.
const (
	ActRun     = "run"
	ActSuspend = "suspend"
	ActPause   = "pause"
	ActResume  = "resume"
)

var (
	suspend = Act{ActSuspend, "Suspend", "No run and no further attempt of this Transfer starts until it is resumed. " +
		"An attempt that is under way goes on."}
	pause = Act{ActPause, "Pause", "The agents of this Transfer end at once, and nothing starts until it is resumed. Its run " +
		"then goes on: at most one checkpoint interval of each stream is sent again."}
	resume = Act{ActResume, "Resume", "Runs of this Transfer start again. Times of the schedule that passed meanwhile are " +
		"not made up for."}
)

func run(kind string, suspended bool) Act {
	a := Act{ActRun, "Run now", "Another run of this " + kind + " starts as soon as the present one has ended, at once if " +
		"none is under way."}
	if suspended {
		a.Effect = "The " + kind + " is suspended or paused. Another run starts when it is resumed."
	}
	return a
}
