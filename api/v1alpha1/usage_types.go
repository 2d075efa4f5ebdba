// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CPUUsage is the CPU time of one side. Amounts are seconds as decimals with up to 9 digits after the point: they are
// exact, so that sums of them are.
type CPUUsage struct {
	// processSeconds of the agents' processes. All others but networkSeconds are parts of it. What is left besides them
	// went into TLS, digests, the protocol and the rest of the process.
	// +optional
	ProcessSeconds string `json:"processSeconds,omitempty"`
	// idleSeconds were spent by replicas of HTTPEndpoints and members of Queues while nothing passed.
	// +optional
	IdleSeconds string `json:"idleSeconds,omitempty"`
	// compressSeconds were spent compressing, with the samples that decisions rest on.
	// +optional
	CompressSeconds string `json:"compressSeconds,omitempty"`
	// decompressSeconds were spent inflating.
	// +optional
	DecompressSeconds string `json:"decompressSeconds,omitempty"`
	// readSeconds were spent reading files of the source of a Transfer.
	// +optional
	ReadSeconds string `json:"readSeconds,omitempty"`
	// writeSeconds were spent writing files of the destination of a Transfer, without syncs.
	// +optional
	WriteSeconds string `json:"writeSeconds,omitempty"`
	// networkSeconds is an estimate of what the network stack spent in addition, on no process's account: the segments
	// and bytes that arrived, or the bytes on the wire where the agent does not count segments, times the coefficients
	// in the node's NodeProfile. Absent where no coefficient was known. It includes the CPU time that gateways of this
	// cluster spend on as many bytes as other clusters sent, to a Delivery or to a Queue.
	// +optional
	NetworkSeconds string `json:"networkSeconds,omitempty"`
}

// UsageStatus counts what work used. No figure decreases while what it counts for exists: what an agent that was killed
// used since its last report is missing, and nothing else.
//
// +structType=atomic
type UsageStatus struct {
	// send is the CPU time of the sending side, or, of Queues, HTTPEndpoints and Transfers with run.route Pod, of the
	// processes that do both.
	// +optional
	Send *CPUUsage `json:"send,omitempty"`
	// receive is the CPU time of the receiving side. In a Transfer to another cluster it is what that cluster claims.
	// +optional
	Receive *CPUUsage `json:"receive,omitempty"`
	// uncompressedBytes that were sent, or received, before compression.
	// +optional
	UncompressedBytes int64 `json:"uncompressedBytes"`
	// compressedBytes are the same after compression, framing included.
	// +optional
	CompressedBytes int64 `json:"compressedBytes"`
	// wireBytes that were written to and read from the network, TLS included.
	// +optional
	WireBytes int64 `json:"wireBytes"`
	// channelBytes are the part of wireBytes with Queues of other clusters. Of Queues only.
	// +optional
	ChannelBytes int64 `json:"channelBytes,omitempty"`
	// objectStore is what was asked of object stores. Absent: nothing.
	// +optional
	ObjectStore ObjectStoreUsage `json:"objectStore,omitzero"`
}

// ObjectStoreUsage counts requests to object stores and the bytes of their bodies, repeated ones included. Requests that
// delete are not counted: providers do not charge for them.
type ObjectStoreUsage struct {
	// writeRequests put, complete or list.
	// +optional
	WriteRequests int64 `json:"writeRequests,omitempty"`
	// readRequests are all others.
	// +optional
	ReadRequests int64 `json:"readRequests,omitempty"`
	// sentBytes were written to stores.
	// +optional
	SentBytes int64 `json:"sentBytes,omitempty"`
	// receivedBytes were read from stores, lists included.
	// +optional
	ReceivedBytes int64 `json:"receivedBytes,omitempty"`
}

// ReplicaUsage is what was counted of one replica or member by its last report, so that the next one adds only what has
// come since.
type ReplicaUsage struct {
	// uid of the pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
	// node that it runs on.
	// +optional
	Node string `json:"node,omitempty"`
	// startTime is since when the agent counts: its start, or the last reset. When it changes counters begin again.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// usage since startTime.
	// +optional
	Usage UsageStatus `json:"usage,omitzero"`
}

// UsingObjects counts objects of a kind.
type UsingObjects struct {
	// kind of the objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// count of the objects that exist.
	// +optional
	Count int32 `json:"count"`
}

// CurrencyCost is a sum of costs in one currency.
type CurrencyCost struct {
	// currency of the amounts.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	Currency string `json:"currency,omitempty"`
	// cpu is the price of CPU time.
	// +optional
	CPU string `json:"cpu,omitempty"`
	// network is the price of bytes on the wire.
	// +optional
	Network string `json:"network,omitempty"`
	// saved by compression. Negative when it lost.
	// +optional
	Saved string `json:"saved,omitempty"`
}

// UsedByStatus sums up the objects that use something: of Transfers the present or last run counts, of all others what
// they did since their creation. Objects that do not exist any more do not count.
//
// +structType=atomic
type UsedByStatus struct {
	// objects by kind.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=8
	Objects []UsingObjects `json:"objects,omitempty"`
	// lastUseTime is when the last run of those began that were seen. It stays when objects are deleted. Queues and
	// HTTPEndpoints, which are in use all the time, do not count.
	// +optional
	LastUseTime *metav1.Time `json:"lastUseTime,omitempty"`
	// uncompressedBytes that these objects moved, before compression.
	// +optional
	UncompressedBytes int64 `json:"uncompressedBytes"`
	// compressedBytes are the same after compression.
	// +optional
	CompressedBytes int64 `json:"compressedBytes"`
	// wireBytes on the network, TLS included.
	// +optional
	WireBytes int64 `json:"wireBytes"`
	// cpuSeconds of this cluster, the network stack included.
	// +optional
	CPUSeconds string `json:"cpuSeconds,omitempty"`
	// costs by currency.
	// +optional
	// +listType=map
	// +listMapKey=currency
	// +kubebuilder:validation:MaxItems=8
	Costs []CurrencyCost `json:"costs,omitempty"`
	// time of the figures, which are written every five minutes at most, and only if they changed.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}
