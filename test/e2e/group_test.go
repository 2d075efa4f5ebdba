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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// countsInBoth writes a number to the first volume and then to the second, and then the next number.
const countsInBoth = `
cat > /tmp/writer <<'END'
i=0
while true; do
  i=$((i+1))
  for d in /data /second; do echo $i > $d/next; mv $d/next $d/number; done
done
END
setsid sh /tmp/writer > /dev/null 2>&1 < /dev/null &
until [ -e /second/number ]; do sleep 0.1; done`

// TestGroupSnapshot is a program that counts in two volumes without end: the copies of both are of one moment. It takes
// what TestSnapshotOfALiveVolume takes, and a VolumeGroupSnapshotClass with the name btrfs.
func TestGroupSnapshot(t *testing.T) {
	t.Parallel()
	ctx, namespace := context.Background(), newNamespace(t)
	labels := map[string]string{"app": "bank"}
	second := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "second", Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("btrfs"),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Mi")},
			},
		},
	}
	if err := east.Create(ctx, second); err != nil {
		t.Fatal(err)
	}
	east.Claim(t, namespace, "first", "btrfs", "100Mi", func(pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "second", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "second"},
		}})
		mounts := &pod.Spec.Containers[0].VolumeMounts
		*mounts = append(*mounts, corev1.VolumeMount{Name: "second", MountPath: "/second"})
	})
	first := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "first"}}
	if err := east.Patch(ctx, first, client.RawPatch(
		"application/merge-patch+json", []byte(`{"metadata":{"labels":{"app":"bank"}}}`))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"to-first", "to-second"} {
		east.claim(t, namespace, name, "btrfs", "100Mi")
	}
	east.sh(t, namespace, "first", countsInBoth)
	set := &v1alpha1.TransferSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "move"},
		Spec: v1alpha1.TransferSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, MaxConcurrent: 1,
			Group: &v1alpha1.TransferSetGroup{VolumeGroupSnapshotClassName: "btrfs"},
			Template: v1alpha1.TransferSetTemplate{
				Source: &v1alpha1.TransferSetSource{
					Path: "/", SourceCopy: v1alpha1.SourceCopy{CopyMethod: v1alpha1.CopySnapshot},
				},
				Destination: v1alpha1.TransferSetDestination{
					PersistentVolumeClaim: &v1alpha1.TransferSetClaim{NamePrefix: "to-", Path: "/"},
				},
				Exclude: []string{"/next"},
			},
		},
	}
	if err := east.Create(ctx, set); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = east.Delete(ctx, set) }) // before the namespace waits for Transfers to be gone
	eventually(t, 6*time.Minute, "all members to be complete, and the group to be removed", func() (bool, string) {
		if err := east.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return false, err.Error()
		}
		ready, group := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionReady), set.Status.Group
		return ready != nil && ready.Reason == v1alpha1.ReasonMembersComplete && group != nil &&
			group.State == v1alpha1.GroupComplete, fmt.Sprintf("%+v, %+v", ready, group)
	})
	read := func(claim string) int {
		t.Helper()
		n, err := strconv.Atoi(strings.TrimSpace(east.sh(t, namespace, claim, "cat /data/number")))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if a, b := read("to-first"), read("to-second"); a != b && a != b+1 {
		t.Errorf("the copy of the first volume has %d, that of the second %d", a, b)
	}
	if set.Status.RecoveryPoint == nil || set.Status.Group.PointInTime == nil ||
		!set.Status.RecoveryPoint.Equal(set.Status.Group.PointInTime) {
		t.Errorf("recovery point %s, the group is of %s", set.Status.RecoveryPoint, set.Status.Group.PointInTime)
	}
	for _, kind := range []schema.GroupVersionKind{
		{Group: "groupsnapshot.storage.k8s.io", Version: "v1", Kind: "VolumeGroupSnapshotList"},
		{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotList"},
	} {
		eventually(t, time.Minute, kind.Kind+" to be empty", func() (bool, string) {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind)
			err := east.List(ctx, list, client.InNamespace(namespace))
			return err == nil && len(list.Items) == 0, fmt.Sprintf("%d are left, %v", len(list.Items), err)
		})
	}
}
