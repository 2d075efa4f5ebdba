// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"strings"
	"testing"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
)

// TestEndings: when another choice would have ended is told where there is a deadline, by windows and limits.
func TestEndings(t *testing.T) {
	for _, choice := range explained(t, cases["complete"]).Choices {
		if choice.End != nil {
			t.Errorf("%+v", choice)
		}
	}
	ends := func(change func(*v1alpha1.Transfer)) (late, inTime int) {
		e := explained(t, func(in *explain.Input) {
			cases["with-a-deadline"](in)
			change(in.Transfer)
		})
		for _, c := range e.Choices {
			switch {
			case c.End == nil:
			case c.End.After(e.Deadline.Time.Time):
				late++
			default:
				inTime++
			}
			if c.End != nil && c.End.Before(e.Run.Start.Add(time.Duration(*c.Elapsed)*time.Second)) {
				t.Errorf("%s ends at %s", c.Engine, c.End)
			}
		}
		return late, inTime
	}
	if late, inTime := ends(func(*v1alpha1.Transfer) {}); late == 0 || inTime == 0 {
		t.Errorf("%d are late and %d in time", late, inTime)
	}
	if late, inTime := ends(func(t *v1alpha1.Transfer) {
		t.Spec.Schedule = &v1alpha1.TransferSchedule{Windows: []v1alpha1.ScheduleWindow{{Start: "22:00", End: "23:00"}}}
	}); late == 0 || inTime != 0 {
		t.Errorf("outside of windows %d are late and %d in time", late, inTime)
	}
	if late, inTime := ends(func(t *v1alpha1.Transfer) { t.Status.Run.CompletionTime = nil }); late+inTime != 0 {
		t.Errorf("while it runs %d are late and %d in time", late, inTime)
	}
}

// TestEndingsOfAnotherRun: the deadline of a run that is awaited, or was before, says nothing of this one.
func TestEndingsOfAnotherRun(t *testing.T) {
	for _, id := range []string{"", "other"} {
		e := explained(t, func(in *explain.Input) {
			cases["with-a-deadline"](in)
			in.Transfer.Status.Deadline.RunID = id
		})
		for _, c := range e.Choices {
			if c.End != nil {
				t.Errorf("%q: %+v", id, c)
			}
		}
		if e.Deadline != nil {
			t.Errorf("%q: %+v", id, e.Deadline)
		}
	}
}

// TestPlanned: what strategy Cheapest planned is told with what else it could have cost, or why there is no plan.
func TestPlanned(t *testing.T) {
	in := base()
	in.Transfer.Status.Deadline = &v1alpha1.DeadlineStatus{Time: *at(7200), Plan: &v1alpha1.DeadlinePlan{
		StartTime: *at(3600), PredictedTime: *at(4200), Objective: v1alpha1.ObjectiveCost, Currency: "EUR",
		ExpectedCost: "0.5000", NodeSelector: map[string]string{"class": "spot"},
		Alternatives: []v1alpha1.DeadlineAlternative{{
			Name: v1alpha1.DeadlineNow, StartTime: *at(0), PredictedTime: *at(600), ExpectedCost: "2.0000",
		}},
	}}
	_, text := explainObject(t, in.Transfer)
	for _, want := range []string{
		"2026-01-02T03:00:00Z", "2026-01-02T03:10:00Z", "0.5000 EUR", "class=spot", "Now",
		"2026-01-02T02:10:00Z", "2.0000 EUR",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	in.Transfer.Status.Deadline.Plan, in.Transfer.Status.Deadline.Message = nil, "no Tariff applies"
	if _, text := explainObject(t, in.Transfer); !strings.Contains(text, "no Tariff applies") {
		t.Error(text)
	}
}
