// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DataQuotaResources are amounts of what a DataQuota limits. In spec.hard, what is absent is not limited.
type DataQuotaResources struct {
	// runningTransfers is how many Transfers of the namespace run at a time: from when their run is admitted until it
	// ends. A run that waits for somebody between two attempts, or is suspended there or paused, does not count. 0:
	// none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	RunningTransfers *int32 `json:"runningTransfers,omitempty"`

	// runningDeliveries is how many Deliveries in the namespace have a receiving agent at a time. 0: none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	RunningDeliveries *int32 `json:"runningDeliveries,omitempty"`

	// bandwidth is how many bytes per second the sending agents of the namespace's Transfers write to the wire at most,
	// all together. Each run is granted its spec.bandwidthLimit. One without a limit is granted an equal share,
	// bandwidth divided by runningTransfers, if that is limited as well; otherwise whatever is not granted to others.
	// Transfers that go through no network are granted none.
	// +optional
	Bandwidth *resource.Quantity `json:"bandwidth,omitempty"`

	// queueBytes is how much storage the namespace's Queues have, all together: the sum of storage.size and
	// storage.spill.size times replicas, whether it is in volumes, in memory, on disks of nodes or in external servers.
	// 0: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('1Ei')) <= 0",message="queueBytes must be between 0 and 1Ei; write for example 100Gi"
	QueueBytes *resource.Quantity `json:"queueBytes,omitempty"`
}

// DataQuotaSpec limits what a namespace uses of Lighterage. Pods, and what they ask for, are limited by a
// ResourceQuota.
//
// +kubebuilder:validation:XValidation:rule="has(self.hard) || has(self.weight)",message="at least one of hard and weight must be given; delete the DataQuota to limit nothing"
type DataQuotaSpec struct {
	// hard limits. What exceeds one waits until others have ended, or, if it is a Queue, until somebody makes the limit
	// larger or deletes another. Whatever runs when a limit is made smaller goes on. Absent: nothing is limited.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.runningTransfers) || has(self.runningDeliveries) || has(self.bandwidth) || has(self.queueBytes)",message="at least one of runningTransfers, runningDeliveries, bandwidth and queueBytes must be given; delete the DataQuota to limit nothing"
	// +kubebuilder:validation:XValidation:rule="!has(self.bandwidth) || quantity(string(self.bandwidth)).compareTo(quantity('256Ki')) >= 0 && quantity(string(self.bandwidth)).compareTo(quantity('1Pi')) <= 0",fieldPath=".bandwidth",message="bandwidth must be between 256Ki and 1Pi bytes per second; write for example 200Mi, or runningTransfers: 0 to allow no Transfers"
	Hard DataQuotaResources `json:"hard,omitzero"`

	// weight of the namespace where namespaces share what a Peer, or the cluster, allows: one of twice the weight has
	// twice the runs and the bandwidth. Every namespace that waits has one run before another has its second. Agents
	// share the accelerator of a node by it as well. Of several DataQuotas the smallest weight counts. Absent: 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Weight *int32 `json:"weight,omitempty"`
}

// DataQuotaStatus is what was seen of a DataQuota.
type DataQuotaStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready (the limits are in force), Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// hard limits that are in force.
	// +optional
	Hard *DataQuotaResources `json:"hard,omitempty"`
	// used of what is limited. It exceeds hard where a limit was made smaller, or made, while more was in use.
	// +optional
	Used *DataQuotaResources `json:"used,omitempty"`
}

// DataQuota limits how much of Lighterage its namespace uses. A platform team makes it. Where a namespace has several,
// all of them must be satisfied.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=lighterage,shortName=dq
// +kubebuilder:printcolumn:name="Transfers",type=integer,JSONPath=`.status.used.runningTransfers`
// +kubebuilder:printcolumn:name="Max-Transfers",type=integer,JSONPath=`.spec.hard.runningTransfers`,description="running Transfers that are allowed"
// +kubebuilder:printcolumn:name="Deliveries",type=integer,JSONPath=`.status.used.runningDeliveries`
// +kubebuilder:printcolumn:name="Max-Deliveries",type=integer,JSONPath=`.spec.hard.runningDeliveries`,description="running Deliveries that are allowed"
// +kubebuilder:printcolumn:name="Bandwidth",type=string,JSONPath=`.status.used.bandwidth`,description="bytes per second that are granted"
// +kubebuilder:printcolumn:name="Max-Bandwidth",type=string,JSONPath=`.spec.hard.bandwidth`,description="bytes per second that are allowed"
// +kubebuilder:printcolumn:name="Queue-Bytes",type=string,JSONPath=`.status.used.queueBytes`,description="bytes of storage of Queues"
// +kubebuilder:printcolumn:name="Max-Queue-Bytes",type=string,JSONPath=`.spec.hard.queueBytes`,description="bytes of storage of Queues that are allowed"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,priority=1
type DataQuota struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec limits what the namespace uses.
	// +required
	Spec DataQuotaSpec `json:"spec,omitzero"`
	// status is what was seen.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status DataQuotaStatus `json:"status,omitzero"`
}

// DataQuotaList is a list of DataQuotas.
// +kubebuilder:object:root=true
type DataQuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DataQuota `json:"items"`
}
