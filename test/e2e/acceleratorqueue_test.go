// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestAcceleratorQueue: the members of a Queue of three are not all on the one node with an accelerator, although they
// prefer it, and a trial of the Queue consumes nothing. make test-e2e-s390x makes the node.
func TestAcceleratorQueue(t *testing.T) {
	node := os.Getenv("ACCELERATED_NODE")
	if node == "" {
		t.Skip("ACCELERATED_NODE names no node; make test-e2e-s390x makes one")
	}
	measured(t, node)
	ctx := context.Background()
	namespace := newNamespace(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders-tokens"},
		Data:       map[string][]byte{"clerk": []byte("let the clerk in\n")},
	}
	queue := &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders"},
		Spec: v1alpha1.QueueSpec{
			Replicas: 3,
			Storage:  v1alpha1.QueueStorage{Size: resource.MustParse("128Mi")},
			Compression: &v1alpha1.QueueCompression{
				Mode: v1alpha1.CompressionAlways, MinSize: ptr.To(resource.MustParse("10000")),
			},
			Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: secret.Name}},
		},
	}
	for _, object := range []client.Object{secret, queue} {
		if err := east.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { east.abandonQueue(t, queue) })
	waitForQueue(t, queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	var members corev1.PodList
	if err := east.List(
		ctx, &members, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.QueueLabel: string(queue.UID)},
	); err != nil {
		t.Fatal(err)
	}
	on := map[string]int{}
	for i := range members.Items {
		on[members.Items[i].Spec.NodeName]++
	}
	if len(on) != 2 || on[node] == 0 {
		t.Errorf("members by node: %v, want some on %s and some elsewhere", on, node)
	}

	clerk := &queueClient{cluster: east, queue: queue, roots: east.certificateAuthority(t), token: "let the clerk in"}
	clerk.connect(t)
	messages := orders(40)
	clerk.put(t, messages)
	clerk.close()
	trial := newTrial(namespace, "orders", v1alpha1.TrialSource{Queue: &v1alpha1.TrialQueue{Name: queue.Name}})
	complete(t, trial)
	// A message may be read from a member that has it a moment later than the others.
	if s := trial.Status.Sample; s.Unit != v1alpha1.TrialUnitMessage || s.Items < 1 || s.Items > int64(len(messages)) ||
		s.UnreadableItems != 0 ||
		s.Agents != 1 || s.ItemsTotal < s.Items || s.ItemsTotal > int64(len(messages)) {
		t.Errorf("of %d messages: %+v", len(messages), s)
	}
	checkMeasured(t, trial)
	clerk.connect(t)
	clerk.get(t, messages)
	clerk.close()
}
