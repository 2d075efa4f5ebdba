// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RunStatus names the present or last run and attempt.
//
// +structType=atomic
type RunStatus struct {
	// id of the run: short, unique for the Transfer.
	// +optional
	ID string `json:"id,omitempty"`
	// attempt counts from 1.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// route of the attempt. A run within a namespace begins as Pod, and goes on as Direct when no node can mount both
	// claims. Unset for a Delivery.
	// +optional
	Route Route `json:"route,omitempty"`
	// dataPath of the attempt, of Transfers only; absent before there is a connection, with route ObjectStore, and for
	// agents of earlier releases.
	// +optional
	DataPath *DataPath `json:"dataPath,omitempty"`
	// copyTime is when the index of spec.source.objectStore was written that the run reads, by the clock of the server.
	// Unset for a source that has no index, and for a Delivery.
	// +optional
	CopyTime *metav1.Time `json:"copyTime,omitempty"`
	// failures counts the attempts of the run that count against spec.maxAttempts. Those that ended for a reason that
	// only somebody can fix, such as a missing grant, do not, and neither do those whose pod was evicted. An attempt
	// that was interrupted after it had made bytes safe at the destination begins the count again.
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// deliveredBytes are of the whole files that those attempts of the run which have ended brought to the destination.
	// Unset for a Delivery.
	// +optional
	DeliveredBytes int64 `json:"deliveredBytes,omitempty"`
	// startTime of the run.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime of the run, set when it is Complete or Failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// nextAttemptTime is set while the next attempt waits for its back-off.
	// +optional
	NextAttemptTime *metav1.Time `json:"nextAttemptTime,omitempty"`
	// bandwidthLimit is how many bytes per second the sending agent writes to the wire at most: spec.bandwidthLimit, or
	// what DataQuotas of the namespace leave the run of it, which it keeps through all of its attempts unless the spec
	// asks for less. Absent: no limit. Unset for a Delivery.
	// +optional
	BandwidthLimit *resource.Quantity `json:"bandwidthLimit,omitempty"`
	// bandwidthShare is how many bytes per second of what the Peer or the cluster allows are the run's at present. The
	// agent keeps to the smallest one of bandwidthLimit, bandwidthShare and windowLimit. Absent: neither limits bandwidth.
	// Unset for a Delivery.
	// +optional
	BandwidthShare *resource.Quantity `json:"bandwidthShare,omitempty"`
	// windowLimit is how many bytes per second the windows of spec.schedule allow that are open at present. Absent: they
	// have no limit. Unset for a Delivery. With source.peer the other cluster is told it.
	// +optional
	WindowLimit *resource.Quantity `json:"windowLimit,omitempty"`
	// claimSize is the size of the destination's claim that the template asks for, by the source's capacity when the
	// attempt began. Unset without a template, and for a Delivery, whose spec has it.
	// +optional
	ClaimSize *resource.Quantity `json:"claimSize,omitempty"`
	// certificateExpirationTime is when the certificate of the present attempt's agent ends. It is renewed before,
	// while the agent runs.
	// +optional
	CertificateExpirationTime *metav1.Time `json:"certificateExpirationTime,omitempty"`
	// node that the agent of the present or last attempt runs on.
	// +optional
	Node string `json:"node,omitempty"`
	// architecture that the agent was built for.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// usage of all attempts of the run, by the last report of each. Of an attempt whose agent was killed it lacks what
	// was used since that report, which the manager asks for every few seconds. Unset for a Delivery, which is of one
	// attempt.
	// +optional
	Usage *UsageStatus `json:"usage,omitempty"`
	// cost of all attempts of the run, by usage; absent while there are no prices. Unset for a Delivery.
	// +optional
	Cost *CostStatus `json:"cost,omitempty"`
}

// AttemptRecord is one attempt that ended.
type AttemptRecord struct {
	// runID of the run it belonged to.
	// +optional
	RunID string `json:"runID,omitempty"`
	// attempt counts from 1.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// reason it ended for: Succeeded, or one of the Reason constants.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message that came with it.
	// +optional
	Message string `json:"message,omitempty"`
	// startTime of the attempt.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime of the attempt.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// duration from startTime to completionTime.
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
	// node it ran on.
	// +optional
	Node string `json:"node,omitempty"`
	// engine that compressed.
	// +optional
	Engine string `json:"engine,omitempty"`
	// objective of the run. Absent for attempts of earlier releases.
	// +optional
	Objective CompressionObjective `json:"objective,omitempty"`
	// bytes sent, before compression.
	// +optional
	Bytes int64 `json:"bytes"`
	// compressedBytes sent.
	// +optional
	CompressedBytes int64 `json:"compressedBytes"`
	// resumedBytes that were not sent again.
	// +optional
	ResumedBytes int64 `json:"resumedBytes"`
	// resentBytes that were.
	// +optional
	ResentBytes int64 `json:"resentBytes"`
	// removed are files, links and directories that spec.delete removed at the destination.
	// +optional
	Removed int64 `json:"removed"`
	// reusedBytes were the same at the destination already, and were not sent.
	// +optional
	ReusedBytes int64 `json:"reusedBytes"`
	// operations are blocks that were compressed or sent as they are.
	// +optional
	Operations int64 `json:"operations,omitempty"`
	// storedBytes are the part of bytes that was sent as it is.
	// +optional
	StoredBytes int64 `json:"storedBytes,omitempty"`
	// usage of the attempt as far as it was reported.
	// +optional
	Usage *UsageStatus `json:"usage,omitempty"`
	// cost of the attempt as far as it was reported, with the prices that were in force; absent where there were none.
	// +optional
	Cost *CostStatus `json:"cost,omitempty"`
}

// DataPath is what carries the data of an attempt or of a channel.
type DataPath struct {
	// type of the path.
	// +required
	Type DataPathType `json:"type,omitempty"`
	// reason why it is of that type.
	// +required
	Reason DataPathReason `json:"reason,omitempty"`
	// roundTripTime of a connection when it was made, to the millisecond. Absent where it is shorter or not known.
	// +optional
	RoundTripTime *metav1.Duration `json:"roundTripTime,omitempty"`
	// congestionControl of the connections, as the kernel of the sending agent's node names it, such as cubic or bbr.
	// Where roundTripTime is 10ms or more it is bbr if the kernel allows it. Absent where it is not known.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	CongestionControl string `json:"congestionControl,omitempty"`
}

// DataPathType is a kind of path: within one pod, through an object store, or the protocol of the connections to the
// peer's gateway or the receiving agent. It is TCP when one of them fell back to TCP.
// +kubebuilder:validation:Enum=Pod;Storage;SMC;MPTCP;TCP
type DataPathType string

// Types of paths.
const (
	DataPathPod     DataPathType = "Pod"
	DataPathStorage DataPathType = "Storage"
	DataPathSMC     DataPathType = "SMC"
	DataPathMPTCP   DataPathType = "MPTCP"
	DataPathTCP     DataPathType = "TCP"
)

// DataPathReason is why data take a path.
// +kubebuilder:validation:Enum=OnePod;Configured;Negotiated;Unavailable;FellBack
type DataPathReason string

const (
	// DataPathOnePod: the agent's pod mounts both claims.
	DataPathOnePod DataPathReason = "OnePod"
	// DataPathConfigured: destination.via is set, or network.dataPath of the chart is TCP.
	DataPathConfigured DataPathReason = "Configured"
	// DataPathNegotiated: the other end has the protocol that network.dataPath names.
	DataPathNegotiated DataPathReason = "Negotiated"
	// DataPathUnavailable: the kernel of the sending agent's node lacks the protocol, or denies it to the agent.
	DataPathUnavailable DataPathReason = "Unavailable"
	// DataPathFellBack: the other end, or something in between, lacks the protocol.
	DataPathFellBack DataPathReason = "FellBack"
)
