// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package windows tells whether a time is within windows of the week, which limit of bandwidth these have, until when,
// and whether an attempt may begin. Windows are in local time: an hour that is there twice because the clock is set
// back is in a window twice, and one that is left out is in none. It is pure.
package windows

import (
	"fmt"
	"slices"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	// clockTime is how windows write times.
	clockTime = "15:04"
	day       = 24 * 60
	week      = 7 * day
	// Shortest is how long a window must be: starting an agent takes some of it.
	Shortest = 5 * time.Minute
	// startMargin is how much of a window must be left for an attempt to begin.
	startMargin = time.Minute
	// LeastBandwidth is the lowest limit of a window, in bytes per second.
	LeastBandwidth = 256 << 10
	// MostBandwidth is the highest limit of a window, in bytes per second.
	MostBandwidth = 1 << 50
	// maxShifts bounds how many times the offset of a zone is looked at. It changes a few times a year, and every window
	// opens and closes within two weeks.
	maxShifts = 100
)

// Includes reports whether a window, which must not be invalid, is open at a time of its zone.
func Includes(w v1alpha1.ScheduleWindow, local time.Time) bool {
	if w.Start == "" {
		return starts(w, local.Weekday())
	}
	now := local.Format(clockTime)
	if w.Start < w.End {
		return w.Start <= now && now < w.End && starts(w, local.Weekday())
	}
	// It ends on the day after that on which it starts.
	yesterday := (local.Weekday() + 6) % 7
	return now >= w.Start && starts(w, local.Weekday()) || now < w.End && starts(w, yesterday)
}

// starts: the window starts on this day of the week.
func starts(w v1alpha1.ScheduleWindow, day time.Weekday) bool {
	return len(w.Days) == 0 || slices.Contains(w.Days, v1alpha1.Weekday(day.String()))
}

// Invalid says what a window must have; empty if it has it.
func Invalid(w v1alpha1.ScheduleWindow) string {
	if w.Start == "" && w.End == "" {
		if len(w.Days) == 0 {
			return "must have days, or start and end; to have it at all times leave windows out"
		}
		return ""
	}
	for _, text := range []string{w.Start, w.End} {
		// The parser takes hours of one digit as well, which do not compare as texts.
		if at, err := time.Parse(clockTime, text); err != nil || at.Format(clockTime) != text {
			return fmt.Sprintf("must have times from 00:00 to 23:59 in start and end, not %q; write for example 20:00", text)
		}
	}
	if w.Start == w.End {
		return "must have a start and an end that differ; for whole days leave both out"
	}
	return ""
}

// Windows are those of one schedule.
type Windows struct {
	zone  *time.Location
	spans []span
}

// span of minutes of the week, which begins with Sunday. The last one may go beyond the week's end.
type span struct {
	from, to int
	// limit of bandwidth; 0: none.
	limit int64
}

func (s span) has(minute int) bool { return s.from <= minute && minute < s.to || minute+week < s.to }

// utc is the time zone of schedules and Tariffs that name none. It needs no database.
var utc = time.FixedZone("Etc/UTC", 0)

// Zone is the time zone of a name of the tz database, without a name UTC, and never that of the machine. The error says
// what to write.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == utc.String() {
		return utc, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == time.Local.String() {
		return nil, fmt.Errorf("%q is not in the tz database; write for example Europe/Berlin", name)
	}
	return zone, nil
}

// Begins reports whether an attempt may begin at a time within windows that are open until another one; zero: for ever.
func Begins(at, until time.Time) bool { return until.IsZero() || until.Sub(at) > startMargin }

// New returns an error that says what to write when a window cannot be used by runs.
func New(all []v1alpha1.ScheduleWindow, zone *time.Location) (*Windows, error) {
	for i, window := range all {
		if time.Duration(length(window))*time.Minute < Shortest && Invalid(window) == "" {
			return nil, fmt.Errorf("window %d is shorter than %s, in which hardly an agent starts; write for example %s to %s", i,
				Shortest, "20:00", "06:00")
		}
	}
	return Of(all, zone)
}

// length of a window in minutes.
func length(w v1alpha1.ScheduleWindow) int {
	if w.Start == "" {
		return day
	}
	return (minutes(w.End) - minutes(w.Start) + day) % day
}

// Of is New for windows of any length.
func Of(all []v1alpha1.ScheduleWindow, zone *time.Location) (*Windows, error) {
	w := &Windows{zone: zone}
	for i, window := range all {
		if fix := Invalid(window); fix != "" {
			return nil, fmt.Errorf("window %d %s", i, fix)
		}
		limit := int64(0)
		if q := window.BandwidthLimit; q != nil {
			if limit = q.Value(); limit < LeastBandwidth || limit > MostBandwidth {
				return nil, fmt.Errorf("window %d must have a bandwidthLimit between 256Ki and 1Pi bytes per second, not %s; write "+
					"for example 200Mi, or leave it out", i, q)
			}
		}
		for d := time.Sunday; d <= time.Saturday; d++ {
			if starts(window, d) {
				begin := int(d)*day + minutes(window.Start)
				w.spans = append(w.spans, span{begin, begin + length(window), limit})
			}
		}
	}
	return w, nil
}

// minutes of a time as HH:MM since midnight.
func minutes(text string) int {
	at, err := time.Parse(clockTime, text)
	if err != nil {
		return 0 // there is none: the whole day
	}
	return at.Hour()*60 + at.Minute()
}

// At reports whether a window is open, and until when that stays so: zero for ever.
func (w *Windows) At(now time.Time) (open bool, until time.Time) {
	open = w.open(minuteOf(now.In(w.zone)))
	return open, w.lasts(now, func(minute int) bool { return w.open(minute) == open })
}

// Limit is the lowest limit of bandwidth that an open window has, in bytes per second, 0 if none has one, and until when
// that stays so: zero for ever.
func (w *Windows) Limit(now time.Time) (bytesPerSecond int64, until time.Time) {
	limit := w.limit(minuteOf(now.In(w.zone)))
	return limit, w.lasts(now, func(minute int) bool { return w.limit(minute) == limit })
}

// lasts is until when all minutes of the week are the same as that of a time: zero for ever.
func (w *Windows) lasts(now time.Time, same func(minute int) bool) time.Time {
	at := now
	for range maxShifts {
		local := at.In(w.zone)
		minute := minuteOf(local)
		if !same(minute) {
			return at
		}
		left := w.change(minute, same)
		if left == 0 {
			return time.Time{}
		}
		next := at.Add(-time.Duration(local.Second())*time.Second - time.Duration(local.Nanosecond())).
			Add(time.Duration(left) * time.Minute)
		_, shift := local.ZoneBounds()
		if shift.IsZero() || next.Before(shift) {
			return next
		}
		at = shift
	}
	return time.Time{}
}

// minuteOf is the minute of the week.
func minuteOf(local time.Time) int {
	return int(local.Weekday())*day + local.Hour()*60 + local.Minute()
}

func (w *Windows) open(minute int) bool {
	return slices.ContainsFunc(w.spans, func(s span) bool { return s.has(minute) })
}

func (w *Windows) limit(minute int) (lowest int64) {
	for _, s := range w.spans {
		if s.limit > 0 && (lowest == 0 || s.limit < lowest) && s.has(minute) {
			lowest = s.limit
		}
	}
	return lowest
}

// change is in how many minutes of a clock that nobody sets a minute is not the same any more; 0: never.
func (w *Windows) change(minute int, same func(minute int) bool) int {
	first := 0
	for _, s := range w.spans {
		for _, edge := range []int{s.from, s.to} {
			left := (edge-minute+2*week-1)%week + 1 // from 1 to week
			if (first == 0 || left < first) && !same(edge%week) {
				first = left
			}
		}
	}
	return first
}
