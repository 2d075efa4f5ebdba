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
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				VolumeMode:       ptr.To(corev1.PersistentVolumeBlock),
				StorageClassName: &pair.SnapshotClass,
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")},
				},
			},
		}
		if err := east.Create(ctx, claim); err != nil {
			t.Fatal(err)
		}
		east.Mount(t, namespace, name, func(pod *corev1.Pod) {
			shell := &pod.Spec.Containers[0]
			shell.VolumeMounts = nil
			shell.VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/disk"}}
		})
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
