// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// limitStorage makes a DataQuota, and waits until the manager knows of it.
func limitStorage(t *testing.T, namespace, bytes string) *v1alpha1.DataQuota {
	t.Helper()
	quota := &v1alpha1.DataQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "team"},
		Spec:       v1alpha1.DataQuotaSpec{Hard: v1alpha1.DataQuotaResources{QueueBytes: ptr.To(resource.MustParse(bytes))}},
	}
	cluster.Create(t, quota)
	controllertest.Eventually(t, func() error {
		return cached.Get(ctx, client.ObjectKeyFromObject(quota), &v1alpha1.DataQuota{})
	})
	return quota
}

func createSized(t *testing.T, namespace, name, size string, replicas int32) *v1alpha1.Queue {
	t.Helper()
	q := newQueue(func(spec *v1alpha1.QueueSpec) { spec.Storage.Size, spec.Replicas = resource.MustParse(size), replicas })
	q.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: name}
	cluster.Create(t, q)
	return q
}

// admitted waits until so much storage of each member of a Queue is admitted.
func admitted(t *testing.T, q *v1alpha1.Queue, size string) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
			return err
		}
		if got := q.Status.StorageSize; got == nil || got.Cmp(resource.MustParse(size)) != 0 {
			return fmt.Errorf("%s has %v admitted, want %s: %+v", q.Name, got, size, q.Status.Conditions)
		}
		return nil
	})
}

// TestStorageQuota: a Queue that exceeds the quota is not made, smaller ones are, and it is made when there is enough
// for it.
func TestStorageQuota(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	quota := limitStorage(t, namespace, "10Gi")
	first := createSized(t, namespace, "first", "2Gi", 3)
	admitted(t, first, "2Gi")
	set(t, first)
	large := createSized(t, namespace, "large", "5Gi", 1)
	expect(t, large, v1alpha1.ConditionStalled, v1alpha1.ReasonQuotaExceeded)
	if ready := meta.FindStatusCondition(
		large.Status.Conditions, v1alpha1.ConditionReady,
	); !strings.Contains(ready.Message, `DataQuota "team"`) ||
		!strings.Contains(ready.Message, "queueBytes") || !strings.Contains(ready.Message, "6Gi") ||
		large.Status.StorageSize != nil {
		t.Errorf("%s; %v", ready.Message, large.Status.StorageSize)
	}
	small := createSized(t, namespace, "small", "4Gi", 1)
	admitted(t, small, "4Gi")
	set(t, small)
	next := createSized(t, namespace, "next", "1Gi", 1)
	expect(t, next, v1alpha1.ConditionStalled, v1alpha1.ReasonQuotaExceeded)

	var sets appsv1.StatefulSetList
	if err := cluster.Client.List(ctx, &sets, client.InNamespace(namespace)); err != nil || len(sets.Items) != 2 {
		t.Errorf("%d StatefulSets, %v", len(sets.Items), err)
	}
	patch := client.MergeFrom(quota.DeepCopy())
	quota.Spec.Hard.QueueBytes = ptr.To(resource.MustParse("11Gi"))
	if err := cluster.Client.Patch(ctx, quota, patch); err != nil {
		t.Fatal(err)
	}
	admitted(t, next, "1Gi")
	// A Queue that goes makes what it had free.
	patch = client.MergeFrom(first.DeepCopy())
	first.Annotations = map[string]string{v1alpha1.DeleteMessagesAnnotation: "true"}
	if err := cluster.Client.Patch(ctx, first, patch); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Delete(ctx, first); err != nil {
		t.Fatal(err)
	}
	admitted(t, large, "5Gi")
	set(t, large)
}

// TestGrowthBeyondTheQuota: members go on with the storage that they have, and follow the rest of the spec.
func TestGrowthBeyondTheQuota(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	quota := limitStorage(t, namespace, "10Gi")
	q := createSized(t, namespace, "orders", "8Gi", 1)
	admitted(t, q, "8Gi")
	before, _ := secret(t, set(t, q))
	patch := client.MergeFrom(q.DeepCopy())
	q.Spec.Storage.Size, q.Spec.Limits.MaxMessages = resource.MustParse("12Gi"), ptr.To[int64](7)
	if err := cluster.Client.Patch(ctx, q, patch); err != nil {
		t.Fatal(err)
	}
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonQuotaExceeded)
	admitted(t, q, "8Gi")
	controllertest.Eventually(t, func() error {
		if config, _ := secret(t, set(t, q)); config.GetStorage().GetCapacity() != before.GetStorage().GetCapacity() ||
			config.GetLimits().GetMaxMessages() != 7 {
			return fmt.Errorf("members are told %+v and %+v", config.GetStorage(), config.GetLimits())
		}
		return nil
	})
	if err := cluster.Client.Delete(ctx, quota); err != nil {
		t.Fatal(err)
	}
	admitted(t, q, "12Gi")
	controllertest.Eventually(t, func() error {
		if config, _ := secret(t, set(t, q)); config.GetStorage().GetCapacity() <= before.GetStorage().GetCapacity() {
			return errors.New("members are told of no more storage")
		}
		return nil
	})
}
