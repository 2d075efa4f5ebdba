// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// EngineClass says what compressed or inflated.
// +kubebuilder:validation:Enum=Hardware;Software;None
type EngineClass string

const (
	// EngineClassHardware is an accelerator.
	EngineClassHardware EngineClass = "Hardware"
	// EngineClassSoftware is the processor.
	EngineClassSoftware EngineClass = "Software"
	// EngineClassNone: nothing was compressed or inflated.
	EngineClassNone EngineClass = "None"
)

// StatementKindOther stands in a row for the kind, and for all other dimensions but day and currency, when the
// Statement has no space for another row.
const StatementKindOther = "Other"

// StatementState says whether a Statement still grows.
// +kubebuilder:validation:Enum=Open;Closed
type StatementState string

const (
	// StatementOpen: figures are being booked. A namespace has one open Statement at most.
	StatementOpen StatementState = "Open"
	// StatementClosed: the month is over, and nothing is booked any more.
	StatementClosed StatementState = "Closed"
)

// StatementSpec says which month a Statement is of.
type StatementSpec struct {
	// month in UTC as YYYY-MM, which is also the name. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=7
	// +kubebuilder:validation:MaxLength=7
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{4}-(0[1-9]|1[0-2])$')",message="month must be YYYY-MM, for example 2026-11; the manager makes Statements"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="month is immutable; the manager makes Statements"
	Month string `json:"month,omitempty"`
}

// StatementPrices are prices that rows were charged at.
type StatementPrices struct {
	// name by which rows refer to them.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	Name string `json:"name,omitempty"`
	// currency is a code such as USD.
	// +optional
	Currency string `json:"currency,omitempty"`
	// cpuHour is the price of one core for one hour, as a decimal.
	// +optional
	CPUHour string `json:"cpuHour,omitempty"`
	// networkGiB is the price of one GiB on the wire, as a decimal.
	// +optional
	NetworkGiB string `json:"networkGiB,omitempty"`
	// storageGiBMonth is the price of one GiB for 730 hours, as a decimal. Absent: what is stored costs nothing.
	// +optional
	StorageGiBMonth string `json:"storageGiBMonth,omitempty"`
	// storeWriteRequests is the price of 1,000 requests to object stores that put, complete or list, as a decimal.
	// +optional
	StoreWriteRequests string `json:"storeWriteRequests,omitempty"`
	// storeReadRequests is the price of 1,000 other requests, as a decimal.
	// +optional
	StoreReadRequests string `json:"storeReadRequests,omitempty"`
	// storeEgressGiB is the price of one GiB read from an object store, as a decimal.
	// +optional
	StoreEgressGiB string `json:"storeEgressGiB,omitempty"`
	// source is the kind of the object that states the prices.
	// +optional
	Source PriceSource `json:"source,omitempty"`
	// sourceName is the name of that object.
	// +optional
	SourceName string `json:"sourceName,omitempty"`
	// sourceUID is the UID of that object.
	// +optional
	SourceUID types.UID `json:"sourceUID,omitempty"`
	// sourceGeneration is the generation of that object.
	// +optional
	SourceGeneration int64 `json:"sourceGeneration,omitempty"`
}

// StatementCPU is CPU time that nodes of this cluster spent. Amounts are seconds as decimals, exact to a nanosecond.
type StatementCPU struct {
	// sendSeconds are of processes that send, serve or hold a queue, compression included.
	// +optional
	SendSeconds string `json:"sendSeconds,omitempty"`
	// receiveSeconds are of processes that receive, decompression included.
	// +optional
	ReceiveSeconds string `json:"receiveSeconds,omitempty"`
	// compressSeconds are the part of sendSeconds spent compressing.
	// +optional
	CompressSeconds string `json:"compressSeconds,omitempty"`
	// decompressSeconds are the part of sendSeconds or receiveSeconds spent inflating.
	// +optional
	DecompressSeconds string `json:"decompressSeconds,omitempty"`
	// idleSeconds are the part of sendSeconds spent while nothing passed.
	// +optional
	IdleSeconds string `json:"idleSeconds,omitempty"`
	// networkSeconds are an estimate of what the network stack spent besides, on no process's account.
	// +optional
	NetworkSeconds string `json:"networkSeconds,omitempty"`
}

// StatementCost is what the figures of a row cost. Amounts are decimals in the row's currency with at most 9 digits
// after the point. Their sum is the cost of the row.
type StatementCost struct {
	// cpu is the price of sendSeconds and receiveSeconds.
	// +optional
	CPU string `json:"cpu,omitempty"`
	// networkCPU is the price of networkSeconds.
	// +optional
	NetworkCPU string `json:"networkCPU,omitempty"`
	// network is the price of wireBytes.
	// +optional
	Network string `json:"network,omitempty"`
	// storage is the price of storageByteHours.
	// +optional
	Storage string `json:"storage,omitempty"`
	// storeWrites is the price of objectStore.writeRequests.
	// +optional
	StoreWrites string `json:"storeWrites,omitempty"`
	// storeReads is the price of objectStore.readRequests.
	// +optional
	StoreReads string `json:"storeReads,omitempty"`
	// storeEgress is the price of objectStore.receivedBytes.
	// +optional
	StoreEgress string `json:"storeEgress,omitempty"`
}

// StatementAvoided is what compression saved on the network. It is in no cost and is never a credit.
type StatementAvoided struct {
	// bytes that compression kept off the wire.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// network is the price of bytes, as a decimal in the row's currency. CPU time of compression is not deducted; it is
	// in the cost.
	// +optional
	Network string `json:"network,omitempty"`
}

// StatementRow holds the sums of what has the same day, kind, peer, direction, classes and prices.
type StatementRow struct {
	// day in UTC as YYYY-MM-DD on which the figures were booked. Absent in a month whose days were summed up, and in rows of
	// several days, which there are when those with a day are used up.
	// +optional
	Day string `json:"day,omitempty"`
	// kind of the objects: Transfer, Delivery, Queue or HTTPEndpoint; Other for what had no space for a row of its own.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// peer is the name of the Peer at the other side. Absent: this cluster, clients, or several
	// Peers to which one Queue sends, at the mean of their prices.
	// +optional
	Peer string `json:"peer,omitempty"`
	// direction of the traffic. Absent: both directions, or no traffic.
	// +optional
	Direction Direction `json:"direction,omitempty"`
	// engineClass that worked on most of the data of each object when it was booked. Absent: not known.
	// +optional
	EngineClass EngineClass `json:"engineClass,omitempty"`
	// nodeClass of the node that spent: its architecture, with "-accelerated" where an accelerator was proved to work.
	// Absent: not known.
	// +optional
	NodeClass string `json:"nodeClass,omitempty"`
	// prices that the row was charged at: a name in status.prices. Absent without prices, and where several applied.
	// +optional
	Prices string `json:"prices,omitempty"`
	// currency of cost and avoided. Absent: no prices were in force, and nothing was charged.
	// +optional
	Currency string `json:"currency,omitempty"`
	// operations counts blocks, messages and responses that were compressed, stored or inflated.
	// +optional
	Operations int64 `json:"operations,omitempty"`
	// plainBytes before compression, or after decompression of what was received.
	// +optional
	PlainBytes int64 `json:"plainBytes,omitempty"`
	// wireBytes on the network, TLS included where that was reported.
	// +optional
	WireBytes int64 `json:"wireBytes,omitempty"`
	// storedBytes are the part of plainBytes that was sent or kept as it is.
	// +optional
	StoredBytes int64 `json:"storedBytes,omitempty"`
	// storageByteHours is the integral of bytes at rest over time in hours.
	// +optional
	StorageByteHours int64 `json:"storageByteHours,omitempty"`
	// objectStore is what was asked of object stores.
	// +optional
	ObjectStore ObjectStoreUsage `json:"objectStore,omitzero"`
	// cpu time that this cluster's nodes spent.
	// +optional
	CPU StatementCPU `json:"cpu,omitzero"`
	// cost of that at the prices in force when it was booked.
	// +optional
	Cost StatementCost `json:"cost,omitzero"`
	// avoided by compression.
	// +optional
	Avoided StatementAvoided `json:"avoided,omitzero"`
}

// StatementTotal is the sum of all rows of one currency, or of all rows that have none.
type StatementTotal struct {
	// currency of the costs; absent for rows that were not charged.
	// +optional
	Currency string `json:"currency,omitempty"`
	// plainBytes of these rows.
	// +optional
	PlainBytes int64 `json:"plainBytes"`
	// wireBytes of these rows.
	// +optional
	WireBytes int64 `json:"wireBytes"`
	// cpuSeconds of these rows: sendSeconds, receiveSeconds and networkSeconds, as a decimal.
	// +optional
	CPUSeconds string `json:"cpuSeconds,omitempty"`
	// cost of these rows, as a decimal; absent without a currency.
	// +optional
	Cost string `json:"cost,omitempty"`
	// avoided is the price of what compression kept off the wire, as a decimal; absent without a currency.
	// +optional
	Avoided string `json:"avoided,omitempty"`
}

// StatementMark says how much of an object's figures is in rows already. Marks and rows are written together, so that a
// figure is never booked twice. For the manager; others need rows only.
type StatementMark struct {
	// uid of the object.
	// +required
	UID types.UID `json:"uid,omitempty"`
	// life names what counts from 0: an attempt as RUN/ATTEMPT. Empty: the object has one.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Life string `json:"life,omitempty"`
	// resourceVersion of the object as it was booked. What is older is never booked.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// final: the life has ended and all of it is booked, so that figures are not kept.
	// +optional
	Final bool `json:"final,omitempty"`
	// goneTime is since when the object is known not to exist any more. The mark is removed an hour later.
	// +optional
	GoneTime *metav1.Time `json:"goneTime,omitempty"`
	// storedTime is up to when bytes at rest are in storageByteHours.
	// +optional
	StoredTime *metav1.Time `json:"storedTime,omitempty"`
	// figures that were booked: operations, plain, wire, stored and avoided bytes, then CPU time in nanoseconds: sending,
	// receiving, compressing, decompressing, idle and the network stack's; then of object stores write requests, read
	// requests, sent and received bytes. Trailing zeros are left out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Figures []int64 `json:"figures,omitempty"`
}

// StatementStatus is what was booked.
type StatementStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled, and Complete, which is False when figures are missing or may be wrong, as
	// after an edit by hand.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// state: Open or Closed. Absent until the figures that are booked already are known, which takes a moment.
	// +optional
	State StatementState `json:"state,omitempty"`
	// namespaceUID of the namespace that the Statement is of. A namespace that was deleted and created again has
	// another.
	// +optional
	NamespaceUID types.UID `json:"namespaceUID,omitempty"`
	// startTime is when the Statement was opened.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// lastBookingTime is when figures were booked last.
	// +optional
	LastBookingTime *metav1.Time `json:"lastBookingTime,omitempty"`
	// closeTime is when the Statement was closed.
	// +optional
	CloseTime *metav1.Time `json:"closeTime,omitempty"`
	// successor is the month that figures are booked in since. Set when its Statement is open.
	// +optional
	Successor string `json:"successor,omitempty"`
	// unbookedObjects are those that had no space for a mark. Their figures are booked when there is space.
	// +optional
	UnbookedObjects int32 `json:"unbookedObjects,omitempty"`
	// totals of rows, by currency.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Totals []StatementTotal `json:"totals,omitempty"`
	// prices that rows refer to.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Prices []StatementPrices `json:"prices,omitempty"`
	// rows by day, kind, peer, direction, engine class, node class and prices, in that order. Their figures never
	// decrease.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Rows []StatementRow `json:"rows,omitempty"`
	// marks of what is booked. Absent in Statements that are closed and have a successor.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2304
	Marks []StatementMark `json:"marks,omitempty"`
	// digest is the SHA-256 of prices, rows and marks in hexadecimal, by which an edit by hand is found.
	// +optional
	Digest string `json:"digest,omitempty"`
}

// Statement is the account of a namespace for a month: what was moved, what that cost on nodes of this cluster, and what
// compression avoided. The manager makes and writes it. What agents of a peer spent is in Statements of its cluster.
//
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.month",message="a Statement is named as its month and is made by the manager"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=lighterage
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Cost",type=string,JSONPath=`.status.totals[0].cost`
// +kubebuilder:printcolumn:name="Currency",type=string,JSONPath=`.status.totals[0].currency`
// +kubebuilder:printcolumn:name="Avoided",type=string,JSONPath=`.status.totals[0].avoided`,description="price of the bytes that compression kept off the wire"
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.totals[0].cpuSeconds`,description="seconds of CPU time"
// +kubebuilder:printcolumn:name="Wire",type=integer,JSONPath=`.status.totals[0].wireBytes`,description="bytes on the wire"
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].status`
// +kubebuilder:printcolumn:name="Booked",type=date,JSONPath=`.status.lastBookingTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Complete")].reason`
type Statement struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which month this is of.
	// +required
	Spec StatementSpec `json:"spec,omitzero"`
	// status is what was booked.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status StatementStatus `json:"status,omitzero"`
}

// StatementList is a list of Statements.
// +kubebuilder:object:root=true
type StatementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Statement `json:"items"`
}
