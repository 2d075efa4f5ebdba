// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// neverStops writes a number into each of 50 files, one after the other, and then the next number. At any moment the
// files have one number up to some file, and the number before it from there on. Between two of them, in the order in
// which they are read, lies a folder that takes longer to send than a round takes, so that a run that reads the volume
// itself has other numbers behind it than before. It leaves a core to the snapshot.
const neverStops = `
cd /data
mkdir 1245
for i in $(seq 80); do head -c 800000 /dev/urandom > 1245/$i; done
cat > /tmp/writer <<'END'
i=0
while true; do
  i=$((i+1)); f=100
  while [ $f -lt 150 ]; do echo $i > next; mv next $f; f=$((f+1)); sleep 0.01; done
done
END
setsid sh /tmp/writer > /dev/null 2>&1 < /dev/null &
until [ -e 149 ]; do sleep 0.1; done`

// ofOneMoment reports whether the claim "copy" has what the source of neverStops had at one moment.
func ofOneMoment(t *testing.T, namespace string) (bool, []int) {
	t.Helper()
	var numbers []int
	for _, word := range strings.Fields(west.sh(t, namespace, "copy", "cd /data; cat 1?? || true")) {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	if len(numbers) != 50 {
		return false, numbers
	}
	for i := 1; i < len(numbers); i++ {
		if numbers[i] > numbers[i-1] || numbers[0]-numbers[i] > 1 {
			return false, numbers
		}
	}
	return true, numbers
}

// newLiveTransfer is of the source of neverStops to west, slower than it writes.
func newLiveTransfer(namespace, name string) *v1alpha1.Transfer {
	transfer := newTransfer(namespace, name)
	transfer.Spec.Exclude = []string{"/next"}
	transfer.Spec.BandwidthLimit = ptr.To(resource.MustParse("8Mi"))
	return transfer
}

// readDirectly has the source read while it is written, and checks that the copy is of different moments: else the
// writer shows nothing. A file that changes while it is read fails a run, and chance may make a copy whole.
func readDirectly(t *testing.T, namespace string) {
	t.Helper()
	for try := range 3 {
		transfer := newLiveTransfer(namespace, fmt.Sprintf("direct-%d", try))
		transfer.Spec.MaxAttempts = 1
		if err := east.Create(context.Background(), transfer); err != nil {
			t.Fatal(err)
		}
		complete := false
		eventually(t, 3*time.Minute, "the direct run to end", func() (bool, string) {
			err := east.Get(context.Background(), client.ObjectKeyFromObject(transfer), transfer)
			complete = meta.IsStatusConditionTrue(transfer.Status.Conditions, v1alpha1.ConditionComplete)
			failed := meta.IsStatusConditionTrue(transfer.Status.Conditions, v1alpha1.ConditionFailed)
			return err == nil && (complete || failed), fmt.Sprint(transfer.Status.Phase, err)
		})
		leavePlace(t, transfer)
		if whole, numbers := ofOneMoment(t, namespace); complete && !whole && len(numbers) == 50 {
			return
		}
	}
	t.Fatal("no direct copy of three is Complete and of different moments")
}

// TestSnapshotOfALiveVolume takes a VolumeSnapshotClass with the name btrfs, StorageClasses btrfs and btrfs-wait, which
// waits for the first consumer of a claim, all of which make clusters installs, and the chart with pointInTime.enabled.
func TestSnapshotOfALiveVolume(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "btrfs", "200Mi")
	west.claim(t, namespace, "copy", "", "200Mi")
	grant(t, namespace, "copy")
	east.sh(t, namespace, "source", neverStops)
	readDirectly(t, namespace)
	transfer := newLiveTransfer(namespace, "ledger")
	transfer.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
	transfer.Spec.Source.SnapshotClassName = "btrfs"
	transfer.Spec.Source.StagedStorageClassName = "btrfs-wait"
	transfer.Spec.Objective = &v1alpha1.TransferObjective{MaxAge: metav1.Duration{Duration: time.Hour}}
	begun := time.Now().Add(-time.Second)
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	readsTheCopy(t, transfer)
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if point := transfer.Status.RecoveryPoint; point == nil || point.Time.Before(begun.Truncate(time.Second)) {
		t.Errorf("recovery point %s, the Transfer was created at %s", point, begun)
	}
	waitFor(t, transfer, v1alpha1.ConditionWithinObjective, metav1.ConditionTrue, v1alpha1.ReasonRecoveryPointRecent)
	if whole, numbers := ofOneMoment(t, namespace); !whole {
		t.Fatalf("the copy is not of one moment: %v", numbers)
	}
	nothingStaged(t, namespace)
}

// readsTheCopy waits until a Job mounts the staged claim, and checks that it does not mount the source.
func readsTheCopy(t *testing.T, transfer *v1alpha1.Transfer) {
	t.Helper()
	ctx := context.Background()
	eventually(t, 3*time.Minute, "a Job that mounts the copy", func() (bool, string) {
		jobs := &batchv1.JobList{}
		if err := errors.Join(east.Get(ctx, client.ObjectKeyFromObject(transfer), transfer),
			east.List(ctx, jobs, client.InNamespace(transfer.Namespace))); err != nil {
			return false, err.Error()
		}
		staged := transfer.Status.Staged
		if staged == nil {
			return false, "nothing is staged"
		}
		for i := range jobs.Items {
			for _, volume := range jobs.Items[i].Spec.Template.Spec.Volumes {
				if volume.PersistentVolumeClaim == nil || jobs.Items[i].Labels[v1alpha1.RunLabel] != staged.RunID {
					continue
				}
				switch volume.PersistentVolumeClaim.ClaimName {
				case "source":
					t.Fatalf("Job %s mounts the source", jobs.Items[i].Name)
				case staged.Name:
					return true, ""
				}
			}
		}
		return false, fmt.Sprintf("%d Jobs, the copy is %s", len(jobs.Items), staged.State)
	})
}

// nothingStaged waits until snapshots and staged claims are removed.
func nothingStaged(t *testing.T, namespace string) {
	t.Helper()
	ctx := context.Background()
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
