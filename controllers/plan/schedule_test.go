// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// clockwork decides about one Transfer at one time after another.
type clockwork struct {
	t        *testing.T
	transfer *v1alpha1.Transfer
}

func scheduled(t *testing.T, cron, zone string) *clockwork {
	transfer := newTransfer("ledger", time.Hour)
	transfer.Spec.Schedule = &v1alpha1.TransferSchedule{Cron: cron, TimeZone: zone}
	return &clockwork{t, transfer}
}

// at decides and reports whether a run was started.
func (c *clockwork) at(when time.Time) (started bool, out plan.TransferDecision) {
	c.t.Helper()
	facts := goodFacts()
	facts.Now = when
	out = plan.DecideTransfer(c.transfer, facts, image)
	c.transfer.Status = out.Status
	return out.Start != nil, out
}

// end ends the run that is under way.
func (c *clockwork) end(when time.Time) {
	done := metav1.NewTime(when)
	c.transfer.Status.Run.CompletionTime = &done
	c.transfer.Status.Phase = v1alpha1.TransferComplete
}

func (c *clockwork) want(missed int64, next string) {
	c.t.Helper()
	s := c.transfer.Status.Schedule
	if s == nil || s.MissedRuns != missed {
		c.t.Fatalf("schedule %+v, want %d missed runs", s, missed)
	}
	got := ""
	if s.NextTime != nil {
		got = s.NextTime.UTC().Format(time.RFC3339)
	}
	if got != next {
		c.t.Fatalf("the next run is at %q, want %q", got, next)
	}
}

func TestScheduleStartsRuns(t *testing.T) {
	c := scheduled(t, "0 4 * * *", "")
	day := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	started, out := c.at(day.Add(3 * time.Hour))
	if started || out.RequeueAfter != time.Hour {
		t.Fatalf("before the first time: started %v, requeue after %v", started, out.RequeueAfter)
	}
	if _, reason, message := verdict(t, out.Status.Conditions); reason != v1alpha1.ReasonScheduled ||
		!strings.Contains(message, "2026-05-04T04:00:00Z") ||
		out.Status.Phase != v1alpha1.TransferScheduled ||
		meta.IsStatusConditionTrue(out.Status.Conditions, v1alpha1.ConditionComplete) {
		t.Errorf("%s, %s: %s", out.Status.Phase, reason, message)
	}
	c.want(0, "2026-05-04T04:00:00Z")
	if started, _ := c.at(day.Add(4*time.Hour - time.Second)); started {
		t.Error("started a second early")
	}
	if started, _ := c.at(day.Add(4 * time.Hour)); !started {
		t.Fatal("not started in time")
	}
	c.want(0, "2026-05-05T04:00:00Z")
	c.end(day.Add(5 * time.Hour))
	if started, out := c.at(day.Add(5 * time.Hour)); started || out.RequeueAfter != 23*time.Hour {
		t.Errorf("after the run: started %v, requeue after %v", started, out.RequeueAfter)
	}
	if started, _ := c.at(day.Add(28 * time.Hour)); !started {
		t.Error("the second run was not started")
	}
}

func TestRunsDoNotOverlap(t *testing.T) {
	c := scheduled(t, "@hourly", "")
	c.at(now)
	c.at(now.Add(time.Hour))
	run := c.transfer.Status.Run.ID
	for i := range 3 {
		if c.at(now.Add(time.Duration(i+2) * time.Hour)); c.transfer.Status.Run.ID != run ||
			c.transfer.Status.Run.Attempt != 1 {
			t.Fatal("another run began")
		}
	}
	c.want(3, "2026-05-04T08:00:00Z")
	c.end(now.Add(4 * time.Hour))
	if started, _ := c.at(now.Add(5 * time.Hour)); !started {
		t.Error("not started after the long run")
	}
	c.want(3, "2026-05-04T09:00:00Z")
}

// After the manager was away one run makes up for all that were missed.
func TestManagerWasAway(t *testing.T) {
	c := scheduled(t, "@hourly", "")
	c.at(now)
	if started, _ := c.at(now.Add(5 * time.Hour)); !started {
		t.Error("not started")
	}
	c.want(4, "2026-05-04T09:00:00Z")

	c = scheduled(t, "* * * * *", "")
	c.at(now)
	if started, _ := c.at(now.AddDate(1, 0, 0)); !started {
		t.Error("not started after a year")
	}
	c.want(9999, "2027-05-04T03:03:00Z")
}

func TestScheduledRunThatCannotBegin(t *testing.T) {
	c := scheduled(t, "@hourly", "")
	c.at(now)
	facts := goodFacts()
	facts.Peer = nil
	for i := range 2 {
		facts.Now = now.Add(time.Duration(i+1) * time.Hour)
		out := plan.DecideTransfer(c.transfer, facts, image)
		c.transfer.Status = out.Status
		if out.Start != nil || out.Status.Phase != v1alpha1.TransferPending {
			t.Fatalf("started %v, %s", out.Start != nil, out.Status.Phase)
		}
	}
	c.want(1, "2026-05-04T06:00:00Z")
	if started, _ := c.at(now.Add(2*time.Hour + time.Minute)); !started {
		t.Error("not started when the peer is there")
	}
}

func TestSuspend(t *testing.T) {
	c := scheduled(t, "@hourly", "")
	c.transfer.Spec.Suspend = true
	for i := range 3 {
		started, out := c.at(now.Add(time.Duration(i) * time.Hour))
		if started || out.RequeueAfter != 0 {
			t.Fatalf("started %v, requeue after %v", started, out.RequeueAfter)
		}
		if condition, _, _ := verdict(t, out.Status.Conditions); condition != "" ||
			out.Status.Phase != v1alpha1.TransferSuspended {
			t.Fatalf("%s is True in phase %s", condition, out.Status.Phase)
		}
	}
	c.want(0, "")
	c.transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "please"}
	if started, _ := c.at(now.Add(3 * time.Hour)); started {
		t.Error("started on request while suspended")
	}
	c.transfer.Spec.Suspend = false
	if started, _ := c.at(now.Add(3*time.Hour + time.Minute)); !started {
		t.Error("what was asked for meanwhile was not started")
	}

	once := &clockwork{t, newTransfer("ledger", time.Hour)}
	once.transfer.Spec.Suspend = true
	if started, _ := once.at(now); started {
		t.Error("the only run was started while suspended")
	}
	once.transfer.Spec.Suspend = false
	if started, _ := once.at(now); !started {
		t.Error("the only run was not started afterwards")
	}
	// How it ended stays to be seen.
	once.end(now)
	once.transfer.Spec.Suspend = true
	if _, out := once.at(now); out.Status.Phase != v1alpha1.TransferComplete {
		t.Errorf("phase %s", out.Status.Phase)
	}
}

// An attempt that is under way goes on, the next one does not begin.
func TestSuspendWhileRunning(t *testing.T) {
	transfer, facts := running(1)
	transfer.Spec.Suspend = true
	facts.Pod = failed(t, 0, "broken")
	out := plan.DecideTransfer(transfer, facts, image)
	if out.Finished == nil || out.Status.Run.NextAttemptTime == nil {
		t.Fatalf("the attempt was not followed: %+v", out.Status)
	}
	transfer.Status = out.Status
	facts.Job, facts.Pod, facts.Now = nil, nil, now.Add(time.Hour)
	if out := plan.DecideTransfer(transfer, facts, image); out.Start != nil ||
		out.Status.Phase != v1alpha1.TransferSuspended {
		t.Errorf("attempt %v began in phase %s", out.Start, out.Status.Phase)
	}
	transfer.Spec.Suspend = false
	if out := plan.DecideTransfer(transfer, facts, image); out.Start == nil || out.Status.Run.Attempt != 2 {
		t.Error("the second attempt did not begin")
	}
}

// A schedule counts from when it was set.
func TestChangedSchedule(t *testing.T) {
	c := scheduled(t, "0 4 * * *", "")
	c.at(now)
	c.transfer.Spec.Schedule.Cron = "0 1 * * *"
	if started, _ := c.at(now.Add(30 * time.Minute)); started {
		t.Error("started for a time before the schedule was set")
	}
	c.want(0, "2026-05-05T01:00:00Z")
	c.transfer.Spec.Schedule = nil
	if started, out := c.at(now.Add(time.Hour)); !started || out.Status.Schedule != nil {
		t.Error("a Transfer without schedule and runs does not start")
	}
}

func TestTimeZones(t *testing.T) {
	// Clocks in Berlin go from 1:59 to 3:00 on 29 March 2026 and from 2:59 to 2:00 on 25 October.
	for name, test := range map[string]struct {
		from time.Time
		next string
	}{
		"winter":              {time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC), "2026-01-11T01:30:00Z"},
		"summer":              {time.Date(2026, 7, 10, 12, 0, 0, 0, time.UTC), "2026-07-11T00:30:00Z"},
		"hour that is missed": {time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC), "2026-03-30T00:30:00Z"},
		"hour that is twice":  {time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC), "2026-10-25T00:30:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			c := scheduled(t, "30 2 * * *", "Europe/Berlin")
			c.at(test.from)
			c.want(0, test.next)
		})
	}
}

func TestJitter(t *testing.T) {
	starts := map[string]bool{}
	for _, uid := range []types.UID{"a", "b", "c", "d", "e"} {
		c := scheduled(t, "0 4 * * *", "")
		c.transfer.UID = uid
		c.transfer.Spec.Schedule.Jitter = &metav1.Duration{Duration: 10 * time.Minute}
		c.at(now)
		next := c.transfer.Status.Schedule.NextTime.Time
		if late := next.Sub(time.Date(2026, 5, 4, 4, 0, 0, 0, time.UTC)); late < 0 || late > 10*time.Minute {
			t.Errorf("%s starts %v late", uid, late)
		}
		starts[next.String()] = true
		if started, _ := c.at(next.Add(-time.Second)); started {
			t.Errorf("%s starts early", uid)
		}
		if started, _ := c.at(next); !started {
			t.Errorf("%s does not start", uid)
		}
	}
	if len(starts) < 4 {
		t.Errorf("five Transfers start at %d times", len(starts))
	}
}

func TestBadSchedules(t *testing.T) {
	for _, test := range []struct{ cron, zone, message string }{
		{"0 2 * *", "", "spec.schedule.cron"},
		{"61 2 * * *", "", "spec.schedule.cron"},
		{"TZ=UTC 0 2 * * *", "", "spec.schedule.cron"},
		{"TZ=0", "", "spec.schedule.cron"},
		{"0 0 30 2 *", "", "never comes"},
		{"@every 1s", "", "spec.schedule.cron"},
		{"0 2 * * *", "Europe/Atlantis", "spec.schedule.timeZone"},
		{"0 2 * * *", "Local", "spec.schedule.timeZone"},
		{"0 2 * * *", "../../etc/passwd", "spec.schedule.timeZone"},
	} {
		c := scheduled(t, test.cron, test.zone)
		started, out := c.at(now)
		condition, reason, message := verdict(t, out.Status.Conditions)
		if started || condition != v1alpha1.ConditionStalled || reason != v1alpha1.ReasonInvalidSpec ||
			!strings.Contains(message, test.message) {
			t.Errorf("%q in %q: %s, %s: %s", test.cron, test.zone, condition, reason, message)
		}
	}
}

// Whatever a user writes, it is either refused or gives a next time.
func FuzzSchedule(f *testing.F) {
	f.Add("0 2 * * *", "Europe/Berlin")
	f.Add("TZ=0", "")
	f.Add("@monthly", "Etc/UTC")
	f.Add("*/0 1-0 ? L W#", "..")
	f.Fuzz(func(t *testing.T, cron, zone string) {
		if len(cron) > 128 || len(zone) > 64 {
			return // The API refuses them.
		}
		c := scheduled(t, cron, zone)
		_, out := c.at(now)
		condition, _, _ := verdict(t, out.Status.Conditions)
		next := out.Status.Schedule != nil && out.Status.Schedule.NextTime.After(now)
		if next == (condition == v1alpha1.ConditionStalled) {
			t.Errorf("%q in %q: %s is True, next time %v", cron, zone, condition, out.Status.Schedule)
		}
	})
}

// TestScheduleAfterTheClockWasAhead: what came while the clock was ahead by a day does not keep a schedule asleep until
// that day is over.
func TestScheduleAfterTheClockWasAhead(t *testing.T) {
	c := scheduled(t, "@hourly", "")
	c.at(now)
	ahead := now.Add(24*time.Hour + 30*time.Minute)
	if started, _ := c.at(ahead); !started {
		t.Fatal("not started by a clock that is ahead")
	}
	missed := c.transfer.Status.Schedule.MissedRuns
	c.end(ahead.Add(time.Minute))
	if started, _ := c.at(now.Add(31 * time.Minute)); started {
		t.Error("started between two times")
	}
	c.want(missed, "2026-05-04T04:00:00Z")
	if started, _ := c.at(now.Add(time.Hour)); !started {
		t.Error("not started after the clock was set back")
	}
}

// TestScheduleAfterACorrection: a clock that is set back by little starts no run twice.
func TestScheduleAfterACorrection(t *testing.T) {
	c := scheduled(t, "0 4 * * *", "")
	c.at(now)
	at := time.Date(2026, 5, 4, 4, 0, 0, 0, time.UTC)
	if started, _ := c.at(at); !started {
		t.Fatal("not started")
	}
	c.end(at)
	c.at(at.Add(-time.Minute))
	if started, _ := c.at(at.Add(time.Second)); started {
		t.Error("started twice")
	}
	c.want(0, "2026-05-05T04:00:00Z")
}
