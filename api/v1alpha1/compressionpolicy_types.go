// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HardwareCompression are the settings for compressing on the accelerator.
type HardwareCompression struct {
	// minSize is the size in bytes below which a block is not given to the accelerator. Built in: 20000.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="minSize must be between 0 and 1Gi; write for example 16Ki"
	MinSize *resource.Quantity `json:"minSize,omitempty"`
}

// SoftwareCompression are the settings for compressing in software.
type SoftwareCompression struct {
	// minSize is the size in bytes below which a block is not compressed in software; 0: blocks of every size are. To
	// compress nothing in software set disabled. Built in: 0, and 1024 for HTTPEndpoints and Queues.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="minSize must be between 0 and 1Gi; write for example 16Ki"
	MinSize *resource.Quantity `json:"minSize,omitempty"`
	// disabled: where there is no accelerator nothing is compressed, unless an object allows it in
	// spec.compression.software.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
	// engines that may compress in software, in order of preference. An engine that an agent does not have, or not at
	// the level, is passed over; when none is left the agent uses the one in Go. Built in, and for a codec of which
	// none is named here: each agent measures what it has when it starts and takes the fastest that does not compress
	// much worse. Receivers inflate with whichever engine is fastest there.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="engines must name each engine once"
	Engines []SoftwareEngine `json:"engines,omitempty"`
}

// Prices turn CPU time and bytes into money. Amounts are decimals of the currency.
type Prices struct {
	// currency is a code such as USD.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]+$')",message="currency must be letters and digits; write for example USD"
	Currency string `json:"currency,omitempty"`
	// cpuHour is the price of one core for one hour: more than 0 and less than 1000000, with at most 9 digits after the
	// point.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,6}([.][0-9]{1,9})?$')",message="cpuHour must be a decimal below 1000000, not negative, with at most 9 digits after the point; write for example \"0.031\""
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.]+$') || self.matches('[1-9]')",message="cpuHour must be more than 0; where CPU time costs nothing leave prices out and choose objective Elapsed or Bytes"
	CPUHour string `json:"cpuHour,omitempty"`
	// networkGiB is the price of one GiB on the wire: more than 0 and less than 1000000, with at most 9 digits after
	// the point.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,6}([.][0-9]{1,9})?$')",message="networkGiB must be a decimal below 1000000, not negative, with at most 9 digits after the point; write for example \"0.05\""
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.]+$') || self.matches('[1-9]')",message="networkGiB must be more than 0; where the network costs nothing leave prices out and choose objective Elapsed or CPU"
	NetworkGiB string `json:"networkGiB,omitempty"`
}

// CompressionPolicySpec is what is wanted of compression.
// +kubebuilder:validation:XValidation:rule="!has(self.software) || !has(self.software.disabled) || !self.software.disabled || !has(self.codecs) || !self.codecs.exists(c, c == 'zstd')",message="codecs must not have zstd where software.disabled is true: no accelerator does zstd; write codecs: [deflate]"
// +kubebuilder:validation:XValidation:rule="!has(self.placement) || self.placement != 'RequireHardware' || !has(self.codecs) || self.codecs[0] == 'deflate'",message="codecs must have deflate first where placement is RequireHardware: no accelerator does zstd; write codecs: [deflate]"
// +kubebuilder:validation:XValidation:rule="!has(self.canary) || !has(self.canary.settings.codecs) || !has(self.software) || !has(self.software.disabled) || !self.software.disabled || !self.canary.settings.codecs.exists(c, c == 'zstd')",message="canary.settings.codecs must not have zstd where software.disabled is true: no accelerator does zstd; write codecs: [deflate]"
// +kubebuilder:validation:XValidation:rule="!has(self.canary) || !has(self.canary.settings.codecs) || !has(self.placement) || self.placement != 'RequireHardware' || self.canary.settings.codecs[0] == 'deflate'",message="canary.settings.codecs must have deflate first where placement is RequireHardware: no accelerator does zstd; write codecs: [deflate]"
type CompressionPolicySpec struct {
	// objective is what mode Auto minimises: Transfers choose engine, codec and level block by block; HTTPEndpoints,
	// Queues and channels choose whether to compress, by classes of bodies or messages. CompressionTrials recommend by it.
	// It is Cost (money at the prices, for CPU time on both sides and bytes on the wire), Elapsed (time until the work is
	// done), CPU (CPU time on both sides, the network stack's included) or Bytes (on the wire, or stored). CPU time of
	// clients does not count. Built in: Cost where prices or tariffName are set, otherwise Elapsed. Cost needs prices, or a
	// Tariff that is named or the default.
	// +optional
	Objective CompressionObjective `json:"objective,omitempty"`
	// mode says whether to compress: Auto (what a sample promises to shrink, where that pays by the objective), Always
	// (all that is large enough) or Never. What does not shrink is sent and stored as it is. Built in: Auto.
	// +optional
	Mode CompressionMode `json:"mode,omitempty"`
	// codecs lists the formats to use, in order of preference. In mode Auto Transfers choose block by block among those
	// that the peer reads; in mode Always, and in Queues, it is the first of them. HTTPEndpoints go by their own
	// codings. Built in: [deflate].
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="codecs must name each codec once"
	Codecs []Codec `json:"codecs,omitempty"`
	// level trades CPU for ratio. In mode Auto it is the most effort that Transfers make: High lets them choose among
	// all three. HTTPEndpoints and Queues compress at exactly this level what they compress. Built in: Fast.
	// +optional
	Level CompressionLevel `json:"level,omitempty"`
	// placement says on which nodes agents run: PreferHardware (on one with an accelerator that works, elsewhere where
	// none can take them), RequireHardware (on such a node only, and they wait for one) or AnyNode (accelerators are
	// not looked at). Built in: PreferHardware.
	// +optional
	Placement Placement `json:"placement,omitempty"`
	// hardware has the settings for compressing on the accelerator.
	// +optional
	Hardware *HardwareCompression `json:"hardware,omitempty"`
	// software has the settings for compressing without it.
	// +optional
	Software *SoftwareCompression `json:"software,omitempty"`
	// tariffName names the Tariff that turns CPU time and bytes into money: for the objective Cost, and for what status
	// and Statements say of costs. When empty the default
	// Tariff applies, if there is one; without any no cost is reported.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TariffName string `json:"tariffName,omitempty"`
	// prices are used instead of those of a Tariff, at all times and on all nodes, to see what things would cost.
	// +optional
	Prices *Prices `json:"prices,omitempty"`
	// canary tries other settings on a share of the objects, and has all or none use them by what they are measured to
	// cost. Which, is in status.canary, and nothing is written here. To keep what was promoted write canary.settings into
	// the spec and remove canary.
	// +optional
	Canary *CompressionCanary `json:"canary,omitempty"`
}

// CompressionPolicyStatus is what was seen of a policy.
type CompressionPolicyStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled, CanaryFinished.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// usedBy are the Transfers, HTTPEndpoints and Queues that the policy applies to.
	// +optional
	UsedBy *UsedByStatus `json:"usedBy,omitempty"`
	// canary is what spec.canary was measured to cost. Absent without it.
	// +optional
	Canary *CanaryStatus `json:"canary,omitempty"`
}

// CompressionPolicy is what is wanted of compression, for objects of all namespaces that name it, or, with the annotation
// lighterage.dev/is-default-policy: "true", for all that name none.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=lighterage
// +kubebuilder:printcolumn:name="Objective",type=string,JSONPath=`.spec.objective`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Codecs",type=string,JSONPath=`.spec.codecs`
// +kubebuilder:printcolumn:name="Level",type=string,JSONPath=`.spec.level`
// +kubebuilder:printcolumn:name="Placement",type=string,JSONPath=`.spec.placement`
// +kubebuilder:printcolumn:name="Default",type=string,JSONPath=`.metadata.annotations.lighterage\.dev/is-default-policy`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Wire bytes",type=integer,JSONPath=`.status.usedBy.wireBytes`,priority=1,description="of the objects that the policy applies to"
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Canary",type=string,priority=1,JSONPath=`.status.canary.state`
type CompressionPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec CompressionPolicySpec `json:"spec,omitzero"`
	// status is what was seen.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status CompressionPolicyStatus `json:"status,omitzero"`
}

// CompressionPolicyList is a list of CompressionPolicies.
// +kubebuilder:object:root=true
type CompressionPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CompressionPolicy `json:"items"`
}
