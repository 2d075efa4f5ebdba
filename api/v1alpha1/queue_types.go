// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QueueStorageType says where messages are kept.
// +kubebuilder:validation:Enum=File;Memory
type QueueStorageType string

const (
	// QueueStorageFile keeps messages on a volume of each member. They survive its pod.
	QueueStorageFile QueueStorageType = "File"
	// QueueStorageMemory keeps messages in the memory of the members. They are lost when the last member ends; with
	// spill, when the last member's pod does.
	QueueStorageMemory QueueStorageType = "Memory"
)

// QueueStorage is where each member keeps messages.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.type) || self.type == oldSelf.type",message="type cannot be changed; create another Queue and move the messages"
// +kubebuilder:validation:XValidation:rule="quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0",message="size must not become smaller: volumes do not shrink; create another Queue and move the messages"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName cannot be changed; create another Queue and move the messages"
// +kubebuilder:validation:XValidation:rule="self.type == 'File' || !has(self.storageClassName)",message="storageClassName is for type File; leave it out with type Memory"
// +kubebuilder:validation:XValidation:rule="self.type == 'File' || !has(self.adopt)",message="adopt is for type File; leave it out with type Memory"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.adopt) || has(self.adopt) && self.adopt == oldSelf.adopt",message="adopt cannot be changed once it is set; create another Queue and move the messages"
// +kubebuilder:validation:XValidation:rule="self.type == 'File' || !has(self.sync)",message="sync is for type File; leave it out with type Memory"
// +kubebuilder:validation:XValidation:rule="self.type == 'Memory' || !has(self.spill)",message="spill is for type Memory; leave it out with type File"
// +kubebuilder:validation:XValidation:rule="!has(self.spill) || quantity(string(self.spill.size)).compareTo(quantity(string(self.size))) > 0",message="spill.size must be more than size, which is what stays in memory; write for example 10Gi"
// +kubebuilder:validation:XValidation:rule="has(self.spill) == has(oldSelf.spill)",message="spill cannot be added or taken away; create another Queue and move the messages"
type QueueStorage struct {
	// type is File or Memory.
	// +optional
	// +default="File"
	Type QueueStorageType `json:"type,omitempty"`
	// size of the storage of each member, which has all messages. Of a volume messages take 95 percent at most, and
	// less of a small one, because members keep a reserve for what is about messages; the reference of limits has a
	// table. What the volume really has counts, and of several members' the least. size may grow; a volume does where
	// its class allows that.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('16Mi')) >= 0",message="size must be at least 16Mi; write for example 10Gi"
	Size resource.Quantity `json:"size,omitzero"`
	// storageClassName of the volumes. By default that of the cluster's default class.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
	// sync says when what was acknowledged is on the volumes. A change restarts the members, one after the other.
	// +optional
	Sync *QueueSync `json:"sync,omitempty"`
	// spill has a Queue of type Memory keep more messages than fit into memory: beyond storage.size it sweeps the oldest
	// to the disks of members' nodes. Absent: the Queue is full with storage.size.
	// +optional
	Spill *QueueSpill `json:"spill,omitempty"`
	// adopt names the StatefulSet of a former Queue of this name, whose claims, and with them its messages, this Queue
	// takes over: those that are named data-ADOPT-0 and so on. For a Queue that a backup or a GitOps tool created
	// again. The condition ClaimsRemain names the value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=55
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?-queue-[0-9a-f]{8}$')",message="adopt must be the name of a Queue's StatefulSet; write for example orders-queue-1a2b3c4d"
	Adopt string `json:"adopt,omitempty"`
}

// QueueSpill is what members have of the disks of their nodes.
type QueueSpill struct {
	// size of what each member may take of its node's disk, in a volume that goes with the pod. It has all messages,
	// those included that are in memory as well. As of a volume of type File, messages take 95 percent of it at most, and
	// less of a small one. It must be more than storage.size and cannot be changed. Pods ask for an eighth more of
	// ephemeral storage.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('128Mi')) >= 0",message="spill.size must be at least 128Mi; write for example 10Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity(string(oldSelf))) == 0",message="spill.size cannot be changed; create another Queue and move the messages"
	Size resource.Quantity `json:"size,omitzero"`
}

// QueueCompression is what is wanted of compression for one Queue. What is set here wins over the named policy, which
// wins over the default policy, which wins over what is built in. It may change at any time and applies to messages put
// from then on.
//
// +kubebuilder:validation:XValidation:rule="!has(self.software) || self.software != 'Disabled' || !has(self.codecs) || !self.codecs.exists(c, c == 'zstd')",message="codecs must not have zstd where software is Disabled: no accelerator does zstd; write [deflate]"
type QueueCompression struct {
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
	// codecs lists the formats to use, in order of preference.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="codecs must name each codec once"
	Codecs []Codec `json:"codecs,omitempty"`
	// level trades CPU for ratio. Every message that is compressed is compressed at exactly this level.
	// +optional
	Level CompressionLevel `json:"level,omitempty"`
	// placement says on which nodes members may run.
	// +optional
	Placement Placement `json:"placement,omitempty"`
	// software says whether software compresses where there is no accelerator, or where the accelerator does not have
	// the codec or level. Built in, and where the policy does not set software.disabled: Allowed.
	// +optional
	Software SoftwareUse `json:"software,omitempty"`
	// minSize is the size below which a message is stored as it is, whatever would compress it; 0: nothing is compressed,
	// other than in policies. By default the sizes of the policy count, and where that has none 20000 for the accelerator and 1024 for software; those of
	// the default policy as they were when the Queue was made, see status.inheritedMinSize.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('64Mi')) <= 0",message="minSize must be between 0 and 64Mi; write for example 16000"
	MinSize *resource.Quantity `json:"minSize,omitempty"`
	// dictionaries says whether short messages may refer to dictionaries that members train on the Queue's own earlier
	// messages. Built in: Never. Before a release without them is installed, set Never and wait until status.dictionaries
	// is absent: that release cannot read what refers to one.
	// +optional
	Dictionaries QueueDictionaries `json:"dictionaries,omitempty"`
}

// QueueDictionaries says whether messages may refer to dictionaries.
// +kubebuilder:validation:Enum=Auto;Never
type QueueDictionaries string

const (
	// QueueDictionariesAuto trains dictionaries and uses them as long as they pay, in mode Auto, of the first of the codecs.
	// The members must keep the messages, not external servers.
	QueueDictionariesAuto QueueDictionaries = "Auto"
	// QueueDictionariesNever puts no more messages that refer to one. Those that are there stay readable.
	QueueDictionariesNever QueueDictionaries = "Never"
)

// Policy is the name of the policy that is named; empty for the default one.
func (c *QueueCompression) Policy() string {
	if c == nil {
		return ""
	}
	return c.PolicyName
}

// QueueOverflow says what happens to a message that exceeds a limit.
// +kubebuilder:validation:Enum=RejectNew;DropOldest
type QueueOverflow string

const (
	// QueueOverflowRejectNew refuses the message; whoever puts it learns of it.
	QueueOverflowRejectNew QueueOverflow = "RejectNew"
	// QueueOverflowDropOldest drops messages from the head of the queue, which are lost.
	QueueOverflowDropOldest QueueOverflow = "DropOldest"
)

// QueueLimits bound what a Queue holds. They count bytes as stored, which are fewer than were put where messages are
// compressed.
type QueueLimits struct {
	// maxMessages that the queue holds. Absent: not bounded.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000000
	MaxMessages *int64 `json:"maxMessages,omitempty"`
	// maxBytes that its messages take. Absent: what fits into storage.size.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Ki')) >= 0",message="maxBytes must be at least 64Ki; write for example 8Gi"
	MaxBytes *resource.Quantity `json:"maxBytes,omitempty"`
	// maxAge after which a message is dropped. Absent: never.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('87600h')",message="maxAge must be between 1s and 87600h; write for example 168h"
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
	// maxMessageSize of a message as it is put.
	// +optional
	// +default="1Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Ki')) >= 0 && quantity(string(self)).compareTo(quantity('32Mi')) <= 0",message="maxMessageSize must be between 1Ki and 32Mi; write for example 1Mi"
	MaxMessageSize *resource.Quantity `json:"maxMessageSize,omitempty"`
	// overflow says what happens to a message that does not fit.
	// +optional
	// +default="RejectNew"
	Overflow QueueOverflow `json:"overflow,omitempty"`
	// maxConnections of clients that each member has open at once; further ones are refused.
	// +optional
	// +default=10000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxConnections int32 `json:"maxConnections,omitempty"`
}

// QueueRedelivery is what becomes of messages that are not acknowledged.
type QueueRedelivery struct {
	// visibilityTimeout after which a message that a client got can be got again, unless the client asks for another
	// time.
	// +optional
	// +default="30s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('12h')",message="visibilityTimeout must be between 1s and 12h; write for example 30s"
	VisibilityTimeout *metav1.Duration `json:"visibilityTimeout,omitempty"`
	// maxDeliveries of a message: when it has been given out so often and comes back, it becomes a dead letter. 0:
	// never.
	// +optional
	// +default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	MaxDeliveries *int32 `json:"maxDeliveries,omitempty"`
}

// QueueTLS is the certificate that clients see.
type QueueTLS struct {
	// secretName of a Secret of type kubernetes.io/tls in the Queue's namespace, such as cert-manager makes. When it
	// changes, new connections get the new certificate within about two minutes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	SecretName string `json:"secretName,omitempty"`
}

// QueueExternalCredentials are what members show to external servers.
type QueueExternalCredentials struct {
	// secretName of a Secret in the Queue's namespace. Of its keys are read: lighterage-nats.creds, a user's JWT with
	// its key as nsc writes it; or lighterage-nats-username and lighterage-nats-password; or lighterage-nats-token; and
	// tls.crt with tls.key, a certificate, beside one of these or alone. Other keys are not mounted, so that no Secret
	// that is meant for something else is sent to the servers. When it changes, new connections show what it holds then
	// within about two minutes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	SecretName string `json:"secretName,omitempty"`
}

// QueueExternal is a cluster of NATS servers with JetStream, nats-server 2.12 or newer, which others may use as well.
//
// +kubebuilder:validation:XValidation:rule="self.servers.all(s, s.startsWith('tls://')) || self.servers.all(s, s.startsWith('nats://'))",message="servers must all begin with tls:// or all with nats://"
// +kubebuilder:validation:XValidation:rule="!self.servers.exists(s, s.matches('^[a-z]+://(127[.]|0[.]|169[.]254[.]|[Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt](:|$)|[[](::1?|[Ff][Ee][89ABab][0-9A-Fa-f]:[^]]*)[]])'))",message="servers must not be loopback, link-local or unspecified addresses, which members never dial; write the names of servers, or of a Service as NAME.NAMESPACE.svc"
// +kubebuilder:validation:XValidation:rule="!has(self.credentials) || self.servers.all(s, s.startsWith('tls://'))",message="servers must begin with tls:// where credentials are given, which would be readable on the way; or leave credentials out"
// +kubebuilder:validation:XValidation:rule="has(self.caBundle) || !self.servers.exists(s, s.startsWith('tls://'))",message="caBundle must say who vouches for servers that begin with tls://"
type QueueExternal struct {
	// servers of the cluster, of which members use any that answers: tls://HOST:PORT, or nats://HOST:PORT without
	// credentials, by which what is put and got can be read on the way. Servers that these advertise are not used.
	// Members check the address at every connection, as replicas of an HTTPEndpoint do (see spec.backend.host.name
	// there): of this cluster they dial Services only, of other namespaces only with those' consent. A headless Service
	// is dialled only if every server of the list is one or a pod of one, and none is written as NAME.NAMESPACE without
	// .svc: members may then dial all pods, and any other name could lead to one of them. The list may change to other
	// servers of the same cluster, which restarts the members.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=300
	// +kubebuilder:validation:items:Pattern=`^(nats|tls)://([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`
	Servers []string `json:"servers,omitempty"`
	// caBundle is who vouches for the servers, as PEM in base64.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	CABundle []byte `json:"caBundle,omitempty"`
	// credentials with which members authenticate to the servers, for an account with JetStream. Absent: members show
	// none. They need what the documentation lists; clients of the Queue can do no more than put into it and get from
	// it, whatever the credentials allow.
	// +optional
	Credentials *QueueExternalCredentials `json:"credentials,omitempty"`
}

// QueueEngine says what keeps the messages.
type QueueEngine struct {
	// external is a cluster of NATS servers that is there already. The members have no volumes then. Absent: the
	// members keep the messages.
	// +optional
	External *QueueExternal `json:"external,omitempty"`
}

// QueueSpec is what is kept, how, and for whom.
//
// +kubebuilder:validation:XValidation:rule="self.storage.type == 'Memory' || has(self.engine) && has(self.engine.external) || quantity(string(self.storage.size)).compareTo(quantity('64Mi')) >= 0",message="storage.size must be at least 64Mi with type File, since a smaller volume cannot hold messages beside their metadata; write for example 10Gi"
// +kubebuilder:validation:XValidation:rule="self.storage.type == 'Memory' || has(self.engine) && has(self.engine.external) || self.replicas == 1 || quantity(string(self.storage.size)).compareTo(quantity('128Mi')) >= 0",message="storage.size must be at least 128Mi with type File and replicas 3, since a smaller volume cannot hold messages beside the reserve for replication; write for example 10Gi"
// +kubebuilder:validation:XValidation:rule="self.replicas == oldSelf.replicas",message="replicas cannot be changed; create another Queue and move the messages"
// +kubebuilder:validation:XValidation:rule="(has(self.engine) && has(self.engine.external)) == (has(oldSelf.engine) && has(oldSelf.engine.external))",message="engine.external cannot be added or taken away; create another Queue and move the messages, for example by a channel"
// +kubebuilder:validation:XValidation:rule="!has(self.engine) || !has(self.engine.external) || !has(self.storage.storageClassName)",message="storage.storageClassName is for members' own volumes; leave it out with engine.external"
// +kubebuilder:validation:XValidation:rule="!has(self.engine) || !has(self.engine.external) || !has(self.storage.sync)",message="storage.sync is for members' own volumes; leave it out with engine.external, and set sync_interval of those servers"
// +kubebuilder:validation:XValidation:rule="!has(self.engine) || !has(self.engine.external) || !has(self.storage.adopt)",message="storage.adopt is for members' own volumes; leave it out with engine.external"
// +kubebuilder:validation:XValidation:rule="!has(self.engine) || !has(self.engine.external) || !has(self.storage.spill)",message="storage.spill is for members' own storage; leave it out with engine.external"
// +kubebuilder:validation:XValidation:rule="!has(self.channel) || !has(self.channels)",message="channel and channels exclude each other; put all into channels"
// +kubebuilder:validation:XValidation:rule="!has(self.engine) || !has(self.engine.external) || !has(self.channels)",message="channels are for the members' own storage; with engine.external use channel, or a Queue without it between"
// +kubebuilder:validation:XValidation:rule="!has(self.restore) || has(oldSelf.restore) && self.restore == oldSelf.restore",message="restore counts when a Queue is made: it cannot be added or changed, only taken away; create another Queue to restore into"
// +kubebuilder:validation:XValidation:rule="!has(self.engine) || !has(self.engine.external) || !has(self.archive) && !has(self.restore)",message="archive and restore are for the members' own storage; leave them out with engine.external, and archive those servers by their own means"
type QueueSpec struct {
	// storage of each member, or of the stream in external servers.
	// +required
	Storage QueueStorage `json:"storage,omitzero"`

	// engine says what keeps the messages. Absent: the members themselves.
	// +optional
	Engine QueueEngine `json:"engine,omitzero"`

	// replicas is how many members, or external servers, have each message: 1, or 3, which go on while one is gone.
	// There are as many members in any case.
	// +optional
	// +default=1
	// +kubebuilder:validation:Enum=1;3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3
	Replicas int32 `json:"replicas,omitempty"`

	// compression overrides the CompressionPolicy that applies.
	// +optional
	Compression *QueueCompression `json:"compression,omitempty"`

	// limits of what the queue holds.
	// +optional
	// +default={}
	Limits QueueLimits `json:"limits,omitzero"`

	// duplicateWindow is how long the identifier of a message (header Nats-Msg-Id) is remembered; a message with a
	// known one is acknowledged and not stored again. Members keep them in memory, with about 170 bytes for each of up
	// to 64 characters, and so at most 1,048,576 at a time, of which each of three members accepts a third; longer ones
	// count as several. Further messages with identifiers are refused until some are forgotten: for 10,000 a second use
	// up to 100s. External servers keep as many as are put.
	// +optional
	// +default="2m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="duplicateWindow must be between 1s and 24h; write for example 2m"
	DuplicateWindow *metav1.Duration `json:"duplicateWindow,omitempty"`

	// redelivery says what becomes of messages that clients of gRPC and HTTP got and do not acknowledge. Consumers of
	// NATS have settings of their own.
	// +optional
	// +default={}
	Redelivery QueueRedelivery `json:"redelivery,omitzero"`

	// authentication of clients. Without it no client can authenticate.
	// +required
	Authentication QueueAuthentication `json:"authentication,omitzero"`

	// tls gives the certificate that clients see. Absent: one of the cluster's own CA for the name of the Service,
	// which changes often; the CA is ca.crt of the ConfigMap NAME-ca beside the Queue. Clients have to speak TLS either
	// way.
	// +optional
	TLS *QueueTLS `json:"tls,omitempty"`

	// channel sends every message to another Queue, exactly once, and removes it here when it is stored
	// there. While the other Queue cannot be reached messages wait here. Messages go to the channel alone, so clients
	// may put and not get. It may change at any time; a message that was on its way when the channel was taken away, or
	// given another destination, may come to be in both Queues.
	// +optional
	Channel *QueueChannel `json:"channel,omitempty"`

	// channels, in place of channel, send every message to each of several Queues, exactly once. Each has a position of
	// its own: none waits for another. A message is removed here when all have it, so that this Queue must have space
	// for what the slowest has not. One that is added gets what is here then. A change starts all of them again.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Channels []QueueChannel `json:"channels,omitempty"`

	// receiving is what is accepted of other Queues. Whether those of other clusters may send here at all, PeerGrants
	// say. A change counts for channels that start after it.
	// +optional
	// +default={}
	Receiving QueueReceiving `json:"receiving,omitzero"`

	// archive writes down what the queue holds. Absent: nothing does.
	// +optional
	Archive *QueueArchive `json:"archive,omitempty"`

	// restore fills the Queue from an archive before it is Ready. It can be given only when the Queue is made. Taken
	// away, the claim is free again; of a restore that is not done, what was restored by then stays.
	// +optional
	Restore *QueueRestore `json:"restore,omitempty"`

	// podTemplate adjusts the members' pods. By default they ask for 100m CPU and 128Mi and are limited to 512Mi, or
	// for type Memory to 512Mi and one and a half of storage.size, which they ask for as well, and with storage.spill for
	// nine eighths of its size of ephemeral storage. A change restarts the members, one after the other.
	// +optional
	PodTemplate *AgentPodTemplate `json:"podTemplate,omitempty"`
}

// QueueMember is one pod.
type QueueMember struct {
	// name of the pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// node that it runs on.
	// +optional
	Node string `json:"node,omitempty"`
	// architecture that the agent was built for.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// engine that compressed most of what was put there.
	// +optional
	Engine string `json:"engine,omitempty"`
	// state in a word: Starting, Serving, Draining or Unreachable.
	// +optional
	State string `json:"state,omitempty"`
	// leader is true for the member that orders messages, or, with spec.engine.external, gives them out to clients of
	// gRPC and HTTP.
	// +optional
	Leader bool `json:"leader"`
	// current is true when the member does what the spec says now.
	// +optional
	Current bool `json:"current"`
}

// QueueInheritedMinSize are the sizes below which messages are stored as they are, as the Queue inherited them.
//
// +structType=atomic
type QueueInheritedMinSize struct {
	// hardware is what counts where the accelerator would compress.
	// +required
	Hardware resource.Quantity `json:"hardware,omitzero"`
	// software is what counts where software would.
	// +required
	Software resource.Quantity `json:"software,omitzero"`
}

// QueueStatus is what was seen of a Queue.
type QueueStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled, HardwareCompression, ChannelCompression, Archived, Restored.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// address for clients, as a URL.
	// +optional
	Address string `json:"address,omitempty"`
	// ready members and those that are wanted, as ready/wanted.
	// +optional
	Ready string `json:"ready,omitempty"`
	// certificateExpirationTime is when the first of the certificates that clients see expires.
	// +optional
	CertificateExpirationTime *metav1.Time `json:"certificateExpirationTime,omitempty"`
	// policy in force.
	// +optional
	Policy *PolicyStatus `json:"policy,omitempty"`
	// inheritedMinSize are the sizes of the default policy, or those built in, from when the Queue was made, or since it
	// names no policy. They apply where spec.compression has no minSize, whatever the default policy says later. Absent
	// where a policy is named: its sizes apply.
	// +optional
	InheritedMinSize *QueueInheritedMinSize `json:"inheritedMinSize,omitempty"`
	// placement says where members may and should run, and why. Where each is, is in members.
	// +optional
	Placement *PlacementStatus `json:"placement,omitempty"`
	// members that run, by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Members []QueueMember `json:"members,omitempty"`
	// decisions about messages that are put, by the members that run now; absent in other modes than Auto.
	// +optional
	Decisions *DecisionsStatus `json:"decisions,omitempty"`
	// compression by the members that run now, each since its start or the last reset.
	// +optional
	Compression *CompressionStatus `json:"compression,omitempty"`
	// dictionaries that messages refer to; absent while there are none and spec.compression.dictionaries is not Auto.
	// +optional
	Dictionaries *QueueDictionariesStatus `json:"dictionaries,omitempty"`
	// decompression by the members that run now, each since its start or the last reset.
	// +optional
	Decompression *DecompressionStatus `json:"decompression,omitempty"`
	// cpu of the members that run now, each since its start or the last reset.
	// +optional
	CPU *CPUStatus `json:"cpu,omitempty"`
	// usage since the Queue was created. A reset of statistics does not change it. What a member used between its
	// last report and its end or a reset is missing.
	// +optional
	Usage *UsageStatus `json:"usage,omitempty"`
	// replicaUsage is what usage has of the members that run, by which it goes on.
	// +optional
	// +listType=map
	// +listMapKey=uid
	// +kubebuilder:validation:MaxItems=16
	ReplicaUsage []ReplicaUsage `json:"replicaUsage,omitempty"`
	// canaryBaseline is what usage was when the policy's canary began here. Absent without one.
	// +optional
	CanaryBaseline *CanaryBaseline `json:"canaryBaseline,omitempty"`
	// cost of usage at the prices in force; absent while there are none. The price of a CPU hour is the mean of those of
	// the members' nodes. Of the bytes on the wire only those with other clusters are charged: at the price for the Peer
	// of spec.channel and the direction Send, or, without a channel to a peer, for the direction Receive. With channels
	// to several peers it is the mean of their prices.
	// +optional
	Cost *CostStatus `json:"cost,omitempty"`
	// statistics are read from the members every 15 seconds, or less often where there are hundreds of objects. The
	// annotation lighterage.dev/reset-statistics with any new value sets what they count to 0, and compression,
	// decompression and cpu too.
	// +optional
	Statistics *QueueStatistics `json:"statistics,omitempty"`
	// channel to another Queue; absent without spec.channel.
	// +optional
	Channel *QueueChannelStatus `json:"channel,omitempty"`
	// channels to other Queues, in the order of spec.channels.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Channels []QueueChannelStatus `json:"channels,omitempty"`
	// received are the channels of other Queues that the members have seen since they started, by source;
	// those that are connected first if there are more than are shown.
	// +optional
	// +listType=map
	// +listMapKey=source
	// +kubebuilder:validation:MaxItems=64
	Received []ReceivedChannel `json:"received,omitempty"`
	// archive of the queue on the claim; absent without spec.archive.persistentVolumeClaim.
	// +optional
	Archive *QueueArchiveStatus `json:"archive,omitempty"`
	// storeArchive is that in the object store; absent without spec.archive.objectStore.
	// +optional
	StoreArchive *QueueArchiveStatus `json:"storeArchive,omitempty"`
	// restore that filled the queue, or is filling it; absent without spec.restore.
	// +optional
	Restore *QueueRestoreStatus `json:"restore,omitempty"`
	// storageSize is the spec.storage.size that is in force: the last one that DataQuotas of the namespace allowed.
	// Absent: none yet.
	// +optional
	StorageSize *resource.Quantity `json:"storageSize,omitempty"`
	// streamCreationTime is when the stream that keeps the messages was made, on the members' volumes or in the
	// external servers.
	// +optional
	StreamCreationTime *metav1.Time `json:"streamCreationTime,omitempty"`
	// loss of messages that nobody has accepted yet; absent when there is none.
	// +optional
	Loss *QueueLoss `json:"loss,omitempty"`
}

// Queue keeps messages until they are got, compressed where the policy and the message allow it. Its members' pods
// mount the Secrets and claims of its namespace that it names: grant the right to create Queues only to those who may
// create pods there.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=lighterage
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of a Queue is that of its Service: at most 40 lower-case letters, digits and -, beginning with a letter"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.storage.adopt) || self.spec.storage.adopt.startsWith(self.metadata.name + '-queue-') && self.spec.storage.adopt.size() == self.metadata.name.size() + 15",message="storage.adopt must name the StatefulSet of a Queue with this very name"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="ready and wanted members"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Serving, or why it is not all that its spec says"
// +kubebuilder:printcolumn:name="Depth",type=integer,JSONPath=`.status.statistics.depth`,description="messages in the queue"
// +kubebuilder:printcolumn:name="Puts/s",type=string,JSONPath=`.status.statistics.puts.perSecond`
// +kubebuilder:printcolumn:name="Gets/s",type=string,JSONPath=`.status.statistics.gets.perSecond`
// +kubebuilder:printcolumn:name="Ratio",type=string,JSONPath=`.status.statistics.averageRatio`,description="uncompressed by compressed bytes, of the messages that were compressed"
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.status.compression.engine`
// +kubebuilder:printcolumn:name="Channel",type=string,JSONPath=`.status.channel.state`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="CPU cost",type=string,JSONPath=`.status.cost.cpu`,priority=1,description="price of all CPU time since creation"
// +kubebuilder:printcolumn:name="Idle cost",type=string,JSONPath=`.status.cost.idle`,priority=1,description="the part of it for time in which nothing passed"
// +kubebuilder:printcolumn:name="Storage",type=string,JSONPath=`.spec.storage.size`,priority=1
type Queue struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec QueueSpec `json:"spec,omitzero"`
	// status is what was seen.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status QueueStatus `json:"status,omitzero"`
}

// QueueList is a list of Queues.
// +kubebuilder:object:root=true
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Queue `json:"items"`
}
