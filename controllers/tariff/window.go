// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tariff

import (
	"slices"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	defaultTimeZone = "Etc/UTC"
	// clockTime is how windows write times.
	clockTime = "15:04"
)

// location is the time zone of a Tariff. One without windows needs none.
func location(t *v1alpha1.Tariff) (*time.Location, error) {
	if t.Spec.TimeZone == "" || t.Spec.TimeZone == defaultTimeZone {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(t.Spec.TimeZone)
	if err != nil || t.Spec.TimeZone == time.Local.String() {
		return nil, &InvalidError{t.Name, "spec.timeZone", "must be in the tz database; write for example Europe/Berlin"}
	}
	return zone, nil
}

// includes goes by the clock on the wall: an hour that is there twice because the clock is set back is in a window
// twice, and one that is left out is in none.
func includes(w v1alpha1.TariffWindow, local time.Time) bool {
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
func starts(w v1alpha1.TariffWindow, day time.Weekday) bool {
	return len(w.Days) == 0 || slices.Contains(w.Days, v1alpha1.Weekday(day.String()))
}
