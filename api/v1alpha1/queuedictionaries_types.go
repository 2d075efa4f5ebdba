// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// QueueDictionariesStatus is what is known of a Queue's dictionaries.
type QueueDictionariesStatus struct {
	// message says in a sentence which dictionary is in use, or why none is.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
	// kept is how many dictionaries the Queue keeps, because messages refer to them or may. At most 16.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Kept int32 `json:"kept,omitempty"`
	// keptDeflate is how many of kept are of deflate, in use or not; the others are of zstd. Releases that know
	// dictionaries of zstd alone cannot read messages that refer to these.
	// +optional
	// +kubebuilder:validation:Minimum=0
	KeptDeflate int32 `json:"keptDeflate,omitempty"`
	// current is the one that messages refer to that are put now; absent: none.
	// +optional
	Current *QueueDictionary `json:"current,omitempty"`
	// messages that were compressed with one by the members that run now, each since its start or the last reset.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Messages int64 `json:"messages,omitempty"`
}

// QueueDictionary is a dictionary, and what it did for messages that came after those that it was trained on.
type QueueDictionary struct {
	// number that messages name.
	// +required
	// +kubebuilder:validation:Minimum=1
	Number int64 `json:"number,omitempty"`
	// codec of the messages that refer to it.
	// +optional
	Codec Codec `json:"codec,omitempty"`
	// trainedTime is when it was trained.
	// +optional
	TrainedTime *metav1.Time `json:"trainedTime,omitempty"`
	// bytes of the dictionary.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Bytes int32 `json:"bytes,omitempty"`
	// trainingMessages is how many messages it was trained on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TrainingMessages int32 `json:"trainingMessages,omitempty"`
	// measuredMessages is how many later messages savedPercent, savedPercentWithout and cpuRatio are of. At most 512.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MeasuredMessages int32 `json:"measuredMessages,omitempty"`
	// savedPercent is by how much messages became shorter with it, in percent of their length, headers of their form
	// included.
	// +required
	SavedPercent string `json:"savedPercent,omitempty"`
	// savedPercentWithout is the same of the same messages without it.
	// +required
	SavedPercentWithout string `json:"savedPercentWithout,omitempty"`
	// cpuRatio is the CPU time of compressing and decompressing these messages with it, divided by that without.
	// +required
	CPURatio string `json:"cpuRatio,omitempty"`
}
