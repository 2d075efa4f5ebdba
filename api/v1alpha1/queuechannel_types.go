// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ChannelCoding is how messages may travel between Queues.
// +kubebuilder:validation:Enum=deflate;deflate-fast;deflate-balanced;deflate-high;zstd;zstd-fast;zstd-balanced;zstd-high;none
type ChannelCoding string

const (
	// ChannelCodingDeflate is DEFLATE (RFC 1951), the one that s390x has in hardware, at the level in force.
	ChannelCodingDeflate ChannelCoding = "deflate"
	// ChannelCodingDeflateFast is the same at level Fast.
	ChannelCodingDeflateFast ChannelCoding = "deflate-fast"
	// ChannelCodingDeflateBalanced is the same at level Balanced.
	ChannelCodingDeflateBalanced ChannelCoding = "deflate-balanced"
	// ChannelCodingDeflateHigh is the same at level High.
	ChannelCodingDeflateHigh ChannelCoding = "deflate-high"
	// ChannelCodingZstd is Zstandard (RFC 8878) at the level in force.
	ChannelCodingZstd ChannelCoding = "zstd"
	// ChannelCodingZstdFast is the same at level Fast.
	ChannelCodingZstdFast ChannelCoding = "zstd-fast"
	// ChannelCodingZstdBalanced is the same at level Balanced.
	ChannelCodingZstdBalanced ChannelCoding = "zstd-balanced"
	// ChannelCodingZstdHigh is the same at level High.
	ChannelCodingZstdHigh ChannelCoding = "zstd-high"
	// ChannelCodingNone leaves messages uncompressed.
	ChannelCodingNone ChannelCoding = "none"
)

// QueueChannelBatch is how many messages go together. They are stored at once, or not at all.
type QueueChannelBatch struct {
	// messages that a batch has at most. Receiving queues with an external engine, and those of older releases, take 900.
	// A batch has at most 4 MiB as it is sent, unless it is one message.
	// +optional
	// +default=500
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2000
	Messages int32 `json:"messages,omitempty"`
	// delay for which a batch that is not full waits for more.
	// +optional
	// +default="10ms"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1m')",message="delay must be between 0s and 1m; write for example 10ms"
	Delay *metav1.Duration `json:"delay,omitempty"`
}

// QueueChannel sends the messages of a Queue to another Queue.
//
// +kubebuilder:validation:XValidation:rule="has(self.peer) || !has(self.namespace)",message="namespace is for a Queue of a peer: name the peer, or leave namespace out for a Queue of this namespace"
type QueueChannel struct {
	// peer names a Peer, the other cluster. Absent: the other Queue is in this cluster and namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Peer string `json:"peer,omitempty"`
	// namespace there. By default the same as here.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be the name of a namespace: lower-case letters, digits and -"
	Namespace string `json:"namespace,omitempty"`
	// queue there. In another cluster a PeerGrant in its namespace has to let this one send. In this cluster it needs
	// none, and must not send back to this Queue by channels of its own.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="queue must be the name of a Queue: lower-case letters, digits and -, beginning with a letter"
	Queue string `json:"queue,omitempty"`
	// codings in order of preference: the first that the other Queue accepts is used until the channel starts again.
	// Messages that are stored in it travel as they are, others are put into it as compression says, and all are
	// inflated where it is none. By default those in which messages are stored here: the codecs of the policy in force,
	// and none where that says Never or compression.minSize is 0. Where the other Queue accepts nothing of the list, it
	// is none. deflate-high, for example, is deflate at level High; without a level it is that of compression. The level
	// is of what is compressed for the channel: what is stored in the codec travels as it is, at whatever level.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x.split('-')[0] == y.split('-')[0]))",message="codings must name each codec once, at one level: receivers accept a codec at every level, so the second is never used"
	// +kubebuilder:validation:XValidation:rule="!('none' in self) || self[size(self) - 1] == 'none'",message="none must be the last of codings: every Queue accepts it, so what comes after it is never used"
	Codings []ChannelCoding `json:"codings,omitempty"`
	// batch says how many messages go together.
	// +optional
	// +default={}
	Batch QueueChannelBatch `json:"batch,omitzero"`
}

// SendingChannels are channel, or channels.
func (s *QueueSpec) SendingChannels() []QueueChannel {
	if s.Channel != nil {
		return []QueueChannel{*s.Channel}
	}
	return s.Channels
}

// SendingChannels are channel, or channels.
func (s *QueueStatus) SendingChannels() []QueueChannelStatus {
	if s.Channel != nil {
		return []QueueChannelStatus{*s.Channel}
	}
	return s.Channels
}

// SendingPeers are the other clusters that SendingChannels name, each once, in their order.
func (s *QueueSpec) SendingPeers() []string {
	var peers []string
	for _, channel := range s.SendingChannels() {
		if channel.Peer != "" && !slices.Contains(peers, channel.Peer) {
			peers = append(peers, channel.Peer)
		}
	}
	return peers
}

// QueueAccept says in which codings other Queues may send.
// +kubebuilder:validation:Enum=Any;Listed;None
type QueueAccept string

const (
	// QueueAcceptAny accepts every coding that the members can read.
	QueueAcceptAny QueueAccept = "Any"
	// QueueAcceptListed accepts those that are listed.
	QueueAcceptListed QueueAccept = "Listed"
	// QueueAcceptNone has messages arrive uncompressed.
	QueueAcceptNone QueueAccept = "None"
)

// QueueReceiving is what a Queue accepts of Queues that may send to it: those of other clusters that a PeerGrant lets,
// and those of its own namespace.
//
// +kubebuilder:validation:XValidation:rule="(has(self.accept) && self.accept == 'Listed') == has(self.codings)",message="codings go with accept: Listed, and it needs them; write for example {accept: Listed, codings: [deflate]}, or leave codings out"
type QueueReceiving struct {
	// accept says which codings a channel may use. What is accepted in one stays in it: it is not compressed again. By
	// default messages arrive uncompressed, as on a channel of IBM MQ, and are compressed here as this Queue says.
	// +optional
	// +default="None"
	Accept QueueAccept `json:"accept,omitempty"`
	// codings that are accepted, for accept: Listed. Uncompressed messages always are.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="codings must name each coding once"
	Codings []Codec `json:"codings,omitempty"`
}

// ChannelError is why a channel ended or could not start.
type ChannelError struct {
	// reason in a word, one of those of conditions.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says what happened, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
	// time when it happened.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// QueueChannelStatus is what was seen of the channel to another Queue. Counts are those of the members that run now,
// each since its start, the last change of the channel or the last reset.
//
// +structType=atomic
type QueueChannelStatus struct {
	// state in a word: Blocked (the spec cannot be followed; the condition Stalled says why), Connecting, Running,
	// Retrying, or Unknown while the member that sends does not say.
	// +optional
	State string `json:"state,omitempty"`
	// destination as PEER/NAMESPACE/QUEUE, or, in this cluster, NAMESPACE/QUEUE.
	// +optional
	Destination string `json:"destination,omitempty"`
	// negotiatedCodec is what the channel carries: deflate, zstd or none; empty while it does not run.
	// +optional
	NegotiatedCodec string `json:"negotiatedCodec,omitempty"`
	// negotiatedLevel is the level at which messages are compressed for the channel; absent while it does not run or
	// carries them uncompressed.
	// +optional
	NegotiatedLevel CompressionLevel `json:"negotiatedLevel,omitempty"`
	// dataPath of the connections of the channel, which network.dataPath of the chart names: those of the member that
	// sends to the peer's gateway, or, in this cluster, to a member of the other Queue. Absent while the channel does not
	// run, and for agents of earlier releases.
	// +optional
	DataPath *DataPath `json:"dataPath,omitempty"`
	// decisions about messages that are not compressed where they rest; absent while the channel does not run or carries
	// messages uncompressed, and in other modes than Auto.
	// +optional
	Decisions *DecisionsStatus `json:"decisions,omitempty"`
	// messagesPerSecond over the last 10 to 20 seconds, as a decimal.
	// +optional
	MessagesPerSecond string `json:"messagesPerSecond,omitempty"`
	// position is the sequence, in this Queue, of the last message that the other one is known to have.
	// +optional
	Position int64 `json:"position,omitempty"`
	// messages that the other Queue has stored.
	// +optional
	Messages int64 `json:"messages"`
	// batches that it has stored.
	// +optional
	Batches int64 `json:"batches"`
	// inDoubt messages are on their way: sent, and not known to be stored. They are still in this Queue.
	// +optional
	InDoubt int64 `json:"inDoubt"`
	// uncompressedBytes of the messages as they were put.
	// +optional
	UncompressedBytes int64 `json:"uncompressedBytes"`
	// bytes of them as they travelled, with the dictionaries that they referred to.
	// +optional
	Bytes int64 `json:"bytes"`
	// dictionaries that were sent, as a rule each once per start of the channel. After a reset messages may refer to
	// earlier ones.
	// +optional
	Dictionaries int64 `json:"dictionaries,omitempty"`
	// ratio is uncompressedBytes divided by bytes, as a decimal.
	// +optional
	Ratio string `json:"ratio,omitempty"`
	// recoded messages were compressed, inflated or both for the channel. All others travelled as they were stored.
	// +optional
	Recoded int64 `json:"recoded"`
	// deadLetters are messages that no Queue could receive, as damaged ones, and that became dead letters of this
	// Queue.
	// +optional
	DeadLetters int64 `json:"deadLetters,omitempty"`
	// wireBytes with the other Queue in both directions, TLS included.
	// +optional
	WireBytes int64 `json:"wireBytes"`
	// starts of the channel that the other Queue accepted.
	// +optional
	Starts int64 `json:"starts"`
	// lastError is why the channel ended, or could not start, last.
	// +optional
	LastError *ChannelError `json:"lastError,omitempty"`
	// nextTryTime is when the channel is tried again.
	// +optional
	NextTryTime *metav1.Time `json:"nextTryTime,omitempty"`
}

// ReceivedChannel is what was seen of the channel from another Queue. Counts are those of the members that
// run now, each since its start or the last reset.
type ReceivedChannel struct {
	// source is the sending Queue as PEER/NAMESPACE/QUEUE, or, in this cluster, NAMESPACE/QUEUE.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=400
	Source string `json:"source,omitempty"`
	// connected is true while the channel runs.
	// +optional
	Connected bool `json:"connected"`
	// negotiatedCodec is what it carries: deflate, zstd or none; empty while it does not run.
	// +optional
	NegotiatedCodec string `json:"negotiatedCodec,omitempty"`
	// position is the sequence, in the sending Queue, of the last message that is stored here.
	// +optional
	Position int64 `json:"position"`
	// messages that were stored.
	// +optional
	Messages int64 `json:"messages"`
	// batches that were stored.
	// +optional
	Batches int64 `json:"batches"`
	// bytes of the messages as they travelled, with the dictionaries that they referred to.
	// +optional
	Bytes int64 `json:"bytes"`
	// dictionaries that arrived, as a rule each once per start of the channel. After a reset messages may refer to
	// earlier ones.
	// +optional
	Dictionaries int64 `json:"dictionaries,omitempty"`
	// lastError is why the channel ended last.
	// +optional
	LastError *ChannelError `json:"lastError,omitempty"`
}
