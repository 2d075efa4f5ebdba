// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package staging_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/populate"
	"github.com/lighterage/lighterage/controllers/populateplan"
)

// populateOutlivesTheTransfer: a driver may restore a large snapshot for long, and its VolumeSnapshot stays when the
// Transfer that has taken it is deleted and created again.
func populateOutlivesTheTransfer(t *testing.T) {
	s, r := prepareHistory(t), reconciler(manager.GetClient())
	cluster.Create(t, s.transfer)
	s.until("the first", r, s.kept(1))
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "restored"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("fast"),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
			DataSourceRef: &corev1.TypedObjectReference{
				APIGroup: ptr.To(v1alpha1.GroupVersion.Group), Kind: "Transfer", Name: s.transfer.Name,
			},
		},
	}
	cluster.Create(t, claim)
	populator := &populate.Reconciler{Options: populate.Options{
		Client: manager.GetClient(), Reader: manager.GetAPIReader(),
		Recorder: manager.GetEventRecorder("lighterage-populate"),
		Metrics:  metrics.NewPopulating(prometheus.NewRegistry()),
	}}
	// primes looks once, and says how many there are that stay.
	primes := func() int {
		t.Helper()
		ctx := context.Background()
		request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(claim)}
		if _, err := populator.Reconcile(ctx, request); err != nil {
			t.Error(err)
		}
		prime := &corev1.PersistentVolumeClaim{}
		key := client.ObjectKey{Namespace: s.namespace, Name: populateplan.Name(claim)}
		if err := cluster.Client.Get(ctx, key, prime); err != nil {
			if client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
			return 0
		}
		if prime.DeletionTimestamp != nil {
			return 0
		}
		return 1
	}
	s.caughtUp()
	if primes() != 1 {
		t.Fatal("no prime is made")
	}
	again := &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.transfer.Name}, Spec: *s.transfer.Spec.DeepCopy(),
	}
	if err := cluster.Client.Delete(context.Background(), s.transfer); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); s.refresh(); {
		if err := s.step(r); err != nil || time.Now().After(deadline) {
			t.Fatalf("the Transfer stays: %v", err)
		}
	}
	cluster.Create(t, again)
	s.transfer = again
	s.caughtUp()
	if primes() != 1 {
		t.Fatal("the prime is removed although its VolumeSnapshot exists")
	}
	snapshot := s.snapshots()[0]
	if err := cluster.Client.Delete(context.Background(), &snapshot); err != nil {
		t.Fatal(err)
	}
	if primes() != 0 {
		t.Error("the prime stays although its VolumeSnapshot is gone")
	}
}
