// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Weekday is a day of the week.
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type Weekday string

// The days of the week, which are those of ISO 8601 by their English names.
const (
	Monday    Weekday = "Monday"
	Tuesday   Weekday = "Tuesday"
	Wednesday Weekday = "Wednesday"
	Thursday  Weekday = "Thursday"
	Friday    Weekday = "Friday"
	Saturday  Weekday = "Saturday"
	Sunday    Weekday = "Sunday"
)

// Direction of traffic, as the cluster sees it that the Tariff is in.
// +kubebuilder:validation:Enum=Send;Receive
type Direction string

const (
	// DirectionSend is of bytes that agents of this cluster send.
	DirectionSend Direction = "Send"
	// DirectionReceive is of bytes that agents of this cluster receive.
	DirectionReceive Direction = "Receive"
)

// TariffWindow is a time of the week, in local time of the Tariff's time zone.
// +kubebuilder:validation:XValidation:rule="has(self.days) || has(self.start)",message="a window needs days, or start and end; to have a price at all times leave windows out"
// +kubebuilder:validation:XValidation:rule="has(self.start) == has(self.end)",message="a window needs both of start and end, or neither for whole days"
// +kubebuilder:validation:XValidation:rule="!has(self.start) || !has(self.end) || self.start != self.end",message="start and end must differ; for whole days leave both out"
type TariffWindow struct {
	// days on which the window starts; absent: every day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Days []Weekday `json:"days,omitempty"`
	// start as HH:MM, included. Absent with end: the whole day.
	// +optional
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')",message="start must be a time from 00:00 to 23:59; write for example 20:00"
	Start string `json:"start,omitempty"`
	// end as HH:MM, excluded. One that is not after start is of the next day: 20:00 to 06:00 lasts the night.
	// +optional
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')",message="end must be a time from 00:00 to 23:59; write for example 06:00, or 00:00 for midnight"
	End string `json:"end,omitempty"`
}

// CPUHourRule is a price of CPU time on some nodes, at some times, or both.
// +kubebuilder:validation:XValidation:rule="has(self.nodeSelector) || has(self.windows)",message="a rule needs nodeSelector or windows; the price of all else is price beside rules"
type CPUHourRule struct {
	// price of one core for one hour: at least 0 and less than 1000000, with at most 9 digits after the point.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,6}([.][0-9]{1,9})?$')",message="price must be a decimal below 1000000, not negative, with at most 9 digits after the point; write for example \"0.031\""
	Price string `json:"price,omitempty"`
	// nodeSelector names labels that the node has. Absent: every node.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// windows of which one includes the time. Absent: at all times.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Windows []TariffWindow `json:"windows,omitempty"`
}

// CPUHourPrice is what CPU time costs.
type CPUHourPrice struct {
	// price of one core for one hour where no rule matches: at least 0 and less than 1000000, with at most 9 digits
	// after the point.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,6}([.][0-9]{1,9})?$')",message="price must be a decimal below 1000000, not negative, with at most 9 digits after the point; write for example \"0.031\""
	Price string `json:"price,omitempty"`
	// rules for nodes and times. The first one that matches applies.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Rules []CPUHourRule `json:"rules,omitempty"`
}

// NetworkGiBRule is a price of traffic with some Peers, in one direction, or both.
// +kubebuilder:validation:XValidation:rule="has(self.peers) || has(self.direction)",message="a rule needs peers or direction; the price of all else is price beside rules"
type NetworkGiBRule struct {
	// price of one GiB on the wire: at least 0 and less than 1000000, with at most 9 digits after the point.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,6}([.][0-9]{1,9})?$')",message="price must be a decimal below 1000000, not negative, with at most 9 digits after the point; write for example \"0.05\""
	Price string `json:"price,omitempty"`
	// peers are names of Peers. Absent: all traffic, that within this cluster and with clients included.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Peers []string `json:"peers,omitempty"`
	// direction of the traffic. Absent: both.
	// +optional
	Direction Direction `json:"direction,omitempty"`
}

// NetworkGiBPrice is what traffic costs.
type NetworkGiBPrice struct {
	// price of one GiB on the wire where no rule matches: at least 0 and less than 1000000, with at most 9 digits after
	// the point.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,6}([.][0-9]{1,9})?$')",message="price must be a decimal below 1000000, not negative, with at most 9 digits after the point; write for example \"0.05\""
	Price string `json:"price,omitempty"`
	// rules for Peers and directions. The first one that matches applies.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Rules []NetworkGiBRule `json:"rules,omitempty"`
}

// TariffSpec is what things cost.
type TariffSpec struct {
	// currency of all prices, a code of ISO 4217 such as EUR. It does not change: figures in two currencies have no sum.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=3
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z]{3}$')",message="currency must be a code of ISO 4217; write for example EUR"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="currency is immutable; create a Tariff with another name, and name that"
	Currency string `json:"currency,omitempty"`
	// timeZone that windows are meant in, as the tz database names it.
	// +optional
	// +default="Etc/UTC"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$')",message="timeZone must be a name of the tz database; write for example Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`
	// cpuHour is what CPU time costs by node and time.
	// +required
	CPUHour CPUHourPrice `json:"cpuHour,omitzero"`
	// networkGiB is what bytes on the wire cost by Peer and direction.
	// +required
	NetworkGiB NetworkGiBPrice `json:"networkGiB,omitzero"`
	// storageGiBMonth is the price of keeping one GiB for a month of 730 hours: at least 0 and less than 1000000, with
	// at most 9 digits after the point. Absent: what is stored costs nothing.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,6}([.][0-9]{1,9})?$')",message="storageGiBMonth must be a decimal below 1000000, not negative, with at most 9 digits after the point; write for example \"0.023\""
	StorageGiBMonth string `json:"storageGiBMonth,omitempty"`
	// objectStore is what providers of object stores charge besides. Absent: nothing.
	// +optional
	ObjectStore ObjectStorePrices `json:"objectStore,omitzero"`
}

// ObjectStorePrices are prices of using object stores. Each is at least 0 and less than 1000000, with at most 9 digits
// after the point. Absent: it costs nothing.
// +kubebuilder:validation:MinProperties=1
type ObjectStorePrices struct {
	// writeRequests is the price of 1,000 requests that put, complete or list.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,6}([.][0-9]{1,9})?$')",message="writeRequests must be a decimal below 1000000, not negative, with at most 9 digits after the point; write for example \"0.005\""
	WriteRequests string `json:"writeRequests,omitempty"`
	// readRequests is the price of 1,000 other requests. Requests that delete cost nothing.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,6}([.][0-9]{1,9})?$')",message="readRequests must be a decimal below 1000000, not negative, with at most 9 digits after the point; write for example \"0.0004\""
	ReadRequests string `json:"readRequests,omitempty"`
	// egressGiB is the price of one GiB that is read from a store. What crosses the network costs networkGiB besides.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,6}([.][0-9]{1,9})?$')",message="egressGiB must be a decimal below 1000000, not negative, with at most 9 digits after the point; write for example \"0.09\""
	EgressGiB string `json:"egressGiB,omitempty"`
}

// TariffStatus is what was seen of a Tariff.
type TariffStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// policyCount is how many CompressionPolicies name the Tariff or inherit it.
	// +optional
	PolicyCount int32 `json:"policyCount"`
	// policies are the first 32 of these by name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Policies []string `json:"policies,omitempty"`
}

// Tariff is what CPU time, traffic and storage cost, for CompressionPolicies that name it, or, with the annotation
// lighterage.dev/is-default-tariff: "true", for all that name none.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=lighterage
// +kubebuilder:printcolumn:name="Currency",type=string,JSONPath=`.spec.currency`
// +kubebuilder:printcolumn:name="CPUHour",type=string,JSONPath=`.spec.cpuHour.price`
// +kubebuilder:printcolumn:name="NetworkGiB",type=string,JSONPath=`.spec.networkGiB.price`
// +kubebuilder:printcolumn:name="Default",type=string,JSONPath=`.metadata.annotations.lighterage\.dev/is-default-tariff`
// +kubebuilder:printcolumn:name="Policies",type=integer,JSONPath=`.status.policyCount`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type Tariff struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what things cost.
	// +required
	Spec TariffSpec `json:"spec,omitzero"`
	// status is what was seen.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status TariffStatus `json:"status,omitzero"`
}

// TariffList is a list of Tariffs.
// +kubebuilder:object:root=true
type TariffList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Tariff `json:"items"`
}

// PriceSource says where prices come from.
// +kubebuilder:validation:Enum=CompressionPolicy;Tariff;Several
type PriceSource string

const (
	// PricesOfPolicy are spec.prices of a CompressionPolicy.
	PricesOfPolicy PriceSource = "CompressionPolicy"
	// PricesOfTariff are those of a Tariff.
	PricesOfTariff PriceSource = "Tariff"
	// PricesOfSeveral are of more than one period, so that there is an amount but no price.
	PricesOfSeveral PriceSource = "Several"
)

// PricesStatus are prices in force, and where they come from.
//
// +structType=atomic
type PricesStatus struct {
	// currency is a code such as USD.
	// +optional
	Currency string `json:"currency,omitempty"`
	// cpuHour is the price of one core for one hour, as a decimal.
	// +optional
	CPUHour string `json:"cpuHour,omitempty"`
	// networkGiB is the price of one GiB on the wire, as a decimal.
	// +optional
	NetworkGiB string `json:"networkGiB,omitempty"`
	// source is the kind of the object that states the prices, or Several. Absent in statuses of older versions, which
	// knew prices of CompressionPolicies only.
	// +optional
	Source PriceSource `json:"source,omitempty"`
	// name of that object.
	// +optional
	Name string `json:"name,omitempty"`
	// uid of that object.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// generation of that object.
	// +optional
	Generation int64 `json:"generation,omitempty"`
}

// CostPeriod is a part of a cost for which the same prices were in force.
type CostPeriod struct {
	// startTime is when the first figures that these prices apply to were reported.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// prices in force. Source Several: this is the sum of older periods.
	// +optional
	Prices PricesStatus `json:"prices,omitzero"`
	// cpuSeconds of this cluster, the network stack included, as a decimal.
	// +optional
	CPUSeconds string `json:"cpuSeconds,omitempty"`
	// idleSeconds is the part of cpuSeconds that replicas and members spent while nothing passed, as a decimal.
	// +optional
	IdleSeconds string `json:"idleSeconds,omitempty"`
	// codecSeconds is the part of cpuSeconds spent compressing and inflating, as a decimal.
	// +optional
	CodecSeconds string `json:"codecSeconds,omitempty"`
	// wireBytes is the number of bytes on the wire.
	// +optional
	WireBytes int64 `json:"wireBytes"`
	// savedBytes is by how much compression made the data smaller. Negative when framing cost more than was saved.
	// +optional
	SavedBytes int64 `json:"savedBytes"`
	// cpu is the price of cpuSeconds.
	// +optional
	CPU string `json:"cpu,omitempty"`
	// idle is the price of idleSeconds.
	// +optional
	Idle string `json:"idle,omitempty"`
	// network is the price of wireBytes.
	// +optional
	Network string `json:"network,omitempty"`
	// saved is the price of savedBytes, less that of codecSeconds.
	// +optional
	Saved string `json:"saved,omitempty"`
}
