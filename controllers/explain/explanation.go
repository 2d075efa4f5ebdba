// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Input is what is known of a Transfer.
type Input struct {
	Transfer *v1alpha1.Transfer
	// Sender and Receiver are the NodeProfiles of the nodes of both sides; nil where they are not known.
	Sender, Receiver *v1alpha1.NodeProfile
	// SenderUnknown and ReceiverUnknown say why and what to do, where a profile is nil.
	SenderUnknown, ReceiverUnknown string
	// Now is the present time, for prices that change; zero: that of this machine.
	Now time.Time
}

// Explanation is what there is to say of a Transfer. Numbers that are nil are not known; Notes say why. Times are in
// seconds.
type Explanation struct {
	// Transfer as namespace/name.
	Transfer string `json:"transfer"`
	Phase    string `json:"phase"`
	// Running is true when the run goes on, so that every figure is one so far.
	Running bool `json:"running"`
	Run     Run  `json:"run"`
	// Stalled is what keeps the run, or the next one, from going on, with its reason; empty when nothing does.
	// Somebody has to act, unless it is a quota that is exhausted.
	Stalled string `json:"stalled,omitempty"`
	// NextRun: the run has ended, another one is wanted and cannot begin. Stalled is about that one, and all else about
	// the one before.
	NextRun bool `json:"nextRun,omitempty"`
	// Placement is nil when it is not known, and when that in status is of a run that has not begun.
	Placement *Placement `json:"placement,omitempty"`
	Policy    *Policy    `json:"policy,omitempty"`
	// Decision is nil until the agent has reported one.
	Decision *Decision `json:"decision,omitempty"`
	// Measured is nil until the agent has reported something.
	Measured *Measured `json:"measured,omitempty"`
	// Deadline as in status; nil: there is none.
	Deadline *v1alpha1.DeadlineStatus `json:"deadline,omitempty"`
	// Samples say how good the predictions were that mode Auto decides on.
	Samples *v1alpha1.EstimateStatus `json:"samples,omitempty"`
	// Choices are others that there were; their figures are estimates.
	Choices []Choice `json:"choices"`
	// objective is that of the run's policy; empty when it is not known.
	objective v1alpha1.CompressionObjective
	// Best says which choice has least of what the objective asks for, as far as that is known.
	Best string `json:"best,omitempty"`
	// Assumptions are what the estimates of the choices rest on.
	Assumptions []string `json:"assumptions,omitempty"`
	// Notes say what is not known, why, and what to do about it.
	Notes []string `json:"notes,omitempty"`
}

// Run is the present or last run and its attempt.
type Run struct {
	ID      string `json:"id"`
	Attempt int32  `json:"attempt"`
	Route   string `json:"route,omitempty"`
	// DataPath as in status.run.
	DataPath     *v1alpha1.DataPath `json:"dataPath,omitempty"`
	Peer         string             `json:"peer,omitempty"`
	Node         string             `json:"node,omitempty"`
	Architecture string             `json:"architecture,omitempty"`
	Start        *time.Time         `json:"start,omitempty"`
	Completion   *time.Time         `json:"completion,omitempty"`
}

// Placement is why the sending agent is where it is.
type Placement struct {
	Node   string `json:"node,omitempty"`
	Engine string `json:"engine,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Sentence is status' own message, or what documents the reason.
	Sentence     string            `json:"sentence,omitempty"`
	Alternatives []AlternativeNode `json:"alternatives,omitempty"`
}

// AlternativeNode is a node with an accelerator that the agent is not on.
type AlternativeNode struct {
	Node     string `json:"node"`
	Engine   string `json:"engine,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Sentence string `json:"sentence"`
}

// Policy is what the run was asked for.
type Policy struct {
	// Kind is LocalCompressionPolicy for one of the namespace; empty for a CompressionPolicy.
	Kind   string  `json:"kind,omitempty"`
	Name   string  `json:"name,omitempty"`
	Source string  `json:"source"`
	Values []Value `json:"values"`
}

// Value is one of the policy and where it came from, as far as status tells.
type Value struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// Decision is what the agent did and why.
type Decision struct {
	Codec    string `json:"codec"`
	Engine   string `json:"engine"`
	Level    string `json:"level,omitempty"`
	Reason   string `json:"reason"`
	Sentence string `json:"sentence"`
	// Reasons are all of them, most frequent first.
	Reasons []Count `json:"reasons,omitempty"`
	// Hardware, Software and Stored are the paths that the data took.
	Hardware v1alpha1.Operations `json:"hardware"`
	Software v1alpha1.Operations `json:"software"`
	Stored   v1alpha1.Operations `json:"stored"`
	// Decompression is the receiver's; nil when it has not said.
	Decompression *v1alpha1.DecompressionStatus `json:"decompression,omitempty"`
	// Auto is by what mode Auto decided and what its choices lost; nil where that is not known.
	Auto *v1alpha1.DecisionsStatus `json:"auto,omitempty"`
}

// Count is how many operations had a reason.
type Count struct {
	Reason     string `json:"reason"`
	Operations int64  `json:"operations"`
	// Compressed is true for operations that compressed, false for those that sent the data as they are.
	Compressed bool   `json:"compressed"`
	Sentence   string `json:"sentence"`
}

// Measured is what the run took. All of it was measured but NetworkCPU, which is an estimate.
type Measured struct {
	UncompressedBytes int64    `json:"uncompressedBytes"`
	CompressedBytes   int64    `json:"compressedBytes"`
	Ratio             *float64 `json:"ratio,omitempty"`
	// Elapsed of the attempt; nil while it runs.
	Elapsed *float64 `json:"elapsedSeconds,omitempty"`
	// BytesPerSecond are of uncompressed data, WireBytesPerSecond what that is on the wire: the goodput.
	BytesPerSecond     *float64 `json:"bytesPerSecond,omitempty"`
	WireBytesPerSecond *float64 `json:"wireBytesPerSecond,omitempty"`
	SendCPU            *float64 `json:"sendCPUSeconds,omitempty"`
	ReceiveCPU         *float64 `json:"receiveCPUSeconds,omitempty"`
	// CompressCPU and DecompressCPU are parts of those two, or of the first where one agent does both.
	CompressCPU   *float64 `json:"compressCPUSeconds,omitempty"`
	DecompressCPU *float64 `json:"decompressCPUSeconds,omitempty"`
	NetworkCPU    *float64 `json:"networkCPUSecondsEstimate,omitempty"`
	// TotalCPU is the sum of both sides and the network, as far as they are known.
	TotalCPU *float64             `json:"totalCPUSeconds,omitempty"`
	Cost     *v1alpha1.CostStatus `json:"cost,omitempty"`
	// Money is the sum of the costs of CPU and network.
	Money *float64 `json:"money,omitempty"`
	// RunUsage and RunCost are of all attempts of the run; all else is of the present or last one.
	RunUsage *v1alpha1.UsageStatus `json:"runUsage,omitempty"`
	RunCost  *v1alpha1.CostStatus  `json:"runCost,omitempty"`
}

// Choice is another one that there was for the data that were compressed. Its sample figures were measured on the
// sender's node, on one core and the sample that agents carry; all else are estimates.
type Choice struct {
	Codec                string   `json:"codec"`
	Engine               string   `json:"engine"`
	Level                string   `json:"level,omitempty"`
	SampleRatio          *float64 `json:"sampleRatio,omitempty"`
	SampleBytesPerSecond *float64 `json:"sampleBytesPerSecond,omitempty"`
	Bytes                *float64 `json:"estimatedBytes,omitempty"`
	CPU                  *float64 `json:"estimatedCPUSeconds,omitempty"`
	Elapsed              *float64 `json:"estimatedElapsedSeconds,omitempty"`
	Money                *float64 `json:"estimatedMoney,omitempty"`
	// End is when the run would have been complete with it, within its windows and limits of bandwidth; nil without a
	// deadline, and while the run goes on.
	End *time.Time `json:"estimatedEnd,omitempty"`
	// AtLeast: CPU and money lack what inflating takes at the receiver.
	AtLeast bool `json:"atLeast,omitempty"`
	// Excluded says why the policy, or the agent's measurement, leaves the choice out; empty where it was open.
	Excluded string `json:"excluded,omitempty"`

	// send is the sender's part of CPU; 0 when that is not known. compress is what compressing takes of it.
	send     float64
	compress *float64
}
