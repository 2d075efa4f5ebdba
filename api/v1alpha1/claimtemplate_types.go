// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DestinationClaim is a directory in a claim that a Transfer writes to, and how the claim is made.
type DestinationClaim struct {
	PersistentVolumeClaimPath `json:",inline"`

	// template of the claim. With it the claim is created if it does not exist when a run begins, with volumeMode
	// Filesystem, and what was created so is made larger when the source has become larger. The claim is never deleted:
	// not with the Transfer, either. Absent: the claim must exist. The manager of the destination's cluster needs the
	// right to (values of the chart: claimTemplates.enabled), and what is in another cluster or namespace needs create in
	// a PeerGrant there.
	// +optional
	Template *ClaimTemplate `json:"template,omitempty"`
}

// ClaimTemplate says what claim is created.
type ClaimTemplate struct {
	// storageClassName is a StorageClass of the destination's cluster. Absent: the default one there. It must allow
	// volume expansion for the claim to become larger.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	StorageClassName string `json:"storageClassName,omitempty"`

	// accessModes of the claim. Absent: ReadWriteOnce.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=ReadWriteOnce;ReadWriteMany;ReadWriteOncePod
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`

	// size that the claim has at least. Absent: the capacity of the source with headroom; an objectStore as source has
	// none, so that the size is necessary there.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Pi')) <= 0",message="size must be between 1Mi and 1Pi; write for example 100Gi"
	Size *resource.Quantity `json:"size,omitempty"`

	// headroomPercent is how much larger than the source's capacity the claim is. While a file is replaced the
	// destination has both versions, and another class may take more for itself.
	// +optional
	// +default=20
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	HeadroomPercent *int32 `json:"headroomPercent,omitempty"`
}

// ClaimRequest is what a Transfer's template asks for in one attempt.
type ClaimRequest struct {
	// storageClassName of the claim. Absent: the default StorageClass.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName,omitempty"`
	// accessModes of the claim. Absent: ReadWriteOnce.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=ReadWriteOnce;ReadWriteMany;ReadWriteOncePod
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`
	// size by template and source.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1')) >= 0 && quantity(string(self)).compareTo(quantity('1Ei')) <= 0",message="size must be between 1 byte and 1Ei"
	Size resource.Quantity `json:"size,omitzero"`
	// written says that an attempt of the run has written into the claim already, so that it is not created if it is gone.
	// +optional
	Written bool `json:"written,omitempty"`
}

// PeerGrantCreate bounds the claim that Transfers may create.
type PeerGrantCreate struct {
	// storageClassNames that a template may name. One that names none gets the default StorageClass of this cluster,
	// which need not be listed.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	StorageClassNames []string `json:"storageClassNames,omitempty"`
	// maxSize that the claim may have, or be enlarged to. Of 0 or less: none.
	// +required
	MaxSize resource.Quantity `json:"maxSize,omitzero"`
}
