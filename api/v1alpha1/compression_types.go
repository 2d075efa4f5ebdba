// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// CompressionMode says whether to compress.
// +kubebuilder:validation:Enum=Auto;Always;Never
type CompressionMode string

const (
	// CompressionAuto decides by samples of the data whether they shrink, and by the objective whether and how they are
	// compressed.
	CompressionAuto CompressionMode = "Auto"
	// CompressionAlways compresses every block that is large enough; what does not shrink is still sent as it is.
	CompressionAlways CompressionMode = "Always"
	// CompressionNever compresses nothing.
	CompressionNever CompressionMode = "Never"
)

// CompressionObjective is what mode Auto minimises: Transfers choose block by block, HTTPEndpoints by classes of bodies,
// Queues and their channels by classes of messages.
// +kubebuilder:validation:Enum=Cost;Elapsed;CPU;Bytes
type CompressionObjective string

const (
	// ObjectiveCost minimises money at the prices in force: that of CPU time on both sides and that of bytes on the
	// wire.
	ObjectiveCost CompressionObjective = "Cost"
	// ObjectiveElapsed minimises the time until the work is done.
	ObjectiveElapsed CompressionObjective = "Elapsed"
	// ObjectiveCPU minimises CPU time on both sides, what the network stack takes included.
	ObjectiveCPU CompressionObjective = "CPU"
	// ObjectiveBytes minimises bytes on the wire.
	ObjectiveBytes CompressionObjective = "Bytes"
)

// CompressionLevel trades CPU for ratio.
// +kubebuilder:validation:Enum=Fast;Balanced;High
type CompressionLevel string

const (
	CompressionFast     CompressionLevel = "Fast"
	CompressionBalanced CompressionLevel = "Balanced"
	CompressionHigh     CompressionLevel = "High"
)

// Codec is a compressed format on the wire.
// +kubebuilder:validation:Enum=deflate;zstd
type Codec string

const (
	// CodecDeflate is DEFLATE (RFC 1951), the one that s390x has in hardware.
	CodecDeflate Codec = "deflate"
	// CodecZstd is Zstandard (RFC 8878), which software compresses further at the same speed.
	CodecZstd Codec = "zstd"
)

// SoftwareEngine is a program that executes a codec on the processor.
// +kubebuilder:validation:Enum=isa-l;zlib-ng;go;libzstd;go-zstd
type SoftwareEngine string

const (
	// EngineISAL is Intel's storage acceleration library: deflate at level Fast, on amd64 and arm64.
	EngineISAL SoftwareEngine = "isa-l"
	// EngineZlibNG is zlib-ng: deflate.
	EngineZlibNG SoftwareEngine = "zlib-ng"
	// EngineGo is deflate in Go, which every agent has.
	EngineGo SoftwareEngine = "go"
	// EngineLibzstd is the reference implementation of zstd.
	EngineLibzstd SoftwareEngine = "libzstd"
	// EngineGoZstd is zstd in Go, which every agent has.
	EngineGoZstd SoftwareEngine = "go-zstd"
)

// Placement says on which nodes compressing agents may run.
// +kubebuilder:validation:Enum=PreferHardware;RequireHardware;AnyNode
type Placement string

const (
	// PlacementPreferHardware prefers nodes with an accelerator and falls back to the others.
	PlacementPreferHardware Placement = "PreferHardware"
	// PlacementRequireHardware waits for a node with an accelerator.
	PlacementRequireHardware Placement = "RequireHardware"
	// PlacementAnyNode does not look at accelerators.
	PlacementAnyNode Placement = "AnyNode"
)

// SoftwareUse says whether software compresses what no accelerator does.
// +kubebuilder:validation:Enum=Allowed;Disabled
type SoftwareUse string

const (
	// SoftwareAllowed compresses in software what no accelerator compresses.
	SoftwareAllowed SoftwareUse = "Allowed"
	// SoftwareDisabled leaves uncompressed what no accelerator compresses.
	SoftwareDisabled SoftwareUse = "Disabled"
)

// Compression is what a user wants of compression for one object. What is set here wins over the named policy, which
// wins over the default policy, which wins over what is built in.
//
// +kubebuilder:validation:XValidation:rule="!has(self.software) || self.software != 'Disabled' || !has(self.codecs) || !self.codecs.exists(c, c == 'zstd')",message="codecs must not have zstd where software is Disabled: no accelerator does zstd; write [deflate]"
type Compression struct {
	// policyName names a LocalCompressionPolicy of the namespace, or, where there is none with that name, a
	// CompressionPolicy. When empty the default CompressionPolicy applies, if there is one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PolicyName string `json:"policyName,omitempty"`

	// objective is what mode Auto minimises. Cost needs prices of the policy or of a Tariff.
	// +optional
	Objective CompressionObjective `json:"objective,omitempty"`

	// mode says whether to compress.
	// +optional
	Mode CompressionMode `json:"mode,omitempty"`

	// codecs lists the formats to use, in order of preference. Mode Auto chooses block by block among those that the
	// peer reads; mode Always takes the first of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="codecs must name each codec once"
	Codecs []Codec `json:"codecs,omitempty"`

	// level trades CPU for ratio. In mode Auto it is the most effort that a Transfer makes.
	// +optional
	Level CompressionLevel `json:"level,omitempty"`

	// placement says on which nodes the agent may run.
	// +optional
	Placement Placement `json:"placement,omitempty"`

	// software says whether software compresses where there is no accelerator, or where the accelerator does not have
	// the codec or level. Built in, and where the policy does not set software.disabled: Allowed.
	// +optional
	Software SoftwareUse `json:"software,omitempty"`

	// minSize is the size below which a block is not compressed, in hardware or in software; 0: blocks of every size are.
	// Blocks are 1Mi at most, so a larger value compresses nothing.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="minSize must be between 0 and 1Gi; write for example 16Ki"
	MinSize *resource.Quantity `json:"minSize,omitempty"`
}

// Policy is the name of the policy that is named; empty for the default one.
func (c *Compression) Policy() string {
	if c == nil {
		return ""
	}
	return c.PolicyName
}

// Operations counts calls and the plain bytes that they worked on.
type Operations struct {
	// operations is the number of calls.
	// +optional
	Operations int64 `json:"operations"`
	// bytes is the number of uncompressed bytes.
	// +optional
	Bytes int64 `json:"bytes"`
}

// EstimateStatus says how well samples of blocks predicted what compressing them would give. Blocks that were neither
// compressed nor probed are in skipped.
//
// +structType=atomic
type EstimateStatus struct {
	// blocks were predicted to shrink and then compressed.
	// +optional
	Blocks int64 `json:"blocks,omitempty"`
	// meanErrorPercent is how far predicted and true compressed sizes of those blocks were apart on average, in percent
	// of the uncompressed size, as a decimal.
	// +optional
	MeanErrorPercent string `json:"meanErrorPercent,omitempty"`
	// wasted of those blocks did not shrink.
	// +optional
	Wasted int64 `json:"wasted,omitempty"`
	// probes are blocks that were compressed although they were predicted not to shrink by a 32nd, which is what makes
	// it worth the effort, to see whether that was true.
	// +optional
	Probes int64 `json:"probes,omitempty"`
	// missed of the probes did.
	// +optional
	Missed int64 `json:"missed,omitempty"`
	// cpuSeconds is the time that sampling took, as a decimal. It is part of cpu.compressSeconds.
	// +optional
	CPUSeconds string `json:"cpuSeconds,omitempty"`
}

// CompressionStatus says what compression did. It has the same shape in every kind that compresses.
//
// +structType=atomic
type CompressionStatus struct {
	// codec is the format on the wire of most of what was compressed: deflate or zstd; none when nothing was. In mode
	// Auto blocks may differ.
	// +optional
	Codec string `json:"codec,omitempty"`
	// engine is what executed the codec for most of the data: dfltcc, isa-l, zlib-ng, go, libzstd, go-zstd or none.
	// +optional
	Engine string `json:"engine,omitempty"`
	// level at which most of the data was compressed. Absent when nothing was.
	// +optional
	Level string `json:"level,omitempty"`
	// reason says why most of the data took the path it took. See the Compression constants.
	// +optional
	Reason string `json:"reason,omitempty"`
	// ratio is uncompressed divided by compressed bytes, as a decimal.
	// +optional
	Ratio string `json:"ratio,omitempty"`
	// savedPercent is how much smaller the compressed bytes are than the uncompressed ones. Never above 100; below 0
	// when framing cost more than was saved.
	// +optional
	SavedPercent int32 `json:"savedPercent"`
	// uncompressedBytes is the number of bytes before compression.
	// +optional
	UncompressedBytes int64 `json:"uncompressedBytes"`
	// compressedBytes is the number of bytes after compression, framing included.
	// +optional
	CompressedBytes int64 `json:"compressedBytes"`
	// hardware counts what the accelerator compressed.
	// +optional
	Hardware Operations `json:"hardware"`
	// software counts what software compressed.
	// +optional
	Software Operations `json:"software"`
	// stored counts what was sent as it is.
	// +optional
	Stored Operations `json:"stored"`
	// reasons counts the operations that compressed by reason: why they were done in hardware or in software.
	// +optional
	Reasons map[string]int64 `json:"reasons,omitempty"`
	// skipped counts the stored operations by reason.
	// +optional
	Skipped map[string]int64 `json:"skipped,omitempty"`
	// estimate says how good the samples were on which mode Auto decides. Absent when none was taken.
	// +optional
	Estimate *EstimateStatus `json:"estimate,omitempty"`
}

// ClassChoice is what is done with a class of bodies or messages.
// +kubebuilder:validation:Enum=Compressed;Uncompressed;Mixed
type ClassChoice string

const (
	// ClassCompressed: bodies or messages of the class are compressed.
	ClassCompressed ClassChoice = "Compressed"
	// ClassUncompressed: they are sent or stored as they are.
	ClassUncompressed ClassChoice = "Uncompressed"
	// ClassMixed: replicas, or members, differ.
	ClassMixed ClassChoice = "Mixed"
)

// ClassDecision is what mode Auto does with the bodies or messages that are alike in content, size and codec.
//
// +structType=atomic
type ClassDecision struct {
	// content is what the media types have in common: html, json, xml, javascript, css, svg, text, font, image or binary.
	// Of messages it is the first token of their subjects behind the name of the Queue; (queue) of those without, and
	// (others) of those beyond the 14 tokens that are told apart.
	// +optional
	Content string `json:"content,omitempty"`
	// size of the bodies: <4Ki, <16Ki, <64Ki, <=256Ki, or stream for those that are longer or of unknown length, which
	// are compressed part by part while they are sent. Of messages: <1Ki, <4Ki, <16Ki, <64Ki, <256Ki or >=256Ki.
	// +optional
	Size string `json:"size,omitempty"`
	// codec that they are, or would be, compressed by.
	// +optional
	Codec string `json:"codec,omitempty"`
	// choice is what is done.
	// +optional
	Choice ClassChoice `json:"choice,omitempty"`
	// reason why they are sent or stored as they are: NetworkFaster, DiskFaster or CPUDearer. Absent when all replicas
	// compress them.
	// +optional
	Reason string `json:"reason,omitempty"`
	// operations is the number of bodies or messages since the replicas' start or the last reset.
	// +optional
	Operations int64 `json:"operations,omitempty"`
	// bytes of them before compression.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// trials of them were compressed to see what that takes, although others like them were not.
	// +optional
	Trials int64 `json:"trials,omitempty"`
	// ratio of the last of them that were compressed, as a decimal: uncompressed by compressed bytes.
	// +optional
	Ratio string `json:"ratio,omitempty"`
	// compressCPUSecondsPerGiB is the CPU time that compressing a GiB of the last of them took, as a decimal.
	// +optional
	CompressCPUSecondsPerGiB string `json:"compressCPUSecondsPerGiB,omitempty"`
	// otherPercent is by how many percent more of what the objective asks for the other choice takes, as a decimal. It
	// may be below 0: what is done changes only when the other is a tenth better for some time. Absent until it is known.
	// +optional
	OtherPercent string `json:"otherPercent,omitempty"`
}

// DecisionsStatus says what mode Auto does with bodies or messages, by which figures, and what its choices lose. Of
// Transfers it has the objective and what choices lose.
//
// +structType=atomic
type DecisionsStatus struct {
	// objective that is minimised. Cost where no prices are known is Elapsed. Of a Queue that is more than half full it is
	// Bytes.
	// +optional
	Objective CompressionObjective `json:"objective,omitempty"`
	// linkBytesPerSecond is what the connection of a client carries, by the median of those that were looked at; of a
	// Queue one to another member or to an external server, of a channel that to the peer. Absent until that is known, and
	// where there are no such connections.
	// +optional
	LinkBytesPerSecond int64 `json:"linkBytesPerSecond,omitempty"`
	// diskBytesPerSecond is what the volume of a Queue's member takes, or the memory, by the median of probes. Absent until
	// that is known, and of HTTPEndpoints and channels.
	// +optional
	DiskBytesPerSecond int64 `json:"diskBytesPerSecond,omitempty"`
	// sendCPUSecondsPerGiB is the CPU time that encrypting and writing a GiB takes, as a decimal.
	// +optional
	SendCPUSecondsPerGiB string `json:"sendCPUSecondsPerGiB,omitempty"`
	// inflateCPUSecondsPerGiB is the CPU time of inflating a GiB of messages for those who read them, as a decimal.
	// Absent where they take messages as they are stored, and of HTTPEndpoints.
	// +optional
	InflateCPUSecondsPerGiB string `json:"inflateCPUSecondsPerGiB,omitempty"`
	// regretPercent is by how many percent more of what the objective asks for the choices take than bestAlternative for
	// everything would, as a decimal. Below 0, choosing one by one is better than every alternative. Agents measure it by
	// a sample of the last blocks, messages or bodies, which they compress in all ways that the policy allows, in at most
	// 1 % of their CPU time and not under pressure. It changes when it has moved by half of regretMarginPercent or half a
	// percent. Absent until 48 of them were measured, of channels, of Transfers with several destinations and in other modes than
	// Auto.
	// +optional
	RegretPercent string `json:"regretPercent,omitempty"`
	// regretMarginPercent is half the width of the 95 % interval of regretPercent, in points of percent, as a decimal.
	// +optional
	RegretMarginPercent string `json:"regretMarginPercent,omitempty"`
	// regretSamples is how many blocks, messages or bodies were measured, by the replica that measured most.
	// +optional
	RegretSamples int64 `json:"regretSamples,omitempty"`
	// bestAlternative is what takes least for everything: none, which is not to compress, or codec and level, for example
	// zstd Fast, with hardware behind that if the accelerator compresses.
	// +optional
	BestAlternative string `json:"bestAlternative,omitempty"`
	// classes of bodies or messages with most bytes first, at most 32. Figures that are no sums are those of the
	// replica that sent most of the class.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Classes []ClassDecision `json:"classes,omitempty"`
}

// DecompressionStatus says what decompression did.
//
// +structType=atomic
type DecompressionStatus struct {
	// hardware counts what the accelerator inflated.
	// +optional
	Hardware Operations `json:"hardware"`
	// software counts what software inflated, fallback included.
	// +optional
	Software Operations `json:"software"`
	// fallback counts what software inflated although hardware had compressed it.
	// +optional
	Fallback Operations `json:"fallback"`
	// reason says why most of the data was inflated in software: NoAccelerator, SelfTestFailed, CodecNotAccelerated,
	// BelowMinimum (the blocks are shorter than what the accelerator is faster for) or SoftwareUsed (it is faster than
	// software at no length). HardwareUsed: the accelerator inflated it. Absent when nothing was inflated, and where
	// the agent does not say.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// CPUStatus is what the work cost in CPU time. Amounts are seconds as decimals.
//
// +structType=atomic
type CPUStatus struct {
	// sendSeconds is the CPU time of the sending agent's process, which is the receiving one as well when run.route is
	// Pod. Unset for a Delivery.
	// +optional
	SendSeconds string `json:"sendSeconds,omitempty"`
	// idleSeconds is the part of sendSeconds that members of a Queue or replicas of an HTTPEndpoint spent while nothing
	// passed, because they are there.
	// +optional
	IdleSeconds string `json:"idleSeconds,omitempty"`
	// receiveSeconds is the CPU time of the receiving agent's process. Absent until that has reported.
	// +optional
	ReceiveSeconds string `json:"receiveSeconds,omitempty"`
	// compressSeconds is the part of sendSeconds spent compressing.
	// +optional
	CompressSeconds string `json:"compressSeconds,omitempty"`
	// decompressSeconds is the part of receiveSeconds, or of sendSeconds when run.route is Pod, spent inflating.
	// +optional
	DecompressSeconds string `json:"decompressSeconds,omitempty"`
	// networkSeconds is an estimate of what the network stack spent on no process's account: the segments and bytes that
	// arrived, or the bytes on the wire where the agent does not count segments, times the coefficients in the
	// NodeProfile of the node, which is the sending one except in a Delivery.
	// +optional
	NetworkSeconds string `json:"networkSeconds,omitempty"`
	// secondsPerGiB is sendSeconds without idleSeconds, receiveSeconds and networkSeconds for each GiB of uncompressed
	// data.
	// +optional
	SecondsPerGiB string `json:"secondsPerGiB,omitempty"`
}

// CostStatus is what the work cost, and saved, in money at the prices that were in force when it was reported.
//
// +structType=atomic
type CostStatus struct {
	// currency is the unit, from the Tariff or the policy in force.
	// +optional
	Currency string `json:"currency,omitempty"`
	// cpu is the price of the CPU seconds of this cluster.
	// +optional
	CPU string `json:"cpu,omitempty"`
	// idle is the part of cpu for the time that replicas of HTTPEndpoints and members of Queues spent while nothing
	// passed. Absent in Transfers and Deliveries, which have none.
	// +optional
	Idle string `json:"idle,omitempty"`
	// network is the price of the bytes on the wire.
	// +optional
	Network string `json:"network,omitempty"`
	// saved is the price of the bytes that compression kept off the wire, less that of the CPU time spent on
	// compressing and inflating. Negative when compression lost.
	// +optional
	Saved string `json:"saved,omitempty"`
	// periods are the parts of the cost by the prices that were in force, newest first: at most 4, of which the last is
	// the sum of all that are older. Amounts in another currency than that of the cost are in none of its sums.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	Periods []CostPeriod `json:"periods,omitempty"`
}

// LocalPolicyKind is PolicyStatus.Kind of a policy of the namespace.
const LocalPolicyKind = "LocalCompressionPolicy"

// IsLocal reports whether the policy is a LocalCompressionPolicy. That of nil is none.
func (p *PolicyStatus) IsLocal() bool { return p != nil && p.Kind == LocalPolicyKind }

// PolicyStatus is a policy as it was resolved for one run.
//
// +structType=atomic
type PolicyStatus struct {
	// kind of the policy that was used: LocalCompressionPolicy for one of the namespace; absent for a CompressionPolicy,
	// and where what is built in applies.
	// +optional
	Kind string `json:"kind,omitempty"`
	// name of the policy that was used; empty when what is built in applies.
	// +optional
	Name string `json:"name,omitempty"`
	// source says how it was found: Named, Default or BuiltIn. What is set inline is merged in.
	// +optional
	Source string `json:"source,omitempty"`
	// canary of the policy, while it is measured, and after it was promoted.
	// +optional
	Canary *PolicyCanary `json:"canary,omitempty"`
	// objective in force.
	// +optional
	Objective CompressionObjective `json:"objective,omitempty"`
	// mode in force.
	// +optional
	Mode CompressionMode `json:"mode,omitempty"`
	// codecs in force.
	// +optional
	// +listType=atomic
	Codecs []Codec `json:"codecs,omitempty"`
	// level in force.
	// +optional
	Level CompressionLevel `json:"level,omitempty"`
	// placement in force.
	// +optional
	Placement Placement `json:"placement,omitempty"`
	// hardwareMinSize in force.
	// +optional
	HardwareMinSize *resource.Quantity `json:"hardwareMinSize,omitempty"`
	// softwareMinSize in force.
	// +optional
	SoftwareMinSize *resource.Quantity `json:"softwareMinSize,omitempty"`
	// softwareDisabled in force.
	// +optional
	SoftwareDisabled bool `json:"softwareDisabled,omitempty"`
	// softwareEngines in force; absent when each agent chooses by measurement.
	// +optional
	// +listType=atomic
	SoftwareEngines []SoftwareEngine `json:"softwareEngines,omitempty"`
	// tariffName is the Tariff that the policy names; absent where it names none, so that the default one applies.
	// +optional
	TariffName string `json:"tariffName,omitempty"`
	// prices that decisions are made by and estimates rest on. Those of a Tariff are of when the run began, and on nodes
	// that no rule has a price for. Absent when neither the policy nor a Tariff states any. Of HTTPEndpoints and Queues
	// they are those of the policy only, also where an HTTPEndpoint decides by those of a Tariff; status.cost has what work
	// was charged at.
	// +optional
	Prices *PricesStatus `json:"prices,omitempty"`
}
