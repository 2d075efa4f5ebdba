// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package staging_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/staging"
	"github.com/lighterage/lighterage/controllers/transfer"
)

// prepareHistory makes a Transfer into a claim of its namespace that keeps the last two states.
func prepareHistory(t *testing.T) *storage {
	s := prepare(t)
	s.history = true
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-copy"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: s.namespace + "-copy"},
			},
		},
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "copy"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: volume.Spec.AccessModes, VolumeName: volume.Name, StorageClassName: ptr.To("fast"),
			Resources: corev1.VolumeResourceRequirements{Requests: volume.Spec.Capacity},
		},
	}
	cluster.Create(t, volume, claim)
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, volume.Spec.Capacity
	if err := cluster.Client.Status().Update(context.Background(), claim); err != nil {
		t.Fatal(err)
	}
	// A claim that the cache does not have yet would count as deleted, and with a clock that stands still nobody looks
	// again.
	controllertest.Eventually(t, func() error {
		var cached corev1.PersistentVolumeClaim
		return manager.GetClient().Get(context.Background(), client.ObjectKeyFromObject(claim), &cached)
	})
	s.transfer.Spec.Source.CopyMethod = v1alpha1.CopyDirect
	s.transfer.Spec.Destination.Peer = ""
	s.transfer.Spec.Destination.Snapshot = &v1alpha1.DestinationSnapshot{
		Retention: v1alpha1.SnapshotRetention{Last: 2},
	}
	return s
}

// kept reports whether all that is listed is there and Ready, and nothing else is.
func (s *storage) kept(n int) func() bool {
	return func() bool {
		listed, found := s.transfer.Status.Snapshots, map[string]bool{}
		for _, o := range s.snapshots() {
			found[o.GetName()] = true
		}
		if !s.ended() || len(listed) != n || len(found) != n {
			return false
		}
		for i := range listed {
			if listed[i].State != v1alpha1.SnapshotReady || !found[listed[i].Name] {
				return false
			}
		}
		return true
	}
}

// again asks for another run.
func (s *storage) again() {
	s.Helper()
	s.refresh()
	s.transfer.Annotations = map[string]string{
		v1alpha1.RunAnnotation: s.transfer.Annotations[v1alpha1.RunAnnotation] + "x",
	}
	if err := cluster.Client.Update(context.Background(), s.transfer); err != nil {
		s.Fatal(err)
	}
}

func (s *storage) shows(reason string) func() bool {
	return func() bool {
		c := meta.FindStatusCondition(s.transfer.Status.Conditions, v1alpha1.ConditionHistoryKept)
		return c != nil && c.Reason == reason
	}
}

// atRest checks that nothing is written.
func (s *storage) atRest(r *transfer.Reconciler) {
	s.Helper()
	s.refresh()
	before := s.transfer.ResourceVersion
	for range 3 {
		if err := s.step(r); err != nil {
			s.Fatal(err)
		}
	}
	if s.refresh(); s.transfer.ResourceVersion != before {
		s.Error("a reconcile of a Transfer at rest writes")
	}
}

// historyWithoutCRDs: the run is Complete, and the condition says what lacks.
func historyWithoutCRDs(s *storage) {
	r := reconciler(manager.GetClient())
	cluster.Create(s, s.transfer)
	for range 40 {
		s.refresh()
		if s.ended() && s.shows(v1alpha1.ReasonSnapshotsNotInstalled)() {
			break
		}
		if err := s.step(r); err != nil {
			s.Fatal(err)
		}
		s.runJobs()
	}
	if !s.ended() || !s.shows(v1alpha1.ReasonSnapshotsNotInstalled)() {
		s.Fatalf("%+v", s.transfer.Status)
	}
	s.atRest(r)
}

func keepsHistory(t *testing.T) {
	s, r := prepareHistory(t), reconciler(manager.GetClient())
	cluster.Create(t, s.transfer)
	s.until("the first", r, s.kept(1))
	s.atRest(r)
	first := s.snapshots()[0]
	claim, _, _ := unstructured.NestedString(first.Object, "spec", "source", "persistentVolumeClaimName")
	class, _, _ := unstructured.NestedString(first.Object, "spec", "volumeSnapshotClassName")
	if claim != "copy" || class != "fast" || len(first.GetOwnerReferences()) > 0 ||
		first.GetAnnotations()[v1alpha1.HistoryTransferAnnotation] != "ledger" {
		t.Errorf("%+v", first.Object)
	}
	if one := s.transfer.Status.Snapshots[0]; one.Size == nil || one.RunID != s.transfer.Status.Run.ID {
		t.Errorf("%+v", one)
	}
	for run := range 3 {
		s.again()
		s.until("the run", r, func() bool { return !s.kept(min(run+1, 2))() })
		s.until("its snapshot", r, s.kept(2))
	}
	if _, found := s.find(first.GetName()); found {
		t.Error("the oldest was not removed")
	}
	for i := range s.transfer.Status.Snapshots {
		s.restores(&s.transfer.Status.Snapshots[i])
	}
	// Less can be kept at any time; the newest stays.
	newest := s.transfer.Status.Snapshots[0].Name
	s.transfer.Spec.Destination.Snapshot.Retention.Last = 1
	if err := cluster.Client.Update(context.Background(), s.transfer); err != nil {
		t.Fatal(err)
	}
	s.until("fewer", r, s.kept(1))
	if s.transfer.Status.Snapshots[0].Name != newest {
		t.Error("the newest was removed")
	}
	// History outlives its Transfer.
	if err := cluster.Client.Delete(context.Background(), s.transfer); err != nil {
		t.Fatal(err)
	}
	s.until("deletion", r, func() bool { return !s.refresh() })
	sweeper := &staging.Sweeper{Cluster: staging.Cluster{
		Client: manager.GetClient(), Reader: manager.GetAPIReader(),
	}, Clock: clock.RealClock{}}
	if err := sweeper.Sweep(context.Background()); err != nil {
		t.Fatal(err)
	}
	if o, found := s.find(newest); !found || o.GetDeletionTimestamp() != nil {
		t.Error("history was removed with its Transfer")
	}
}

// restores makes a claim from a snapshot, as the guide says, with what status shows of it and no right of the manager.
func (s *storage) restores(from *v1alpha1.SnapshotStatus) {
	s.Helper()
	cluster.Create(s, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "restored-" + from.RunID},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("fast"),
			DataSource: &corev1.TypedLocalObjectReference{
				APIGroup: ptr.To(plan.SnapshotGroup), Kind: "VolumeSnapshot", Name: from.Name,
			},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: *from.Size},
			},
		},
	})
	o, found := s.find(from.Name)
	ready, _, _ := unstructured.NestedBool(o.Object, "status", "readyToUse")
	point := from.RecoveryPoint.UTC().Format(time.RFC3339)
	if !found || !ready || o.GetAnnotations()[v1alpha1.RecoveryPointAnnotation] != point {
		s.Errorf("%s cannot be restored: %+v", from.Name, o.Object)
	}
}

func (s *storage) find(name string) (unstructured.Unstructured, bool) {
	s.Helper()
	for _, o := range s.snapshots() {
		if o.GetName() == name {
			return o, true
		}
	}
	return unstructured.Unstructured{}, false
}

// historyDeletedAtRest: what somebody deletes is noticed without a run.
func historyDeletedAtRest(t *testing.T) {
	s := prepareHistory(t)
	// A claim that is made after the run is another one than was copied to.
	now := clocktesting.NewFakePassiveClock(time.Now())
	r := reconcilerAt(manager.GetClient(), now)
	cluster.Create(t, s.transfer)
	s.until("the first", r, s.kept(1))
	first := s.snapshots()[0]
	if err := cluster.Client.Delete(context.Background(), &first); err != nil {
		t.Fatal(err)
	}
	now.SetTime(now.Now().Add(plan.HistoryRest))
	s.until("noticed", r, func() bool { return s.shows(v1alpha1.ReasonSnapshotLost)() && s.kept(0)() })
	s.atRest(r)
}

// historyOfOthers: what lacks the labels of the Transfer is not removed, whatever status says.
func historyOfOthers(t *testing.T) {
	s, r := prepareHistory(t), reconciler(manager.GetClient())
	cluster.Create(t, s.transfer)
	s.until("the first", r, s.kept(1))
	for _, name := range []string{"unlabelled", "of-another"} {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"source": map[string]any{"persistentVolumeClaimName": "copy"},
		}}}
		o.SetGroupVersionKind(kind("VolumeSnapshot"))
		o.SetNamespace(s.namespace)
		o.SetName(name)
		if name == "of-another" {
			other := s.transfer.DeepCopy()
			other.UID = "another"
			o.SetLabels(plan.TransferHistory(other).Labels("abcde"))
		}
		cluster.Create(t, o)
		s.refresh()
		s.transfer.Status.Snapshots = append(s.transfer.Status.Snapshots, v1alpha1.SnapshotStatus{
			Name: name, State: v1alpha1.SnapshotRemoving, StartTime: ptr.To(metav1.Now()), Time: metav1.Now(),
		})
		if err := cluster.Client.Status().Update(context.Background(), s.transfer); err != nil {
			t.Fatal(err)
		}
	}
	s.until("forgotten", r, func() bool { return len(s.transfer.Status.Snapshots) == 1 })
	if left := s.snapshots(); len(left) != 3 {
		t.Errorf("%d are left", len(left))
	}
}

func historyClassIsMissing(t *testing.T) {
	s, r := prepareHistory(t), reconciler(manager.GetClient())
	s.transfer.Spec.Destination.Snapshot.VolumeSnapshotClassName = "gone"
	cluster.Create(t, s.transfer)
	s.until("condition", r, func() bool { return s.ended() && s.shows(v1alpha1.ReasonSnapshotClassNotFound)() })
	s.atRest(r)
	s.refresh()
	s.transfer.Spec.Destination.Snapshot.VolumeSnapshotClassName = "fast"
	if err := cluster.Client.Update(context.Background(), s.transfer); err != nil {
		t.Fatal(err)
	}
	s.until("the first", r, s.kept(1))
}

// historyAndQuota: a ResourceQuota that forbids the snapshot is a condition.
func historyAndQuota(t *testing.T) {
	s, r := prepareHistory(t), reconciler(manager.GetClient())
	example := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"source": map[string]any{"persistentVolumeClaimName": "copy"},
	}}}
	example.SetGroupVersionKind(kind("VolumeSnapshot"))
	example.SetNamespace(s.namespace)
	example.SetGenerateName("any-")
	quota := cluster.NoneOf(t, "count/volumesnapshots.snapshot.storage.k8s.io", example)
	cluster.Create(t, s.transfer)
	s.until("condition", r, func() bool { return s.ended() && s.shows(v1alpha1.ReasonSnapshotRejected)() })
	s.atRest(r)
	message := meta.FindStatusCondition(s.transfer.Status.Conditions, v1alpha1.ConditionHistoryKept).Message
	if len(s.snapshots()) > 0 || !strings.Contains(message, "exceeded quota") {
		t.Errorf("%d snapshots: %s", len(s.snapshots()), message)
	}
	if err := cluster.Client.Delete(context.Background(), quota); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for !s.kept(1)() && time.Now().Before(deadline) {
		_ = s.step(r)
		s.work()
		s.refresh()
	}
	if !s.kept(1)() {
		t.Errorf("%+v", s.transfer.Status)
	}
}

// historyKilled kills managers at writes of a run and of the next, which a retention of one follows: there is never a
// second snapshot of a run, and at the end exactly what status lists.
func historyKilled(t *testing.T) {
	every := killedEvery()
	for writes := 0; writes < killedWrites; writes += every {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/%v", writes, answered), func(t *testing.T) {
				t.Parallel()
				s := prepareHistory(t)
				s.transfer.Spec.Destination.Snapshot.Retention.Last = 1
				cluster.Create(t, s.transfer)
				m := &mortal{Client: manager.GetClient(), left: writes, answered: answered, group: groupOf(t)}
				r, runs := reconciler(m), 1
				for range 80 {
					if s.refresh(); m.dead || runs == 2 && s.kept(1)() {
						break
					}
					if runs == 1 && s.kept(1)() {
						s.again()
						runs = 2
					}
					if err := s.step(r); err != nil && !m.dead {
						t.Log(err) // it is tried again
					}
					s.work()
				}
				r = reconciler(manager.GetClient())
				s.until("one", r, s.kept(1))
				if runs == 1 {
					s.again()
				}
				run := s.transfer.Annotations[v1alpha1.RunAnnotation]
				s.until("the last", r, func() bool { return s.transfer.Status.LastRunRequest == run && s.kept(1)() })
				s.atRest(r)
				if got := s.transfer.Status.Snapshots[0].RunID; got != s.transfer.Status.Run.ID {
					t.Errorf("the snapshot is of run %s", got)
				}
			})
		}
	}
}

// oneOfEachRun checks that no run has two snapshots of the destination.
func (s *storage) oneOfEachRun(snapshots []unstructured.Unstructured) {
	s.Helper()
	if s.taken == nil {
		s.taken = map[string]string{}
	}
	for i := range snapshots {
		labels, uid := snapshots[i].GetLabels(), string(snapshots[i].GetUID())
		if labels[agentpod.ComponentLabel] != plan.HistoryComponent || labels[v1alpha1.RunLabel] == "abcde" {
			continue
		}
		if known, found := s.taken[labels[v1alpha1.RunLabel]]; found && known != uid {
			s.Errorf("run %s has two snapshots", labels[v1alpha1.RunLabel])
		}
		s.taken[labels[v1alpha1.RunLabel]] = uid
	}
}
