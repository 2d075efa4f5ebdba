// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tariff_test

import (
	"errors"
	"testing"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/tariff"
)

// TestCourse compares a course with the prices of each minute of days of 23, 24 and 25 hours.
func TestCourse(t *testing.T) {
	short := berlin()
	short.Spec.CPUHour.Rules = append([]v1alpha1.CPUHourRule{
		{Price: "7", Windows: []v1alpha1.TariffWindow{{Start: "02:30", End: "02:31"}}},
		{Price: "8", NodeSelector: map[string]string{"class": "spot"}},
	}, short.Spec.CPUHour.Rules...)
	for _, q := range []tariff.Query{
		{Tariffs: []v1alpha1.Tariff{berlin()}, Name: "berlin"},
		{Tariffs: []v1alpha1.Tariff{berlin()}, Name: "berlin", Peer: "west", Direction: v1alpha1.DirectionReceive},
		{Tariffs: []v1alpha1.Tariff{short}, Name: "berlin"},
		{Tariffs: []v1alpha1.Tariff{short}, Name: "berlin", Node: map[string]string{"class": "spot"}},
		{Stated: prices("USD", "1", "2")},
	} {
		course, err := tariff.Follow(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, day := range []string{"2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z", "2026-05-04T12:00:00Z"} {
			begin := at(t, day)
			end, changes := begin.Add(36*time.Hour), 0
			for when := begin; when.Before(end); changes++ {
				rates, until := course.At(when)
				if until.IsZero() || until.After(end) {
					until = end
				}
				for minute := when; minute.Before(until); minute = minute.Add(time.Minute) {
					q.Time = minute
					want, err := tariff.Resolve(q)
					if err != nil {
						t.Fatal(err)
					}
					if is, _ := tariff.Parse(want); is != rates || want.Currency != course.Currency {
						t.Fatalf("%s: %+v until %s, and %+v at %s", when, rates, until, is, minute)
					}
				}
				when = until
			}
			if changes > 20 {
				t.Errorf("%d changes in 36 hours", changes)
			}
		}
	}
	if course, err := tariff.Follow(tariff.Query{}); course != nil || err != nil {
		t.Errorf("without a Tariff: %v, %v", course, err)
	}
	bad := berlin()
	bad.Spec.TimeZone = "Mars/Olympus"
	var invalid *tariff.InvalidError
	if _, err := tariff.Follow(tariff.Query{Tariffs: []v1alpha1.Tariff{bad}, Name: "berlin"}); !errors.As(err, &invalid) {
		t.Errorf("got %v", err)
	}
}
