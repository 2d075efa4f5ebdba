// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package delivery_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

func snapshotKind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: plan.SnapshotGroup, Version: "v1", Kind: name}
}

// prepareHistory makes a claim of a CSI driver that has a default class, and a grant of one snapshot of it.
func prepareHistory(t *testing.T) *fixture {
	f := prepare(t)
	if err := cluster.InstallSnapshots(context.Background()); err != nil {
		t.Fatal(err)
	}
	driver := f.namespace + ".csi.example"
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: f.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: f.namespace},
			},
		},
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "kept"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: volume.Spec.AccessModes, VolumeName: volume.Name,
			Resources: corev1.VolumeResourceRequirements{Requests: volume.Spec.Capacity},
		},
	}
	class := &unstructured.Unstructured{Object: map[string]any{"driver": driver, "deletionPolicy": "Delete"}}
	class.SetGroupVersionKind(snapshotKind("VolumeSnapshotClass"))
	class.SetName(f.namespace)
	class.SetAnnotations(map[string]string{"snapshot.storage.kubernetes.io/is-default-class": "true"})
	grant := f.grant()
	grant.Name = "snapshots"
	grant.Spec.To[0].Name, grant.Spec.To[0].MaxSnapshots = "kept", 1
	cluster.Create(t, volume, claim, class, grant)
	return f
}

func (f *fixture) keeps(run string) *v1alpha1.Delivery {
	spec := f.make("ledger", 1, "/").Spec
	spec.Transfer.Run = run
	spec.Destination.PersistentVolumeClaim.ClaimName = "kept"
	spec.Destination.Snapshot = &v1alpha1.DeliverySnapshot{TransferUID: "uid"}
	spec.Destination.Snapshot.Retention.Last = 1
	return plan.NewDelivery(f.namespace, spec)
}

func (f *fixture) snapshots() []unstructured.Unstructured {
	f.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(snapshotKind("VolumeSnapshotList"))
	if err := cluster.Client.List(context.Background(), list, client.InNamespace(f.namespace)); err != nil {
		f.Fatal(err)
	}
	return list.Items
}

// receive has a run received, and waits for its snapshot to be made.
func (f *fixture) receive(d *v1alpha1.Delivery) *unstructured.Unstructured {
	f.Helper()
	cluster.Create(f, d)
	agents.Say(pki.ReceiveServerName(string(d.UID)), &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_WAITING})
	pod := f.run(d)
	done := &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED}
	f.ends(d, v1alpha1.DeliveryComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded, func() {
		cluster.EndPod(f, pod, 0, encode(f, done))
	})
	var made *unstructured.Unstructured
	controllertest.Eventually(f, func() error {
		for _, one := range f.snapshots() {
			if one.GetLabels()[v1alpha1.RunLabel] == d.Spec.Transfer.Run {
				made = &one
				return nil
			}
		}
		return fmt.Errorf("there is no snapshot of %s", d.Name)
	})
	return made
}

// take plays the driver.
func (f *fixture) take(snapshot *unstructured.Unstructured) {
	f.Helper()
	snapshot.Object["status"] = map[string]any{
		"readyToUse": true, "restoreSize": "1Gi", "creationTime": time.Now().UTC().Format(time.RFC3339),
	}
	if err := cluster.Client.Status().Update(context.Background(), snapshot); err != nil {
		f.Fatal(err)
	}
}

// What was received is snapshotted, the next run's snapshot takes the place of that, and nobody else's goes. The
// Delivery stays until all that is done, though it is kept for a few seconds.
func TestKeepsHistoryForAPeer(t *testing.T) {
	f := prepareHistory(t)
	first := f.keeps("abcde")
	made := f.receive(first)
	if made.GetAnnotations()[v1alpha1.HistoryTransferAnnotation] != f.namespace+"/bank/ledger" ||
		made.GetLabels()[plan.PeerLabel] != f.namespace || len(made.GetOwnerReferences()) > 0 {
		t.Errorf("%+v", made)
	}
	other := made.DeepCopy()
	other.SetName("other")
	other.SetResourceVersion("")
	labels := other.GetLabels()
	labels[v1alpha1.TransferLabel] = "another"
	other.SetLabels(labels)
	other.Object["spec"] = map[string]any{"source": map[string]any{"persistentVolumeClaimName": "elsewhere"}}
	restored := made.DeepCopy() // by a tool that makes another source of it
	restored.SetName("restored")
	restored.SetResourceVersion("")
	restored.Object["spec"] = map[string]any{"source": map[string]any{"volumeSnapshotContentName": "restored"}}
	cluster.Create(t, other, restored)
	cluster.See(t, &v1alpha1.DeliveryList{}, f.namespace, func() { f.take(made) }, func(object client.Object) error {
		seen, ok := object.(*v1alpha1.Delivery)
		if !ok || !meta.IsStatusConditionTrue(seen.Status.Conditions, v1alpha1.ConditionHistoryKept) {
			return fmt.Errorf("no history is kept: %+v", object)
		}
		seen.DeepCopyInto(first)
		return nil
	})
	if s := first.Status.Snapshots; len(s) != 1 || s[0].Name != made.GetName() || s[0].Size.String() != "1Gi" {
		t.Errorf("%+v", s)
	}
	f.gone(first)

	second := f.keeps("fghij")
	made = f.receive(second)
	f.take(made)
	controllertest.Eventually(t, func() error {
		names := map[string]bool{}
		for _, one := range f.snapshots() {
			names[one.GetName()] = true
		}
		if len(names) != 3 || !names[made.GetName()] || !names["other"] || !names["restored"] {
			return fmt.Errorf("there are %v", names)
		}
		return nil
	})
	f.gone(second)
}

// A Delivery that is deleted before the driver has taken its snapshot takes it away.
func TestDeletedDeliveryLeavesNoUntakenSnapshot(t *testing.T) {
	f := prepareHistory(t)
	d := f.keeps("abcde")
	f.receive(d)
	if err := cluster.Client.Delete(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	f.gone(d)
	if left := f.snapshots(); len(left) > 0 {
		t.Errorf("%+v", left)
	}
}
