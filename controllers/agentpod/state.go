// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentpod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Reasons of the kubelet for a container whose image it cannot have.
const (
	errImagePull     = "ErrImagePull"
	imagePullBackOff = "ImagePullBackOff"
)

// ContainerStatus is that of the agent; nil if there is none yet.
func ContainerStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == ContainerName {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// WhyNotRunning says in the scheduler's or the kubelet's words why a container does not run.
func WhyNotRunning(pod *corev1.Pod, container *corev1.ContainerStatus) *Problem {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return &Problem{v1alpha1.ReasonUnschedulable, "the agent's pod cannot be placed: " + condition.Message}
		}
	}
	if container != nil && container.State.Waiting != nil && container.State.Waiting.Message != "" {
		waiting := container.State.Waiting
		message := fmt.Sprintf("the agent's container does not start: %s: %s", waiting.Reason, waiting.Message)
		if waiting.Reason == errImagePull || waiting.Reason == imagePullBackOff {
			message += "; if the image was not built for this node's architecture, leave that out of image.architectures of " +
				"the chart, and agents go elsewhere"
		}
		return &Problem{v1alpha1.ReasonAgentNotStarted, message}
	}
	return &Problem{v1alpha1.ReasonAgentNotStarted,
		fmt.Sprintf(
			"the agent's container has not started yet; kubectl -n %s describe pod %s says why", pod.Namespace, pod.Name,
		)}
}

// Stuck says in the scheduler's or the kubelet's words why a pod's agent does not run; nil when it does, or did.
func Stuck(pod *corev1.Pod) *Problem {
	container := ContainerStatus(pod)
	if container != nil && (container.State.Running != nil || container.State.Terminated != nil) {
		return nil
	}
	return WhyNotRunning(pod, container)
}

// SlotsOf is how many slots of accelerators an agent's pod holds, or waits for; none when it has ended.
func SlotsOf(pod *corev1.Pod) int64 {
	if pod.Labels[AppLabel] != AppName || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return 0
	}
	var held int64
	for i := range pod.Spec.Containers {
		asked := pod.Spec.Containers[i].Resources.Requests[v1alpha1.AcceleratorSlotsResource]
		held += asked.Value()
	}
	return held
}
