// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LocalCompressionPolicySpec is what is wanted of compression in a namespace. Fields mean what they mean in a
// CompressionPolicy, and what is left out is built in as there. It has no prices: those that apply to objects that name
// no policy apply here.
// +kubebuilder:validation:XValidation:rule="!has(self.software) || !has(self.software.disabled) || !self.software.disabled || !has(self.codecs) || !self.codecs.exists(c, c == 'zstd')",message="codecs must not have zstd where software.disabled is true: no accelerator does zstd; write codecs: [deflate]"
// +kubebuilder:validation:XValidation:rule="!has(self.placement) || self.placement != 'RequireHardware' || !has(self.codecs) || self.codecs[0] == 'deflate'",message="codecs must have deflate first where placement is RequireHardware: no accelerator does zstd; write codecs: [deflate]"
type LocalCompressionPolicySpec struct {
	// objective is what mode Auto minimises: Cost, Elapsed, CPU or Bytes. Built in: Cost where the default
	// CompressionPolicy has prices or names a Tariff, otherwise Elapsed. Cost needs such a policy or a default Tariff.
	// +optional
	Objective CompressionObjective `json:"objective,omitempty"`
	// mode says whether to compress. Built in: Auto.
	// +optional
	Mode CompressionMode `json:"mode,omitempty"`
	// codecs lists the formats to use, in order of preference. Built in: [deflate].
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="codecs must name each codec once"
	Codecs []Codec `json:"codecs,omitempty"`
	// level trades CPU for ratio. Built in: Fast.
	// +optional
	Level CompressionLevel `json:"level,omitempty"`
	// placement says on which nodes agents run. Built in: PreferHardware.
	// +optional
	Placement Placement `json:"placement,omitempty"`
	// hardware has the settings for compressing on the accelerator.
	// +optional
	Hardware *HardwareCompression `json:"hardware,omitempty"`
	// software has the settings for compressing without it.
	// +optional
	Software *SoftwareCompression `json:"software,omitempty"`
}

// LocalCompressionPolicyStatus is what was seen of a policy.
type LocalCompressionPolicyStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// usedBy are the Transfers, HTTPEndpoints and Queues of the namespace that the policy applies to.
	// +optional
	UsedBy *UsedByStatus `json:"usedBy,omitempty"`
}

// LocalCompressionPolicy is what is wanted of compression, for objects of its namespace that name it. It precedes a
// CompressionPolicy with the same name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=lighterage
// +kubebuilder:printcolumn:name="Objective",type=string,JSONPath=`.spec.objective`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Codecs",type=string,JSONPath=`.spec.codecs`
// +kubebuilder:printcolumn:name="Level",type=string,JSONPath=`.spec.level`
// +kubebuilder:printcolumn:name="Placement",type=string,JSONPath=`.spec.placement`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Wire bytes",type=integer,JSONPath=`.status.usedBy.wireBytes`,priority=1,description="of the objects that the policy applies to"
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type LocalCompressionPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec LocalCompressionPolicySpec `json:"spec,omitzero"`
	// status is what was seen.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status LocalCompressionPolicyStatus `json:"status,omitzero"`
}

// LocalCompressionPolicyList is a list of LocalCompressionPolicies.
// +kubebuilder:object:root=true
type LocalCompressionPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LocalCompressionPolicy `json:"items"`
}
