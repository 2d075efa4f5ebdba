// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"math"
	"slices"
	"strconv"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/tariff"
	"github.com/lighterage/lighterage/controllers/usage"
)

const (
	gib = 1 << 30
	// leastBytes that an object has moved before it counts: below it what agents take to start is most of the cost.
	leastBytes = 16 << 20
	// leastObjects on each side.
	leastObjects = 4
	// leastNamespaces on each side, where there are as many: what one tenant's agents say decides nothing.
	leastNamespaces = 3
	// normal is the quantile of the 95 % interval.
	normal = 1.96
	// early is that of looks before the end, of 99.7 %: there are many, and chance has as many tries (Haybittle-Peto).
	early = 3
)

// Prices are those of what is sent to a Peer, or received from it, which is empty for this cluster; nil where there are
// none.
type Prices func(direction v1alpha1.Direction, peer string) *v1alpha1.PricesStatus

// Meter collects what objects took on both sides. It is made by NewMeter; nil collects nothing.
type Meter struct {
	revision        string
	objective       v1alpha1.CompressionObjective
	prices          Prices
	inside, outside side
	currency        string
	// namespaces of objects that count, and all, also of those that do not count yet.
	namespaces, all map[string]bool
}

type side []sample

// sample is one object.
type sample struct {
	namespace string
	bytes     int64
	// cost of a GiB, more than 0.
	cost float64
	// weight by which it counts.
	weight float64
}

// NewMeter measures by the objective of a policy and, for Cost, its prices.
func NewMeter(
	policy *v1alpha1.CompressionPolicy, objective v1alpha1.CompressionObjective, prices Prices,
) *Meter {
	return &Meter{
		revision: Revision(policy), objective: objective, prices: prices, namespaces: map[string]bool{},
		all: map[string]bool{},
	}
}

// Transfer adds the present or last run of a Transfer, if it began with what is measured. One within a pod has no
// network to compress for.
func (m *Meter) Transfer(t *v1alpha1.Transfer) {
	run := t.Status.Run
	if m == nil || run == nil || run.Route == v1alpha1.RoutePod {
		return
	}
	used, took := usage.FromStatus(run.Usage), time.Duration(0)
	if t.Spec.Destination.Peer != "" {
		used.Receive = usage.CPU{} // another cluster claims that
	}
	if m.objective == v1alpha1.ObjectiveElapsed {
		used.Uncompressed = 0
		if len(t.Status.History) > 0 && t.Status.History[0].RunID == run.ID &&
			t.Status.History[0].Reason == v1alpha1.ReasonSucceeded && t.Status.History[0].Duration != nil {
			used.Uncompressed, took = t.Status.History[0].Bytes, t.Status.History[0].Duration.Duration
		}
	}
	m.add(t.Namespace, t.Status.Policy, used, took, v1alpha1.DirectionSend, t.Spec.Destination.Peer)
}

// Queue adds what a Queue used since the canary began for it.
func (m *Meter) Queue(q *v1alpha1.Queue) {
	if m == nil || m.objective == v1alpha1.ObjectiveElapsed { // it is of Transfers alone
		return
	}
	used := m.since(q.Status.Usage, q.Status.CanaryBaseline)
	used.Wire = used.Channel // as it is charged
	direction, peers := v1alpha1.DirectionSend, q.Spec.SendingPeers()
	if len(peers) == 0 {
		direction, peers = v1alpha1.DirectionReceive, []string{""}
	}
	m.add(q.Namespace, q.Status.Policy, used, 0, direction, peers...)
}

// Endpoint adds what an HTTPEndpoint used since the canary began for it.
func (m *Meter) Endpoint(e *v1alpha1.HTTPEndpoint) {
	if m == nil || m.objective == v1alpha1.ObjectiveElapsed {
		return
	}
	m.add(e.Namespace, e.Status.Policy, m.since(e.Status.Usage, e.Status.CanaryBaseline), 0, v1alpha1.DirectionSend, "")
}

// since is nothing until there is something to count from.
func (m *Meter) since(used *v1alpha1.UsageStatus, baseline *v1alpha1.CanaryBaseline) usage.Usage {
	if baseline == nil || baseline.Revision != m.revision {
		return usage.Usage{}
	}
	return usage.FromStatus(used).Since(usage.FromStatus(&baseline.Usage))
}

func (m *Meter) add(
	namespace string, policy *v1alpha1.PolicyStatus, used usage.Usage, took time.Duration, direction v1alpha1.Direction,
	peers ...string,
) {
	if policy == nil || policy.Canary == nil || policy.Canary.Revision != m.revision {
		return
	}
	m.all[namespace] = true
	if used.Uncompressed < leastBytes {
		return
	}
	cost := m.cost(used, took, direction, peers) / (float64(used.Uncompressed) / gib)
	if cost <= 0 {
		return
	}
	to := &m.outside
	if policy.Canary.Applies {
		to = &m.inside
	}
	*to = append(*to, sample{namespace: namespace, bytes: used.Uncompressed, cost: cost})
	m.namespaces[namespace] = true
}

// cost in what the objective minimises; 0 where it is not known. What agents take while nothing passes does not depend
// on settings.
func (m *Meter) cost(used usage.Usage, took time.Duration, direction v1alpha1.Direction, peers []string) float64 {
	spent := tariff.Used(used)
	busy := float64(max(0, spent.CPUNanos-spent.IdleNanos))
	switch m.objective {
	case v1alpha1.ObjectiveElapsed:
		return took.Seconds()
	case v1alpha1.ObjectiveCPU:
		return time.Duration(busy).Seconds()
	case v1alpha1.ObjectiveBytes:
		return float64(used.Compressed)
	}
	all := make([]*v1alpha1.PricesStatus, 0, len(peers))
	for _, peer := range peers {
		prices := m.prices(direction, peer)
		if prices == nil {
			return 0
		}
		all = append(all, prices)
	}
	prices := tariff.Mean(all)
	rates, ok := tariff.Parse(prices)
	if !ok {
		return 0
	}
	m.currency = prices.Currency
	return rates.CPU(busy) + rates.Network(float64(spent.WireBytes))
}

// status of a side.
func (s side) status() v1alpha1.CanarySide {
	status := v1alpha1.CanarySide{
		Objects: int32(min(len(s), math.MaxInt32)), Namespaces: int32(min(len(s.namespaces()), math.MaxInt32)),
	}
	for _, one := range s {
		status.UncompressedBytes += min(one.bytes, math.MaxInt64-status.UncompressedBytes)
	}
	if len(s) > 0 {
		_, middle, _ := s.interval(normal)
		status.CostPerGiB = decimal(math.Exp(middle))
	}
	return status
}

func (s side) namespaces() map[string]float64 {
	objects := map[string]float64{}
	for _, one := range s {
		objects[one.namespace]++
	}
	return objects
}

// interval is the median of the logarithms of costs, and its interval by the order of the objects, which takes nothing
// for granted of how they are spread. Each namespace has the same weight, so that a tenant with many objects has no
// more than others, and an absurd figure no more than one that is a little above. Of few objects the interval is
// between the least and the greatest.
func (s side) interval(quantile float64) (low, middle, high float64) {
	objects := s.namespaces()
	sorted, squares := slices.Clone(s), 0.0
	for i := range sorted {
		sorted[i].weight = 1 / objects[sorted[i].namespace]
		squares += sorted[i].weight * sorted[i].weight
	}
	slices.SortFunc(sorted, func(a, b sample) int {
		switch {
		case a.cost < b.cost:
			return -1
		case a.cost > b.cost:
			return 1
		}
		return 0
	})
	all := float64(len(objects))
	half := quantile / 2 / math.Sqrt(all*all/squares)
	return sorted.quantile(all, 0.5-half), sorted.quantile(all, 0.5), sorted.quantile(all, 0.5+half)
}

// quantile of logarithms: between two objects where it falls there.
func (s side) quantile(all, q float64) float64 {
	const rounding = 1e-9
	below, above := -1, -1
	sum := 0.0
	for i, one := range s {
		sum += one.weight
		if below < 0 && sum >= q*all-rounding {
			below = i
		}
		if above < 0 && sum > q*all+rounding {
			above = i
		}
	}
	last := len(s) - 1
	if below < 0 {
		below = last
	}
	if above < 0 {
		above = last
	}
	return (math.Log(s[below].cost) + math.Log(s[above].cost)) / 2
}

// change is by how many percent more a GiB takes inside, with its interval: the medians' own intervals put together
// (MOVER). It is not ok where too little was moved, or in too few of some namespaces.
func (m *Meter) change(quantile float64, namespaces map[string]bool) (low, middle, high float64, ok bool) {
	least := min(len(namespaces), leastNamespaces)
	for _, s := range []side{m.inside, m.outside} {
		if len(s) < leastObjects || len(s.namespaces()) < least {
			return 0, 0, 0, false
		}
	}
	inLow, in, inHigh := m.inside.interval(quantile)
	outLow, out, outHigh := m.outside.interval(quantile)
	difference := in - out
	return percent(difference - math.Hypot(in-inLow, outHigh-out)), percent(difference),
		percent(difference + math.Hypot(inHigh-in, out-outLow)), true
}

// above reports before the end whether a GiB takes more by a bound in percent. It does not take the word of those
// whose objects are the first that count.
func (m *Meter) above(bound float64) bool {
	low, _, _, ok := m.change(early, m.all)
	return ok && low > bound
}

// percent of a difference of logarithms, at most a million.
func percent(difference float64) float64 { return min(math.Expm1(difference)*100, 1e6) }

// decimal with four digits that count.
func decimal(value float64) string {
	// It reads what it has just written.
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 4, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

func percentText(value float64) string { return strconv.FormatFloat(value, 'f', 1, 64) }
