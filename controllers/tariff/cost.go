// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tariff

import (
	"math"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/usage"
)

const (
	// maxPeriods of a cost are what the API allows.
	maxPeriods = 4
	// mostNanos bounds CPU time, so that sums do not overflow.
	mostNanos = math.MaxInt64 / 8
)

// Usage is what was used since counting began.
type Usage struct {
	// CPUNanos is the CPU time of this cluster and its network stack, CodecNanos the part of it for compressing and
	// inflating, IdleNanos that in which nothing passed. None is negative.
	CPUNanos, CodecNanos, IdleNanos int64
	// WireBytes is the number of bytes on the wire.
	WireBytes int64
	// SavedBytes is by how much compression made the data smaller; negative if it did not.
	SavedBytes int64
}

// Used is what the price of a usage depends on.
func Used(u usage.Usage) Usage {
	used := Usage{WireBytes: u.Wire, SavedBytes: u.Uncompressed - u.Compressed}
	for _, side := range []usage.CPU{u.Send, u.Receive} {
		used.CPUNanos = min(used.CPUNanos, mostNanos) + min(side.Spent(), mostNanos)
		used.CodecNanos = min(used.CodecNanos+min(side[usage.Compress], mostNanos)+
			min(side[usage.Decompress], mostNanos), mostNanos)
		used.IdleNanos = min(used.IdleNanos, mostNanos) + min(side[usage.Idle], mostNanos)
	}
	return used
}

// Charge prices what was used. What was priced before keeps its prices, and what has come since is priced at those that
// are in force now, at the time of the report. Without prices the cost stays what it was, and what is used meanwhile is
// priced with the next that are in force. When counters have restarted so does the cost. before is not changed.
func Charge(
	before *v1alpha1.CostStatus, used Usage, prices *v1alpha1.PricesStatus, at time.Time,
) *v1alpha1.CostStatus {
	rates, ok := Parse(prices)
	if !ok {
		return before
	}
	var periods []v1alpha1.CostPeriod
	if before != nil {
		periods = before.DeepCopy().Periods
	}
	whole := sum(periods)
	if used.WireBytes < whole.WireBytes || used.CodecNanos < whole.CodecNanos {
		periods, whole = nil, Usage{}
	}
	switch {
	case len(periods) > 0 && periods[0].Prices == *prices:
		whole = sum(periods[1:])
	case len(periods) > 0 && whole == sum(periods[1:]):
		// Nothing was used at prices that are in force no more.
		periods[0] = v1alpha1.CostPeriod{}
	default:
		periods = append([]v1alpha1.CostPeriod{{}}, periods...)
	}
	start := &metav1.Time{Time: at}
	if periods[0].StartTime != nil {
		start = periods[0].StartTime
	}
	periods[0] = period(*prices, rates, used.less(whole))
	periods[0].StartTime = start
	if len(periods) > maxPeriods {
		periods = append(periods[:maxPeriods-1], merge(periods[maxPeriods-1], periods[maxPeriods]))
	}
	return total(periods)
}

// less is what was used besides; the estimate of the network stack may have become smaller.
func (u Usage) less(other Usage) Usage {
	return Usage{
		CPUNanos: max(0, u.CPUNanos-other.CPUNanos), CodecNanos: max(0, u.CodecNanos-other.CodecNanos),
		IdleNanos: max(0, u.IdleNanos-other.IdleNanos),
		WireBytes: u.WireBytes - other.WireBytes, SavedBytes: u.SavedBytes - other.SavedBytes,
	}
}

func period(prices v1alpha1.PricesStatus, rates Rates, used Usage) v1alpha1.CostPeriod {
	p := v1alpha1.CostPeriod{
		Prices:     prices,
		CPUSeconds: usage.Seconds(used.CPUNanos), CodecSeconds: usage.Seconds(used.CodecNanos),
		WireBytes: used.WireBytes, SavedBytes: used.SavedBytes,
		CPU: exact(rates.CPU(float64(used.CPUNanos)), 9), Network: exact(rates.Network(float64(used.WireBytes)), 9),
		Saved: exact(rates.Network(float64(used.SavedBytes))-rates.CPU(float64(used.CodecNanos)), 9),
	}
	if used.IdleNanos > 0 {
		p.IdleSeconds, p.Idle = usage.Seconds(used.IdleNanos), exact(rates.CPU(float64(used.IdleNanos)), 9)
	}
	return p
}

// sum is what was used in all periods.
func sum(periods []v1alpha1.CostPeriod) Usage {
	var all Usage
	for _, p := range periods {
		all.CPUNanos += usage.Nanos(p.CPUSeconds)
		all.CodecNanos += usage.Nanos(p.CodecSeconds)
		all.IdleNanos += usage.Nanos(p.IdleSeconds)
		all.WireBytes += p.WireBytes
		all.SavedBytes += p.SavedBytes
	}
	return all
}

// merge is one period in place of two. Of amounts in different currencies those of the older one are lost, what was
// used is not.
func merge(newer, older v1alpha1.CostPeriod) v1alpha1.CostPeriod {
	merged := newer
	merged.StartTime = older.StartTime
	merged.Prices = v1alpha1.PricesStatus{Currency: newer.Prices.Currency, Source: v1alpha1.PricesOfSeveral}
	both := sum([]v1alpha1.CostPeriod{newer, older})
	merged.CPUSeconds, merged.CodecSeconds = usage.Seconds(both.CPUNanos), usage.Seconds(both.CodecNanos)
	if both.IdleNanos > 0 {
		merged.IdleSeconds = usage.Seconds(both.IdleNanos)
	}
	merged.WireBytes, merged.SavedBytes = both.WireBytes, both.SavedBytes
	if newer.Prices.Currency == older.Prices.Currency {
		merged.CPU = exact(number(newer.CPU)+number(older.CPU), 9)
		if both.IdleNanos > 0 {
			merged.Idle = exact(number(newer.Idle)+number(older.Idle), 9)
		}
		merged.Network = exact(number(newer.Network)+number(older.Network), 9)
		merged.Saved = exact(number(newer.Saved)+number(older.Saved), 9)
	}
	return merged
}

// total is the cost of periods, of which the first has the currency.
func total(periods []v1alpha1.CostPeriod) *v1alpha1.CostStatus {
	var cpu, idle, network, saved float64
	for _, p := range periods {
		if p.Prices.Currency == periods[0].Prices.Currency {
			cpu, idle = cpu+number(p.CPU), idle+number(p.Idle)
			network, saved = network+number(p.Network), saved+number(p.Saved)
		}
	}
	cost := &v1alpha1.CostStatus{
		Currency: periods[0].Prices.Currency, CPU: Money(cpu), Network: Money(network), Saved: Money(saved),
		Periods: periods,
	}
	if sum(periods).IdleNanos > 0 {
		cost.Idle = Money(idle)
	}
	return cost
}

// number is 0 for what cannot be read: the manager writes these itself.
func number(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return 0
	}
	return value
}

// Effective are the rates that a cost amounts to: those of its only period, or what was paid for what was used. Until
// anything was charged they are those of the prices that were decided by; ok is false when there are none either.
func Effective(cost *v1alpha1.CostStatus, decided *v1alpha1.PricesStatus) (rates Rates, ok bool) {
	if cost == nil || len(cost.Periods) == 0 {
		return Parse(decided)
	}
	rates, ok = Parse(&cost.Periods[0].Prices)
	if len(cost.Periods) == 1 || !ok {
		return rates, ok
	}
	var same []v1alpha1.CostPeriod
	for _, p := range cost.Periods {
		if p.Prices.Currency == cost.Currency {
			same = append(same, p)
		}
	}
	cpu, network := paid(same)
	if used := sum(same); used.CPUNanos > 0 {
		rates.CPUHour = cpu / (float64(used.CPUNanos) / float64(time.Hour))
	}
	if used := sum(same); used.WireBytes > 0 {
		rates.NetworkGiB = network / (float64(used.WireBytes) / gib)
	}
	return rates, true
}

func paid(periods []v1alpha1.CostPeriod) (cpu, network float64) {
	for _, p := range periods {
		cpu, network = cpu+number(p.CPU), network+number(p.Network)
	}
	return cpu, network
}
