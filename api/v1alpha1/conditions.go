// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types. Ready, Reconciling and Stalled have the meaning that kstatus gives them.
const (
	// ConditionReady is True when the object is in the state that its spec asks for. A Transfer that is Complete is Ready.
	ConditionReady = "Ready"
	// ConditionReconciling is True while work towards the spec is going on.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when nothing will change without somebody's action; the message says which.
	ConditionStalled = "Stalled"
	// ConditionComplete is True when a run ended with the destination synced and, if asked for, verified.
	ConditionComplete = "Complete"
	// ConditionFailed is True when a run ended without completing and no further attempt will be made.
	ConditionFailed = "Failed"
	// ConditionHardwareCompression is True when the accelerator compressed; False, with the reason, when something else did.
	// False is a statement, not a failure.
	ConditionHardwareCompression = "HardwareCompression"
	// ConditionChannelCompression of a Queue with a channel is True when the other Queue accepts one of its codings; False, with the
	// reason, when messages travel uncompressed. False is a statement, not a failure. Absent until the channel has run.
	ConditionChannelCompression = "ChannelCompression"
	// ConditionArchived of a Queue with an archive is True while the archive follows the queue, and False, with the reason, when it cannot be
	// written.
	ConditionArchived = "Archived"
	// ConditionRestored of a Queue that is made of an archive is True when all its messages are there.
	ConditionRestored = "Restored"
	// ConditionFeatureConfirmed of a NodeProfile is True when the accelerator that Node Feature Discovery announces on the node was
	// seen to work, and False, with the reason, when it was not. Absent where nothing is announced.
	ConditionFeatureConfirmed = "FeatureConfirmed"
)

// Reasons of Transfer, Delivery and CompressionTrial conditions.
const (
	// ReasonPending: accepted, nothing started yet.
	ReasonPending = "Pending"
	// ReasonScheduled: the first run waits for its time.
	ReasonScheduled = "Scheduled"
	// ReasonSuspended: spec.suspend keeps runs and attempts from starting.
	ReasonSuspended = "Suspended"
	// ReasonStarting: the agent's pod is being scheduled or started.
	ReasonStarting = "Starting"
	// ReasonOpening: the agent has asked the peer to open the run and waits for the receiving side.
	ReasonOpening = "Opening"
	// ReasonTransferring: data is moving.
	ReasonTransferring = "Transferring"
	// ReasonMeasuring: the agent of a CompressionTrial samples and measures.
	ReasonMeasuring = "Measuring"
	// ReasonRetrying: an attempt ended early and the next one waits for its back-off.
	ReasonRetrying = "Retrying"
	// ReasonSucceeded: the run is complete.
	ReasonSucceeded = "Succeeded"
	// ReasonDeleting: the object is being deleted.
	ReasonDeleting = "Deleting"
	// ReasonQuotaExceeded: a DataQuota of the namespace does not allow this beside what runs or exists; the message says which limit.
	// It is a reason of Queues as well.
	ReasonQuotaExceeded = "QuotaExceeded"

	// ReasonSourceNotFound: the source claim, or the path in it, does not exist.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonDestinationNotFound: the destination namespace or claim does not exist.
	ReasonDestinationNotFound = "DestinationNotFound"
	// ReasonDestinationInUse: another Transfer or Delivery writes into the same place.
	ReasonDestinationInUse = "DestinationInUse"
	// ReasonDestinationFull: the destination volume has no room left.
	ReasonDestinationFull = "DestinationFull"
	// ReasonDestinationNotWritable: the agent may not write there.
	ReasonDestinationNotWritable = "DestinationNotWritable"
	// ReasonSourceNotReady: no replica of the HTTPEndpoint, or no member of the Queue, that a trial samples is ready.
	ReasonSourceNotReady = "SourceNotReady"
	// ReasonSourceNotReadable: the agent may not read a file of the source.
	ReasonSourceNotReadable = "SourceNotReadable"
	// ReasonSourceEmpty: spec.delete would have removed everything at the destination, because the source has no files; or a
	// CompressionTrial finds nothing to sample.
	ReasonSourceEmpty = "SourceEmpty"
	// ReasonSourceInUse: a Queue has a channel and consumers of its clients; a message can go to one of them only.
	ReasonSourceInUse = "SourceInUse"
	// ReasonDestinationChanged: a file at the destination changed while parts of it were reused.
	ReasonDestinationChanged = "DestinationChanged"
	// ReasonSourceChanged: files changed each time they were read.
	ReasonSourceChanged = "SourceChanged"
	// ReasonVerificationFailed: both sides' digests differ.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonPeerNotFound: the Peer that the Transfer names does not exist.
	ReasonPeerNotFound = "PeerNotFound"
	// ReasonPeerHasNoEndpoint: the Peer is receive-only from here: it has no endpoint to send to.
	ReasonPeerHasNoEndpoint = "PeerHasNoEndpoint"
	// ReasonPeerUnreachable: the peer's gateway does not answer.
	ReasonPeerUnreachable = "PeerUnreachable"
	// ReasonPeerUntrusted: the peer's certificate does not verify against the Peer's caBundle, or ours not against the peer's.
	ReasonPeerUntrusted = "PeerUntrusted"
	// ReasonPeerIncompatible: the peer speaks another version of the protocol.
	ReasonPeerIncompatible = "PeerIncompatible"
	// ReasonNotGranted: no PeerGrant in the destination namespace allows this Transfer.
	ReasonNotGranted = "NotGranted"
	// ReasonPolicyNotFound: the CompressionPolicy that is named does not exist.
	ReasonPolicyNotFound = "PolicyNotFound"
	// ReasonInvalidSpec: the spec holds a value that cannot be used; the message says which and what to write.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonPrivilegeNotAllowed: the pod template asks for privilege that the namespace does not allow.
	ReasonPrivilegeNotAllowed = "PrivilegeNotAllowed"
	// ReasonUnschedulable: the scheduler finds no node for the agent.
	ReasonUnschedulable = "Unschedulable"
	// ReasonAgentNotStarted: the agent's pod was placed but its container did not start.
	ReasonAgentNotStarted = "AgentNotStarted"
	// ReasonAgentLost: the agent ended without leaving a report.
	ReasonAgentLost = "AgentLost"
	// ReasonEvicted: the cluster took the agent's pod away, for example to drain its node. It does not count as a failure.
	ReasonEvicted = "Evicted"
	// ReasonConnectionLost: the connection between the agents broke.
	ReasonConnectionLost = "ConnectionLost"
	// ReasonInvalidData: a side received what the protocol does not allow.
	ReasonInvalidData = "InvalidData"
	// ReasonInternal: an error with no better name; the message has it.
	ReasonInternal = "Internal"
	// ReasonAborted: the sending side withdrew the run.
	ReasonAborted = "Aborted"
	// ReasonSuperseded: the receiving cluster knows of a newer attempt, because this cluster was restored from a backup; the next attempt
	// follows that one.
	ReasonSuperseded = "Superseded"
	// ReasonMaxAttemptsReached: every attempt that spec.maxAttempts allows has failed.
	ReasonMaxAttemptsReached = "MaxAttemptsReached"
)

// Reasons of HTTPEndpoint conditions, beside those that they share with others.
const (
	// ReasonServing: every replica that is wanted serves what the spec says.
	ReasonServing = "Serving"
	// ReasonRollingOut: replicas are being started, or have not taken the present spec yet.
	ReasonRollingOut = "RollingOut"
	// ReasonAddressNotAllowed: a backend or an external server is at an address that agents may not dial, or is a Service of a namespace
	// that does not consent.
	ReasonAddressNotAllowed = "AddressNotAllowed"
	// ReasonBackendNotFound: the backend's Service, or its port, does not exist.
	ReasonBackendNotFound = "BackendNotFound"
	// ReasonBackendUnhealthy: replicas report that the backend does not pass its health check.
	ReasonBackendUnhealthy = "BackendUnhealthy"
	// ReasonCertificateNotFound: the Secret of listener.tls, or a key in it, does not exist.
	ReasonCertificateNotFound = "CertificateNotFound"
	// ReasonCertificateInvalid: the Secret of listener.tls holds no usable key pair. Replicas go on with the last good one, if they
	// had one.
	ReasonCertificateInvalid = "CertificateInvalid"
	// ReasonCertificateExpired: the certificate that replicas serve is not valid any more.
	ReasonCertificateExpired = "CertificateExpired"
	// ReasonNameConflict: something that the HTTPEndpoint needs, such as its Service, exists and belongs to somebody else.
	ReasonNameConflict = "NameConflict"
	// ReasonRefused: the API server rejects what the object needs, for example because of a quota or a webhook that fails; the message
	// says what.
	ReasonRefused = "Refused"
	// ReasonAgentUnreachable: replicas run but do not answer the manager.
	ReasonAgentUnreachable = "AgentUnreachable"
)

// Reasons of Queue conditions, beside those that they share with others.
const (
	// ReasonClaimsRemain: a former Queue of this name left claims, which may hold messages, and spec.storage.adopt does not name them.
	ReasonClaimsRemain = "ClaimsRemain"
	// ReasonMessagesRemain: the Queue is to be deleted, and has messages or does not say whether it has any.
	ReasonMessagesRemain = "MessagesRemain"
	// ReasonAuthenticationUnusable: members cannot use what spec.authentication names.
	ReasonAuthenticationUnusable = "AuthenticationUnusable"
	// ReasonExternalUnreachable: external servers that are to keep a Queue's messages cannot be reached, or do not answer.
	ReasonExternalUnreachable = "ExternalUnreachable"
	// ReasonExternalUntrusted: external servers do not prove who they are.
	ReasonExternalUntrusted = "ExternalUntrusted"
	// ReasonExternalRefused: external servers do not let the Queue in, or not do what it needs.
	ReasonExternalRefused = "ExternalRefused"
	// ReasonExternalUnfit: external servers are not what the Queue needs: too old, without JetStream or without room.
	ReasonExternalUnfit = "ExternalUnfit"
	// ReasonExternalInUse: the Queue's stream in external servers is somebody else's.
	ReasonExternalInUse = "ExternalInUse"
	// ReasonNoLeader: no member leads, so that nothing can be put or got.
	ReasonNoLeader = "NoLeader"
	// ReasonMembersUnreachable: the member that leads does not reach the others.
	ReasonMembersUnreachable = "MembersUnreachable"
	// ReasonChannelConnecting: the channel is being set up, or the member that sends is not known yet.
	ReasonChannelConnecting = "ChannelConnecting"
	// ReasonNegotiated: the channel carries compressed messages.
	ReasonNegotiated = "Negotiated"
	// ReasonCodingsRefused: the other Queue accepts none of the channel's codings.
	ReasonCodingsRefused = "CodingsRefused"
	// ReasonNoCodings: the channel offers none, by spec.channel.codings.
	ReasonNoCodings = "NoCodings"
	// ReasonArchiveFollows: the archive has what the queue had at the last look.
	ReasonArchiveFollows = "ArchiveFollows"
	// ReasonArchivePending: the member that leads has not written the archive yet, or does not say so.
	ReasonArchivePending = "ArchivePending"
	// ReasonRestoring: messages of the archive are being put into the queue.
	ReasonRestoring = "Restoring"
	// ReasonRestored: all messages of the archive are in the queue, or were.
	ReasonRestored = "Restored"
	// ReasonClaimNotShared: members on several nodes cannot all use the claim.
	ReasonClaimNotShared = "ClaimNotShared"
	// ReasonStorageFull: a member's volume is full.
	ReasonStorageFull = "StorageFull"
	// ReasonStorageFailed: a member's volume cannot be written, for example because it became read-only.
	ReasonStorageFailed = "StorageFailed"
	// ReasonMessagesLost: what kept the messages was lost, and an empty queue is in its place. It stays until somebody says that they know.
	ReasonMessagesLost = "MessagesLost"
)

// Reasons of Peer, PeerGrant, NodeProfile, CompressionPolicy and DataQuota conditions.
const (
	// ReasonInForce: the limits of a DataQuota apply.
	ReasonInForce = "InForce"
	// ReasonReachable: the peer's gateway answered and accepted our certificate.
	ReasonReachable = "Reachable"
	// ReasonReceiveOnly: the Peer has no endpoint: runs from it are accepted, none can be sent to it.
	ReasonReceiveOnly = "ReceiveOnly"
	// ReasonInvalidCABundle: spec.caBundle holds no usable CA certificate.
	ReasonInvalidCABundle = "InvalidCABundle"
	// ReasonDuplicateCA: another Peer holds the same CA, so that neither can be told from the other.
	ReasonDuplicateCA = "DuplicateCA"
	// ReasonReferencesResolved: everything that the grant names exists.
	ReasonReferencesResolved = "ReferencesResolved"
	// ReasonReferenceNotFound: something that the grant names does not exist (yet).
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonGrantExpired: spec.expirationTime of the grant has passed.
	ReasonGrantExpired = "GrantExpired"
	// ReasonMeasured: the node agent measured and the figures are in status.
	ReasonMeasured = "Measured"
	// ReasonNodeAgentUnreachable: the node agent does not answer; the figures are the last known.
	ReasonNodeAgentUnreachable = "NodeAgentUnreachable"
	// ReasonNodeAgentSilent: the node agent has not answered for 10 minutes or longer; agents are placed as on a node without an accelerator.
	ReasonNodeAgentSilent = "NodeAgentSilent"
	// ReasonImplausibleMeasurement: what the node agent says cannot be; the figures are the last plausible ones, and agents are placed
	// as on a node without an accelerator.
	ReasonImplausibleMeasurement = "ImplausibleMeasurement"
	// ReasonKernelChanged, ReasonImageChanged and ReasonCPUModelChanged: why figures were measured anew.
	ReasonKernelChanged   = "KernelChanged"
	ReasonImageChanged    = "ImageChanged"
	ReasonCPUModelChanged = "CPUModelChanged"
	// ReasonAccepted: the policy can be used.
	ReasonAccepted = "Accepted"
	// ReasonMultipleDefaults: more than one CompressionPolicy is annotated as the default; the oldest is used.
	ReasonMultipleDefaults = "MultipleDefaults"
)

// Reasons why a block of data took the path it took: keys of status.compression.reasons and skipped, values of
// status.compression.reason and of the condition HardwareCompression.
const (
	// CompressionHardwareUsed: the accelerator compressed.
	CompressionHardwareUsed = "HardwareUsed"
	// CompressionSoftwareUsed: software compressed, as the policy asked.
	CompressionSoftwareUsed = "SoftwareUsed"
	// CompressionNoAccelerator: software compressed because the node has no accelerator that is known to work.
	CompressionNoAccelerator = "NoAccelerator"
	// CompressionSelfTestFailed: software compressed because the node has an accelerator whose use could not be proved, or which
	// the library did not use.
	CompressionSelfTestFailed = "SelfTestFailed"
	// CompressionLevelNotAccelerated: software compressed because the accelerator does not do the policy's level.
	CompressionLevelNotAccelerated = "LevelNotAccelerated"
	// CompressionCodecNotAccelerated: software compressed because the codec agreed with the peer is one that no accelerator does.
	CompressionCodecNotAccelerated = "CodecNotAccelerated"
	// CompressionBelowMinimum: not attempted, smaller than the policy's minSize.
	CompressionBelowMinimum = "BelowMinimum"
	// CompressionSoftwareDisabled: not attempted, no accelerator and the policy forbids software.
	CompressionSoftwareDisabled = "SoftwareDisabled"
	// CompressionIncompressible: not attempted, a sample predicted that it would not pay.
	CompressionIncompressible = "Incompressible"
	// CompressionNetworkFaster: not attempted, the objective is Elapsed, and network and receiver take the data sooner as they are than
	// they could be compressed.
	CompressionNetworkFaster = "NetworkFaster"
	// CompressionDidNotShrink: attempted, did not shrink, sent as it is.
	CompressionDidNotShrink = "DidNotShrink"
	// CompressionPolicyNever: not attempted, the policy says Never.
	CompressionPolicyNever = "PolicyNever"
	// CompressionPeerRefused: not attempted, the peer accepts none of the policy's codecs; for an HTTPEndpoint, the client none of its
	// codings.
	CompressionPeerRefused = "PeerRefused"
	// CompressionNoNetwork: not attempted, the policy's mode is Auto and the data go from one claim to the other within one pod, so that
	// there are no bytes on a wire to save.
	CompressionNoNetwork = "NoNetwork"
	// CompressionOtherContentType: not attempted, the type of the body is not one that is compressed.
	CompressionOtherContentType = "OtherContentType"
	// CompressionAlreadyEncoded: not attempted, the backend had encoded the body, or the message was put compressed.
	CompressionAlreadyEncoded = "AlreadyEncoded"
	// CompressionNoTransform: not attempted, client or backend forbid it with Cache-Control: no-transform.
	CompressionNoTransform = "NoTransform"
	// CompressionPartialContent: not attempted, the response is a part of something (206).
	CompressionPartialContent = "PartialContent"
	// CompressionCrossSiteCookie: not attempted, the response sets a cookie with SameSite=None, or any in answer to a request from another site.
	CompressionCrossSiteCookie = "CrossSiteCookie"
	// CompressionBusy: not attempted, as many bodies as allowed were being compressed.
	CompressionBusy = "Busy"
	// CompressionCPUBudget: not attempted. Of data: compressing would take more CPU time than it is worth, by the prices where the
	// objective is Cost, in itself where it is CPU; where it is Elapsed, the sender's cores are too busy with other work. Of HTTP
	// bodies: compressing took its share of the CPU.
	CompressionCPUBudget = "CPUBudget"
	// CompressionAcceleratorBusy: software compressed because the accelerator takes several times as long as before, as it does when
	// others use it.
	CompressionAcceleratorBusy = "AcceleratorBusy"
	// CompressionEngineFailed: the engine failed, and the body was sent as it is.
	CompressionEngineFailed = "EngineFailed"
	// CompressionOff: not attempted, minSize of the Queue is 0.
	CompressionOff = "CompressionOff"
	// CompressionNothingToSend: nothing had to be sent, so nothing was decided.
	CompressionNothingToSend = "NothingToSend"
)
