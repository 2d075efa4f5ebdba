// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// bucket is a kind of time of which the newest snapshot is kept.
type bucket struct {
	count func(v1alpha1.SnapshotRetention) int32
	// key is the same for the times of one bucket.
	key func(time.Time) string
}

var buckets = []bucket{
	{func(r v1alpha1.SnapshotRetention) int32 { return r.Hourly }, layout("2006-01-02T15")},
	{func(r v1alpha1.SnapshotRetention) int32 { return r.Daily }, layout("2006-01-02")},
	{func(r v1alpha1.SnapshotRetention) int32 { return r.Weekly }, func(t time.Time) string {
		year, week := t.ISOWeek()
		return fmt.Sprintf("%d-%d", year, week)
	}},
	{func(r v1alpha1.SnapshotRetention) int32 { return r.Monthly }, layout("2006-01")},
	{func(r v1alpha1.SnapshotRetention) int32 { return r.Yearly }, layout("2006")},
}

func layout(l string) func(time.Time) string {
	return func(t time.Time) string { return t.Format(l) }
}

// Expired are the names of the snapshots, those of newer runs first, that a retention does not keep. Only those that
// are Ready expire, and never the newest of them. Those that failed go when a later one is Ready or Failed.
func Expired(retention v1alpha1.SnapshotRetention, snapshots []v1alpha1.SnapshotStatus) []string {
	var expired []string
	later, newest, last := false, true, retention.Last
	seen := make([]map[string]bool, len(buckets))
	for i := range seen {
		seen[i] = map[string]bool{}
	}
	for i := range snapshots {
		s := &snapshots[i]
		if s.State == v1alpha1.SnapshotFailed {
			if later {
				expired = append(expired, s.Name)
			}
			later = true
		}
		if s.State != v1alpha1.SnapshotReady {
			continue
		}
		kept := newest || last > 0
		newest, later, last = false, true, last-1
		for b := range buckets {
			key := buckets[b].key(s.Time.UTC())
			if !seen[b][key] && len(seen[b]) < int(buckets[b].count(retention)) {
				seen[b][key], kept = true, true
			}
		}
		if !kept {
			expired = append(expired, s.Name)
		}
	}
	return expired
}
