// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/plan"
)

// world has a Transfer by snapshot, and does what is decided as an API server would.
type world struct {
	*testing.T
	transfer *v1alpha1.Transfer
	facts    plan.TransferFacts
	at       time.Time
	last     plan.TransferDecision
}

func newWorld(t *testing.T, method v1alpha1.CopyMethod) *world {
	w := &world{T: t, transfer: newTransfer("ledger", time.Hour), facts: goodFacts(), at: now}
	w.transfer.Spec.Source.CopyMethod = method
	request := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	w.facts.Staging = plan.StagingFacts{
		Source: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: "pv",
				VolumeMode: ptr.To(corev1.PersistentVolumeBlock), StorageClassName: ptr.To("fast"),
				Resources: corev1.VolumeResourceRequirements{Requests: request},
			},
			Status: corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},
			},
		},
		Driver:        "csi.example",
		SnapshotClass: &plan.SnapshotClass{Name: "snap", Driver: "csi.example"},
		StorageClass: &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "csi.example",
		},
	}
	w.facts.Claim, w.transfer.Spec.Destination.PersistentVolumeClaim.Path = w.facts.Staging.Source, "/"
	return w
}

// look decides once and does it, at most one copy at a time.
func (w *world) look() plan.TransferDecision {
	w.Helper()
	facts := w.facts
	facts.Now = w.at
	facts.Staging.Seen = plan.NeedsStaging(w.transfer)
	if !facts.Staging.Seen {
		facts.Staging = plan.StagingFacts{}
	}
	w.last = plan.DecideTransfer(w.transfer, facts, image)
	w.transfer.Status = w.last.Status
	staging, kept := &w.facts.Staging, plan.KeptCopy(w.transfer)
	if w.last.Unstage {
		staging.Snapshots = slices.DeleteFunc(staging.Snapshots, func(s plan.Snapshot) bool { return s.Name != kept })
		staging.Claims = slices.DeleteFunc(
			staging.Claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name != kept },
		)
	}
	if stage := w.last.Stage; stage != nil {
		if stage.Snapshot != "" {
			staging.Snapshots = append(staging.Snapshots, plan.Snapshot{Name: stage.Snapshot})
		}
		if stage.Claim != nil {
			claim := stage.Claim.DeepCopy()
			claim.CreationTimestamp = metav1.NewTime(w.at)
			staging.Claims = append(staging.Claims, *claim)
		}
	}
	if len(staging.Snapshots) > 1 || len(staging.Claims) > 1 {
		w.Fatalf("a pile: %d snapshots, %d claims", len(staging.Snapshots), len(staging.Claims))
	}
	if w.last.Clear {
		w.facts.Job, w.facts.Pod = nil, nil
	}
	if w.last.Start != nil {
		job := w.last.Start.Job()
		job.CreationTimestamp = metav1.NewTime(w.at)
		w.facts.Job = job
	}
	return w.last
}

// until looks, a second apart, until something holds.
func (w *world) until(what string, holds func() bool) {
	w.Helper()
	for range 50 {
		if holds() {
			return
		}
		w.at = w.at.Add(time.Second)
		w.look()
	}
	w.Fatalf("%s: not after 50 looks: %+v", what, w.transfer.Status)
}

func (w *world) verdict(conditionType, reason, message string) {
	w.Helper()
	got, why, says := verdict(w.T, w.transfer.Status.Conditions)
	if got != conditionType || why != reason || !strings.Contains(says, message) {
		w.Errorf("%s %s %q, want %s %s %q", got, why, says, conditionType, reason, message)
	}
}

func (w *world) snapshotTaken() bool { return len(w.facts.Staging.Snapshots) == 1 }
func (w *world) claimMade() bool     { return len(w.facts.Staging.Claims) == 1 }
func (w *world) started() bool       { return w.facts.Job != nil }

// taken has the driver take the snapshot.
func (w *world) taken() {
	w.Helper()
	w.until("snapshot", w.snapshotTaken)
	s := &w.facts.Staging.Snapshots[0]
	s.Ready, s.Created, s.RestoreSize = true, w.at, ptr.To(resource.MustParse("3Gi"))
}

// bound has the driver make the volume.
func (w *world) bound() {
	w.Helper()
	w.until("claim", w.claimMade)
	claim := &w.facts.Staging.Claims[0]
	claim.Status.Phase = corev1.ClaimBound
	claim.Status.Capacity = claim.Spec.Resources.Requests
}

func (w *world) succeed() {
	w.Helper()
	w.until("Job", w.started)
	w.facts.Pod = ended(0, "", "")
	w.until("end", func() bool { return w.transfer.Status.Phase == v1alpha1.TransferComplete })
	w.facts.Job, w.facts.Pod = nil, nil
}

func claimOf(job *batchv1.Job) (name string, readOnly bool) {
	for _, volume := range job.Spec.Template.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			return volume.PersistentVolumeClaim.ClaimName, volume.PersistentVolumeClaim.ReadOnly
		}
	}
	return "", false
}

func TestReadsASnapshot(t *testing.T) {
	w := newWorld(t, v1alpha1.CopySnapshot)
	w.look()
	if w.last.Stage != nil || w.last.Start != nil || w.transfer.Status.Staged.State != v1alpha1.StagedPreparing {
		t.Fatalf("something is made before status names it: %+v", w.last)
	}
	w.until("snapshot", w.snapshotTaken)
	w.verdict("Reconciling", "Staging", "VolumeSnapshot")
	if w.last.Stage.Try == nil {
		t.Error("a snapshot is taken before a quota is asked for its claim")
	}
	w.at = w.at.Add(time.Minute)
	w.look()
	if w.started() || w.claimMade() {
		t.Fatal("begun before the snapshot is ready")
	}
	w.taken()
	point := w.at
	w.until("claim", w.claimMade)
	claim := &w.facts.Staging.Claims[0]
	if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "3Gi" {
		t.Errorf("size %s", &size)
	}
	if *claim.Spec.VolumeMode != corev1.PersistentVolumeBlock || *claim.Spec.StorageClassName != "fast" ||
		claim.Spec.DataSource.Kind != "VolumeSnapshot" || claim.Spec.AccessModes[0] != corev1.ReadWriteOnce {
		t.Errorf("%+v", claim.Spec)
	}
	w.at = w.at.Add(time.Minute)
	w.look()
	if w.started() {
		t.Fatal("begun before the claim is bound")
	}
	w.bound()
	w.until("Job", w.started)
	if name, readOnly := claimOf(w.facts.Job); name != claim.Name || !readOnly {
		t.Errorf("mounts %s, read-only %v", name, readOnly)
	}
	if staged := w.transfer.Status.Staged; staged.State != v1alpha1.StagedReady || staged.Size.String() != "3Gi" ||
		!staged.PointInTime.Time.Equal(point) {
		t.Errorf("%+v", staged)
	}
	w.succeed()
	if got := w.transfer.Status.RecoveryPoint; !got.Time.Equal(point) {
		t.Errorf("recovery point %s, want %s", got, point)
	}
	w.until("removal", func() bool { return w.transfer.Status.Staged == nil })
	if w.snapshotTaken() || w.claimMade() {
		t.Error("left behind")
	}
	w.at = w.at.Add(time.Hour)
	if before := w.transfer.Status.DeepCopy(); w.look().RequeueAfter != 0 || !sameStatus(*before, w.last.Status) {
		t.Errorf("no rest: %+v", w.last)
	}
}

func TestReadsAClone(t *testing.T) {
	w := newWorld(t, v1alpha1.CopyClone)
	w.facts.Staging.SnapshotClass = nil
	w.transfer.Spec.Source.StagedAccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
	w.bound()
	claim := w.facts.Staging.Claims[0]
	if w.snapshotTaken() || claim.Spec.DataSource.Kind != "PersistentVolumeClaim" ||
		claim.Spec.DataSource.Name != "ledger" || claim.Spec.AccessModes[0] != corev1.ReadOnlyMany {
		t.Errorf("%+v", claim.Spec)
	}
	w.succeed()
	if !w.transfer.Status.RecoveryPoint.Equal(&claim.CreationTimestamp) {
		t.Errorf("recovery point %s, want %s", w.transfer.Status.RecoveryPoint, claim.CreationTimestamp)
	}
}

// TestFirstConsumer: the claim is bound when a pod that mounts it has a node; the snapshot stays until then.
func TestFirstConsumer(t *testing.T) {
	w := newWorld(t, v1alpha1.CopySnapshot)
	w.facts.Staging.StorageClass.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
	w.taken()
	w.until("Job", w.started)
	w.facts.Pod = unschedulable(0)
	w.at = w.at.Add(time.Hour)
	w.look()
	if !w.snapshotTaken() || !w.claimMade() || w.transfer.Status.Staged == nil {
		t.Fatalf("the deadline counts while there is no node: %+v", w.transfer.Status)
	}
	w.facts.Staging.Claims[0].Annotations = map[string]string{"volume.kubernetes.io/selected-node": "z15-a"}
	w.look()
	w.verdict("Stalled", "StagingTimedOut", "within 10m")
	if w.facts.Job != nil || w.transfer.Status.Run.NextAttemptTime == nil {
		t.Errorf("%+v", w.last)
	}
}

// TestRestartsReadTheSameCopy, and the next run another one.
func TestRestartsReadTheSameCopy(t *testing.T) {
	w := newWorld(t, v1alpha1.CopySnapshot)
	w.taken()
	w.bound()
	w.until("Job", w.started)
	name, first := w.transfer.Status.Staged.Name, w.transfer.Status.Staged.PointInTime.Time
	w.facts.Staging.Source = nil // it was deleted, and is not needed any more
	w.facts.Claim = nil
	for range 2 {
		w.facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "broken")
		w.until("retry", func() bool { return w.transfer.Status.Run.NextAttemptTime != nil })
		w.facts.Job, w.facts.Pod = nil, nil
		w.until("Job", w.started)
		if mounted, _ := claimOf(w.facts.Job); mounted != name || len(w.facts.Staging.Claims) != 1 {
			t.Errorf("mounts %s, not %s", mounted, name)
		}
	}
	w.succeed()
	if !w.transfer.Status.RecoveryPoint.Time.Equal(first) {
		t.Errorf("recovery point %s, want %s", w.transfer.Status.RecoveryPoint, first)
	}
	fresh := newWorld(t, v1alpha1.CopySnapshot)
	w.facts.Staging.Source, w.facts.Claim, w.facts.NewRunID = fresh.facts.Staging.Source, fresh.facts.Claim, "fghij"
	w.transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	w.taken()
	w.bound()
	w.until("Job", w.started)
	if again := w.transfer.Status.Staged; again.Name == name || !again.PointInTime.After(first) {
		t.Errorf("%+v is the copy of the run before", again)
	}
}

// TestStagingGoesWrong: each of these costs no attempt that counts, waits, and leaves nothing behind.
func TestStagingGoesWrong(t *testing.T) {
	for name, test := range map[string]struct {
		spoil   func(*world)
		reason  string
		message string
	}{
		"no CRDs": {func(w *world) {
			w.facts.Staging.Problem = &agentpod.Problem{Reason: v1alpha1.ReasonSnapshotsNotInstalled, Message: "install"}
		}, v1alpha1.ReasonSnapshotsNotInstalled, "install"},
		"no source": {func(w *world) { w.facts.Staging.Source = nil }, v1alpha1.ReasonSourceNotFound, "create it"},
		"unbound": {func(w *world) {
			w.facts.Staging.Source.Spec.VolumeName = ""
		}, v1alpha1.ReasonSourceNotReady, "pod"},
		"no CSI driver": {func(w *world) { w.facts.Staging.Driver = "" }, v1alpha1.ReasonCopyMethodUnsupported, "Direct"},
		"no StorageClass": {func(w *world) {
			w.facts.Staging.StorageClass, w.transfer.Spec.Source.StagedStorageClassName = nil, "slow"
		}, v1alpha1.ReasonStorageClassNotFound, "slow"},
		"source without a StorageClass": {func(w *world) {
			w.facts.Staging.StorageClass, w.facts.Staging.Source.Spec.StorageClassName = nil, nil
		}, v1alpha1.ReasonStorageClassNotFound, "csi.example"},
		"StorageClass of another driver": {func(w *world) {
			w.facts.Staging.StorageClass.Provisioner = "local-path"
		}, v1alpha1.ReasonClassUnsuitable, "local-path"},
		"StorageClass that retains": {func(w *world) {
			w.facts.Staging.StorageClass.ReclaimPolicy = ptr.To(corev1.PersistentVolumeReclaimRetain)
		}, v1alpha1.ReasonClassUnsuitable, "Delete"},
		"no snapshot class": {func(w *world) {
			w.facts.Staging.SnapshotClass, w.transfer.Spec.Source.SnapshotClassName = nil, "gone"
		}, v1alpha1.ReasonSnapshotClassNotFound, "gone"},
		"no default snapshot class": {func(w *world) {
			w.facts.Staging.SnapshotClass = nil
		}, v1alpha1.ReasonSnapshotClassNotFound, "is-default-class"},
		"snapshot class of another driver": {func(w *world) {
			w.facts.Staging.SnapshotClass.Driver = "other.example"
		}, v1alpha1.ReasonClassUnsuitable, "other.example"},
		"snapshot class that retains": {func(w *world) {
			w.facts.Staging.SnapshotClass.Retains = true
		}, v1alpha1.ReasonClassUnsuitable, "Delete"},
		"driver that never takes it": {func(w *world) {
			w.until("snapshot", w.snapshotTaken)
			w.at = w.at.Add(10 * time.Minute)
		}, v1alpha1.ReasonStagingTimedOut, "10m"},
		"shorter deadline": {func(w *world) {
			w.transfer.Spec.Source.StagingDeadline = &metav1.Duration{Duration: time.Minute}
			w.until("snapshot", w.snapshotTaken)
			w.at = w.at.Add(time.Minute)
		}, v1alpha1.ReasonStagingTimedOut, "1m"},
		"full pool": {func(w *world) {
			w.until("snapshot", w.snapshotTaken)
			w.facts.Staging.Snapshots[0].Failure = "pool tank is out of space"
			w.look()
			w.verdict("Stalled", "SnapshotFailed", "out of space")
			w.at = w.at.Add(10 * time.Minute)
		}, v1alpha1.ReasonSnapshotFailed, "out of space"},
		"driver that never has a group ready": {func(w *world) {
			w.grouped()
			w.at = w.at.Add(10 * time.Minute)
		}, v1alpha1.ReasonStagingTimedOut, `"of-moment" was not ready within 10m0s (spec.source.stagingDeadline);`},
		"driver that fails with a group": {func(w *world) {
			w.grouped()
			w.facts.Staging.Grouped.Failure = "pool tank is out of space"
			w.at = w.at.Add(10 * time.Minute)
		}, v1alpha1.ReasonSnapshotFailed, `VolumeSnapshot "of-moment" within 10m0s;`},
		"driver that never makes the volume": {func(w *world) {
			w.taken()
			w.until("claim", w.claimMade)
			w.at = w.at.Add(10 * time.Minute)
		}, v1alpha1.ReasonStagingTimedOut, "claim"},
		"snapshot of a wrong size": {func(w *world) {
			w.taken()
			w.facts.Staging.Snapshots[0].RestoreSize = ptr.To(resource.MustParse("7Ei"))
		}, v1alpha1.ReasonSnapshotFailed, "7Ei"},
		"snapshot lost": {func(w *world) {
			w.taken()
			w.until("claim", w.claimMade)
			w.facts.Staging.Snapshots = nil
		}, v1alpha1.ReasonStagedCopyLost, "VolumeSnapshot"},
		"snapshot deleted": {func(w *world) {
			w.taken()
			w.until("claim", w.claimMade)
			w.facts.Staging.Snapshots[0].Deleting = true
		}, v1alpha1.ReasonStagedCopyLost, "VolumeSnapshot"},
		"claim lost": {func(w *world) {
			w.ready()
			w.facts.Staging.Claims[0].Status.Phase = corev1.ClaimLost
		}, v1alpha1.ReasonStagedCopyLost, "claim"},
		"claim deleted before the pod": {func(w *world) {
			w.ready()
			w.until("Job", w.started)
			w.facts.Staging.Claims = nil
		}, v1alpha1.ReasonStagedCopyLost, "claim"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, v1alpha1.CopySnapshot)
			test.spoil(w)
			w.until("failure", func() bool {
				run := w.transfer.Status.Run
				return run != nil && run.NextAttemptTime != nil
			})
			w.verdict("Stalled", test.reason, test.message)
			if w.transfer.Status.Run.Failures != 0 || w.transfer.Status.History[0].Reason != test.reason || w.started() {
				t.Errorf("%+v", w.transfer.Status)
			}
			w.look()
			if w.last.RequeueAfter > 5*time.Minute || w.snapshotTaken() || w.claimMade() {
				t.Errorf("left behind, or never tried again: %+v", w.last)
			}
		})
	}
}

// grouped has the run read the VolumeSnapshot of a group that is not ready.
func (w *world) grouped() {
	w.Helper()
	w.transfer.Spec.Source.VolumeGroupSnapshotName = "moment"
	w.facts.Staging.Grouped = &plan.Snapshot{Name: "of-moment"}
	w.until("copy", func() bool { return w.transfer.Status.Staged != nil })
}

// ready has everything ready.
func (w *world) ready() { w.taken(); w.bound() }

// TestRejectedCopies: the API server does not accept the claim or the snapshot.
func TestRejectedCopies(t *testing.T) {
	w := newWorld(t, v1alpha1.CopySnapshot)
	w.until("snapshot", w.snapshotTaken)
	w.last = plan.RefuseStaging(
		w.transfer, agentpod.Problem{Reason: v1alpha1.ReasonStagingRejected, Message: "exceeded quota"}, w.at,
	)
	w.transfer.Status = w.last.Status
	w.verdict("Stalled", "StagingRejected", "exceeded quota")
	if w.last.Finished.RunEnded || w.last.RequeueAfter == 0 {
		t.Errorf("%+v", w.last)
	}
	w.until("removal", func() bool { return w.transfer.Status.Staged == nil })
	w.at = w.at.Add(2 * time.Minute)
	w.until("another try", func() bool { return w.transfer.Status.Staged != nil })
	if w.transfer.Status.Run.Attempt != 2 {
		t.Errorf("attempt %d", w.transfer.Status.Run.Attempt)
	}
}

// TestSizeOfTheCopy: never smaller than the source, whatever a driver tells of a snapshot, and larger within bounds.
func TestSizeOfTheCopy(t *testing.T) {
	for size, want := range map[string]string{"": "2Gi", "1": "2Gi", "-7Ei": "2Gi", "2Gi": "2Gi", "20Gi": "20Gi"} {
		w := newWorld(t, v1alpha1.CopySnapshot)
		w.taken()
		w.facts.Staging.Snapshots[0].RestoreSize = nil
		if size != "" {
			w.facts.Staging.Snapshots[0].RestoreSize = ptr.To(resource.MustParse(size))
		}
		w.facts.Staging.Snapshots[0].Created = w.at.Add(time.Hour) // and whatever its clock is
		w.until("claim", w.claimMade)
		got := w.facts.Staging.Claims[0].Spec.Resources.Requests[corev1.ResourceStorage]
		if got.String() != want || w.transfer.Status.Staged.PointInTime.After(w.at) {
			t.Errorf("%q: %s, %+v", size, &got, w.transfer.Status.Staged)
		}
	}
}

// TestDirectAfterStaging: whoever gives up copies is not held up by the one that cannot be removed.
func TestDirectAfterStaging(t *testing.T) {
	w := newWorld(t, v1alpha1.CopySnapshot)
	w.taken()
	w.until("claim", w.claimMade)
	w.facts.Staging.Problem = &agentpod.Problem{Reason: v1alpha1.ReasonStagingNotAllowed, Message: "not allowed"}
	w.until("failure", func() bool { return w.transfer.Status.Run.NextAttemptTime != nil })
	w.transfer.Spec.Source.CopyMethod, w.transfer.Generation, w.facts.NewRunID = v1alpha1.CopyDirect, 2, "fghij"
	w.until("Job", w.started)
	if name, _ := claimOf(w.facts.Job); name != "ledger" {
		t.Errorf("mounts %s", name)
	}
}

func sameStatus(a, b v1alpha1.TransferStatus) bool {
	return a.Phase == b.Phase && len(a.Conditions) == len(b.Conditions) && a.Staged == nil && b.Staged == nil &&
		slices.Equal(a.Conditions, b.Conditions)
}

func TestWithinObjective(t *testing.T) {
	objective := v1alpha1.TransferObjective{MaxAge: metav1.Duration{Duration: time.Hour}}
	for name, test := range map[string]struct {
		point  *metav1.Time
		status metav1.ConditionStatus
		reason string
		until  time.Duration
	}{
		"none": {nil, metav1.ConditionFalse, v1alpha1.ReasonNoRecoveryPoint, 0},
		"young": {
			&metav1.Time{Time: now.Add(-20 * time.Minute)}, metav1.ConditionTrue, "RecoveryPointRecent", 40 * time.Minute,
		},
		"just so": {&metav1.Time{Time: now.Add(-time.Hour)}, metav1.ConditionFalse, "RecoveryPointTooOld", 0},
		"old":     {&metav1.Time{Time: now.Add(-24 * time.Hour)}, metav1.ConditionFalse, "RecoveryPointTooOld", 0},
		"future":  {&metav1.Time{Time: now.Add(time.Hour)}, metav1.ConditionTrue, "RecoveryPointRecent", 2 * time.Hour},
	} {
		got, until := plan.Within(objective, test.point, now)
		if got.Status != test.status || got.Reason != test.reason || until != test.until {
			t.Errorf("%s: %+v, %s", name, got, until)
		}
	}
}

// TestObjectiveIsWatched: it is looked at again when it will be missed, and writes nothing until then.
func TestObjectiveIsWatched(t *testing.T) {
	w := newWorld(t, v1alpha1.CopyDirect)
	w.transfer.Spec.Objective = &v1alpha1.TransferObjective{MaxAge: metav1.Duration{Duration: time.Hour}}
	within := func() *metav1.Condition {
		return meta.FindStatusCondition(w.transfer.Status.Conditions, v1alpha1.ConditionWithinObjective)
	}
	w.look()
	if c := within(); c == nil || c.Reason != v1alpha1.ReasonNoRecoveryPoint {
		t.Errorf("%+v", c)
	}
	w.succeed()
	began := w.transfer.Status.Run.StartTime
	if c := within(); c.Status != metav1.ConditionTrue || !w.transfer.Status.RecoveryPoint.Equal(began) {
		t.Errorf("%+v, %s, want %s", c, w.transfer.Status.RecoveryPoint, began)
	}
	w.at = began.Add(30 * time.Minute)
	before := *within()
	if w.look().RequeueAfter != 30*time.Minute || *within() != before {
		t.Errorf("%s, %+v", w.last.RequeueAfter, within())
	}
	w.at = began.Add(time.Hour)
	w.look()
	if c := within(); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonRecoveryPointTooOld {
		t.Errorf("%+v", c)
	}
	w.verdict("Ready", "Succeeded", "")
	w.transfer.Spec.Objective = nil
	w.look()
	if within() != nil {
		t.Error("still judged")
	}
}
