// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package staging_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/staging"
)

// TestStaging runs its parts one after the other: at first there are no CRDs.
func TestStaging(t *testing.T) {
	early, history := prepare(t), prepareHistory(t)
	prepareStorageClass(t)
	t.Cleanup(func() { killedOften(t) })
	t.Run("WithoutCRDs", func(t *testing.T) { early.T = t; withoutCRDs(early) })
	t.Run("HistoryWithoutCRDs", func(t *testing.T) { history.T = t; historyWithoutCRDs(history) })
	t.Run("ReadsACloneWithoutCRDs", readsAClone)
	if err := cluster.InstallSnapshots(context.Background()); err != nil {
		t.Fatal(err)
	}
	prepareSnapshotClass(t)
	t.Run("WithCRDsLater", func(t *testing.T) {
		early.T = t
		early.hurry()
		early.until("end", reconciler(manager.GetClient()), early.ended)
		early.nothingLeft()
	})
	t.Run("HistoryWithCRDsLater", func(t *testing.T) {
		history.T = t
		history.until("the first", reconciler(manager.GetClient()), history.kept(1))
	})
	t.Run("KeepsHistory", keepsHistory)
	t.Run("PrunesHistory", prunesHistory)
	t.Run("HistoryOfOthers", historyOfOthers)
	t.Run("HistoryDeletedAtRest", historyDeletedAtRest)
	t.Run("PopulateOutlivesTheTransfer", populateOutlivesTheTransfer)
	t.Run("HistoryClassIsMissing", historyClassIsMissing)
	t.Run("HistoryAndQuota", historyAndQuota)
	t.Run("HistoryKilled", historyKilled)
	t.Run("ReadsASnapshot", readsASnapshot)
	t.Run("ReadsAGroup", readsAGroup)
	t.Run("SweptGroups", sweptGroups)
	t.Run("ReadsAClone", readsAClone)
	t.Run("FullPool", fullPool)
	t.Run("MissingClass", missingClass)
	t.Run("QuotaOfClaims", quotaOfClaims)
	t.Run("SourceDeleted", sourceDeleted)
	t.Run("SnapshotLost", snapshotLost)
	t.Run("Swept", swept)
	t.Run("HooksAroundASnapshot", hooksAroundASnapshot)
	t.Run("ManagerAway", managerAway)
	t.Run("CopiesStay", copiesStay)
	t.Run("HooksAndAgents", hooksAndAgents)
	t.Run("BeforeHookDeleted", beforeHookDeleted)
	t.Run("LegsStay", legsStay)
	t.Run("HookChangedMeanwhile", hookChangedMeanwhile)
	t.Run("HugeHook", hugeHook)
	t.Run("Killed", killed)
	t.Run("KilledWithHooks", killedWithHooks)
	t.Run("TriggerBetweenHooks", triggerBetweenHooks)
	t.Run("CloneThatNobodyMade", cloneThatNobodyMade)
	t.Run("KilledWithTriggers", killedWithTriggers)
	t.Run("KilledWhilePausing", killedWhilePausing)
	t.Run("Windows", keptInWindows)
}

// withoutCRDs: a snapshot says what lacks, and needs no restart when it comes.
func withoutCRDs(s *storage) {
	r := reconciler(manager.GetClient())
	cluster.Create(s, s.transfer)
	for range 30 {
		if s.refresh(); s.stuck(v1alpha1.ReasonSnapshotsNotInstalled)() {
			break
		}
		if err := s.step(r); err != nil {
			s.Fatal(err)
		}
	}
	if !s.stuck(v1alpha1.ReasonSnapshotsNotInstalled)() || s.transfer.Status.Staged != nil || len(s.copies()) > 0 {
		s.Fatalf("%+v", s.transfer.Status)
	}
	if err := controllertest.Expect(
		s.transfer.Status.Conditions, v1alpha1.ConditionStalled, v1alpha1.ReasonSnapshotsNotInstalled,
	); err != nil {
		s.Error(err)
	}
}

func readsASnapshot(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	cluster.Create(t, s.transfer)
	s.until("end", r, s.ended)
	s.nothingLeft()
	if s.mounted["ledger"] || len(s.mounted) != 1 || s.transfer.Status.RecoveryPoint == nil {
		t.Errorf("mounted %v, %+v", s.mounted, s.transfer.Status)
	}
	before := s.transfer.ResourceVersion
	for range 2 {
		if err := s.step(r); err != nil {
			t.Fatal(err)
		}
	}
	if s.refresh(); s.transfer.ResourceVersion != before {
		t.Error("a reconcile of a Transfer at rest writes")
	}
	// The next run has a copy of its own.
	s.transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	if err := cluster.Client.Update(context.Background(), s.transfer); err != nil {
		t.Fatal(err)
	}
	run := s.transfer.Status.Run.ID
	s.until("end of the second run", r, func() bool { return s.ended() && s.transfer.Status.Run.ID != run })
	s.nothingLeft()
	if len(s.mounted) != 2 {
		t.Errorf("mounted %v", s.mounted)
	}
}

// readsAClone needs no CRDs.
func readsAClone(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	s.transfer.Spec.Source.CopyMethod = v1alpha1.CopyClone
	cluster.Create(t, s.transfer)
	s.until("claim", r, func() bool { return len(s.copies()) == 1 })
	claim := s.copies()[0]
	if from := claim.Spec.DataSource; from == nil || from.Kind != "PersistentVolumeClaim" || from.Name != "ledger" {
		t.Errorf("%+v", claim.Spec)
	}
	s.until("end", r, s.ended)
	s.nothingLeft()
	if len(s.mounted) != 1 || !s.mounted[claim.Name] || !s.transfer.Status.RecoveryPoint.Equal(&claim.CreationTimestamp) {
		t.Errorf("mounted %v, %+v", s.mounted, s.transfer.Status)
	}
	s.atRest(r)
}

func fullPool(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	s.failure = "pool tank is out of space"
	s.transfer.Spec.Source.StagingDeadline = &metav1.Duration{Duration: 10 * time.Second}
	cluster.Create(t, s.transfer)
	s.until("snapshot that fails", r, func() bool {
		return controllertest.Expect(
			s.transfer.Status.Conditions, v1alpha1.ConditionStalled, v1alpha1.ReasonSnapshotFailed,
		) == nil
	})
	if len(s.snapshots()) != 1 || s.transfer.Status.Phase != v1alpha1.TransferStarting {
		t.Errorf("%+v", s.transfer.Status)
	}
	s.until("deadline", r, s.stuck(v1alpha1.ReasonSnapshotFailed))
	s.until("removal", r, func() bool { return s.transfer.Status.Staged == nil })
	s.nothingLeft()
	s.failure = ""
	s.hurry()
	s.until("end", r, s.ended)
	s.nothingLeft()
}

func missingClass(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	s.transfer.Spec.Source.SnapshotClassName = "gone"
	cluster.Create(t, s.transfer)
	s.until("failure", r, s.stuck(v1alpha1.ReasonSnapshotClassNotFound))
	s.nothingLeft()
	// A change of the spec begins another run at once.
	s.refresh()
	s.transfer.Spec.Source.SnapshotClassName = "fast"
	if err := cluster.Client.Update(context.Background(), s.transfer); err != nil {
		t.Fatal(err)
	}
	s.until("end", r, s.ended)
}

// quotaOfClaims: no snapshot is taken for a claim that is not allowed.
func quotaOfClaims(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	example := &corev1.PersistentVolumeClaim{}
	if err := cluster.Client.Get(
		context.Background(), client.ObjectKey{Namespace: s.namespace, Name: "ledger"}, example,
	); err != nil {
		t.Fatal(err)
	}
	example.ObjectMeta = metav1.ObjectMeta{Namespace: s.namespace, GenerateName: "any-"}
	quota := cluster.NoneOf(t, "persistentvolumeclaims", example)
	cluster.Create(t, s.transfer)
	s.idle = true
	s.until("failure", r, s.stuck(v1alpha1.ReasonStagingRejected))
	s.nothingLeft()
	if message := s.transfer.Status.History[0].Message; !strings.Contains(message, "exceeded quota") {
		t.Error(message)
	}
	if err := cluster.Client.Delete(context.Background(), quota); err != nil {
		t.Fatal(err)
	}
	s.idle = false
	for deadline := time.Now().Add(time.Minute); !s.ended() && time.Now().Before(deadline); {
		s.hurry()
		for range 20 {
			_ = s.step(r)
			s.work()
			s.refresh()
		}
	}
	if !s.ended() {
		t.Errorf("%+v", s.transfer.Status)
	}
}

// sourceDeleted: what has its point in time goes on; the next run does not begin.
func sourceDeleted(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	cluster.Create(t, s.transfer)
	s.until("claim", r, func() bool { return len(s.copies()) == 1 })
	source := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "ledger"}}
	if err := cluster.Client.Delete(context.Background(), source); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(source), source); err == nil {
		source.Finalizers = nil
		s.ignoreGone(cluster.Client.Update(context.Background(), source))
	}
	s.until("end", r, s.ended)
	s.nothingLeft()
	s.transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	if err := cluster.Client.Update(context.Background(), s.transfer); err != nil {
		t.Fatal(err)
	}
	s.until("condition", r, func() bool {
		return controllertest.Expect(
			s.transfer.Status.Conditions, v1alpha1.ConditionStalled, v1alpha1.ReasonSourceNotFound,
		) == nil
	})
}

func snapshotLost(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	cluster.Create(t, s.transfer)
	s.until("snapshot", r, func() bool { return len(s.snapshots()) == 1 })
	s.work() // it is ready
	s.idle = true
	s.until("claim", r, func() bool { return len(s.copies()) == 1 })
	snapshots := s.snapshots()
	if err := cluster.Client.Delete(context.Background(), &snapshots[0]); err != nil {
		t.Fatal(err)
	}
	s.until("failure", r, s.stuck(v1alpha1.ReasonStagedCopyLost))
	s.idle = false
	s.hurry()
	s.until("end", r, s.ended)
	s.nothingLeft()
}

// swept: what no status names goes, what one names stays, and so does what is not the operator's.
func swept(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	cluster.Create(t, s.transfer)
	s.until("claim", r, func() bool { return len(s.copies()) == 1 })
	clock := testclock.NewFakeClock(time.Now().Add(time.Hour))
	sweeper := &staging.Sweeper{
		Cluster: staging.Cluster{Client: manager.GetClient(), Reader: manager.GetAPIReader()}, Clock: clock,
	}
	sweep := func() {
		t.Helper()
		if err := sweeper.Sweep(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	if len(s.snapshots()) != 1 || s.copies()[0].DeletionTimestamp != nil {
		t.Fatal("what a run needs was removed")
	}
	// A status that was restored from before the run.
	controllertest.Eventually(t, func() error {
		s.refresh()
		s.transfer.Status = v1alpha1.TransferStatus{Phase: v1alpha1.TransferPending}
		return cluster.Client.Status().Update(context.Background(), s.transfer)
	})
	clock.SetTime(time.Now())
	sweep()
	if len(s.snapshots()) != 1 {
		t.Error("a copy was removed whose status may not have been seen yet")
	}
	clock.SetTime(time.Now().Add(time.Hour))
	foreign := s.copies()[0]
	foreign.ObjectMeta = metav1.ObjectMeta{Namespace: s.namespace, Name: "foreign", Labels: foreign.Labels}
	cluster.Create(t, &foreign)
	sweep()
	snapshots, claims := s.snapshots(), s.copies()
	if len(snapshots) != 0 || len(claims) != 2 {
		t.Fatalf("%d snapshots, %d claims", len(snapshots), len(claims))
	}
	for _, claim := range claims {
		if (claim.DeletionTimestamp != nil) == (claim.Name == "foreign") {
			t.Errorf("%s: %v", claim.Name, claim.DeletionTimestamp)
		}
	}
}
