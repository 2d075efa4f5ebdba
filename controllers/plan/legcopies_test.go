// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// There is one snapshot for all, which the pod reads, and each leg has its time.
func TestOneSnapshotForAll(t *testing.T) {
	f := newFamily(t, "here")
	f.staging = &newWorld(t, v1alpha1.CopySnapshot).facts.Staging
	f.whole.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
	f.look()
	if len(f.legs) > 0 {
		t.Errorf("legs were made before the copy: %v", f.legs)
	}
	f.now = f.now.Add(time.Second)
	taken := f.now
	f.settle()
	if f.jobs != 1 || len(f.staging.Snapshots) != 1 || len(f.staging.Claims) != 1 {
		t.Fatalf("%d pods, %d snapshots, %d claims: %+v", f.jobs, len(f.staging.Snapshots), len(f.staging.Claims),
			f.whole.Status)
	}
	mounted := f.job.Spec.Template.Spec.Volumes[1].PersistentVolumeClaim.ClaimName
	if mounted != f.staging.Claims[0].Name {
		t.Errorf("the pod mounts %s", mounted)
	}
	f.now = f.now.Add(time.Minute)
	f.run(map[string]*wirev1.Report{"west": onTheWay(), "here": onTheWay()})
	f.end(map[string]*wirev1.Report{"west": succeeded(), "here": succeeded()})
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
	for name, leg := range f.legs {
		if leg.Status.Staged != nil || leg.Status.RecoveryPoint == nil || !leg.Status.RecoveryPoint.Time.Equal(taken) {
			t.Errorf("%s: %+v", name, leg.Status.RecoveryPoint)
		}
	}
	if !f.whole.Status.RecoveryPoint.Time.Equal(taken) || len(f.staging.Claims) > 0 {
		t.Errorf("%+v, %d claims are left", f.whole.Status.RecoveryPoint, len(f.staging.Claims))
	}
}

// The hooks are those of the whole, and the after-hook begins with the snapshot: neither with each leg nor when these have
// ended. A further pod of the run reads the same copy, so that the application is not quiesced again.
func TestHooksOfSeveralDestinations(t *testing.T) {
	f := newFamily(t, "here")
	h := newHooked(t, v1alpha1.CopySnapshot)
	f.staging, f.hooks = &h.facts.Staging, h
	f.whole.Spec.Source.CopyMethod, f.whole.Spec.Source.Hooks = v1alpha1.CopySnapshot, h.transfer.Spec.Source.Hooks
	f.settle()
	if len(h.made) != 1 || len(f.staging.Snapshots) > 0 || len(f.legs) > 0 {
		t.Fatalf("%v were made, %d snapshots, %d legs: %+v", h.made, len(f.staging.Snapshots), len(f.legs), f.whole.Status)
	}
	h.end(f.whole.Status.Hooks.Before.Job, batchv1.JobComplete)
	f.settle()
	if len(h.made) != 2 || len(f.staging.Claims) != 1 || f.jobs != 1 || h.made[1] != "lighterage-after" {
		t.Fatalf("%v were made, %d claims, %d pods: %+v", h.made, len(f.staging.Claims), f.jobs, f.whole.Status)
	}
	for name, leg := range f.legs {
		if leg.Spec.Source.Hooks != nil || leg.Status.Hooks != nil {
			t.Errorf("leg %s has hooks of its own: %+v", name, leg.Spec.Source)
		}
	}
	h.end(f.whole.Status.Hooks.After.Job, batchv1.JobComplete)
	f.run(map[string]*wirev1.Report{"west": onTheWay(), "here": onTheWay()})
	f.end(map[string]*wirev1.Report{"west": broken(), "here": succeeded()})
	f.now = f.now.Add(time.Minute)
	f.settle()
	if f.jobs != 2 || len(f.staging.Claims) != 1 {
		t.Fatalf("%d pods, %d claims: %+v", f.jobs, len(f.staging.Claims), f.whole.Status)
	}
	f.end(map[string]*wirev1.Report{"west": succeeded()})
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
	if len(h.made) != 2 || len(f.staging.Claims) > 0 ||
		!meta.IsStatusConditionTrue(f.whole.Status.Conditions, v1alpha1.ConditionHooksSucceeded) {
		t.Errorf("%v were made, %d claims are left: %+v", h.made, len(f.staging.Claims), f.whole.Status.Conditions)
	}
}

// Nothing is read when the before-hook fails: no leg is made.
func TestBeforeHookOfSeveralDestinationsFails(t *testing.T) {
	f := newFamily(t, "here")
	h := newHooked(t, v1alpha1.CopySnapshot)
	f.staging, f.hooks = &h.facts.Staging, h
	f.whole.Spec.Source.CopyMethod, f.whole.Spec.Source.Hooks = v1alpha1.CopySnapshot, h.transfer.Spec.Source.Hooks
	f.settle()
	h.end(f.whole.Status.Hooks.Before.Job, batchv1.JobFailed)
	f.settle()
	if len(h.made) != 2 || len(f.staging.Snapshots) > 0 || len(f.legs) > 0 || f.jobs > 0 ||
		f.whole.Status.History[0].Reason != v1alpha1.ReasonBeforeHookFailed {
		t.Errorf("%v were made, %d snapshots, %d legs, %d pods: %+v", h.made, len(f.staging.Snapshots), len(f.legs), f.jobs,
			f.whole.Status)
	}
}

// The whole reads a VolumeGroupSnapshot, and its legs get what the whole reads.
func TestOneGroupSnapshotForAll(t *testing.T) {
	f := newFamily(t, "here")
	f.staging = &newWorld(t, v1alpha1.CopySnapshot).facts.Staging
	f.staging.Grouped = &plan.Snapshot{Name: "of-moment", Ready: true, Created: f.now}
	f.whole.Spec.Source.CopyMethod, f.whole.Spec.Source.VolumeGroupSnapshotName = v1alpha1.CopySnapshot, "moment"
	f.settle()
	if f.jobs != 1 || len(f.staging.Snapshots) > 0 || len(f.staging.Claims) != 1 {
		t.Fatalf("%d pods, %d snapshots, %d claims: %+v", f.jobs, len(f.staging.Snapshots), len(f.staging.Claims),
			f.whole.Status)
	}
	f.run(map[string]*wirev1.Report{"west": onTheWay(), "here": onTheWay()})
	f.end(map[string]*wirev1.Report{"west": succeeded(), "here": succeeded()})
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
}
