// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/index"
)

// agentOn returns the node agent of the node: the newest that can be asked, otherwise the newest; nil if there is none.
func (r *Reconciler) agentOn(ctx context.Context, node string) (*corev1.Pod, error) {
	var pods corev1.PodList
	err := r.client.List(
		ctx, &pods, client.InNamespace(r.options.Namespace), client.MatchingLabels{ComponentLabel: NodeAgent},
		client.MatchingFields{index.Node: node},
	)
	if err != nil {
		return nil, fmt.Errorf("listing the node agents of %s: %w", node, err)
	}
	var best *corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !pod.DeletionTimestamp.IsZero() || pod.Status.Phase == corev1.PodSucceeded ||
			pod.Status.Phase == corev1.PodFailed {
			continue
		}
		better := best == nil || runs(pod) && !runs(best) ||
			runs(pod) == runs(best) && best.CreationTimestamp.Before(&pod.CreationTimestamp)
		if better {
			best = pod
		}
	}
	return best, nil
}

// runs: the agent is a process that can be asked.
func runs(pod *corev1.Pod) bool {
	container := containerOf(pod)
	return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" && (container == nil ||
		container.State.Running != nil)
}

// containerOf is the status of the agent's container, beside which a mesh may put its own; nil before there is any.
func containerOf(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == agentpod.ContainerName {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// ailment is why an agent that is there does not run, in the scheduler's or the kubelet's words, and where to look.
func ailment(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return fmt.Sprintf(
				"Node agent %s cannot be placed (%s); free resources on this node, or set nodeAgent.priorityClassName of the chart",
				pod.Name, condition.Message,
			)
		}
	}
	container := containerOf(pod)
	if container == nil {
		return fmt.Sprintf(
			"Node agent %s has not started; if it goes on so, kubectl -n %s describe pod %s says why", pod.Name, pod.Namespace,
			pod.Name,
		)
	}
	state, last := "has ended", container.LastTerminationState.Terminated
	if waiting := container.State.Waiting; waiting != nil {
		state = "does not run: " + waiting.Reason
		if last == nil && waiting.Message != "" {
			state += ": " + waiting.Message
		}
	}
	if container.State.Terminated != nil {
		last = container.State.Terminated
	}
	if last == nil {
		return fmt.Sprintf(
			"Node agent %s %s; if it goes on so, kubectl -n %s describe pod %s says why", pod.Name, state, pod.Namespace,
			pod.Name,
		)
	}
	fix := fmt.Sprintf("kubectl -n %s logs --previous %s may say why", pod.Namespace, pod.Name)
	if last.Reason == "OOMKilled" {
		fix = "raise nodeAgent.resources.limits.memory of the chart"
	}
	return fmt.Sprintf(
		"Node agent %s %s, the last time with exit code %d (%s); %s", pod.Name, state, last.ExitCode, last.Reason, fix,
	)
}

// nodeOfPod is the node that a node agent belongs to.
func nodeOfPod(_ context.Context, object client.Object) []reconcile.Request {
	pod, ok := object.(*corev1.Pod)
	if !ok || index.NodeOf(pod) == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: index.NodeOf(pod)}}}
}
