// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/windows"
)

const (
	// maxMissed bounds how many times of a schedule are counted at once, after the manager was away.
	maxMissed = 10_000
	// setBack is how far in the future the last time of a schedule must be for it to count from now instead: the clock
	// was ahead when it came. After less, a run that was early is not made again, and a schedule sleeps for no longer
	// than this.
	setBack = time.Hour
)

// timetable gives the times of a schedule.
type timetable struct {
	cron     cron.Schedule
	timeZone *time.Location
	jitter   time.Duration
	uid      types.UID
}

// newTimetable returns an error that says what to write when a schedule cannot be used.
func newTimetable(s *v1alpha1.TransferSchedule, uid types.UID) (*timetable, error) {
	// The parser would take a time zone in the expression too, and panics at some.
	if strings.Contains(s.Cron, "=") || strings.HasPrefix(s.Cron, "@every") {
		return nil, fmt.Errorf(
			"spec.schedule.cron %q must have five fields or be a word such as @daily; write for example \"0 2 * * *\", and "+
				"the time zone in timeZone",
			s.Cron,
		)
	}
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	schedule, err := parser.Parse(s.Cron)
	if err != nil {
		return nil, fmt.Errorf("spec.schedule.cron %q cannot be used (%w); write for example \"0 2 * * *\"", s.Cron, err)
	}
	zone, err := windows.Zone(s.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("spec.schedule.timeZone %w", err)
	}
	t := &timetable{cron: schedule, timeZone: zone, uid: uid}
	if s.Jitter != nil {
		t.jitter = s.Jitter.Duration
	}
	if t.next(time.Now()).IsZero() {
		return nil, fmt.Errorf("spec.schedule.cron %q names a time that never comes; write for example \"0 2 * * *\"", s.Cron)
	}
	return t, nil
}

// next returns the first time after another one, zero if there is none within five years.
func (t *timetable) next(after time.Time) time.Time {
	return t.cron.Next(after.In(t.timeZone))
}

// start is when the run of a time is to start: the same for all who ask, and even over the jitter for different
// Transfers.
func (t *timetable) start(at time.Time) time.Time {
	if t.jitter <= 0 {
		return at
	}
	return at.Add(time.Duration(attempt.Share(t.uid, at.Unix()) * float64(t.jitter))).Truncate(time.Second)
}

// passed returns the last time after another one whose start has come, zero if none has, and how many have.
func (t *timetable) passed(after, now time.Time) (last time.Time, count int64) {
	for at := t.next(after); !at.IsZero() && !t.start(at).After(now); at = t.next(at) {
		last = at
		if count++; count == maxMissed {
			break
		}
	}
	return last, count
}

// Timetable is what a schedule says at a time.
type Timetable struct {
	// Status of the schedule; nil without one.
	Status *v1alpha1.ScheduleStatus
	// Due: a time has come for which a run is to start.
	Due bool
	// Start is when that run was to start, jitter included; zero unless Due.
	Start time.Time
	// Problem is why the schedule cannot be used; nil if it can.
	Problem *agentpod.Problem
}

// Keep brings the status of a schedule up to date, which may be nil as the schedule may. busy: a run is under way, or
// wanted and kept from beginning, so that a time which comes is missed. The UID spreads the jitter.
func Keep(
	spec *v1alpha1.TransferSchedule, uid types.UID, kept *v1alpha1.ScheduleStatus, suspended, busy bool, at time.Time,
) Timetable {
	if spec == nil || spec.Cron == "" {
		return Timetable{}
	}
	table, err := newTimetable(spec, uid)
	if err != nil {
		return Timetable{Status: kept, Problem: agentpod.SpecProblem(err)}
	}
	due, start := false, time.Time{}
	kept = kept.DeepCopy()
	if kept == nil || kept.Cron != spec.Cron || kept.TimeZone != table.timeZone.String() || kept.LastTime == nil {
		// What a schedule would have started before it was set does not count.
		now := metav1.NewTime(at)
		missed := int64(0)
		if kept != nil {
			missed = kept.MissedRuns
		}
		kept = &v1alpha1.ScheduleStatus{
			Cron: spec.Cron, TimeZone: table.timeZone.String(), LastTime: &now, MissedRuns: missed,
		}
	}
	if kept.LastTime.After(at.Add(setBack)) {
		now := metav1.NewTime(at)
		kept.LastTime = &now
	}
	if last, count := table.passed(kept.LastTime.Time, at); count > 0 {
		if count == maxMissed {
			last = at
		}
		passed := metav1.NewTime(last)
		kept.LastTime = &passed
		switch {
		case suspended:
		case busy:
			kept.MissedRuns += count
		default:
			due, start = true, table.start(last)
			kept.MissedRuns += count - 1
		}
	}
	kept.NextTime = nil
	if !suspended {
		next := metav1.NewTime(table.start(table.next(kept.LastTime.Time)))
		kept.NextTime = &next
	}
	return Timetable{Status: kept, Due: due, Start: start}
}

// keepTimetable brings status.schedule up to date and notes whether a time has come for which a run is to start.
func (d *transferDecision) keepTimetable() *agentpod.Problem {
	spec, status := &d.transfer.Spec, &d.transfer.Status
	if spec.Schedule != nil {
		if problem := d.keepWindow(); problem != nil {
			return problem
		}
		defer d.showWindow()
		if spec.Schedule.Cron == "" {
			status.Schedule = &v1alpha1.ScheduleStatus{TimeZone: d.window.zone}
			return nil
		}
	}
	busy := d.running() || d.pending()
	table := Keep(spec.Schedule, d.transfer.UID, status.Schedule, spec.Suspend || spec.Pause, busy, d.facts.Now)
	status.Schedule, d.due, d.dueTime = table.Status, table.Due, table.Start
	return table.Problem
}

// UntilNext is how long it is until the next time of a schedule, at least a second; 0 without one.
func UntilNext(schedule *v1alpha1.ScheduleStatus, now time.Time) time.Duration {
	if schedule == nil || schedule.NextTime == nil {
		return 0
	}
	return max(schedule.NextTime.Sub(now), time.Second)
}

// wakeForSchedule makes sure that the next time is not slept through.
func (d *transferDecision) wakeForSchedule() {
	d.wakeForWindow()
	d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, UntilNext(d.transfer.Status.Schedule, d.facts.Now))
}
