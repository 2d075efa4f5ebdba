// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// neverStops writes a number into each of 50 files, one after the other, and then the next number. At any moment the
// files have one number up to some file, and the number before it from there on. It leaves a core to the snapshot.
const neverStops = `
cd /data
cat > /tmp/writer <<'END'
i=0
while true; do
  i=$((i+1)); f=100
  while [ $f -lt 150 ]; do echo $i > next; mv next $f; f=$((f+1)); sleep 0.01; done
done
END
setsid sh /tmp/writer > /dev/null 2>&1 < /dev/null &
until [ -e 149 ]; do sleep 0.1; done`

// TestSnapshotOfALiveVolume takes a StorageClass and a VolumeSnapshotClass with the name btrfs, which make clusters
// installs, and the chart with pointInTime.enabled.
func TestSnapshotOfALiveVolume(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "btrfs", "100Mi")
	east.claim(t, namespace, "copy", "btrfs", "100Mi")
	east.sh(t, namespace, "source", neverStops)
	transfer := newLocalTransfer(namespace, "ledger")
	transfer.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
	transfer.Spec.Source.SnapshotClassName = "btrfs"
	transfer.Spec.Exclude = []string{"/next"}
	transfer.Spec.Objective = &v1alpha1.TransferObjective{MaxAge: metav1.Duration{Duration: time.Hour}}
	begun := time.Now().Add(-time.Second)
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if point := transfer.Status.RecoveryPoint; point == nil || point.Time.Before(begun.Truncate(time.Second)) {
		t.Errorf("recovery point %s, the Transfer was created at %s", point, begun)
	}
	waitFor(t, transfer, v1alpha1.ConditionWithinObjective, metav1.ConditionTrue, v1alpha1.ReasonRecoveryPointRecent)
	var numbers []int
	for _, word := range strings.Fields(east.sh(t, namespace, "copy", "cd /data; cat 1??")) {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	if len(numbers) != 50 {
		t.Fatalf("%d files: %v", len(numbers), numbers)
	}
	for i := 1; i < len(numbers); i++ {
		if numbers[i] > numbers[i-1] || numbers[0]-numbers[i] > 1 {
			t.Fatalf("the copy is not of one moment: %v", numbers)
		}
	}
	snapshots := &unstructured.UnstructuredList{}
	snapshots.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotList",
	})
	eventually(t, time.Minute, "snapshot and staged claim to be removed", func() (bool, string) {
		claims := &corev1.PersistentVolumeClaimList{}
		staged := client.MatchingLabels{"app.kubernetes.io/component": "staged"}
		err := east.List(ctx, claims, client.InNamespace(namespace), staged)
		if err == nil {
			err = east.List(ctx, snapshots, client.InNamespace(namespace), staged)
		}
		left := len(claims.Items) + len(snapshots.Items)
		return err == nil && left == 0, fmt.Sprintf("%d are left, %v", left, err)
	})
}
