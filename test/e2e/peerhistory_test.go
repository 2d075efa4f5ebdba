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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestKeepsHistoryAtAPeer has three runs into a claim of the other cluster, whose manager keeps the last two states
// there when a PeerGrant allows it. The older one is restored in that cluster when the Transfer is gone.
func TestKeepsHistoryAtAPeer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "btrfs", "100Mi")
	west.claim(t, namespace, "copy", "btrfs", "100Mi")
	pair.Grant(t, namespace, "copy")
	write := func(state int) {
		t.Helper()
		east.sh(t, namespace, "source", fmt.Sprintf("echo %d > /data/state; touch /data/only-%d; sync", state, state))
	}
	write(1)
	transfer := newTransfer(namespace, "ledger")
	transfer.Spec.Delete = true
	transfer.Spec.Destination.Snapshot = &v1alpha1.DestinationSnapshot{
		VolumeSnapshotClassName: "btrfs", Retention: v1alpha1.SnapshotRetention{Last: 2},
	}
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	// The grant does not have maxSnapshots, and the message says so.
	waitFor(t, transfer, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonNotGranted)
	grant := &v1alpha1.PeerGrant{}
	if err := west.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "from-east"}, grant); err != nil {
		t.Fatal(err)
	}
	before := client.MergeFrom(grant.DeepCopy())
	grant.Spec.To[0].MaxSnapshots = 2
	if err := west.Patch(ctx, grant, before); err != nil {
		t.Fatal(err)
	}
	for state := 1; state <= 3; state++ {
		if state > 1 {
			east.sh(t, namespace, "source", fmt.Sprintf("rm /data/only-%d", state-1))
			write(state)
		}
		patch := client.MergeFrom(transfer.DeepCopy())
		metav1.SetMetaDataAnnotation(&transfer.ObjectMeta, v1alpha1.RunAnnotation, strconv.Itoa(state))
		if err := east.Patch(ctx, transfer, patch); err != nil {
			t.Fatal(err)
		}
		eventually(t, 6*time.Minute, "the run and its snapshot", func() (bool, string) {
			if err := east.Get(ctx, client.ObjectKeyFromObject(transfer), transfer); err != nil {
				return false, err.Error()
			}
			s := &transfer.Status
			return s.LastRunRequest == strconv.Itoa(state) && s.Phase == v1alpha1.TransferComplete &&
				len(s.Snapshots) > 0 && s.Snapshots[0].RunID == s.Run.ID &&
				s.Snapshots[0].State == v1alpha1.SnapshotReady, fmt.Sprintf("%s, %+v", s.Phase, s.Snapshots)
		})
	}
	waitFor(t, transfer, v1alpha1.ConditionHistoryKept, metav1.ConditionTrue, v1alpha1.ReasonSnapshotReady)
	left := func() []unstructured.Unstructured {
		t.Helper()
		snapshots := &unstructured.UnstructuredList{}
		snapshots.SetGroupVersionKind(schema.GroupVersionKind{
			Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotList",
		})
		history := client.MatchingLabels{"app.kubernetes.io/component": "history"}
		if err := west.List(ctx, snapshots, client.InNamespace(namespace), history); err != nil {
			t.Fatal(err)
		}
		return snapshots.Items
	}
	eventually(t, time.Minute, "the snapshots that the retention does not keep to be gone", func() (bool, string) {
		n := len(left())
		return n == 2, fmt.Sprintf("%d are left", n)
	})

	if err := east.Delete(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	gone(t, namespace)
	newest := transfer.Status.Snapshots[0]
	kept := left()
	if len(kept) != 2 {
		t.Fatalf("%d snapshots outlived the Transfer", len(kept))
	}
	for i := range kept {
		name, state := "restored-"+strconv.Itoa(i), 2
		from := v1alpha1.SnapshotStatus{Name: kept[i].GetName(), Size: newest.Size}
		if from.Name == newest.Name {
			state = 3
		}
		if err := west.Create(ctx, restoredFrom(namespace, name, &from)); err != nil {
			t.Fatal(err)
		}
		west.Mount(t, namespace, name)
		want := fmt.Sprintf("/data/only-%d\n%d\n", state, state)
		if got := west.sh(t, namespace, name, "ls /data/only-*; cat /data/state"); got != want {
			t.Errorf("%s has %q, want %q", from.Name, got, want)
		}
	}
}
