// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Annotations, labels and finalizers that users and other programs may meet.
const (
	// RunAnnotation on a Transfer, a CompressionTrial, a Drill or a TransferSet with spec.group asks for another run:
	// any new value starts one as soon as the present run has ended. The value last acted upon is echoed in
	// status.lastRunRequest.
	RunAnnotation = "lighterage.dev/run"

	// KueueQueueLabel on a Transfer names a LocalQueue of Kueue. The Jobs of its sending agents have it, and start when
	// Kueue admits them.
	KueueQueueLabel = "kueue.x-k8s.io/queue-name"

	// KueuePriorityLabel on a Transfer names a WorkloadPriorityClass of Kueue. The Jobs of its sending agents have it.
	KueuePriorityLabel = "kueue.x-k8s.io/priority-class"

	// DefaultPolicyAnnotation with the value "true" makes a CompressionPolicy the one that applies where none is named.
	DefaultPolicyAnnotation = "lighterage.dev/is-default-policy"

	// DefaultTariffAnnotation with the value "true" makes a Tariff the one that applies where a CompressionPolicy names
	// none.
	DefaultTariffAnnotation = "lighterage.dev/is-default-tariff"

	// AllowPrivilegedAnnotation with the value "true" on a Namespace lets agents in it run as root, with the few
	// capabilities that they have a use for, or as another user: the sending agents of Transfers that ask for it
	// (spec.podTemplate.securityContext), and the receiving agents of such Transfers of whoever a PeerGrant lets write
	// there.
	AllowPrivilegedAnnotation = "lighterage.dev/allow-privileged-agents"

	// AllowBackendsFromAnnotation on a Namespace names other namespaces, with commas between them, or "*" for all,
	// whose HTTPEndpoints and Queues may use its Services as backends and external servers: spec.backend.host and
	// spec.engine.external.servers.
	AllowBackendsFromAnnotation = "lighterage.dev/allow-backends-from"

	// DeflateLabel on a Node is "hardware" when its accelerator was seen to work and "software" when it has none. The
	// manager writes it. The admission plugin NodeRestriction keeps kubelets from setting labels with this prefix, so
	// that a node cannot draw work to itself.
	DeflateLabel = "lighterage.node-restriction.kubernetes.io/deflate"

	// NFDDeflateLabel is set to "true" by Node Feature Discovery on s390x nodes whose CPU has DEFLATE CONVERSION CALL.
	// It says that the facility is present, not that it is used; it is accepted until a NodeProfile exists.
	NFDDeflateLabel = "feature.node.kubernetes.io/cpu-cpuid.DFLT"

	// AcceleratorSlotsResource is an extended resource of Nodes with an accelerator, if the operator is told to cap how
	// many agents may be placed there for it. Each of those asks for one: those that compress for Transfers and those
	// of CompressionTrials with class Hardware, and not receivers, HTTPEndpoints and Queues.
	AcceleratorSlotsResource = "lighterage.dev/accelerator-slots"

	// TransferLabel is on everything that the manager makes for a Transfer; the value is the object's UID.
	TransferLabel = "lighterage.dev/transfer-uid"
	// DestinationsLabel is on Jobs and pods of a Transfer with several destinations, those of its legs included; the value
	// is its UID.
	DestinationsLabel = "lighterage.dev/destinations-uid"
	// TransferSetLabel is on the Transfers that a TransferSet made, and on the TransferSets that one with
	// namespaceSelector made; the value is the set's name. What lacks it is never changed or deleted by a set.
	TransferSetLabel = "lighterage.dev/transfer-set"
	// TemplateHashAnnotation on such an object is the digest of the spec that the set gave it last.
	TemplateHashAnnotation = "lighterage.dev/template-hash"
	// DeliveryLabel is on everything that the manager makes for a Delivery; the value is the object's UID.
	DeliveryLabel = "lighterage.dev/delivery-uid"

	// TrialLabel is on everything that the manager makes for a CompressionTrial; the value is the object's UID.
	TrialLabel = "lighterage.dev/trial-uid"

	// DrillLabel is on the Transfer that the manager makes for a Drill; the value is the object's UID.
	DrillLabel = "lighterage.dev/drill-uid"

	// ObjectStoreLabel is on everything that the manager makes for an ObjectStore; the value is the object's UID.
	ObjectStoreLabel = "lighterage.dev/objectstore-uid"

	// HTTPEndpointLabel is on everything that the manager makes for an HTTPEndpoint; the value is the object's UID.
	HTTPEndpointLabel = "lighterage.dev/httpendpoint-uid"

	// QueueLabel is on everything that the manager makes for a Queue; the value is the object's UID.
	QueueLabel = "lighterage.dev/queue-uid"

	// DeleteMessagesAnnotation with the value "true" lets a Queue be deleted with the messages that are in it.
	DeleteMessagesAnnotation = "lighterage.dev/delete-messages"

	// AcceptLossAnnotation with the value of status.loss.streamCreationTime of a Queue says that the loss that
	// status.loss shows is known. It counts for that loss only.
	AcceptLossAnnotation = "lighterage.dev/accept-loss"

	// ResetStatisticsAnnotation with any new value sets the statistics of an HTTPEndpoint or a Queue to 0. The value
	// last acted upon is echoed in status.statistics.lastResetRequest.
	ResetStatisticsAnnotation = "lighterage.dev/reset-statistics"

	// ReceiptOfferAnnotation on a Delivery is the receipt that the sending cluster has signed, for the manager to
	// countersign. The gateway writes it.
	ReceiptOfferAnnotation = "lighterage.dev/receipt-offer"

	// CreatedForAnnotation on a PersistentVolumeClaim names the Transfer from whose template the claim was created, as
	// namespace/name, with peer/ before it if it is of another cluster. The manager makes claims larger that have it.
	CreatedForAnnotation = "lighterage.dev/created-for"

	// PulledByLabel is on a Transfer that was made for one of another cluster that pulls; the value is the name of the
	// Peer. It is of those that the gateway makes only if the name and PullAnnotation agree with it.
	PulledByLabel = "lighterage.dev/pulled-by"
	// PullAnnotation on such a Transfer names that of the other cluster: namespace/name/UID.
	PullAnnotation = "lighterage.dev/pull"
	// PullAskedAnnotation on such a Transfer is when the other cluster asked for it, to about an hour. One that is not
	// asked for in a day is deleted.
	PullAskedAnnotation = "lighterage.dev/pull-asked"

	// ReceiptLabel with the value "true" is on ConfigMaps that are receipts.
	ReceiptLabel = "lighterage.dev/receipt"

	// RunLabel is on everything that the manager makes for one run; the value is the run's identifier.
	RunLabel = "lighterage.dev/run-id"

	// Finalizer on Transfers and Deliveries lets the manager end agents and tell the peer before the object goes, and
	// on Queues it keeps messages from being lost. On TransferSets with namespaceSelector it lets the manager delete those
	// that it made in other namespaces.
	Finalizer = "lighterage.dev/cleanup"
)
