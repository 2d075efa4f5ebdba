// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TrialHTTPEndpoint are bodies that pass an HTTPEndpoint while the trial collects.
type TrialHTTPEndpoint struct {
	// name of the HTTPEndpoint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// duration for which the replicas collect bodies, in memory and of all that pass with the same chance. They keep
	// nothing before and after.
	// +optional
	// +default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('10m')",message="duration must be between 1s and 10m; write for example 1m"
	Duration *metav1.Duration `json:"duration,omitempty"`
}

// TrialQueue are messages that a Queue holds.
type TrialQueue struct {
	// name of the Queue.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
}

// TrialSource is what a CompressionTrial reads, in its own namespace.
//
// +kubebuilder:validation:XValidation:rule="[has(self.persistentVolumeClaim), has(self.httpEndpoint), has(self.queue)].filter(x, x).size() == 1",message="exactly one of persistentVolumeClaim, httpEndpoint and queue must be given"
type TrialSource struct {
	// persistentVolumeClaim whose files are sampled. It is mounted read-only.
	// +optional
	PersistentVolumeClaim *PersistentVolumeClaimPath `json:"persistentVolumeClaim,omitempty"`
	// httpEndpoint whose replicas are asked for plain bodies of the content types that they compress. Each body is
	// measured alone, at its size.
	// +optional
	HTTPEndpoint *TrialHTTPEndpoint `json:"httpEndpoint,omitempty"`
	// queue of which a member is asked for plain messages. None is consumed. Each is measured alone, at its size.
	// +optional
	Queue *TrialQueue `json:"queue,omitempty"`
}

// TrialSample says how much of the source is measured with.
type TrialSample struct {
	// size of the sample, which is held in the agent's memory. Of a claim it is read in blocks of 1 MiB from all over
	// it, where every byte has the same chance. A replica of an HTTPEndpoint gives 4 MiB and a Queue 32 MiB at most. Of
	// a smaller source everything is taken. Built in: 64Mi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('128Mi')) <= 0",message="size must be between 1Mi and 128Mi; write for example 64Mi"
	Size *resource.Quantity `json:"size,omitempty"`
	// seed chooses blocks or messages: with the same one an unchanged source gives the same sample. Bodies are those
	// that pass.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Seed int64 `json:"seed,omitempty"`
}

// TrialClass says which nodes a trial may run on by their accelerators.
// +kubebuilder:validation:Enum=Any;Hardware;Software
type TrialClass string

const (
	// TrialClassAny: any node.
	TrialClassAny TrialClass = "Any"
	// TrialClassHardware: nodes with an accelerator that is known to work.
	TrialClassHardware TrialClass = "Hardware"
	// TrialClassSoftware: nodes that are not known to have one.
	TrialClassSoftware TrialClass = "Software"
)

// TrialNodeClass says on which nodes a trial may run. Everything that is set must hold.
type TrialNodeClass struct {
	// class of nodes by their accelerators. Built in: Any.
	// +optional
	Class TrialClass `json:"class,omitempty"`
	// architecture as in the label kubernetes.io/arch, one that the agent's image was built for.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64;s390x
	Architecture string `json:"architecture,omitempty"`
	// nodeSelector names labels that the node must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
}

// TrialLink is a network that a trial predicts for.
type TrialLink struct {
	// name for people.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$`
	Name string `json:"name,omitempty"`
	// bytesPerSecond that the network carries for the transfer: a link of 1 Gbit/s is 125M.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1k')) >= 0 && quantity(string(self)).compareTo(quantity('1T')) <= 0",message="bytesPerSecond must be between 1k and 1T; write for example 125M for 1 Gbit/s"
	BytesPerSecond resource.Quantity `json:"bytesPerSecond,omitzero"`
}

// TrialCompression says for what a trial recommends.
type TrialCompression struct {
	// policyName names the LocalCompressionPolicy of the namespace, or, where there is none with that name, the
	// CompressionPolicy, whose objective, prices and least sizes the recommendation takes over; the policy that is
	// recommended is of the same kind. When empty the default CompressionPolicy applies, if there is one. What a policy
	// says of codecs, levels and engines does not matter: all are measured.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PolicyName string `json:"policyName,omitempty"`
	// objective that decides, in place of the policy's. Cost needs prices of the policy or of a Tariff.
	// +optional
	Objective CompressionObjective `json:"objective,omitempty"`
}

// Policy is the name of the policy that is named; empty for the default one.
func (c *TrialCompression) Policy() string {
	if c == nil {
		return ""
	}
	return c.PolicyName
}

// CompressionTrialSpec is what is to be measured.
//
// +kubebuilder:validation:XValidation:rule="self.source == oldSelf.source",message="source is immutable; delete this CompressionTrial and create one with another name"
// +kubebuilder:validation:XValidation:rule="has(self.source.persistentVolumeClaim) || !has(self.include) && !has(self.exclude)",message="include and exclude choose among files; remove them, or sample a persistentVolumeClaim"
type CompressionTrialSpec struct {
	// source is immutable.
	// +required
	Source TrialSource `json:"source,omitzero"`

	// include says which files of a claim are sampled; absent: everything. Patterns are those of a Transfer.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.exists(p, p.startsWith('!'))",message="an include pattern cannot begin with \"!\"; move it to exclude without the \"!\", or write \"\\!\" for the character"
	Include []string `json:"include,omitempty"`

	// exclude says what of that is not sampled.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Exclude []string `json:"exclude,omitempty"`

	// sample of the source.
	// +optional
	Sample *TrialSample `json:"sample,omitempty"`

	// nodeClass says on which nodes to measure. Which engines there are, and how fast, depends on the node.
	// +optional
	NodeClass *TrialNodeClass `json:"nodeClass,omitempty"`

	// links are the networks to predict elapsed times for and to recommend for.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	Links []TrialLink `json:"links,omitempty"`

	// compression says for what the trial recommends.
	// +optional
	Compression *TrialCompression `json:"compression,omitempty"`

	// ttlSecondsAfterFinished is after how long a trial that is Complete or Failed is deleted. Absent: never.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// podTemplate adjusts the agent's pod. With securityContext.runAsUser: 0 the agent reads files of other users, as
	// that of a Transfer does, if the namespace allows it.
	// +optional
	PodTemplate *AgentPodTemplate `json:"podTemplate,omitempty"`
}

// TrialPhase sums up a CompressionTrial for people. Programs read conditions.
// +kubebuilder:validation:Enum=Pending;Starting;Measuring;Retrying;Complete;Failed
type TrialPhase string

const (
	TrialPending   TrialPhase = "Pending"
	TrialStarting  TrialPhase = "Starting"
	TrialMeasuring TrialPhase = "Measuring"
	TrialRetrying  TrialPhase = "Retrying"
	TrialComplete  TrialPhase = "Complete"
	TrialFailed    TrialPhase = "Failed"
)

// TrialUnit is what was compressed in one piece.
// +kubebuilder:validation:Enum=Block;Body;Message
type TrialUnit string

const (
	// TrialUnitBlock: blocks of 1 MiB, as a Transfer sends files.
	TrialUnitBlock TrialUnit = "Block"
	// TrialUnitBody: each body of an HTTPEndpoint alone.
	TrialUnitBody TrialUnit = "Body"
	// TrialUnitMessage: each message of a Queue alone.
	TrialUnitMessage TrialUnit = "Message"
)

// TrialSampleStatus is what was measured with.
//
// +structType=atomic
type TrialSampleStatus struct {
	// unit is what was compressed in one piece. What carries the form of a compressed body or message is counted with
	// it.
	// +optional
	Unit TrialUnit `json:"unit,omitempty"`
	// items are the bodies or messages in the sample.
	// +optional
	Items int64 `json:"items,omitempty"`
	// itemsTotal are the bodies that passed meanwhile and could have been compressed, or the messages of the queue.
	// +optional
	ItemsTotal int64 `json:"itemsTotal,omitempty"`
	// cutItems of the items take part with their beginnings only: 256 KiB of a body, 1 MiB of a message.
	// +optional
	CutItems int64 `json:"cutItems,omitempty"`
	// unreadableItems are messages that were to be in the sample and are not, because they could not be inflated.
	// +optional
	UnreadableItems int64 `json:"unreadableItems,omitempty"`
	// agents are the replicas that gave the bodies, or the member that gave the messages.
	// +optional
	Agents int64 `json:"agents,omitempty"`
	// silentAgents are replicas or members that were ready when the attempt began, were asked and gave nothing. What
	// passed such a replica is neither in the sample nor in itemsTotal.
	// +optional
	SilentAgents int64 `json:"silentAgents,omitempty"`
	// silentMessage is why the first of those gave nothing.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	SilentMessage string `json:"silentMessage,omitempty"`
	// bytes of the sample.
	// +optional
	Bytes int64 `json:"bytes"`
	// files that the bytes are of.
	// +optional
	Files int64 `json:"files"`
	// bytesTotal of the source, without what include and exclude leave out, and without holes of sparse files; of a
	// queue as they are stored.
	// +optional
	BytesTotal int64 `json:"bytesTotal"`
	// filesTotal of the source.
	// +optional
	FilesTotal int64 `json:"filesTotal"`
	// hopelessBytes of the sample are in blocks, bodies or messages that mode Auto would send as they are, because a
	// look at them promises nothing.
	// +optional
	HopelessBytes int64 `json:"hopelessBytes"`
	// changedFiles were to be in the sample and are not, because they changed while they were read.
	// +optional
	ChangedFiles int64 `json:"changedFiles,omitempty"`
}

// TrialPrediction is how long data would take over a link.
type TrialPrediction struct {
	// link by name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Link string `json:"link,omitempty"`
	// secondsPerGiB of uncompressed data, as a decimal.
	// +optional
	SecondsPerGiB string `json:"secondsPerGiB,omitempty"`
	// cpuSecondsPerGiB of both sides, with what moving the data takes besides: the slower the link, the oftener hosts
	// wake up for little.
	// +optional
	CPUSecondsPerGiB string `json:"cpuSecondsPerGiB,omitempty"`
	// costPerGiB in the currency of the prices: CPU time of both sides, and bytes on the wire. Absent without prices.
	// +optional
	CostPerGiB string `json:"costPerGiB,omitempty"`
}

// TrialResult is what an engine did with the sample at a level, and what moving such data with it is predicted to take.
// Amounts are decimals, for a GiB of uncompressed data.
type TrialResult struct {
	// codec is none where the data are sent as they are.
	// +optional
	Codec string `json:"codec,omitempty"`
	// engine that compressed.
	// +optional
	Engine string `json:"engine,omitempty"`
	// level of a CompressionPolicy. Absent where nothing is compressed.
	// +optional
	Level string `json:"level,omitempty"`
	// ratio is uncompressed divided by compressed bytes; blocks that do not shrink count as they are.
	// +optional
	Ratio string `json:"ratio,omitempty"`
	// compressSecondsPerGiB of CPU time, measured.
	// +optional
	CompressSecondsPerGiB string `json:"compressSecondsPerGiB,omitempty"`
	// decompressSecondsPerGiB of CPU time, measured with the engine that inflates the codec fastest on the node.
	// +optional
	DecompressSecondsPerGiB string `json:"decompressSecondsPerGiB,omitempty"`
	// predictions of elapsed time, CPU time and cost, by link, for a sender and a receiver with as many cores as
	// status.cores says.
	// +optional
	// +listType=map
	// +listMapKey=link
	// +kubebuilder:validation:MaxItems=6
	Predictions []TrialPrediction `json:"predictions,omitempty"`
	// problem is why there are no figures.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// TrialDictionaryResult is what a dictionary does at a level. Amounts are decimals; CPU time is for a GiB of
// uncompressed messages.
type TrialDictionaryResult struct {
	// level of a CompressionPolicy.
	// +optional
	Level string `json:"level,omitempty"`
	// ratio is uncompressed divided by stored bytes with the dictionary, what carries the form of a message included.
	// +optional
	Ratio string `json:"ratio,omitempty"`
	// ratioWithout is that of the same messages without the dictionary.
	// +optional
	RatioWithout string `json:"ratioWithout,omitempty"`
	// compressSecondsPerGiB of CPU time with the dictionary.
	// +optional
	CompressSecondsPerGiB string `json:"compressSecondsPerGiB,omitempty"`
	// compressSecondsPerGiBWithout the dictionary.
	// +optional
	CompressSecondsPerGiBWithout string `json:"compressSecondsPerGiBWithout,omitempty"`
	// decompressSecondsPerGiB of CPU time with the dictionary, for what the lowest level made: it is the same at all
	// levels.
	// +optional
	DecompressSecondsPerGiB string `json:"decompressSecondsPerGiB,omitempty"`
	// decompressSecondsPerGiBWithout the dictionary, for what the lowest level made.
	// +optional
	DecompressSecondsPerGiBWithout string `json:"decompressSecondsPerGiBWithout,omitempty"`
}

// TrialDictionary is what a dictionary does for the messages of a Queue that can refer to one, those of at most 16 KiB:
// it is trained on half of those in the sample, at most 4 MiB, and measured on the other half.
//
// +structType=atomic
type TrialDictionary struct {
	// codec that the dictionary is for. A Queue has one for the first of its codecs.
	// +optional
	Codec string `json:"codec,omitempty"`
	// engine that compressed with the dictionary and without.
	// +optional
	Engine string `json:"engine,omitempty"`
	// bytes of the dictionary.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// trainingItems are how many messages it was trained on. Those beyond 4 MiB and those of less than 8 bytes are not
	// among them.
	// +optional
	TrainingItems int64 `json:"trainingItems,omitempty"`
	// items are how many messages were measured.
	// +optional
	Items int64 `json:"items,omitempty"`
	// results by level, for those at which this engine is the first of its codec.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Results []TrialDictionaryResult `json:"results,omitempty"`
	// problem is why there are no results.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// TrialChoice is what is best over a link.
type TrialChoice struct {
	// link by name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Link string `json:"link,omitempty"`
	// codec that is best there; none: to send data as they are.
	// +optional
	Codec string `json:"codec,omitempty"`
	// engine that is best there.
	// +optional
	Engine string `json:"engine,omitempty"`
	// level that is best there.
	// +optional
	Level string `json:"level,omitempty"`
	// message says by how much, and what the alternatives would take.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// TrialRecommendation is the policy that a trial recommends.
//
// +structType=atomic
type TrialRecommendation struct {
	// policy is a CompressionPolicy as YAML, ready for kubectl apply, or a LocalCompressionPolicy if the trial was made
	// for one.
	// +optional
	Policy string `json:"policy,omitempty"`
	// message says why.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// choices by link.
	// +optional
	// +listType=map
	// +listMapKey=link
	// +kubebuilder:validation:MaxItems=6
	Choices []TrialChoice `json:"choices,omitempty"`
}

// CompressionTrialStatus is what was seen of a CompressionTrial.
type CompressionTrialStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled, Complete, Failed.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// phase for people.
	// +optional
	Phase TrialPhase `json:"phase,omitempty"`
	// lastRunRequest is the value of the annotation lighterage.dev/run that was acted upon last.
	// +optional
	LastRunRequest string `json:"lastRunRequest,omitempty"`
	// policy whose objective and prices are in force for the present or last run.
	// +optional
	Policy *PolicyStatus `json:"policy,omitempty"`
	// links of the present or last run.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=6
	Links []TrialLink `json:"links,omitempty"`
	// placement of the agent.
	// +optional
	Placement *PlacementStatus `json:"placement,omitempty"`
	// run is the present or last one.
	// +optional
	Run *RunStatus `json:"run,omitempty"`
	// sample that was measured with.
	// +optional
	Sample *TrialSampleStatus `json:"sample,omitempty"`
	// cores that the agent could use, which the predictions count on at both sides.
	// +optional
	Cores int32 `json:"cores,omitempty"`
	// accelerator of the node. Its engine is among the results where the state is Verified.
	// +optional
	Accelerator *AcceleratorProfile `json:"accelerator,omitempty"`
	// results, the first of which is to send data as they are.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Results []TrialResult `json:"results,omitempty"`
	// dictionary is the first of dictionaries that is of zstd.
	// +optional
	Dictionary *TrialDictionary `json:"dictionary,omitempty"`
	// dictionaries are what one of each codec would do for the messages of a Queue, with each engine that is the first of
	// its codec at any level; absent for other sources.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Dictionaries []TrialDictionary `json:"dictionaries,omitempty"`
	// recommendation made of the results.
	// +optional
	Recommendation *TrialRecommendation `json:"recommendation,omitempty"`
}

// CompressionTrial measures every codec, engine and level on a sample of the files of a claim, of the bodies that pass
// an HTTPEndpoint, or of the messages of a Queue, on a node of a class, predicts what moving such data over given links
// would take and cost, and recommends a CompressionPolicy. It runs once, and again whenever the annotation
// lighterage.dev/run gets a new value. kubectl lighterage trial report makes a page of it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=lighterage
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.source.persistentVolumeClaim.claimName`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.source.httpEndpoint.name`,priority=1
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.source.queue.name`,priority=1
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Sample",type=integer,JSONPath=`.status.sample.bytes`,description="bytes"
// +kubebuilder:printcolumn:name="Codec",type=string,JSONPath=`.status.recommendation.choices[0].codec`,description="best over the first link"
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.status.recommendation.choices[0].engine`,description="best over the first link"
// +kubebuilder:printcolumn:name="Level",type=string,JSONPath=`.status.recommendation.choices[0].level`,description="best over the first link"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.run.node`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
type CompressionTrial struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is to be measured.
	// +required
	Spec CompressionTrialSpec `json:"spec,omitzero"`
	// status is what was measured.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status CompressionTrialStatus `json:"status,omitzero"`
}

// CompressionTrialList is a list of CompressionTrials.
// +kubebuilder:object:root=true
type CompressionTrialList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CompressionTrial `json:"items"`
}
