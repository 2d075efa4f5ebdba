// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usedby sums up what objects used that refer to a CompressionPolicy, a Peer or a PeerGrant, from what the
// manager's cache has.
package usedby

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/tariff"
	"github.com/lighterage/lighterage/controllers/usage"
)

// Interval is how often figures are looked at, and written if they changed. Tests shorten it.
var Interval = 5 * time.Minute

// maxCosts are as many currencies as the API allows; those that come first by name are shown.
const maxCosts = 8

// Use is by one object.
type Use struct {
	Kind string
	// Usage of this cluster: what another one claims is not in it.
	Usage usage.Usage
	Cost  *v1alpha1.CostStatus
	// Began is when the last run did; nil for what does not run.
	Began *metav1.Time
}

// OfTransfer is the use by the present or last run of a Transfer.
func OfTransfer(t *v1alpha1.Transfer) Use {
	use := Use{Kind: "Transfer"}
	if run := t.Status.Run; run != nil {
		use.Usage, use.Cost, use.Began = usage.FromStatus(run.Usage), run.Cost, run.StartTime
		if t.Spec.Destination.Peer != "" {
			use.Usage.Receive = usage.CPU{}
		}
	}
	return use
}

// OfDelivery is the use by a Delivery.
func OfDelivery(d *v1alpha1.Delivery) Use {
	use := Use{Kind: "Delivery", Usage: usage.FromStatus(d.Status.Usage), Cost: d.Status.Cost}
	if run := d.Status.Run; run != nil {
		use.Began = run.StartTime
	}
	return use
}

// OfQueue is the use by a Queue.
func OfQueue(q *v1alpha1.Queue) Use {
	return Use{Kind: "Queue", Usage: usage.FromStatus(q.Status.Usage), Cost: q.Status.Cost}
}

// OfEndpoint is the use by an HTTPEndpoint.
func OfEndpoint(e *v1alpha1.HTTPEndpoint) Use {
	return Use{Kind: "HTTPEndpoint", Usage: usage.FromStatus(e.Status.Usage), Cost: e.Status.Cost}
}

// Sum is what status is to show of the uses. It is before, without a change, if that was written less than Interval ago
// or says the same; nil if nothing is known of any use. before is not changed.
func Sum(before *v1alpha1.UsedByStatus, uses []Use, now time.Time) *v1alpha1.UsedByStatus {
	if len(uses) == 0 && before == nil {
		return nil
	}
	if before != nil && before.Time != nil && now.Sub(before.Time.Time) < Interval && !now.Before(before.Time.Time) {
		return before
	}
	after := Total(uses)
	if before != nil {
		if before.LastUseTime != nil && (after.LastUseTime == nil || after.LastUseTime.Before(before.LastUseTime)) {
			after.LastUseTime = before.LastUseTime.DeepCopy()
		}
		after.Time = before.Time
		if equality.Semantic.DeepEqual(before, after) {
			return before
		}
	}
	after.Time = &metav1.Time{Time: now.Truncate(time.Second)}
	return after
}

// Total is what the uses come to, without a time.
func Total(uses []Use) *v1alpha1.UsedByStatus {
	status := &v1alpha1.UsedByStatus{}
	var all usage.Usage
	objects := map[string]int32{}
	costs := map[string]*cost{}
	for _, use := range uses {
		objects[use.Kind]++
		all = all.Plus(use.Usage)
		if use.Began != nil && (status.LastUseTime == nil || status.LastUseTime.Before(use.Began)) {
			status.LastUseTime = use.Began.DeepCopy()
		}
		if use.Cost == nil || use.Cost.Currency == "" {
			continue
		}
		if costs[use.Cost.Currency] == nil {
			costs[use.Cost.Currency] = &cost{}
		}
		costs[use.Cost.Currency].add(use.Cost)
	}
	status.UncompressedBytes, status.CompressedBytes, status.WireBytes = all.Uncompressed, all.Compressed, all.Wire
	if spent := all.Send.Spent() + min(all.Receive.Spent(), math.MaxInt64-all.Send.Spent()); spent > 0 {
		status.CPUSeconds = usage.Seconds(spent)
	}
	for kind, count := range objects {
		status.Objects = append(status.Objects, v1alpha1.UsingObjects{Kind: kind, Count: count})
	}
	slices.SortFunc(status.Objects, func(a, b v1alpha1.UsingObjects) int { return cmp.Compare(a.Kind, b.Kind) })
	for currency, c := range costs {
		status.Costs = append(status.Costs, v1alpha1.CurrencyCost{
			Currency: currency, CPU: tariff.Money(c.cpu), Network: tariff.Money(c.network), Saved: tariff.Money(c.saved),
		})
	}
	slices.SortFunc(status.Costs, func(a, b v1alpha1.CurrencyCost) int { return cmp.Compare(a.Currency, b.Currency) })
	status.Costs = status.Costs[:min(len(status.Costs), maxCosts)]
	return status
}

type cost struct{ cpu, network, saved float64 }

func (c *cost) add(one *v1alpha1.CostStatus) {
	c.cpu, c.network, c.saved = c.cpu+amount(one.CPU), c.network+amount(one.Network), c.saved+amount(one.Saved)
}

// amount is 0 for what cannot be read: the manager writes these itself.
func amount(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return 0
	}
	return value
}
