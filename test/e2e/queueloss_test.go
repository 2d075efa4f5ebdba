// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestOnlyClaimLost: a queue of one member that loses its claim says how many messages went with it and how to go on,
// takes messages meanwhile, and is Ready when somebody has said that the loss is known.
func TestOnlyClaimLost(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	queue, clerk := east.newQueue(t, namespace, "orders", func(*v1alpha1.QueueSpec) {})
	east.waitForQueue(t, queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	clerk.connect(t)
	messages := orders(5)
	clerk.put(t, messages)
	east.see(t, queue, "count its messages", func(s v1alpha1.QueueStatus) bool {
		return s.Statistics != nil && s.Statistics.Depth == 5
	})
	clerk.close()

	pod := east.member(t, queue)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-" + pod.Name}}
	for _, object := range []client.Object{claim, pod} {
		if err := east.Delete(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	east.waitForNext(t, pod)
	message := east.waitForQueue(t, queue, v1alpha1.ConditionStalled, v1alpha1.ReasonMessagesLost)
	t.Logf("without its claim: %s", message)
	loss := queue.Status.Loss
	if loss == nil || loss.Messages.Count != 5 || !strings.Contains(message, " 5 messages ") {
		t.Fatalf("status.loss is %+v, the condition says: %s", loss, message)
	}
	accept := loss.StreamCreationTime.UTC().Format(time.RFC3339)
	if !strings.Contains(message, v1alpha1.AcceptLossAnnotation+"="+accept) {
		t.Errorf("the condition does not say how to accept the loss: %s", message)
	}
	clerk.connect(t)
	clerk.put(t, messages[:1])
	clerk.get(t, messages[:1])
	clerk.close()

	patch(t, queue, func() { metav1.SetMetaDataAnnotation(&queue.ObjectMeta, v1alpha1.AcceptLossAnnotation, accept) })
	east.waitForQueue(t, queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	if queue.Status.Loss != nil {
		t.Errorf("the loss is accepted, and status still has it: %+v", queue.Status.Loss)
	}
}
