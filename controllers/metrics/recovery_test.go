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

func TestSnapshotsOfDestinations(t *testing.T) {
	i, registry := inventory()
	with := func(name string, snapshots ...v1alpha1.SnapshotStatus) *v1alpha1.Transfer {
		one := transfer(name, 1)
		one.Spec.Destination.Snapshot = &v1alpha1.DestinationSnapshot{}
		one.Status.Snapshots = snapshots
		return one
	}
	of := func(state v1alpha1.SnapshotState, age time.Duration) v1alpha1.SnapshotStatus {
		return v1alpha1.SnapshotStatus{State: state, Time: metav1.NewTime(noon.Add(-age))}
	}
	young := with("young", of(v1alpha1.SnapshotTaken, time.Minute), of(v1alpha1.SnapshotReady, time.Hour),
		of(v1alpha1.SnapshotReady, 48*time.Hour))
	old := with("old", of(v1alpha1.SnapshotReady, 2*time.Hour))
	retired := with("retired", of(v1alpha1.SnapshotReady, 9000*time.Hour))
	retired.Spec.Destination.Snapshot = nil
	old.Status.Conditions = []metav1.Condition{
		conditions.New(v1alpha1.ConditionHistoryKept, false, v1alpha1.ReasonSnapshotNotReady, "not ready"),
	}
	for _, one := range []*v1alpha1.Transfer{young, old, retired, with("new")} {
		i.Observe(one)
	}
	got := gathered(t, registry)
	for name, want := range map[string]float64{
		`lighterage_destination_snapshots{bank,Taken}`:      1,
		`lighterage_destination_snapshots{bank,Ready}`:      4,
		`lighterage_destination_snapshot_age_seconds{bank}`: 7200,
		`lighterage_transfers_without_snapshot{bank}`:       1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	old.Status.Conditions[0].Status = metav1.ConditionTrue
	i.Observe(old)
	if n, shown := gathered(t, registry)[`lighterage_transfers_without_snapshot{bank}`]; !shown || n != 0 {
		t.Errorf("%v are without", n)
	}
	for _, one := range []*v1alpha1.Transfer{young, old, retired, with("new")} {
		i.Forget(one)
	}
	got = gathered(t, registry)
	for _, name := range []string{"destination_snapshot_age_seconds", "transfers_without_snapshot"} {
		if _, shown := got["lighterage_"+name+"{bank}"]; shown {
			t.Errorf("%s of what is gone is shown", name)
		}
	}
}

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

func TestDeadlines(t *testing.T) {
	i, registry := inventory()
	with := func(name, reason string) *v1alpha1.Transfer {
		one := transfer(name, 1)
		one.Spec.Deadline = &v1alpha1.TransferDeadline{Time: &metav1.Time{Time: noon}}
		one.Status.Conditions = append(one.Status.Conditions, conditions.New(v1alpha1.ConditionWithinDeadline,
			reason == v1alpha1.ReasonDeadlineInReach, reason, ""))
		return one
	}
	missed := with("missed", v1alpha1.ReasonDeadlineMissed)
	all := []*v1alpha1.Transfer{
		missed, with("in time", v1alpha1.ReasonDeadlineInReach), with("late", v1alpha1.ReasonDeadlineOutOfReach),
		with("also late", v1alpha1.ReasonDeadlineOutOfReach), transfer("at any time", 1),
	}
	for _, one := range all {
		i.Observe(one)
	}
	show := func(missed, late float64, shown bool) {
		t.Helper()
		got := gathered(t, registry)
		for name, want := range map[string]float64{
			`lighterage_transfers_outside_deadline{bank,DeadlineMissed}`:     missed,
			`lighterage_transfers_outside_deadline{bank,DeadlineOutOfReach}`: late,
		} {
			if value, is := got[name]; is != shown || value != want {
				t.Errorf("%s is %v (%v), want %v (%v)", name, value, is, want, shown)
			}
		}
	}
	show(1, 2, true)
	missed.Status.Conditions[len(missed.Status.Conditions)-1].Status = metav1.ConditionTrue
	i.Observe(missed)
	show(0, 2, true)
	for _, one := range all {
		i.Forget(one)
	}
	show(0, 0, false)
}

// A receiving cluster shows what it keeps for peers.
func TestHistoryForPeers(t *testing.T) {
	i, registry := inventory()
	d := &v1alpha1.Delivery{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "d", UID: "d"}}
	d.Spec.Destination.Snapshot = &v1alpha1.DeliverySnapshot{}
	d.Status.Snapshots = []v1alpha1.SnapshotStatus{
		{Name: "a", State: v1alpha1.SnapshotTaken, Time: metav1.NewTime(noon)},
		{Name: "b", State: v1alpha1.SnapshotReady, Time: metav1.NewTime(noon.Add(-time.Minute))},
	}
	d.Status.Conditions = []metav1.Condition{conditions.New(v1alpha1.ConditionHistoryKept, false, "Reason", "")}
	i.Observe(d)
	got := gathered(t, registry)
	for name, want := range map[string]float64{
		`lighterage_destination_snapshots{vault,Taken}`: 1, `lighterage_destination_snapshots{vault,Ready}`: 1,
		`lighterage_destination_snapshot_age_seconds{vault}`: 60,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}
