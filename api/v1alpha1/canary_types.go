// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CompressionCanary tries other settings on some of the objects that a policy applies to. They are compared with the
// others by what a GiB takes, and then used by all or by none. The spec is not written: status.canary says which.
type CompressionCanary struct {
	// settings of the objects that are in the canary, in place of those of the policy. What an object sets in its
	// spec.compression wins over both. An object for which they change nothing, or which they would stall, is not in it.
	// +required
	Settings CanarySettings `json:"settings,omitzero"`
	// sharePercent is how many percent of the objects are in the canary: which, follows from their UIDs. Built in: 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	SharePercent int32 `json:"sharePercent,omitempty"`
	// duration is how long is measured, from 10m to 8784h. A canary that clearly takes too much ends sooner. Built in:
	// 24h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10m') && duration(self) <= duration('8784h')",message="duration must be between 10m and 8784h; write for example 24h"
	Duration *metav1.Duration `json:"duration,omitempty"`
	// maxCostIncreasePercent is by how many percent more of what the objective of the policy asks for a GiB may take in
	// the canary. Built in: 5.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxCostIncreasePercent *int32 `json:"maxCostIncreasePercent,omitempty"`
}

// CanarySettings are the settings of a policy that a canary may change. What is left out is as in the policy.
// +kubebuilder:validation:MinProperties=1
type CanarySettings struct {
	// objective is what mode Auto minimises. The canary is judged by that of the policy.
	// +optional
	Objective CompressionObjective `json:"objective,omitempty"`
	// mode says whether to compress.
	// +optional
	Mode CompressionMode `json:"mode,omitempty"`
	// codecs lists the formats to use, in order of preference.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="codecs must name each codec once"
	Codecs []Codec `json:"codecs,omitempty"`
	// level trades CPU for ratio.
	// +optional
	Level CompressionLevel `json:"level,omitempty"`
}

// CanaryState is what became of a canary.
// +kubebuilder:validation:Enum=Measuring;Promoted;RolledBack;Inconclusive
type CanaryState string

const (
	// CanaryMeasuring: objects in the canary have its settings and are compared with the others.
	CanaryMeasuring CanaryState = "Measuring"
	// CanaryPromoted: it is within its bound. All objects have its settings.
	CanaryPromoted CanaryState = "Promoted"
	// CanaryRolledBack: it is above its bound. No object has its settings.
	CanaryRolledBack CanaryState = "RolledBack"
	// CanaryInconclusive: nobody can say. No object has its settings.
	CanaryInconclusive CanaryState = "Inconclusive"
)

// CanaryStatus is what was measured of a canary. Once its state is another one than Measuring nothing changes until the
// spec of the policy does.
//
// +structType=atomic
type CanaryStatus struct {
	// revision is a hash of the UID and the spec of the policy. Another one starts another measurement.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`
	// state of the canary.
	// +required
	State CanaryState `json:"state,omitempty"`
	// objective that costs are by: that of the policy.
	// +optional
	Objective CompressionObjective `json:"objective,omitempty"`
	// currency of costs, if the objective is Cost.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Currency string `json:"currency,omitempty"`
	// startTime is when the measurement began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime is when it ended.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// inside are the objects in the canary.
	// +optional
	Inside CanarySide `json:"inside,omitzero"`
	// outside are the others.
	// +optional
	Outside CanarySide `json:"outside,omitzero"`
	// changePercent is by how many percent more a GiB takes inside, as a decimal; below 0 it takes less. Absent until
	// enough was moved on both sides.
	// +optional
	ChangePercent string `json:"changePercent,omitempty"`
	// lowPercent is the lower end of the 95 % interval of changePercent.
	// +optional
	LowPercent string `json:"lowPercent,omitempty"`
	// highPercent is its upper end.
	// +optional
	HighPercent string `json:"highPercent,omitempty"`
	// time of the figures, which are written in turns of a twentieth of the duration, at least 30 seconds and at most five
	// minutes apart, and only if they changed.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// CanarySide is what objects moved and took on one side. Those count that moved 16 MiB since the canary began for them.
//
// +structType=atomic
type CanarySide struct {
	// objects that count.
	// +optional
	Objects int32 `json:"objects,omitempty"`
	// namespaces that they are in.
	// +optional
	Namespaces int32 `json:"namespaces,omitempty"`
	// uncompressedBytes that they moved.
	// +optional
	UncompressedBytes int64 `json:"uncompressedBytes,omitempty"`
	// costPerGiB is the median of what a GiB took, as a decimal: of the objective Cost money, of CPU CPU seconds, of
	// Elapsed seconds, of Bytes bytes. Namespaces have equal weights, whatever the number of their objects.
	// +optional
	CostPerGiB string `json:"costPerGiB,omitempty"`
}

// PolicyCanary is what the canary of a policy is to one object. Absent where there is none, and where it changes
// nothing.
//
// +structType=atomic
type PolicyCanary struct {
	// revision of the canary.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`
	// applies: the object has the canary's settings. Otherwise it is compared with those that have them.
	// +optional
	Applies bool `json:"applies,omitempty"`
}

// CanaryBaseline is what an object that serves had used when a canary began for it.
//
// +structType=atomic
type CanaryBaseline struct {
	// revision of the canary.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`
	// usage until then.
	// +optional
	Usage UsageStatus `json:"usage,omitzero"`
}
