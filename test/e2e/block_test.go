// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// blockClaim makes a claim with volumeMode: Block, which a pod has as /dev/disk.
func blockClaim(t *testing.T, namespace, name string, from *corev1.TypedObjectReference) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeMode:       ptr.To(corev1.PersistentVolumeBlock),
			StorageClassName: &pair.SnapshotClass,
			DataSourceRef:    from,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")},
			},
		},
	}
	if err := east.Create(context.Background(), claim); err != nil {
		t.Fatal(err)
	}
	east.Mount(t, namespace, name, func(pod *corev1.Pod) {
		shell := &pod.Spec.Containers[0]
		shell.VolumeMounts = nil
		shell.VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/disk"}}
	})
}

// TestBlock copies a device to another one by agents without privileges, and again after a part of it has changed,
// which is then all that is sent.
func TestBlock(t *testing.T) {
	t.Parallel()
	if !pair.Local || pair.SnapshotClass == "" {
		t.Skip("the clusters are not this machine's, or its kernel has no btrfs")
	}
	ctx := context.Background()
	namespace := newNamespace(t)
	for _, name := range []string{"source", "copy"} {
		blockClaim(t, namespace, name, nil)
	}
	equal := func() {
		t.Helper()
		const sum = "sha256sum < /dev/disk"
		if want, got := east.sh(t, namespace, "source", sum), east.sh(t, namespace, "copy", sum); want != got {
			t.Errorf("the source has %s, and the copy %s", want, got)
		}
	}
	const megabyte = "dd if=/dev/urandom of=/dev/disk bs=65536 count=16 conv=notrunc,fsync seek="
	east.sh(t, namespace, "source", megabyte+"0; "+megabyte+"1000")
	// What the copy has where the source has zeros has to go.
	east.sh(t, namespace, "copy", megabyte+"500")
	transfer := newLocalTransfer(namespace, "disk")
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	equal()
	if sent := transfer.Status.Compression.UncompressedBytes; sent > 3<<20 {
		t.Errorf("%d bytes were sent of 2 MiB and zeros", sent)
	}

	east.sh(t, namespace, "source", megabyte+"700")
	first := transfer.Status.Run.ID
	before := client.MergeFrom(transfer.DeepCopy())
	metav1.SetMetaDataAnnotation(&transfer.ObjectMeta, v1alpha1.RunAnnotation, "again")
	if err := east.Patch(ctx, transfer, before); err != nil {
		t.Fatal(err)
	}
	eventually(t, 6*time.Minute, "the second run to complete", func() (bool, string) {
		if err := east.Get(ctx, client.ObjectKeyFromObject(transfer), transfer); err != nil {
			return false, err.Error()
		}
		s := transfer.Status
		return s.Run.ID != first && s.Phase == v1alpha1.TransferComplete, string(s.Phase)
	})
	equal()
	if sent := transfer.Status.Compression.UncompressedBytes; sent == 0 || sent > 2<<20 {
		t.Errorf("%d bytes were sent where 1 MiB had changed", sent)
	}
}

// TestBlockImage puts a snapshot of a device into a bucket, restores it into another device and into a new claim that
// names the Transfer, and has a Transfer of that prefix into a device fail where it has files.
func TestBlockImage(t *testing.T) {
	t.Parallel()
	if !pair.Local || pair.SnapshotClass == "" {
		t.Skip("the clusters are not this machine's, or its kernel has no btrfs")
	}
	ctx := context.Background()
	namespace := newNamespace(t)
	pair.ObjectStores(t, namespace, "vault", namespace)
	for _, name := range []string{"source", "copy"} {
		blockClaim(t, namespace, name, nil)
	}
	const data = "dd if=/dev/urandom of=/dev/disk bs=65536 count=16 conv=notrunc,fsync seek="
	east.sh(t, namespace, "source", data+"0; "+data+"1000")
	east.sh(t, namespace, "copy", data+"500")

	backup := newTransfer(namespace, "backup")
	backup.Spec.Source.PersistentVolumeClaim.ClaimName = "source"
	backup.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
	backup.Spec.Destination = v1alpha1.TransferDestination{ObjectStore: vault("/disk"), Form: v1alpha1.RestingGzip}
	if err := east.Create(ctx, backup); err != nil {
		t.Fatal(err)
	}
	waitFor(t, backup, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if c := backup.Status.Compression; c.CompressedBytes > 4<<20 {
		t.Errorf("%d bytes were put of 2 MiB and zeros", c.CompressedBytes)
	}

	restore := newLocalTransfer(namespace, "restore")
	restore.Spec.Source = v1alpha1.TransferSource{ObjectStore: vault("/disk")}
	if err := east.Create(ctx, restore); err != nil {
		t.Fatal(err)
	}
	waitFor(t, restore, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	leavePlace(t, restore)
	blockClaim(t, namespace, "populated", &corev1.TypedObjectReference{
		APIGroup: ptr.To(v1alpha1.GroupVersion.Group), Kind: "Transfer", Name: "backup",
	})
	const sum = "sha256sum < /dev/disk"
	want := east.sh(t, namespace, "source", sum)
	for _, name := range []string{"copy", "populated"} {
		if got := east.sh(t, namespace, name, sum); got != want {
			t.Errorf("the source has %s, and %s %s", want, name, got)
		}
	}

	east.claim(t, namespace, "files", "", "100Mi")
	east.sh(t, namespace, "files", fill)
	tree := newTransfer(namespace, "tree")
	tree.Spec.Source.PersistentVolumeClaim.ClaimName = "files"
	tree.Spec.Destination = v1alpha1.TransferDestination{ObjectStore: vault("/tree")}
	if err := east.Create(ctx, tree); err != nil {
		t.Fatal(err)
	}
	waitFor(t, tree, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	wrong := newLocalTransfer(namespace, "wrong")
	wrong.Spec.Source = v1alpha1.TransferSource{ObjectStore: vault("/tree")}
	if err := east.Create(ctx, wrong); err != nil {
		t.Fatal(err)
	}
	waitFor(t, wrong, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonVolumeModeMismatch)
	if got := east.sh(t, namespace, "copy", sum); got != want {
		t.Errorf("the copy has %s, and had %s", got, want)
	}
}
