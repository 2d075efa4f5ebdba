// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

// Money is what an Entry cost, by what it was for, as numbers for pictures. They are rounded: sums are of the Bill.
type Money struct {
	// Keys are the values of the dimensions.
	Keys     []string
	Currency string
	// CPU is that of processes, NetworkCPU that of the network stack, Stores that of requests to object stores.
	CPU, NetworkCPU, Network, Storage, Stores, Avoided float64
	PlainBytes, WireBytes                              float64
}

// Money returns the figures of the entry. All amounts are 0 of what was not charged.
func (e *Entry) Money() Money {
	number := func(all ...figure) float64 {
		value, _ := e.sums.of(all...).Float64()
		return value
	}
	m := Money{Keys: e.keys, Currency: e.currency, PlainBytes: number(plainBytes), WireBytes: number(wireBytes)}
	if e.currency == "" {
		return m
	}
	m.CPU, m.NetworkCPU, m.Network = number(cpuCost), number(networkCPUCost), number(networkCost)
	m.Storage, m.Stores = number(storageCost), number(storeWritesCost, storeReadsCost, storeEgressCost)
	m.Avoided = number(avoided)
	return m
}

// Cost is all that is paid.
func (m *Money) Cost() float64 { return m.CPU + m.NetworkCPU + m.Network + m.Storage + m.Stores }
