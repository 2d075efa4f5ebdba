// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentpod

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	// AppLabel is on everything that belongs to agents, with the value AppName.
	AppLabel = "app.kubernetes.io/name"
	// AppName is the value of AppLabel.
	AppName = "lighterage-agent"
	// ComponentLabel holds the agent's mode: send, receive or local.
	ComponentLabel = "app.kubernetes.io/component"
	// ManagedByLabel is on everything that the manager makes, with the value ManagedBy.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of ManagedByLabel.
	ManagedBy = "lighterage-manager"
)

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
