// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Resource is something that is limited, by the name that it has in spec.hard of a DataQuota.
type Resource string

// What a DataQuota limits.
const (
	RunningTransfers  Resource = "runningTransfers"
	RunningDeliveries Resource = "runningDeliveries"
	// Bandwidth is in bytes per second.
	Bandwidth Resource = "bandwidth"
	// Share is what of the bandwidth of a Peer or of the cluster a run has at present, in bytes per second.
	Share      Resource = "bandwidthShare"
	QueueBytes Resource = "queueBytes"
)

// Resources lists all, in the order in which they are checked.
var Resources = []Resource{RunningTransfers, RunningDeliveries, Bandwidth, Share, QueueBytes}

// ends reports whether what holds a resource gives it back by itself in time.
func (r Resource) ends() bool { return r != QueueBytes }

// Amounts of resources. Of limits, what is absent is not limited; of what is held or wanted, it is none. A negative
// amount does not occur.
type Amounts map[Resource]int64

// Unlimited is held by a run whose agent may use any bandwidth: it was admitted before there was a limit. It counts as
// the whole limit.
const Unlimited = math.MaxInt64

// add returns a+b, or Unlimited where that is too large.
func add(a, b int64) int64 {
	if a > Unlimited-b {
		return Unlimited
	}
	return a + b
}

// of is what of an amount that is held counts against a limit.
func of(held, limit int64) int64 {
	if held == Unlimited {
		return limit
	}
	return held
}

// Limits are what one DataQuota allows, or one limit of another kind.
type Limits struct {
	// Kind and Name of the object that has the limits, for messages.
	Kind, Name string
	// Namespace that they are of, unless they are Shared: then all namespaces share them, for what goes to Peer, or for
	// all if that is empty.
	Namespace string
	Shared    bool
	Peer      string
	Hard      Amounts
}

// Stray is the Peer of a pod that outlived its Transfer. Tenants can make a pod that looks like one, so it counts
// against the limits of its namespace only.
const Stray = "*"

// Kinds of limits that are shared.
const (
	KindPeer    = "Peer"
	KindCluster = "Cluster"
)

// covers reports whether something of a namespace that goes to a Peer counts.
func (l Limits) covers(namespace, peer string) bool {
	if !l.Shared {
		return l.Namespace == namespace
	}
	return peer != Stray && (l.Peer == "" || l.Peer == peer)
}

// Used is what is held of the limits.
func (l Limits) Used(held []Held) Amounts {
	return Used(l.Hard, slices.DeleteFunc(slices.Clone(held), func(h Held) bool { return !l.covers(h.Namespace, h.Peer) }))
}

// runs is how many runs there may be at once, at least 1.
func (l Limits) runs() int64 {
	runs := int64(Unlimited)
	if slots, limited := l.Hard[RunningTransfers]; limited {
		runs = slots
	}
	if wire, limited := l.Hard[Share]; limited {
		runs = min(runs, wire/LeastBandwidth)
	}
	return max(runs, 1)
}

// OfPeer are the limits of a Peer; false: it has none.
func OfPeer(peer *v1alpha1.Peer) (Limits, bool) {
	if peer.Spec.Limits == nil {
		return Limits{}, false
	}
	hard := Amounts{}
	if slots := peer.Spec.Limits.RunningTransfers; slots != nil {
		hard[RunningTransfers] = int64(max(*slots, 0))
	}
	if wire := peer.Spec.Limits.Bandwidth; wire != nil {
		hard[Share] = max(wire.Value(), LeastBandwidth)
	}
	return Limits{Kind: KindPeer, Name: peer.Name, Shared: true, Peer: peer.Name, Hard: hard}, len(hard) > 0
}

// OfCluster are limits of all that the cluster's Transfers use.
func OfCluster(hard Amounts) Limits {
	return Limits{Kind: KindCluster, Shared: true, Hard: hard}
}

// Sharing are those of limits that a Transfer counts against.
func Sharing(shared []Limits, transfer *v1alpha1.Transfer) (sharing []Limits) {
	for _, l := range shared {
		if l.covers(transfer.Namespace, transfer.Spec.Destination.Peer) {
			sharing = append(sharing, l)
		}
	}
	return sharing
}

// ShareBandwidth reports whether some of limits shares bandwidth.
func ShareBandwidth(limits []Limits) bool {
	return slices.ContainsFunc(limits, func(l Limits) bool { _, limited := l.Hard[Share]; return limited })
}

// Weight of a namespace without another.
const Weight = 100

func weightOf(weights map[string]int64, namespace string) int64 {
	if weight, has := weights[namespace]; has {
		return weight
	}
	return Weight
}

// Weights are those of the namespaces of DataQuotas that give one: the smallest counts.
func Weights(quotas []v1alpha1.DataQuota) map[string]int64 {
	weights := map[string]int64{}
	for i := range quotas {
		given, namespace := quotas[i].Spec.Weight, quotas[i].Namespace
		if given == nil {
			continue
		}
		weight := int64(max(*given, 1))
		if before, has := weights[namespace]; has {
			weight = min(weight, before)
		}
		weights[namespace] = weight
	}
	return weights
}

// LimitsOf are those of DataQuotas, in the given order.
func LimitsOf(quotas []v1alpha1.DataQuota) []Limits {
	limits := make([]Limits, 0, len(quotas))
	for i := range quotas {
		limits = append(limits, Limits{
			Kind: "DataQuota", Name: quotas[i].Name, Namespace: quotas[i].Namespace, Hard: AmountsOf(quotas[i].Spec.Hard),
		})
	}
	return limits
}

// AmountsOf reads the API's form.
func AmountsOf(of v1alpha1.DataQuotaResources) Amounts {
	amounts := Amounts{}
	number := func(r Resource, n *int32) {
		if n != nil {
			amounts[r] = int64(max(*n, 0))
		}
	}
	quantity := func(r Resource, q *resource.Quantity) {
		if q != nil {
			amounts[r] = max(q.Value(), 0)
		}
	}
	number(RunningTransfers, of.RunningTransfers)
	number(RunningDeliveries, of.RunningDeliveries)
	quantity(Bandwidth, of.Bandwidth)
	quantity(QueueBytes, of.QueueBytes)
	return amounts
}

// API writes amounts in the API's form.
func (a Amounts) API() *v1alpha1.DataQuotaResources {
	out := &v1alpha1.DataQuotaResources{}
	number := func(r Resource) *int32 {
		if n, ok := a[r]; ok {
			return ptr.To(int32(min(n, math.MaxInt32)))
		}
		return nil
	}
	quantity := func(r Resource) *resource.Quantity {
		if n, ok := a[r]; ok {
			return resource.NewQuantity(n, resource.BinarySI)
		}
		return nil
	}
	out.RunningTransfers, out.RunningDeliveries = number(RunningTransfers), number(RunningDeliveries)
	out.Bandwidth, out.QueueBytes = quantity(Bandwidth), quantity(QueueBytes)
	return out
}

// Text is an amount for people.
func (r Resource) Text(amount int64) string {
	switch r {
	case Bandwidth, Share, QueueBytes:
		return resource.NewQuantity(amount, resource.BinarySI).String()
	}
	return resource.NewQuantity(amount, resource.DecimalSI).String()
}
