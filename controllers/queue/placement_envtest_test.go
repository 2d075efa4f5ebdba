// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package queue_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// Members that run follow what takes no restart also while no node could take them; what takes one waits.
// Not in parallel, because all Queues see the node.
func TestLimitsWhileNoNodeFits(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "z15", Labels: map[string]string{v1alpha1.DeflateLabel: "hardware"}},
	}
	policy := &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "hardware"},
		Spec:       v1alpha1.CompressionPolicySpec{Placement: v1alpha1.PlacementRequireHardware},
	}
	cluster.Create(t, node, policy)
	t.Cleanup(func() {
		_, _ = cluster.Client.Delete(context.Background(), node), cluster.Client.Delete(context.Background(), policy)
	})
	node.Spec.Taints = nil // that of a node that has said nothing yet
	if err := cluster.Client.Update(ctx, node); err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := cluster.Client.Status().Update(ctx, node); err != nil {
		t.Fatal(err)
	}
	q := create(t, cluster.Namespace(t), func(spec *v1alpha1.QueueSpec) {
		spec.Compression = &v1alpha1.QueueCompression{PolicyName: "hardware"}
	})
	s := set(t, q)
	before, _ := secret(t, s)

	patch := client.MergeFrom(node.DeepCopy())
	node.Labels[v1alpha1.DeflateLabel] = "software"
	if err := cluster.Client.Patch(ctx, node, patch); err != nil {
		t.Fatal(err)
	}
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonUnschedulable)
	update(t, q, func() { q.Spec.Limits = v1alpha1.QueueLimits{MaxMessages: ptr.To[int64](17)} })
	controllertest.Eventually(t, func() error {
		if after, _ := secret(t, s); after.GetRevision() == before.GetRevision() || after.GetLimits().GetMaxMessages() != 17 {
			return fmt.Errorf("the member is told %v", after)
		}
		return nil
	})
	update(t, q, func() { q.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{PriorityClassName: "high"} })
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonUnschedulable)
	if s = set(t, q); s.Spec.Template.Spec.PriorityClassName != "" {
		t.Error("members are stopped that no node could take again")
	}
}
