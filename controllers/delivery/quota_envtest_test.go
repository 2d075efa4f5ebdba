// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package delivery_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// TestDeliveriesShareTwoSlots: of six that come at once two have an agent, and the others wait, until one ends, is
// deleted, or the limit is raised. What the sender reads of it says nothing of the receiving namespace.
func TestDeliveriesShareTwoSlots(t *testing.T) {
	f := prepare(t)
	two, three := int32(2), int32(3)
	quota := &v1alpha1.DataQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "team"},
		Spec:       v1alpha1.DataQuotaSpec{Hard: v1alpha1.DataQuotaResources{RunningDeliveries: &two}},
	}
	cluster.Create(t, quota)
	controllertest.Eventually(t, func() error {
		return cached.Get(context.Background(), client.ObjectKeyFromObject(quota), &v1alpha1.DataQuota{})
	})
	var created sync.WaitGroup
	for i := range 6 {
		created.Go(func() { cluster.Create(t, f.make(fmt.Sprintf("t%d", i), 1, fmt.Sprintf("/t%d", i))) })
	}
	created.Wait()
	// settle waits until so many have begun and have a Job, and so many wait.
	var runs []v1alpha1.Delivery
	settle := func(running, waiting int) {
		t.Helper()
		controllertest.Eventually(t, func() error {
			list := &v1alpha1.DeliveryList{}
			if err := cluster.Client.List(context.Background(), list, client.InNamespace(f.namespace)); err != nil {
				return err
			}
			runs = nil
			var waits, jobs int
			for _, d := range list.Items {
				ready := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
				switch {
				case d.Status.Run != nil && d.Status.Run.CompletionTime == nil:
					runs = append(runs, d)
					jobs += len(cluster.Jobs(t, f.namespace, v1alpha1.DeliveryLabel, string(d.UID)))
				case ready != nil && ready.Reason == v1alpha1.ReasonQuotaExceeded:
					waits++
					if d.Status.Phase != v1alpha1.DeliveryPending || strings.Contains(ready.Message, "team") ||
						strings.Contains(ready.Message, f.namespace) {
						t.Errorf("%s: %s", d.Status.Phase, ready.Message)
					}
				}
			}
			if len(runs) != running || jobs != running || waits != waiting {
				return fmt.Errorf("%d run with %d Jobs, and %d wait; want %d and %d", len(runs), jobs, waits, running, waiting)
			}
			return nil
		})
	}
	settle(2, 4)
	cluster.EndPod(t, f.run(&runs[0]), 0, `{"state":"AGENT_STATE_SUCCEEDED"}`)
	settle(2, 3)
	if err := cluster.Client.Delete(context.Background(), &runs[0]); err != nil {
		t.Fatal(err)
	}
	settle(2, 2)
	patch := client.MergeFrom(quota.DeepCopy())
	quota.Spec.Hard.RunningDeliveries = &three
	if err := cluster.Client.Patch(context.Background(), quota, patch); err != nil {
		t.Fatal(err)
	}
	settle(3, 1)
	if err := cluster.Client.Delete(context.Background(), quota); err != nil {
		t.Fatal(err)
	}
	settle(4, 0)
}
