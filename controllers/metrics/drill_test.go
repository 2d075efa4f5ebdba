// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
)

func TestDrillsAreCounted(t *testing.T) {
	i, registry := inventory()
	drill := func(name string, recoverable bool, took time.Duration, rate int64, last time.Duration) *v1alpha1.Drill {
		d := &v1alpha1.Drill{ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon.Add(-48 * time.Hour)),
		}}
		d.Status.Conditions = append(conditions.Ready("Reason", ""),
			conditions.New(v1alpha1.ConditionRecoverable, recoverable, "Reason", ""))
		d.Status.History = []v1alpha1.DrillRecord{{Duration: &metav1.Duration{Duration: took}, BytesPerSecond: rate}}
		if last > 0 {
			d.Status.LastRecoverableTime = &metav1.Time{Time: noon.Add(-last)}
		}
		return d
	}
	fresh := &v1alpha1.Drill{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "new", UID: "new", CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute)),
	}}
	scrubbed := drill("scrub", true, time.Minute, 300, 2*time.Hour)
	scrubbed.Spec.Scrub = v1alpha1.ScrubChecksums
	scrubbed.Status.Conditions = nil
	scrubbed.Status.History[0].Findings = []v1alpha1.Omission{
		{What: "Damaged", Count: 3}, {What: "IndexMissing", Count: 1}, {What: "NoChecksum", Count: 50}, {What: "Changing", Count: 9},
	}
	scrubbed.Status.History[0].CPU = &v1alpha1.CPUStatus{SecondsPerGiB: "0.72"}
	never := drill("never", false, time.Minute, 0, 0)
	for _, d := range []*v1alpha1.Drill{
		drill("a", true, time.Hour, 100, time.Hour), drill("b", true, time.Minute, 300, 2*time.Hour), never, fresh, scrubbed,
	} {
		i.Observe(d)
	}
	show := func(want map[string]float64, not ...string) {
		t.Helper()
		got := gathered(t, registry)
		for name, value := range want {
			if shown, ok := got[name]; !ok || shown != value {
				t.Errorf("%s is %v (%v), want %v", name, shown, ok, value)
			}
		}
		for _, name := range not {
			if value, ok := got[name]; ok {
				t.Errorf("%s is %v", name, value)
			}
		}
	}
	show(map[string]float64{
		"lighterage_drill_flawed{bank}": 4, "lighterage_drills{bank,Unknown}": 1,
		"lighterage_drills{bank,True}": 2, "lighterage_drills{bank,False}": 1, "lighterage_drills{shop,Unknown}": 1,
		"lighterage_drill_last_recoverable_age_seconds{bank}": 48 * 3600,
		"lighterage_drill_last_recoverable_age_seconds{shop}": 60,
		"lighterage_drill_duration_seconds{bank}":             3600, "lighterage_drill_bytes_per_second{bank}": 0,
		"lighterage_drill_cpu_seconds_per_byte{bank}": 0.72 / (1 << 30),
	}, "lighterage_drill_cpu_seconds_per_byte{shop}",
		"lighterage_drill_flawed{shop}", "lighterage_drill_duration_seconds{shop}", "lighterage_drill_bytes_per_second{shop}")
	i.Forget(never)
	show(map[string]float64{
		"lighterage_drill_last_recoverable_age_seconds{bank}": 7200, "lighterage_drill_bytes_per_second{bank}": 100,
	}, "lighterage_drills{bank,False}")
}
