// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentpod is what the pods of agents of every kind have in common: the container, security and privilege,
// labels, and what is told of a pod that does not run. It is pure.
package agentpod

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	// ContainerName is the name of the one container in an agent's pod.
	ContainerName = "agent"
	// ControlPort is where agents answer the manager.
	ControlPort = 9443
	// DataPort is where receiving agents take data.
	DataPort = 8443
	// SharesPort is where node agents grant shares of accelerators.
	SharesPort = 9444

	// User and group of an agent without privilege.
	User = 65532

	// memoryShare of the limit is what Go's collector aims to stay below; the rest is for buffers of C and stacks.
	memoryShare = 0.9
)

// Image is what agents' pods run, and what is said to all of them.
type Image struct {
	Name       string
	PullPolicy corev1.PullPolicy
	// Architectures that it was built for, as Go names them; empty when that is not known.
	Architectures []string
	// DataPath that agents' connections are to take; empty: TCP.
	DataPath string
	// Tunnels is the endpoint of this cluster's gateways where agents ask for connections to peers that they do not dial
	// themselves, see package route.
	Tunnels string
	// Shares is the address and port at which agents draw shares of their node's accelerator; empty: they do not.
	Shares string
}

// resourcesOf are the user's, or the default ones.
func resourcesOf(given *corev1.ResourceRequirements) corev1.ResourceRequirements {
	if given != nil {
		return *given.DeepCopy()
	}
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("100m"),
			corev1.ResourceMemory: resource.MustParse("128Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
	}
}

// Container is an agent's container with what does not depend on its mode: image, resources, security and memory limit.
func Container(image Image, template v1alpha1.AgentPodTemplate) corev1.Container {
	resources := resourcesOf(template.Resources)
	return corev1.Container{
		Name:            ContainerName,
		Image:           image.Name,
		ImagePullPolicy: image.PullPolicy,
		Command:         []string{"/agent"},
		Resources:       resources,
		SecurityContext: Security(template.SecurityContext, nil),
		Env:             append(memoryLimit(resources), shares(image)...),
	}
}

// shares tells an agent where shares are granted. An agent that finds no accelerator asks nobody.
func shares(image Image) []corev1.EnvVar {
	if image.Shares == "" {
		return nil
	}
	return []corev1.EnvVar{{Name: wirev1.SharesVariable, Value: image.Shares}}
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
		RunAsUser:      ptr.To[int64](User),
		RunAsGroup:     ptr.To[int64](User),
		FSGroup:        ptr.To[int64](User),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}
