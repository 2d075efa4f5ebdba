// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package staging_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/staging"
	"github.com/lighterage/lighterage/controllers/transfersetplan"
)

// inGroup makes a VolumeSnapshot of a claim as the snapshot-controller does for a VolumeGroupSnapshot.
func (s *storage) inGroup(group, name, claim string, taken time.Time) *unstructured.Unstructured {
	s.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"source": map[string]any{"persistentVolumeClaimName": claim},
	}}}
	o.SetGroupVersionKind(kind("VolumeSnapshot"))
	o.SetNamespace(s.namespace)
	o.SetName(name)
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "groupsnapshot.storage.k8s.io/v1", Kind: "VolumeGroupSnapshot", Name: group, UID: types.UID(group),
	}})
	cluster.Create(s, o)
	o.Object["status"] = map[string]any{"readyToUse": true, "restoreSize": "1Gi", "boundVolumeSnapshotContentName": name,
		"creationTime": taken.UTC().Format(time.RFC3339)}
	if err := cluster.Client.Status().Update(context.Background(), o); err != nil {
		s.Fatal(err)
	}
	return o
}

// readsAGroup: a run reads the snapshot of its claim in the group that it names, all attempts the same, makes none of
// its own, and leaves that one.
func readsAGroup(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	s.transfer.Spec.Source.VolumeGroupSnapshotName = "moment"
	taken := time.Now().Add(-time.Hour).Truncate(time.Second)
	s.inGroup("another", "of-another-group", "ledger", time.Now())
	s.inGroup("moment", "of-another-claim", "other", taken)
	cluster.Create(t, s.transfer)
	s.until("failure", r, s.stuck(v1alpha1.ReasonGroupSnapshotNotFound))
	if len(s.copies()) > 0 {
		t.Error("a copy of what is not there")
	}
	// What a former group of the name has left, kept by a finalizer, comes first by its name.
	former := s.inGroup("moment", "former", "ledger", taken.Add(-time.Hour))
	former.SetFinalizers([]string{"lighterage.dev/test"})
	if err := cluster.Client.Update(context.Background(), former); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Delete(context.Background(), former); err != nil {
		t.Fatal(err)
	}
	s.grouped = "of-ledger"
	of := s.inGroup("moment", s.grouped, "ledger", taken)
	s.annotate(v1alpha1.UseCopyTriggerAnnotation, "")
	s.until("the trigger", r, func() bool {
		s.hurry()
		return s.stuck(v1alpha1.ReasonCopyMethodUnsupported)()
	})
	claim := s.source()
	delete(claim.Annotations, v1alpha1.UseCopyTriggerAnnotation)
	if err := cluster.Client.Update(context.Background(), claim); err != nil {
		t.Fatal(err)
	}
	s.fails = 1
	s.until("end", r, func() bool {
		s.hurry()
		if staged := s.copies(); len(staged) > 0 && staged[0].Spec.DataSource.Name != s.grouped {
			t.Errorf("a copy of %+v", staged[0].Spec.DataSource)
		}
		if len(s.snapshots()) > 0 {
			t.Error("a snapshot of its own")
		}
		return s.ended()
	})
	s.nothingLeft()
	if point := s.transfer.Status.RecoveryPoint; point == nil || !point.Time.Equal(taken) {
		t.Errorf("recovery point %s, the group is of %s", point, taken)
	}
	if s.mounted["ledger"] || len(s.mounted) != 1 || s.fails != 0 {
		t.Errorf("mounted %v, %d attempts are still to fail", s.mounted, s.fails)
	}
	if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(of), of); err != nil ||
		of.GetDeletionTimestamp() != nil {
		t.Errorf("the group's snapshot: %v, deleted %v", err, of.GetDeletionTimestamp())
	}
}

// sweptGroups: of VolumeGroupSnapshots those go that a TransferSet owns, and that no status needs.
func sweptGroups(t *testing.T) {
	s := prepare(t)
	set := &v1alpha1.TransferSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "move"},
		Spec: v1alpha1.TransferSetSpec{
			Selector: &metav1.LabelSelector{},
			Template: v1alpha1.TransferSetTemplate{Destination: v1alpha1.TransferSetDestination{Peer: "west"}},
		},
	}
	cluster.Create(t, set)
	set.Status.Group = &v1alpha1.TransferSetGroupStatus{
		Name: "needed", State: v1alpha1.GroupReady, StartTime: metav1.Now(),
	}
	if err := cluster.Client.Status().Update(context.Background(), set); err != nil {
		t.Fatal(err)
	}
	group := func(name string, owned bool) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"volumeGroupSnapshotClassName": "fast",
			"source":                       map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"a": "b"}}},
		}}}
		o.SetGroupVersionKind(schema.GroupVersionKind{
			Group: "groupsnapshot.storage.k8s.io", Version: "v1", Kind: "VolumeGroupSnapshot",
		})
		o.SetNamespace(s.namespace)
		o.SetName(name)
		o.SetLabels(map[string]string{
			agentpod.ComponentLabel: transfersetplan.GroupComponent, agentpod.ManagedByLabel: agentpod.ManagedBy,
		})
		if owned {
			o.SetOwnerReferences([]metav1.OwnerReference{agentpod.OwnerReference("TransferSet", set)})
		}
		cluster.Create(t, o)
		return o
	}
	objects := map[*unstructured.Unstructured]bool{
		group("needed", true): true, group("former", true): false, group("of-others", false): true,
	}
	sweep := func(after time.Duration) {
		t.Helper()
		sweeper := &staging.Sweeper{
			Cluster: staging.Cluster{Client: manager.GetClient(), Reader: manager.GetAPIReader()},
			Clock:   testclock.NewFakeClock(time.Now().Add(after)),
		}
		if err := sweeper.Sweep(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	check := func(stays func(bool) bool) {
		t.Helper()
		for o, needed := range objects {
			err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(o), o)
			if stays(needed) != (err == nil) || err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("%s: %v", o.GetName(), err)
			}
		}
	}
	sweep(0)
	check(func(bool) bool { return true })
	sweep(time.Hour)
	check(func(needed bool) bool { return needed })
}
