// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

func timed(at time.Time) v1alpha1.TransferDeadline {
	return v1alpha1.TransferDeadline{Time: &metav1.Time{Time: at}}
}

// asks for a run, which has an identifier.
func (d *dated) asks(id string) {
	d.transfer.Annotations, d.facts.NewRunID = map[string]string{v1alpha1.RunAnnotation: id}, id
}

// starts expects a look to start a run, and returns its objective.
func (d *dated) starts(now, reason, by, predicted string) v1alpha1.CompressionObjective {
	d.t.Helper()
	out := d.expect(now, reason, by, predicted)
	if out.Start == nil {
		d.t.Fatalf("at %s nothing starts: %+v", now, out.Status)
	}
	return out.Status.Policy.Objective
}

// A run that is awaited while the Transfer rests is late by itself, and says nothing of the one before.
func TestDeadlineOfARest(t *testing.T) {
	for name, rest := range map[string]func(*v1alpha1.TransferSpec) *bool{
		"suspend": func(s *v1alpha1.TransferSpec) *bool { return &s.Suspend },
		"pause":   func(s *v1alpha1.TransferSpec) *bool { return &s.Pause },
	} {
		t.Run(name, func(t *testing.T) {
			for _, first := range []bool{false, true} {
				d := newDated(t, "0 12 * * *", within(12*time.Hour))
				predicted := ""
				if !first {
					d.ran(time.Hour, 1000, 100)
					predicted = "04 23:00"
				}
				d.at("04 11:00")
				before := "DeadlineInReach"
				if first {
					before = "DeadlineUnpredicted"
				}
				d.expect("04 12:00", before, "05 00:00", predicted)
				*rest(&d.transfer.Spec) = true
				d.expect("04 12:10", "DeadlineUnpredicted", "05 00:00", "")
				d.expect("05 00:00", "DeadlineMissed", "05 00:00", "")
				*rest(&d.transfer.Spec) = false
				if !first { // a time that passed in a rest is not made up for
					d.expect("05 11:00", "", "", "")
					d.expect("05 12:00", "DeadlineInReach", "06 00:00", "05 23:00")
				}
			}
		})
	}
	// What ended before the rest is still judged.
	d := newDated(t, "", within(2*time.Hour))
	d.starts("04 22:00", "DeadlineUnpredicted", "05 00:00", "")
	d.runs(moving())
	d.succeeds("04 23:00")
	d.transfer.Spec.Suspend = true
	d.expect("05 12:00", "DeadlineKept", "05 00:00", "")
}

// A run is judged by the deadline that it had while it was open.
func TestDeadlineAfterARun(t *testing.T) {
	d := newDated(t, "", timed(minute(t, "05-08 12:00").Add(500*time.Millisecond)))
	d.transfer.Spec.Compression = &v1alpha1.Compression{Objective: v1alpha1.ObjectiveCPU}
	d.ran(time.Hour, 1000, 100)
	d.expect("04 12:00", "DeadlineUnpredicted", "08 12:00", "")
	since := d.transfer.Status.Deadline.StartTime
	d.expect("04 13:00", "DeadlineUnpredicted", "08 12:00", "")
	if again := d.transfer.Status.Deadline.StartTime; !again.Equal(since) {
		t.Errorf("since %s, and then since %s", since, again)
	}
	d.asks("first")
	d.starts("04 22:00", "DeadlineInReach", "08 12:00", "04 23:00")
	d.runs(moving())
	d.succeeds("04 23:00")
	d.expect("05 12:00", "DeadlineKept", "08 12:00", "")
	// Later ones have none, and are not hurried for it.
	for _, at := range []string{"05", "09"} {
		d.asks("later" + at)
		if is := d.starts(at+" 22:00", "DeadlineKept", "08 12:00", ""); is != v1alpha1.ObjectiveCPU {
			t.Errorf("on %s its objective is %s", at, is)
		}
		if d.transfer.Status.Deadline.RunID != "first" {
			t.Errorf("%+v", d.transfer.Status.Deadline)
		}
		d.runs(moving())
		d.succeeds(at + " 23:00")
	}

	d = newDated(t, "", within(2*time.Hour))
	d.starts("04 22:00", "DeadlineUnpredicted", "05 00:00", "")
	d.runs(moving())
	d.succeeds("04 23:00")
	d.transfer.Spec.Deadline.Within.Duration = time.Minute
	d.expect("05 12:00", "DeadlineKept", "05 00:00", "")
}

// The run that was complete after a time ends what that asks for, and no run is hurried when it has passed.
func TestDeadlineTimeThatPassed(t *testing.T) {
	d := newDated(t, "", timed(minute(t, "05-04 12:00")))
	d.transfer.Spec.Compression = &v1alpha1.Compression{Objective: v1alpha1.ObjectiveCPU}
	d.ran(time.Hour, 1000, 100)
	for _, id := range []string{"late", "later"} {
		reason, predicted := "DeadlineMissed", "04 23:00"
		if id == "later" {
			reason, predicted = "", ""
		}
		d.asks(id)
		if is := d.starts("04 22:00", reason, "04 12:00", predicted); is != v1alpha1.ObjectiveCPU {
			t.Errorf("the objective of %s is %s", id, is)
		}
		d.runs(moving())
		d.succeeds("04 23:00")
		d.expect("04 23:10", reason, "04 12:00", "")
	}
}

// After its deadline a run without figures says the same at each look.
func TestMissedDeadlineWithoutFigures(t *testing.T) {
	d := newDated(t, "", within(time.Hour))
	d.starts("04 22:00", "DeadlineUnpredicted", "04 23:00", "")
	_, seen := reporting(nil)
	d.facts.Job, d.facts.Pod = seen.Job, seen.Pod
	first := d.expect("04 23:00", "DeadlineMissed", "04 23:00", "")
	if again := d.expect("04 23:10", "DeadlineMissed", "04 23:00", ""); !equality.Semantic.DeepEqual(
		again.Status, first.Status) {
		t.Errorf("%+v, then %+v", first.Status, again.Status)
	}
}

// Nor is a Transfer that never ran and is suspended wanted since each look.
func TestDeadlineTimeOfNoRun(t *testing.T) {
	d := newDated(t, "", timed(minute(t, "05-05 12:00")))
	d.transfer.Spec.Suspend = true
	first := d.expect("04 12:00", "DeadlineUnpredicted", "05 12:00", "")
	if again := d.expect("04 12:10", "DeadlineUnpredicted", "05 12:00", ""); !equality.Semantic.DeepEqual(
		again.Status, first.Status) {
		t.Errorf("%+v, then %+v", first.Status.Deadline, again.Status.Deadline)
	}
}

// A rate that goes up and down changes neither side of the deadline nor, by itself, the status.
func TestForecastIsSteady(t *testing.T) {
	d := newDated(t, "", within(85*time.Minute))
	d.ran(time.Hour, 1000, 100)
	d.asks("abcde")
	d.starts("04 22:00", "DeadlineInReach", "04 23:25", "04 23:00")
	d.runs(moving())
	sent := func(bytes uint64) {
		d.facts.Report.Progress.Bytes = bytes
		d.facts.Report.Compression = &wirev1.Compression{UncompressedBytes: bytes, CompressedBytes: bytes / 10}
	}
	for _, c := range []struct {
		sent              uint64
		reason, predicted string
	}{
		{100, "DeadlineInReach", "04 23:24"},
		{60, "DeadlineInReach", "04 23:25"},    // 23:26:24 is hardly later
		{20, "DeadlineOutOfReach", "04 23:28"}, // and this is
		{100, "DeadlineOutOfReach", "04 23:25"},
		{60, "DeadlineOutOfReach", "04 23:25"},
		{200, "DeadlineInReach", "04 23:18"},
	} {
		sent(c.sent)
		d.expect("04 22:30", c.reason, "04 23:25", c.predicted)
	}
	sent(400)
	d.facts.Early = true
	if out := plan.DecideTransfer(d.transfer, d.facts, image); !out.Later {
		t.Errorf("it is written early: %+v", out.Status.Deadline)
	}
	d.facts.Early = false
	sent(1000)
	d.expect("04 22:40", "DeadlineInReach", "04 23:25", "04 22:40")
	d.expect("04 22:41", "DeadlineInReach", "04 23:25", "04 22:40")
}

// An attempt that was lost counts from the start of its run, and what the others took is counted once.
func TestForecastOfLostAttempts(t *testing.T) {
	d := newDated(t, "", within(12*time.Hour))
	d.ran(time.Hour, 1000, 100)
	ended := func(number int32, from, to int, reason string) v1alpha1.AttemptRecord {
		at := func(hour int) *metav1.Time {
			return &metav1.Time{Time: minute(t, "05-01 00:00").Add(time.Duration(hour) * time.Hour)}
		}
		return v1alpha1.AttemptRecord{
			RunID: "older", Attempt: number, Reason: reason, StartTime: at(from), CompletionTime: at(to),
			Duration: &metav1.Duration{Duration: time.Duration(to-from) * time.Hour},
		}
	}
	d.transfer.Status.History = []v1alpha1.AttemptRecord{
		ended(3, 2, 3, v1alpha1.ReasonSucceeded), ended(2, 0, 2, "Lost"), ended(1, 0, 1, "Evicted"),
	}
	d.asks("abcde")
	d.starts("04 22:00", "DeadlineInReach", "05 10:00", "05 01:00")
	if c := meta.FindStatusCondition(d.transfer.Status.Conditions, v1alpha1.ConditionWithinDeadline); c == nil {
		t.Error("there is no condition")
	}
}
