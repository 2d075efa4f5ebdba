// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package queue_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// TestAdopt: a Queue that is created again after somebody took the former one away by force makes nothing until it is
// told what to do with the claims that are left, and goes on with them when it is to adopt them.
func TestAdopt(t *testing.T) {
	t.Parallel()
	former := create(t, cluster.Namespace(t), nil)
	s := set(t, former)
	member(t, s)
	if err := cluster.Client.Delete(ctx, former); err != nil {
		t.Fatal(err)
	}
	force := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := cluster.Client.Patch(ctx, former, force); err != nil {
		t.Fatal(err)
	}
	gone(t, former)
	// Here nobody collects what it owned, and a look that had begun before may have made it again.
	controllertest.Eventually(t, func() error {
		for _, object := range []client.Object{
			&appsv1.StatefulSet{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
		} {
			if err := cluster.Client.DeleteAllOf(ctx, object, client.InNamespace(former.Namespace)); err != nil {
				return err
			}
		}
		var left appsv1.StatefulSetList
		if err := cluster.Client.List(ctx, &left, client.InNamespace(former.Namespace)); err != nil || len(left.Items) > 0 {
			return fmt.Errorf("%d StatefulSets are left: %w", len(left.Items), err)
		}
		return nil
	})

	q := create(t, former.Namespace, nil)
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonClaimsRemain)
	for _, wrong := range []string{
		"orders", "another-queue-1a2b3c4d", "my-orders-queue-1a2b3c4d", "orders-queue-1a2b3c4", "orders-queue-1A2B3C4D",
	} {
		if err := tryAdopt(q, fmt.Sprintf("%q", wrong)); !apierrors.IsInvalid(err) {
			t.Errorf("adopt %q: %v", wrong, err)
		}
	}
	update(t, q, func() { q.Spec.Storage.Adopt = s.Name })
	if got := set(t, q); got.Name != s.Name {
		t.Errorf("the StatefulSet is %s, and adopts claims of %s", got.Name, s.Name)
	}
	controllertest.Eventually(t, func() error {
		claim := &corev1.PersistentVolumeClaim{}
		if err := cluster.Client.Get(
			ctx, client.ObjectKey{Namespace: q.Namespace, Name: "data-" + s.Name + "-0"}, claim,
		); err != nil {
			return err
		}
		if claim.Labels[v1alpha1.QueueLabel] != string(q.UID) {
			return fmt.Errorf("the claim has labels %v", claim.Labels)
		}
		return nil
	})
	if err := tryAdopt(q, "null"); !apierrors.IsInvalid(err) {
		t.Errorf("adopt was taken away: %v", err)
	}
}

// tryAdopt asks the API server whether the field may have a value, in JSON.
func tryAdopt(q *v1alpha1.Queue, value string) error {
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"storage":{"adopt":%s}}}`, value))
	return cluster.Client.Patch(ctx, q.DeepCopy(), patch, client.DryRunAll)
}

// TestAdoptTooLate: a Queue that has claims of its own cannot adopt others.
func TestAdoptTooLate(t *testing.T) {
	t.Parallel()
	q := create(t, cluster.Namespace(t), nil)
	s := set(t, q)
	update(t, q, func() { q.Spec.Storage.Adopt = "orders-queue-1a2b3c4d" })
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec)
	if got := set(t, q); got.UID != s.UID {
		t.Errorf("the StatefulSet is %s", got.Name)
	}
}
