// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// taken are snapshots of these times, in the order in which they are given, named by them. A state may follow a time.
func taken(t *testing.T, times ...string) []v1alpha1.SnapshotStatus {
	t.Helper()
	snapshots := make([]v1alpha1.SnapshotStatus, 0, len(times))
	for _, text := range times {
		name, state, given := strings.Cut(text, " ")
		if !given {
			state = string(v1alpha1.SnapshotReady)
		}
		at, err := time.Parse(time.RFC3339, name)
		if err != nil {
			t.Fatal(err)
		}
		snapshots = append(snapshots, v1alpha1.SnapshotStatus{
			Name: name, Time: metav1.NewTime(at), State: v1alpha1.SnapshotState(state),
		})
	}
	return snapshots
}

func TestWhichSnapshotsExpire(t *testing.T) {
	days := []string{
		"2026-03-10T02:00:00Z", "2026-03-09T14:00:00Z", "2026-03-09T02:00:00Z", "2026-03-08T02:00:00Z",
		"2026-03-06T02:00:00Z",
	}
	for _, c := range []struct {
		name      string
		retention v1alpha1.SnapshotRetention
		times     []string
		// kept are the indices of those that stay.
		kept []int
	}{
		{"None", v1alpha1.SnapshotRetention{Last: 1}, nil, nil},
		{"Last", v1alpha1.SnapshotRetention{Last: 2}, days, []int{0, 1}},
		{"NewestOfEachDay", v1alpha1.SnapshotRetention{Daily: 2}, days, []int{0, 1}},
		{"DaysWithoutSnapshotDoNotCount", v1alpha1.SnapshotRetention{Daily: 4}, days, []int{0, 1, 3, 4}},
		{"RulesAddUp", v1alpha1.SnapshotRetention{Last: 3, Daily: 3}, days, []int{0, 1, 2, 3}},
		{"NewestInAnyCase", v1alpha1.SnapshotRetention{}, days, []int{0}},
		{"Hours", v1alpha1.SnapshotRetention{Hourly: 2}, []string{
			"2026-03-10T02:59:59Z", "2026-03-10T02:00:00Z", "2026-03-10T01:59:59Z", "2026-03-09T02:30:00Z",
		}, []int{0, 2}},
		{"SameHourOfAnotherDay", v1alpha1.SnapshotRetention{Hourly: 3}, []string{
			"2026-03-10T02:00:00Z", "2026-03-09T02:00:00Z", "2025-03-09T02:00:00Z",
		}, []int{0, 1, 2}},
		{"DaysAreOfUTC", v1alpha1.SnapshotRetention{Daily: 2}, []string{
			// 23:30 and 22:30 of the same day in UTC, of two days in Berlin; then the day before in both.
			"2026-07-02T01:30:00+02:00", "2026-07-01T23:30:00+02:00", "2026-07-01T01:30:00+02:00",
		}, []int{0, 2}},
		{"WeeksAreISO", v1alpha1.SnapshotRetention{Weekly: 2}, []string{
			// Friday 1 January 2027 is of week 53 of 2026, which began on Monday 28 December.
			"2027-01-01T02:00:00Z", "2026-12-28T00:00:00Z", "2026-12-27T23:59:59Z", "2026-12-20T02:00:00Z",
		}, []int{0, 2}},
		{"WeekOneBeginsInDecember", v1alpha1.SnapshotRetention{Weekly: 9}, []string{
			// Monday 30 December 2024 is of week 1 of 2025, as is 5 January; week 1 of 2024 is another.
			"2025-01-05T02:00:00Z", "2024-12-30T02:00:00Z", "2024-01-01T02:00:00Z",
		}, []int{0, 2}},
		{"Months", v1alpha1.SnapshotRetention{Monthly: 2}, []string{
			"2026-03-10T02:00:00Z", "2026-03-01T00:00:00Z", "2026-02-28T23:59:59Z", "2025-03-10T02:00:00Z",
		}, []int{0, 2}},
		{"Years", v1alpha1.SnapshotRetention{Yearly: 2}, []string{
			"2026-03-10T02:00:00Z", "2026-01-01T00:00:00Z", "2025-12-31T23:59:59Z", "2024-03-10T02:00:00Z",
		}, []int{0, 2}},
		{"ClockSetBack", v1alpha1.SnapshotRetention{Daily: 2}, []string{
			// The run of the first was later than those of the others, whatever the clock said.
			"2026-03-08T02:00:00Z", "2026-03-09T02:00:00Z", "2026-03-08T01:00:00Z",
		}, []int{0, 1}},
		{"UnderWayNeitherCountsNorExpires", v1alpha1.SnapshotRetention{Last: 1}, []string{
			"2026-03-11T02:00:00Z Pending", "2026-03-10T02:00:00Z Taken", "2026-03-09T02:00:00Z", "2026-03-08T02:00:00Z",
		}, []int{0, 1, 2}},
		{"RemovingNeitherCountsNorExpires", v1alpha1.SnapshotRetention{Last: 1}, []string{
			"2026-03-10T02:00:00Z Removing", "2026-03-09T02:00:00Z",
		}, []int{0, 1}},
		{"NewestFailedStays", v1alpha1.SnapshotRetention{Last: 1}, []string{
			"2026-03-10T02:00:00Z Failed", "2026-03-09T02:00:00Z", "2026-03-08T02:00:00Z",
		}, []int{0, 1}},
		{"FailedGoesBehindReady", v1alpha1.SnapshotRetention{Last: 2}, []string{
			"2026-03-10T02:00:00Z", "2026-03-09T02:00:00Z Failed", "2026-03-08T02:00:00Z",
		}, []int{0, 2}},
		{"FailedGoesBehindFailed", v1alpha1.SnapshotRetention{Last: 9}, []string{
			"2026-03-10T02:00:00Z Failed", "2026-03-09T02:00:00Z Failed", "2026-03-08T02:00:00Z",
		}, []int{0, 2}},
		{"FailedStaysBehindTaken", v1alpha1.SnapshotRetention{Last: 9}, []string{
			"2026-03-10T02:00:00Z Taken", "2026-03-09T02:00:00Z Failed",
		}, []int{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			snapshots := taken(t, c.times...)
			expired, kept := plan.Expired(c.retention, snapshots), []int(nil)
			for i, s := range snapshots {
				if !slices.Contains(expired, s.Name) {
					kept = append(kept, i)
				}
			}
			if !slices.Equal(kept, c.kept) {
				t.Errorf("kept %v, want %v", kept, c.kept)
			}
		})
	}
}

// TestRetentionOverTime: with a snapshot each hour of two years there are never more than the rules add up to, never
// fewer than one, and what was kept at the end is what a retention of all of them at once would have kept.
func TestRetentionOverTime(t *testing.T) {
	retention := v1alpha1.SnapshotRetention{Last: 2, Hourly: 5, Daily: 7, Weekly: 4, Monthly: 12, Yearly: 2}
	random := rand.New(rand.NewPCG(1, 2))
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all, listed []v1alpha1.SnapshotStatus
	for range 2 * 365 * 24 {
		at = at.Add(time.Duration(random.IntN(7200)+1) * time.Second)
		one := v1alpha1.SnapshotStatus{
			Name: at.Format(time.RFC3339), Time: metav1.NewTime(at), State: v1alpha1.SnapshotReady,
		}
		listed = slices.Insert(listed, 0, one)
		all = append(all, one)
		expired := plan.Expired(retention, listed)
		listed = slices.DeleteFunc(listed, func(s v1alpha1.SnapshotStatus) bool { return slices.Contains(expired, s.Name) })
		if len(listed) == 0 || listed[0].Name != one.Name || len(listed) > 32 {
			t.Fatalf("%d at %s", len(listed), one.Name)
		}
	}
	slices.Reverse(all)
	expired := map[string]bool{}
	for _, name := range plan.Expired(retention, all) {
		expired[name] = true
	}
	all = slices.DeleteFunc(all, func(s v1alpha1.SnapshotStatus) bool { return expired[s.Name] })
	if !slices.EqualFunc(all, listed, func(a, b v1alpha1.SnapshotStatus) bool { return a.Name == b.Name }) {
		t.Errorf("step by step %d, at once %d", len(listed), len(all))
	}
}
