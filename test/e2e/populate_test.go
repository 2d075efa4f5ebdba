// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestPopulatedClaim takes the chart with populator.enabled: a claim gets what a Transfer archived, before the pod
// that mounts it starts.
func TestPopulatedClaim(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	pair.ObjectStores(t, namespace, "vault", namespace)
	east.claim(t, namespace, "source", "", "100Mi")
	east.sh(t, namespace, "source", fill)
	backup := newTransfer(namespace, "backup")
	backup.Spec.Source.PersistentVolumeClaim.ClaimName = "source"
	backup.Spec.Destination = v1alpha1.TransferDestination{ObjectStore: vault("/ledger"), Form: v1alpha1.RestingArchive}
	if err := east.Create(ctx, backup); err != nil {
		t.Fatal(err)
	}
	waitFor(t, backup, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	claim := populated(namespace, "restored", "btrfs")
	if err := east.Create(ctx, claim); err != nil {
		t.Fatal(err)
	}
	east.Mount(t, namespace, "restored")
	// The driver's volumes get the group of the pod, and with it other modes.
	const sums = "cd /data && find . -type f | sort | xargs sha256sum"
	if want, got := east.sh(t, namespace, "source", sums), east.sh(t, namespace, "restored", sums); want != got {
		t.Errorf("the two claims differ:\nsource:\n%s\nrestored:\n%s", want, got)
	}
	eventually(t, time.Minute, "what populated the claim to be removed", func() (bool, string) {
		claims, transfers := &corev1.PersistentVolumeClaimList{}, &v1alpha1.TransferList{}
		populating := client.MatchingLabels{"app.kubernetes.io/component": "populate"}
		err := east.List(ctx, claims, client.InNamespace(namespace), populating)
		if err == nil {
			err = east.List(ctx, transfers, client.InNamespace(namespace), populating)
		}
		left := len(claims.Items) + len(transfers.Items)
		return err == nil && left == 0, fmt.Sprintf("%d are left, %v", left, err)
	})
}

// TestPopulatedClaimIsDeleted half-way: the Transfer that fills it and the claim that it fills go with it.
func TestPopulatedClaimIsDeleted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	pair.ObjectStores(t, namespace, "vault", namespace)
	east.claim(t, namespace, "source", "", "100Mi")
	east.sh(t, namespace, "source", "head -c 40000000 /dev/urandom > /data/ledger")
	backup := newTransfer(namespace, "backup")
	backup.Spec.Source.PersistentVolumeClaim.ClaimName = "source"
	backup.Spec.Destination = v1alpha1.TransferDestination{ObjectStore: vault("/ledger"), Form: v1alpha1.RestingArchive}
	if err := east.Create(ctx, backup); err != nil {
		t.Fatal(err)
	}
	waitFor(t, backup, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	claim := populated(namespace, "restored", "btrfs")
	if err := east.Create(ctx, claim); err != nil {
		t.Fatal(err)
	}
	populating := func() (claims []corev1.PersistentVolumeClaim, transfers []v1alpha1.Transfer, err error) {
		c, l := &corev1.PersistentVolumeClaimList{}, &v1alpha1.TransferList{}
		labels := client.MatchingLabels{"app.kubernetes.io/component": "populate"}
		err = errors.Join(east.List(ctx, c, client.InNamespace(namespace), labels),
			east.List(ctx, l, client.InNamespace(namespace), labels))
		return c.Items, l.Items, err
	}
	volume := ""
	eventually(t, 3*time.Minute, "a Transfer that fills the claim", func() (bool, string) {
		claims, transfers, err := populating()
		if err != nil || len(claims) != 1 || len(transfers) != 1 {
			return false, fmt.Sprintf("%d claims, %d Transfers, %v", len(claims), len(transfers), err)
		}
		if volume = claims[0].Spec.VolumeName; transfers[0].Status.Phase == v1alpha1.TransferComplete {
			t.Fatal("the claim was filled before anybody looked")
		}
		return volume != "", string(transfers[0].Status.Phase)
	})
	if err := east.Delete(ctx, claim); err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Minute, "what populated the claim to be removed, with its volume", func() (bool, string) {
		claims, transfers, err := populating()
		left := east.Get(ctx, client.ObjectKey{Name: volume}, &corev1.PersistentVolume{})
		return err == nil && len(claims)+len(transfers) == 0 && apierrors.IsNotFound(left),
			fmt.Sprintf("%d claims, %d Transfers, %v, volume: %v", len(claims), len(transfers), err, left)
	})
}

// populated is a claim with what Transfer "backup" archived.
func populated(namespace, name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To(class),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Mi")},
			},
			DataSourceRef: &corev1.TypedObjectReference{
				APIGroup: ptr.To(v1alpha1.GroupVersion.Group), Kind: "Transfer", Name: "backup",
			},
		},
	}
}
