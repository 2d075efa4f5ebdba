// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// newStores is of object stores alone, which get a snapshot.
func newStores(t *testing.T, names ...string) *family {
	t.Helper()
	f := newFamily(t).toStores("", names...)
	f.whole.Spec.Destinations = f.whole.Spec.Destinations[1:]
	f.whole.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
	f.staging = &newWorld(t, v1alpha1.CopySnapshot).facts.Staging
	return f
}

// A leg whose Job was refused mounts the copy of the next run, and at no time the claim that is in use.
func TestRefusedStoreNeverReadsTheSource(t *testing.T) {
	f := newStores(t, "vault")
	f.refused = true
	f.settle()
	f.now = f.now.Add(time.Minute)
	f.settle()
	if kind, reason, _ := verdict(t, f.whole.Status.Conditions); kind != v1alpha1.ConditionStalled || len(f.tried) == 0 {
		t.Fatalf("%s %s, tried %v: %+v", kind, reason, f.tried, f.whole.Status)
	}
	first := f.whole.Status.Run.ID
	f.refused = false
	f.whole.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	f.look()
	if f.whole.Status.Run.ID == first || f.made["vault"] > 0 {
		t.Fatalf("run %s, %v pods: %+v", f.whole.Status.Run.ID, f.made, f.whole.Status.Staged)
	}
	f.settle()
	if f.made["vault"] != 1 || slices.Contains(f.tried, "ledger") ||
		f.tried[len(f.tried)-1] != f.staging.Claims[0].Name {
		t.Errorf("%v pods, claims %v: %+v", f.made, f.tried, f.legs["vault"].Status)
	}
	f.endApart("vault", succeeded())
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete)
}

// While an attempt of the whole waits there is no copy, and for a leg without its whole there is none either.
func TestStoreWaitsForItsCopy(t *testing.T) {
	f := newStores(t, "vault")
	f.refused = true
	f.settle()
	leg := f.legs["vault"]
	for name, lose := range map[string]func(whole *v1alpha1.Transfer) *v1alpha1.Transfer{
		"gone":     func(*v1alpha1.Transfer) *v1alpha1.Transfer { return nil },
		"no copy":  func(w *v1alpha1.Transfer) *v1alpha1.Transfer { w.Status.Staged = nil; return w },
		"removing": func(w *v1alpha1.Transfer) *v1alpha1.Transfer { w.Status.Staged.State = "Removing"; return w },
		"other run": func(w *v1alpha1.Transfer) *v1alpha1.Transfer {
			w.Status.Run.ID, w.Status.Staged.RunID = "other", "other"
			return w
		},
		"back-off": func(w *v1alpha1.Transfer) *v1alpha1.Transfer {
			w.Status.Run.NextAttemptTime = ptr.To(metav1.NewTime(f.now))
			return w
		},
	} {
		facts := f.facts(leg)
		facts.Whole = lose(f.whole.DeepCopy())
		decision := plan.DecideTransfer(leg, facts, image)
		if decision.Start != nil || decision.Status.Run.Failures > 0 {
			t.Errorf("%s: %+v", name, decision)
		}
	}
}

// The application rests, and is told of no copy, until the driver has made the clone that the pods of stores wait for.
func TestCloneIsMadeForStores(t *testing.T) {
	f := newStores(t, "vault")
	h := newHooked(t, v1alpha1.CopyClone)
	f.staging, f.hooks = &h.facts.Staging, h
	f.staging.StorageClass.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
	f.staging.Source.Annotations = map[string]string{v1alpha1.UseCopyTriggerAnnotation: ""}
	f.whole.Spec.Source.CopyMethod, f.whole.Spec.Source.Hooks = v1alpha1.CopyClone, h.transfer.Spec.Source.Hooks
	unbound := func() {
		for range 12 {
			f.look()
			for i := range f.staging.Claims {
				f.staging.Claims[i].Status.Phase = corev1.ClaimPending
			}
		}
	}
	unbound()
	h.end(f.whole.Status.Hooks.Before.Job, batchv1.JobComplete)
	unbound()
	f.staging.Source.Annotations[v1alpha1.CopyTriggerAnnotation] = "1"
	unbound()
	f.expect(v1alpha1.TransferTransferring, v1alpha1.TransferStarting)
	if len(h.made) != 1 || f.whole.Status.CopyTrigger.State != v1alpha1.CopyInProgress || f.made["vault"] != 1 {
		t.Fatalf("%v were made, the trigger is %+v, %v pods", h.made, f.whole.Status.CopyTrigger, f.made)
	}
	f.staging.Claims[0].Status.Phase = corev1.ClaimBound
	f.settle()
	if len(h.made) != 2 || f.whole.Status.CopyTrigger.State != v1alpha1.CopyCompleted {
		t.Errorf("%v were made, the trigger is %+v", h.made, f.whole.Status.CopyTrigger)
	}
}

// What a pod has mounted lasts, whatever is done to it. When it is gone, all destinations get another copy in another
// run.
func TestCopyIsDeletedBehindAStore(t *testing.T) {
	f := newStores(t, "vault", "attic")
	f.settle()
	f.runApart("attic", onTheWay())
	f.runApart("vault", onTheWay())
	f.endApart("vault", succeeded())
	run := f.whole.Status.Run.ID
	f.staging.Claims[0].DeletionTimestamp = &metav1.Time{Time: f.now}
	f.settle()
	f.expect(v1alpha1.TransferTransferring, v1alpha1.TransferComplete, v1alpha1.TransferTransferring)
	f.endApart("attic", broken())
	f.expect(v1alpha1.TransferRetrying, v1alpha1.TransferComplete, v1alpha1.TransferRetrying)
	f.now = f.now.Add(time.Hour)
	f.settle()
	if f.whole.Status.Run.ID == run || f.made["vault"] != 2 || f.made["attic"] != 2 {
		t.Fatalf("run %s after %s, %v pods: %+v", f.whole.Status.Run.ID, run, f.made, f.whole.Status)
	}
	f.endApart("vault", succeeded())
	f.runApart("attic", onTheWay())
	f.staging.Claims[0].DeletionTimestamp = &metav1.Time{Time: f.now}
	f.endApart("attic", succeeded())
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
	for name, leg := range f.legs {
		if f.made[name] != 2 || !leg.Status.RecoveryPoint.Equal(f.whole.Status.RecoveryPoint) {
			t.Errorf("%s: %v pods, %v, not %v", name, f.made, leg.Status.RecoveryPoint, f.whole.Status.RecoveryPoint)
		}
	}
}

// A leg has the time of what it read, also when its whole is about the next copy.
func TestRecoveryPointOfWhatWasRead(t *testing.T) {
	f := newStores(t, "vault")
	f.settle()
	f.runApart("vault", onTheWay())
	taken := f.whole.Status.Staged.PointInTime.DeepCopy()
	f.now = f.now.Add(time.Minute)
	leg, a := f.legs["vault"], f.apart["vault"]
	next := &v1alpha1.StagedStatus{RunID: "next", PointInTime: &metav1.Time{Time: f.now}}
	removed := f.whole.Status.Staged.DeepCopy()
	removed.State = v1alpha1.StagedRemoving
	for _, test := range []struct{ staged, want *v1alpha1.StagedStatus }{{next, nil}, {removed, removed}} {
		facts := f.facts(leg)
		facts.Whole = f.whole.DeepCopy()
		facts.Whole.Status.Run.ID, facts.Whole.Status.Staged = "next", test.staged
		facts.Job, facts.Pod = a.job, ended(0, "Completed", `{"state":"AGENT_STATE_SUCCEEDED"}`)
		status := plan.DecideTransfer(leg, facts, image).Status
		if status.Phase != v1alpha1.TransferComplete || (status.RecoveryPoint == nil) != (test.want == nil) ||
			test.want != nil && !status.RecoveryPoint.Equal(taken) {
			t.Errorf("%s: %v with %+v", status.Phase, status.RecoveryPoint, test.staged)
		}
	}
}

// Claims that retry while the pod of a store is at work for long are gathered as at the beginning.
func TestClaimsAreGatheredAgain(t *testing.T) {
	f := newFamily(t, "here").toStores("", "vault")
	f.settle()
	f.runApart("vault", onTheWay())
	f.end(map[string]*wirev1.Report{"west": broken(), "here": broken()})
	for name, after := range map[string]time.Duration{"west": 4 * time.Minute, "here": 4*time.Minute + 30*time.Second} {
		f.legs[name].Status.Run.NextAttemptTime = ptr.To(metav1.NewTime(f.now.Add(after)))
	}
	f.settle()
	f.expect(v1alpha1.TransferTransferring, v1alpha1.TransferRetrying, v1alpha1.TransferRetrying,
		v1alpha1.TransferTransferring)
	before := f.whole.Status.DeepCopy()
	f.settle()
	if !sameStatus(*before, f.whole.Status) {
		t.Errorf("another look writes %+v, after %+v", f.whole.Status, before)
	}
	f.now = f.now.Add(4*time.Minute + 5*time.Second)
	f.settle()
	if f.jobs != 1 {
		t.Fatalf("%d pods, the last one for %v", f.jobs, f.receivers())
	}
	f.now = f.now.Add(30 * time.Second)
	f.settle()
	if f.jobs != 2 || !slices.Equal(f.receivers(), []string{"west", "here"}) {
		t.Errorf("%d pods, the last one for %v: %+v", f.jobs, f.receivers(), f.whole.Status)
	}
}

// Only into claims a block volume is written in its place, and a Transfer with several destinations writes into none
// itself.
func TestStoresOverwriteNothing(t *testing.T) {
	for _, into := range []*family{newStores(t, "vault"), newFamily(t).toStores("", "vault")} {
		into.whole.Spec.Source.CopyMethod = v1alpha1.CopyDirect
		into.whole.Status.RecoveryPoint = &metav1.Time{Time: now}
		facts := into.facts(into.whole)
		facts.Claim = newWorld(t, "").facts.Claim
		into.whole.Status = plan.DecideTransfer(into.whole, facts, image).Status
		claims := len(into.whole.Spec.Destinations) > 1
		if into.whole.Status.Run == nil || (into.whole.Status.RecoveryPoint == nil) != claims {
			t.Errorf("with claims %t: %+v", claims, into.whole.Status)
		}
		if plan.WritesHere(into.whole) || plan.OccupiesClaim(into.whole) {
			t.Error("it writes into a claim without a name")
		}
	}
}

// The source may be deleted once its copy was made, and legs go on.
func TestStoreRetriesWithoutTheSource(t *testing.T) {
	f := newStores(t, "vault")
	f.settle()
	f.endApart("vault", broken())
	f.now = f.now.Add(time.Minute)
	leg := f.legs["vault"]
	facts := f.facts(leg)
	facts.Whole, facts.Claim = f.whole, nil
	if decision := plan.DecideTransfer(leg, facts, image); decision.Start == nil {
		t.Errorf("%+v", decision.Status.Conditions)
	}
}
