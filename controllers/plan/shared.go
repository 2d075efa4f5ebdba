// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// What the agents of every kind have in common.

// Container is an agent's container with what does not depend on its mode: image, resources, security and memory limit.
func Container(image AgentImage, template v1alpha1.AgentPodTemplate) corev1.Container {
	resources := agentResources(template.Resources)
	return corev1.Container{
		Name:            AgentContainer,
		Image:           image.Name,
		ImagePullPolicy: image.PullPolicy,
		Command:         []string{"/agent"},
		Resources:       resources,
		SecurityContext: agentSecurity(template.SecurityContext, nil),
		Env:             memoryLimit(resources),
	}
}

// memoryLimit tells Go's collector of the container's.
func memoryLimit(resources corev1.ResourceRequirements) []corev1.EnvVar {
	limit := resources.Limits.Memory().Value()
	if limit <= 0 {
		return nil
	}
	return []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: strconv.FormatInt(int64(float64(limit)*memoryShare), 10)}}
}

// PodSecurity is the security context of an agent's pod, which the restricted Pod Security Standard admits.
func PodSecurity() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot:   ptr.To(true),
		RunAsUser:      ptr.To[int64](agentUser),
		RunAsGroup:     ptr.To[int64](agentUser),
		FSGroup:        ptr.To[int64](agentUser),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// Labels of what consists of agents of a mode, or belongs to them. The UID of their owner is in ownerLabel.
func Labels(mode, ownerLabel string, owner types.UID) map[string]string {
	return map[string]string{
		AppLabel: AppName, ComponentLabel: mode, ManagedByLabel: ManagedBy, ownerLabel: string(owner),
	}
}

// OwnerReference makes the owner the controller of what bears it.
func OwnerReference(kind string, owner metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID(),
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
	}
}

// Stuck says in the scheduler's or the kubelet's words why a pod's agent does not run; nil when it does, or did.
func Stuck(pod *corev1.Pod) *Problem {
	container := agentContainerStatus(pod)
	if container != nil && (container.State.Running != nil || container.State.Terminated != nil) {
		return nil
	}
	return stuckPod(pod, container)
}

// HardwareUsed reports whether the accelerator does what is compressed. One that stopped working on the way, or that
// others keep busy, compressed some as well, and so did one beside which software had the most to do.
func HardwareUsed(status *v1alpha1.CompressionStatus) bool {
	switch status.Reason {
	case v1alpha1.CompressionHardwareUsed:
		return true
	case v1alpha1.CompressionSelfTestFailed, v1alpha1.CompressionAcceleratorBusy:
		return false
	}
	return status.Hardware.Operations > 0 && status.Hardware.Bytes >= status.Software.Bytes
}
