// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package deadlineplan

import (
	"fmt"
	"iter"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/windows"
)

const (
	// Horizon is how far a forecast looks ahead, and maxSteps how many times windows open, end or change their limit
	// meanwhile: a year, and some two months of a window in each night with another one in it. What ends later counts as
	// never.
	Horizon  = 366 * 24 * time.Hour
	maxSteps = 250
	// MostActive bounds what figures of agents make of a forecast.
	MostActive = 10 * Horizon
)

// Work is what a run, or the rest of one, has to do.
type Work struct {
	// Active is how long its agents take at the rate that was measured, whatever limited that.
	Active time.Duration
	// WireBytes that it sends.
	WireBytes int64
}

// Terms are when a run may be under way, and its limits of bandwidth.
type Terms struct {
	// all windows; nil: at all times.
	all *windows.Windows
	// own limit in bytes per second; 0: none.
	own int64
}

// NewTerms are those of a Transfer. The error is for a schedule that cannot be used.
func NewTerms(spec *v1alpha1.TransferSpec) (Terms, error) {
	var t Terms
	if spec.BandwidthLimit != nil {
		t.own = spec.BandwidthLimit.Value()
	}
	if s := spec.Schedule; s != nil && len(s.Windows) > 0 {
		zone, err := windows.Zone(s.TimeZone)
		if err != nil {
			return t, fmt.Errorf("schedule.timeZone %w", err)
		}
		if t.all, err = windows.New(s.Windows, zone); err != nil {
			return t, fmt.Errorf("schedule.windows: %w", err)
		}
	}
	return t, nil
}

// stretch of time in which windows and limits stay as they are. A time to that is zero is never.
type stretch struct {
	from, to time.Time
	open     bool
	// closes is when windows open or end next, while at to perhaps a limit changes only; zero: never.
	closes time.Time
	// limit of bandwidth in bytes per second; 0: none.
	limit int64
}

func (t Terms) at(from time.Time) stretch {
	s := stretch{from: from, open: true, limit: t.own}
	if t.all == nil {
		return s
	}
	s.open, s.closes = t.all.At(from)
	s.to = s.closes
	windowed, until := t.all.Limit(from)
	if !until.IsZero() && (s.to.IsZero() || until.Before(s.to)) {
		s.to = until
	}
	if windowed > 0 && (s.limit <= 0 || windowed < s.limit) {
		s.limit = windowed
	}
	return s
}

// stretches follow each other from a time on, until nothing changes or nobody looks further ahead.
func (t Terms) stretches(from time.Time) iter.Seq[stretch] {
	return func(yield func(stretch) bool) {
		at := from
		for range maxSteps {
			s := t.at(at)
			if !yield(s) || s.to.IsZero() || s.to.Sub(from) > Horizon {
				return
			}
			at = s.to
		}
	}
}

// carry is when work is done within stretches; false: it is not. visit, unless it is nil, is told which part of the
// work is done from when to when.
func carry(all iter.Seq[stretch], work Work, visit func(from, to time.Time, part float64)) (end time.Time, ok bool) {
	left := 1.0
	for s := range all {
		if !s.open {
			continue
		}
		whole := takes(work, s.limit)
		rest := time.Duration(left * float64(whole)).Round(time.Millisecond) // parts of windows do not add up to 1
		if s.to.IsZero() || rest <= s.to.Sub(s.from) {
			end = s.from.Add(rest)
			if visit != nil {
				visit(s.from, end, left)
			}
			return end, true
		}
		part := float64(s.to.Sub(s.from)) / float64(whole)
		if visit != nil {
			visit(s.from, s.to, part)
		}
		left -= part
	}
	return time.Time{}, false
}

// takes is how long work takes at a limit of bandwidth in bytes per second; 0: none.
func takes(work Work, limit int64) time.Duration {
	active := min(max(work.Active, 0), MostActive)
	if limit <= 0 {
		return active
	}
	seconds := float64(max(work.WireBytes, 0)) / float64(limit)
	if seconds >= MostActive.Seconds() {
		return MostActive
	}
	return max(active, time.Duration(seconds*float64(time.Second)))
}

// Forecast is when work is done that can begin at a time, within the windows of a Transfer and its limits of bandwidth;
// false: not within a year, or the schedule cannot be used. Without work it is when the first attempt could begin.
func Forecast(spec *v1alpha1.TransferSpec, work Work, from time.Time) (end time.Time, ok bool) {
	terms, err := NewTerms(spec)
	if err != nil {
		return time.Time{}, false
	}
	end, ok = carry(terms.stretches(from), work, nil)
	return end, ok && end.Sub(from) <= Horizon
}
