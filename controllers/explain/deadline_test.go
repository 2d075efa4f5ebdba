// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
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
