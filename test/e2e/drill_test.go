// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestDrill archives a claim of one cluster in a bucket and drills the copy in the other one, in a namespace that
// enforces the restricted Pod Security Standard: first as it is, then without it. Nothing is left of either drill.
func TestDrill(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	pair.ObjectStores(t, namespace, "vault", namespace)
	restricted := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))
	if err := west.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, restricted); err != nil {
		t.Fatal(err)
	}
	east.claim(t, namespace, "source", "", "100Mi")
	east.sh(t, namespace, "source", fill)
	to := newTransfer(namespace, "archive")
	to.Spec.Source.PersistentVolumeClaim.ClaimName = "source"
	to.Spec.Destination = v1alpha1.TransferDestination{ObjectStore: vault("/ledger"), Form: v1alpha1.RestingArchive}
	if err := east.Create(ctx, to); err != nil {
		t.Fatal(err)
	}
	east.WaitFor(t, to, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")

	begun := time.Now()
	drill := &v1alpha1.Drill{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ledger"},
		Spec: v1alpha1.DrillSpec{
			Source:  v1alpha1.DrillSource{ObjectStore: *vault("/ledger")},
			Volume:  v1alpha1.EphemeralVolume{Size: ptr.To(resource.MustParse("100Mi"))},
			Inflate: v1alpha1.InflateSoftware,
			Objective: &v1alpha1.DrillObjective{
				MaxAge: &metav1.Duration{Duration: time.Hour}, MaxDuration: &metav1.Duration{Duration: time.Hour},
			},
		},
	}
	if err := west.Create(ctx, drill); err != nil {
		t.Fatal(err)
	}
	drilled(t, drill, metav1.ConditionTrue, v1alpha1.ReasonRecovered)
	r := drill.Status.History[0]
	if r.Files != 303 || r.Bytes < 12_000_000 || r.BytesPerSecond <= 0 || r.CopyTime == nil || r.CPU == nil ||
		r.CPU.SecondsPerGiB == "" || r.Decompression == nil || r.Decompression.Software.Bytes < 12_000_000 ||
		r.Decompression.Hardware.Bytes != 0 || r.Decompression.Reason != v1alpha1.CompressionSoftwareUsed {
		t.Errorf("%+v, %+v", r, r.Decompression)
	}
	t.Logf("restored in %s, %d bytes per second, %s CPU seconds per GiB; the test saw it after %s", r.Duration.Duration,
		r.BytesPerSecond, r.CPU.SecondsPerGiB, time.Since(begun))

	before := client.MergeFrom(drill.DeepCopy())
	drill.Spec.Include = []string{"nothing-of-this-name"}
	metav1.SetMetaDataAnnotation(&drill.ObjectMeta, v1alpha1.RunAnnotation, "again")
	if err := west.Patch(ctx, drill, before); err != nil {
		t.Fatal(err)
	}
	drilled(t, drill, metav1.ConditionFalse, v1alpha1.ReasonCopyIncomplete)
	if len(drill.Status.History) != 2 || drill.Status.LastRecoverableTime == nil {
		t.Errorf("%+v", drill.Status)
	}
	eventually(t, 2*time.Minute, "all of the drills to go", func() (bool, string) {
		transfers, claims := &v1alpha1.TransferList{}, &corev1.PersistentVolumeClaimList{}
		for _, list := range []client.ObjectList{transfers, claims} {
			if err := west.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return false, err.Error()
			}
		}
		left := fmt.Sprintf("%d Transfers and %d claims are left", len(transfers.Items), len(claims.Items))
		return len(transfers.Items)+len(claims.Items) == 0, left
	})
}

// drilled waits until a drill has ended, with a result.
func drilled(t *testing.T, drill *v1alpha1.Drill, status metav1.ConditionStatus, reason string) {
	t.Helper()
	eventually(t, 4*time.Minute, "the drill to end", func() (bool, string) {
		if err := west.Get(context.Background(), client.ObjectKeyFromObject(drill), drill); err != nil {
			return false, err.Error()
		}
		ready := meta.FindStatusCondition(drill.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || drill.Status.ObservedGeneration != drill.Generation || drill.Status.TransferName != "" {
			return false, fmt.Sprintf("%+v", ready)
		}
		found := meta.FindStatusCondition(drill.Status.Conditions, v1alpha1.ConditionRecoverable)
		return found != nil && found.Status == status && found.Reason == reason, fmt.Sprintf("%+v", found)
	})
}
