// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
)

func TestRecoveryPoints(t *testing.T) {
	i, registry := inventory()
	with := func(name string, age time.Duration, within bool) *v1alpha1.Transfer {
		one := transfer(name, 1)
		one.Spec.Objective = &v1alpha1.TransferObjective{MaxAge: metav1.Duration{Duration: time.Hour}}
		one.Status.RecoveryPoint = &metav1.Time{Time: noon.Add(-age)}
		one.Status.Conditions = append(one.Status.Conditions,
			conditions.New(v1alpha1.ConditionWithinObjective, within, "Reason", ""))
		return one
	}
	once := transfer("once", 1)
	once.Status.RecoveryPoint = &metav1.Time{Time: noon.Add(-1000 * time.Hour)}
	old, never := with("old", 2*time.Hour, false), with("never", 0, false)
	never.Status.RecoveryPoint = nil
	never.Status.Staged = &v1alpha1.StagedStatus{
		State: v1alpha1.StagedSnapshotting, StartTime: metav1.NewTime(noon.Add(-time.Minute)),
	}
	ahead := with("ahead", -time.Hour, true)
	for _, one := range []*v1alpha1.Transfer{once, old, never, ahead, with("young", time.Minute, true)} {
		i.Observe(one)
	}
	show := func(want map[string]float64) {
		t.Helper()
		got := gathered(t, registry)
		for _, name := range []string{
			`lighterage_transfer_recovery_point_age_seconds{bank}`,
			`lighterage_transfers_outside_objective{bank}`,
			`lighterage_staged_copies{bank,Snapshotting}`,
			`lighterage_staged_copy_age_seconds{bank}`,
		} {
			value, shown := got[name]
			if wanted, ok := want[name]; ok != shown || value != wanted {
				t.Errorf("%s is %v (%v), want %v (%v)", name, value, shown, wanted, ok)
			}
		}
	}
	show(map[string]float64{
		`lighterage_transfer_recovery_point_age_seconds{bank}`: 7200,
		`lighterage_transfers_outside_objective{bank}`:         2,
		`lighterage_staged_copies{bank,Snapshotting}`:          1,
		`lighterage_staged_copy_age_seconds{bank}`:             60,
	})
	i.Forget(old)
	never.Status.Staged = nil
	i.Observe(never)
	show(map[string]float64{
		`lighterage_transfer_recovery_point_age_seconds{bank}`: 60,
		`lighterage_transfers_outside_objective{bank}`:         1,
	})
}
