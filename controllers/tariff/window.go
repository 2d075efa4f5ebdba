// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tariff

import (
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/windows"
)

// location is the time zone of a Tariff.
func location(t *v1alpha1.Tariff) (*time.Location, error) {
	zone, err := windows.Zone(t.Spec.TimeZone)
	if err != nil {
		return nil, &InvalidError{t.Name, "spec.timeZone", err.Error()}
	}
	return zone, nil
}

// includes reports whether a window is open at a time of the Tariff's zone.
func includes(w v1alpha1.TariffWindow, local time.Time) bool {
	return windows.Includes(times(w), local)
}

// times of a window, which has no bandwidth.
func times(w v1alpha1.TariffWindow) v1alpha1.ScheduleWindow {
	return v1alpha1.ScheduleWindow{Days: w.Days, Start: w.Start, End: w.End}
}
