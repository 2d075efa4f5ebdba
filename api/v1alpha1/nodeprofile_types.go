// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AcceleratorState is what is known of a node's accelerator.
// +kubebuilder:validation:Enum=Verified;NotUsed;Absent
type AcceleratorState string

const (
	// AcceleratorVerified: it was proved to be used at one level at least; the message names levels and directions.
	AcceleratorVerified AcceleratorState = "Verified"
	// AcceleratorNotUsed: it is there, and its use was not proved; the reason says why.
	AcceleratorNotUsed AcceleratorState = "NotUsed"
	// AcceleratorAbsent: the processor has none, or the kernel does not let it be used.
	AcceleratorAbsent AcceleratorState = "Absent"
)

// AcceleratorProfile is the outcome of the search for an accelerator and of the proof that it is used.
//
// +structType=atomic
type AcceleratorProfile struct {
	// state of the accelerator.
	// +optional
	State AcceleratorState `json:"state,omitempty"`
	// reason for the state: Proved, NoInstruction, LibraryWithout, LevelNotAccelerated, WindowNotAccelerated,
	// SelfTestFailed or Interrupted.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says what was seen.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// slowerThanSoftware: it is verified, but software compresses faster here.
	// +optional
	SlowerThanSoftware bool `json:"slowerThanSoftware,omitempty"`
	// inflateMinSize is the compressed size in bytes below which software inflates faster, and therefore does. Absent
	// when the accelerator inflates everything or nothing; the message says which.
	// +optional
	InflateMinSize int64 `json:"inflateMinSize,omitempty"`
}

// NodeAccelerator is what is known of a node's accelerator and of its use.
type NodeAccelerator struct {
	AcceleratorProfile `json:",inline"`
	// busyFraction is how much of about the last five minutes agents of this node were in calls of the accelerator, as a
	// decimal from 0 to 1; 1 also when calls of several threads overlapped all the time. It is what agents report, without
	// what one did after it was asked last. Absent unless the accelerator is Verified, and until it was watched for so
	// long. It changes by 0.05 or more at a time.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	BusyFraction string `json:"busyFraction,omitempty"`
	// counters of the CPU measurement facility, which also see what others do with the accelerator. Absent where there is
	// no accelerator, unless they are enabled.
	// +optional
	Counters *AcceleratorCounters `json:"counters,omitempty"`
}

// AcceleratorCounters are what the CPU measurement facility counted in about the last five minutes, in the logical
// partition of the node. Fractions are decimals from 0 to 1 that change by 0.05 or more at a time.
type AcceleratorCounters struct {
	// reason is Counting, or why they are not read: NotEnabled (nodeAgent.acceleratorCounters of the chart), NotS390x,
	// NotSupported (guests of z/VM and KVM), NoCapability, NotAuthorized (the partition's activation profile) or Failed.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason,omitempty"`
	// message says more.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// busyFraction of the accelerators' cycles that this partition used; absent where the machine's clock is not known.
	// Other partitions share the accelerators.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	BusyFraction string `json:"busyFraction,omitempty"`
	// contention is the time that calls waited for the accelerator, divided by the time that they waited and used it.
	// Waiting for calls of other partitions is in it.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Contention string `json:"contention,omitempty"`
}

// LevelProfile is what an engine was measured to do at one level.
type LevelProfile struct {
	// level as in a CompressionPolicy.
	// +required
	Level CompressionLevel `json:"level,omitempty"`
	// compressBytesPerSecond is the rate of uncompressed bytes in.
	// +optional
	CompressBytesPerSecond int64 `json:"compressBytesPerSecond,omitempty"`
	// ratio is uncompressed divided by compressed bytes of the sample, as a decimal.
	// +optional
	Ratio string `json:"ratio,omitempty"`
	// selected: agents on this node compress with this engine at this level, unless the policy names engines.
	// +optional
	Selected bool `json:"selected,omitempty"`
}

// EngineProfile is what an engine was measured to do on a node on one core, on the sample that the agent carries.
type EngineProfile struct {
	// name of the engine: dfltcc, isa-l, zlib-ng, go, libzstd or go-zstd.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// codec that it executes.
	// +optional
	Codec string `json:"codec,omitempty"`
	// verified is true when what it compressed on this node was inflated by an independent engine to the same bytes.
	// +optional
	Verified bool `json:"verified"`
	// compressBytesPerSecond is the rate of uncompressed bytes in.
	// +optional
	CompressBytesPerSecond int64 `json:"compressBytesPerSecond"`
	// decompressBytesPerSecond is the rate of uncompressed bytes out.
	// +optional
	DecompressBytesPerSecond int64 `json:"decompressBytesPerSecond"`
	// ratio is uncompressed divided by compressed bytes of the sample, as a decimal, at the first of the levels.
	// +optional
	Ratio string `json:"ratio,omitempty"`
	// levels that the engine has.
	// +optional
	// +listType=map
	// +listMapKey=level
	// +kubebuilder:validation:MaxItems=3
	Levels []LevelProfile `json:"levels,omitempty"`
	// inflates: agents on this node inflate the codec with this engine.
	// +optional
	Inflates bool `json:"inflates,omitempty"`
}

// NetworkSpread is how far the runs of the network's measurement lay apart. Amounts are CPU seconds per GiB as
// decimals.
//
// +structType=atomic
type NetworkSpread struct {
	// leastSecondsPerGiB of the runs.
	// +optional
	LeastSecondsPerGiB string `json:"leastSecondsPerGiB,omitempty"`
	// mostSecondsPerGiB of the runs.
	// +optional
	MostSecondsPerGiB string `json:"mostSecondsPerGiB,omitempty"`
	// runs that were measured.
	// +optional
	Runs int32 `json:"runs,omitempty"`
}

// InterruptAccounting is how a kernel accounts for the time of interrupts.
// +kubebuilder:validation:Enum=On;Off;Unknown
type InterruptAccounting string

const (
	// InterruptAccountingOn: their time is kept apart from that of the process that they interrupt.
	InterruptAccountingOn InterruptAccounting = "On"
	// InterruptAccountingOff: who is interrupted is charged for it.
	InterruptAccountingOff InterruptAccounting = "Off"
	// InterruptAccountingUnknown: the kernel does not tell.
	InterruptAccountingUnknown InterruptAccounting = "Unknown"
)

// NetworkProfile is what arriving segments cost the network stack on no process's account. Amounts are decimals.
//
// +structType=atomic
type NetworkProfile struct {
	// reason is Calibrated, or why the last attempt to calibrate failed: NodeBusy (others use more than a tenth of the
	// processors' time) or Failed. The figures are then those of an earlier calibration.
	// +optional
	Reason string `json:"reason,omitempty"`
	// backgroundPercent of the processors' time was used by others when it was calibrated, or tried.
	// +optional
	BackgroundPercent *int32 `json:"backgroundPercent,omitempty"`
	// interruptAccounting of the kernel. On: the time of interrupts is on no process's account, and all of it is in the
	// figures. Off: most of it is on the account of the processes that are interrupted, and the figures have the rest.
	// +optional
	InterruptAccounting InterruptAccounting `json:"interruptAccounting,omitempty"`
	// pushMicrosecondsPerSegment is the CPU time for each segment that arrives without data. Such acknowledge data, and
	// arrive at the side that sends it.
	// +optional
	PushMicrosecondsPerSegment string `json:"pushMicrosecondsPerSegment,omitempty"`
	// pullMicrosecondsPerSegment is the CPU time for each segment that arrives with data.
	// +optional
	PullMicrosecondsPerSegment string `json:"pullMicrosecondsPerSegment,omitempty"`
	// pullSecondsPerGiB is the CPU time for a GiB of data in such segments, besides.
	// +optional
	PullSecondsPerGiB string `json:"pullSecondsPerGiB,omitempty"`
}

// PathProfile is what moving data over a path takes the agents of a node, by their runs.
type PathProfile struct {
	// type of the path, as in status.run.dataPath of a Transfer.
	// +required
	Type DataPathType `json:"type,omitempty"`
	// cpuSecondsPerGiB is the CPU time of the sending agent for a GiB on the wire, as a decimal, without compressing and
	// reading files: what is left is encryption, the network or the object store, and checksums. For Pod it is the time of
	// both ends for a GiB of files, without inflating and writing them, too. What the network stack spends on no process's
	// account is not in it. It is the mean of the last runs, of which newer ones count more.
	// +required
	CPUSecondsPerGiB string `json:"cpuSecondsPerGiB,omitempty"`
	// runs that it was measured by.
	// +required
	Runs int32 `json:"runs,omitempty"`
	// measuredTime is when status took in the last of them.
	// +required
	MeasuredTime metav1.Time `json:"measuredTime,omitzero"`
}

// ProfileChange is why the figures were last measured on what is not the same machine, or program, any more.
//
// +structType=atomic
type ProfileChange struct {
	// reason: KernelChanged, ImageChanged, CPUModelChanged, or several of them, joined by commas.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says from what to what.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// time at which it was seen.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// NodeProfileStatus is what the node agent measured.
type NodeProfileStatus struct {
	// observedGeneration is always that of the object: a NodeProfile has no spec.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled, and FeatureConfirmed on a node where Node Feature Discovery announces an
	// accelerator.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// architecture of the node, as Go names it: amd64, arm64, s390x.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// cores that the agent may use.
	// +optional
	Cores int32 `json:"cores,omitempty"`
	// engines that were measured, fastest first.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Engines []EngineProfile `json:"engines,omitempty"`
	// accelerator is what was found out about the node's.
	// +optional
	Accelerator *NodeAccelerator `json:"accelerator,omitempty"`
	// networkCPUSecondsPerGiB is the CPU time of the whole system, less its idle time, that moving a GiB through TCP
	// costs here, as a decimal, less what is on the moving process's own account: the median of several runs.
	// +optional
	NetworkCPUSecondsPerGiB string `json:"networkCPUSecondsPerGiB,omitempty"`
	// networkSpread is how far those runs lay apart.
	// +optional
	NetworkSpread *NetworkSpread `json:"networkSpread,omitempty"`
	// network is what segments cost the network stack here on no process's account, and how the kernel accounts.
	// +optional
	Network *NetworkProfile `json:"network,omitempty"`
	// dataPaths are what moving data took agents of Transfers on this node, by path. Attempts count that succeeded, had
	// one receiver, moved 256 MiB or more in files of 1 MiB or more by the mean, and whose connections did not fall back.
	// The list is written every five minutes at most, and begins again after lastChange. Absent until there was one.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=5
	DataPaths []PathProfile `json:"dataPaths,omitempty"`
	// kernel release that the figures belong to.
	// +optional
	Kernel string `json:"kernel,omitempty"`
	// cpuModel that the figures belong to.
	// +optional
	CPUModel string `json:"cpuModel,omitempty"`
	// agentImage that measured.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	AgentImage string `json:"agentImage,omitempty"`
	// lastChange of kernel, processor or image; the figures were measured again after it. Absent until there is one.
	// +optional
	LastChange *ProfileChange `json:"lastChange,omitempty"`
	// measuredTime is when.
	// +optional
	MeasuredTime *metav1.Time `json:"measuredTime,omitempty"`
	// agentVersion that measured.
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`
}

// NodeProfile says what the engines do on the node of the same name. The manager writes it from what the node agent
// measured.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=lighterage
// +kubebuilder:printcolumn:name="Architecture",type=string,JSONPath=`.status.architecture`
// +kubebuilder:printcolumn:name="Accelerator",type=string,JSONPath=`.status.accelerator.state`
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.status.engines[0].name`,description="the fastest"
// +kubebuilder:printcolumn:name="Compress",type=integer,JSONPath=`.status.engines[0].compressBytesPerSecond`,description="uncompressed bytes per second, one core"
// +kubebuilder:printcolumn:name="Decompress",type=integer,JSONPath=`.status.engines[0].decompressBytesPerSecond`,description="uncompressed bytes per second, one core"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="why Ready is what it is"
// +kubebuilder:printcolumn:name="Accelerator-Reason",type=string,priority=1,JSONPath=`.status.accelerator.reason`,description="why the accelerator is in that state"
type NodeProfile struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is what was measured.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status NodeProfileStatus `json:"status,omitzero"`
}

// NodeProfileList is a list of NodeProfiles.
// +kubebuilder:object:root=true
type NodeProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeProfile `json:"items"`
}
