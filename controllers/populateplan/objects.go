// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package populateplan

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// Component is the label of what exists while a claim is populated.
const Component = "populate"

// madeForNode is the annotation with the node that a prime was made for. Provisioners do not know it.
const madeForNode = "lighterage.dev/populate-for-node"

// Name of the prime of a claim and of the Transfer that fills it. Admission policies know it: it tells which claim a
// volume may be given to.
func Name(claim *corev1.PersistentVolumeClaim) string { return "populate-" + string(claim.UID) }

// made is the metadata of what goes with the claim.
func made(claim *corev1.PersistentVolumeClaim) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: claim.Namespace, Name: Name(claim),
		Labels: map[string]string{
			agentpod.ManagedByLabel: agentpod.ManagedBy, agentpod.ComponentLabel: Component,
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: claim.Name, UID: claim.UID,
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
		}},
	}
}

// prime is like the claim, but empty, so that its class makes a volume for it, where the claim's consumer will run.
func prime(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	p := &corev1.PersistentVolumeClaim{
		ObjectMeta: made(claim),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: claim.Spec.AccessModes, Resources: claim.Spec.Resources, VolumeMode: claim.Spec.VolumeMode,
			StorageClassName: claim.Spec.StorageClassName, VolumeAttributesClassName: claim.Spec.VolumeAttributesClassName,
		},
	}
	if node := claim.Annotations[SelectedNode]; node != "" {
		p.Annotations = map[string]string{SelectedNode: node, madeForNode: node}
	}
	return p
}

// fill is the Transfer that reads what another one wrote.
func fill(claim *corev1.PersistentVolumeClaim, source *v1alpha1.Transfer) *v1alpha1.Transfer {
	from := source.Spec.DeepCopy()
	return &v1alpha1.Transfer{
		ObjectMeta: made(claim),
		Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{ObjectStore: from.Destination.ObjectStore},
			Destination: v1alpha1.TransferDestination{PersistentVolumeClaim: v1alpha1.DestinationClaim{
				PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: Name(claim), Path: "/"},
			}},
			PodTemplate: from.PodTemplate,
		},
	}
}
