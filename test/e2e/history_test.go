// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestKeepsHistory has three runs, of which a destination keeps the last two states, and restores both. It takes what
// TestSnapshotOfALiveVolume takes.
func TestKeepsHistory(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "btrfs", "100Mi")
	east.claim(t, namespace, "copy", "btrfs", "100Mi")
	write := func(state int) {
		t.Helper()
		east.sh(t, namespace, "source", fmt.Sprintf("echo %d > /data/state; touch /data/only-%d; sync", state, state))
	}
	write(1)
	transfer := newLocalTransfer(namespace, "ledger")
	transfer.Spec.Delete = true
	transfer.Spec.Destination.Snapshot = &v1alpha1.DestinationSnapshot{
		VolumeSnapshotClassName: "btrfs", Retention: v1alpha1.SnapshotRetention{Last: 2},
	}
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	for state := 1; state <= 3; state++ {
		if state > 1 {
			east.sh(t, namespace, "source", fmt.Sprintf("rm /data/only-%d", state-1))
			write(state)
			patch := client.MergeFrom(transfer.DeepCopy())
			metav1.SetMetaDataAnnotation(&transfer.ObjectMeta, v1alpha1.RunAnnotation, strconv.Itoa(state))
			if err := east.Patch(ctx, transfer, patch); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, 6*time.Minute, "the run and its snapshot", func() (bool, string) {
			if err := east.Get(ctx, client.ObjectKeyFromObject(transfer), transfer); err != nil {
				return false, err.Error()
			}
			s := &transfer.Status
			ran := state == 1 || s.LastRunRequest == strconv.Itoa(state)
			return ran && s.Phase == v1alpha1.TransferComplete && len(s.Snapshots) == min(state, 2) &&
				s.Snapshots[0].RunID == s.Run.ID && s.Snapshots[0].State == v1alpha1.SnapshotReady &&
				s.Snapshots[len(s.Snapshots)-1].State == v1alpha1.SnapshotReady, fmt.Sprintf("%s, %+v", s.Phase, s.Snapshots)
		})
	}
	waitFor(t, transfer, v1alpha1.ConditionHistoryKept, metav1.ConditionTrue, v1alpha1.ReasonSnapshotReady)
	kept := transfer.Status.Snapshots
	left := func() int {
		t.Helper()
		snapshots := &unstructured.UnstructuredList{}
		snapshots.SetGroupVersionKind(schema.GroupVersionKind{
			Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotList",
		})
		history := client.MatchingLabels{"app.kubernetes.io/component": "history"}
		if err := east.List(ctx, snapshots, client.InNamespace(namespace), history); err != nil {
			t.Fatal(err)
		}
		return len(snapshots.Items)
	}
	eventually(t, time.Minute, "the first snapshot to be gone", func() (bool, string) {
		n := left()
		return n == 2, fmt.Sprintf("%d are left", n)
	})

	// What is kept needs neither the Transfer nor the claim of the destination.
	if err := east.Delete(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, "the Transfer to be gone", func() (bool, string) {
		err := east.Get(ctx, client.ObjectKeyFromObject(transfer), transfer)
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	for i := range kept {
		name, state := "restored-"+kept[i].RunID, 3-i
		if err := east.Create(ctx, restoredFrom(namespace, name, &kept[i])); err != nil {
			t.Fatal(err)
		}
		east.Mount(t, namespace, name)
		want := fmt.Sprintf("/data/only-%d\n%d\n", state, state)
		if got := east.sh(t, namespace, name, "ls /data/only-*; cat /data/state"); got != want {
			t.Errorf("%s has %q, want %q", kept[i].Name, got, want)
		}
	}
	if n := left(); n != 2 {
		t.Errorf("%d snapshots outlived the Transfer", n)
	}

	// A Transfer brings the older state back to where it came from.
	back := newLocalTransfer(namespace, "back")
	back.Spec.Source.PersistentVolumeClaim.ClaimName = "restored-" + kept[1].RunID
	back.Spec.Destination.PersistentVolumeClaim.ClaimName = "source"
	back.Spec.Delete = true
	if err := east.Create(ctx, back); err != nil {
		t.Fatal(err)
	}
	waitFor(t, back, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if got := east.sh(t, namespace, "source", "ls /data/only-*; cat /data/state"); got != "/data/only-2\n2\n" {
		t.Errorf("brought back was %q", got)
	}
}

// restoredFrom is a claim of a snapshot of history, as the guide has it.
func restoredFrom(namespace, name string, snapshot *v1alpha1.SnapshotStatus) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("btrfs"),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			DataSource: &corev1.TypedLocalObjectReference{
				APIGroup: ptr.To("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: snapshot.Name,
			},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: *snapshot.Size},
			},
		},
	}
}
