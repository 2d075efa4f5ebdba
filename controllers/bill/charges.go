// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"math/big"
	"strings"

	"github.com/lighterage/lighterage/controllers/bill/focus"
)

// monthHours are those of a GiB-month in Tariffs.
const monthHours = 730

// Charges are what was charged, by period, for package focus: one for each meter of each row that counted something.
// Rows that differ in the name of their prices alone, and not in a price, are one. uncharged counts rows without a
// currency, which no charge can be made of.
func (a *Account) Charges() (charges []focus.Charge, uncharged int) {
	merged := map[string]int{}
	for i := range a.lines {
		l := &a.lines[i]
		if l.currency == "" {
			uncharged++
			continue
		}
		for _, c := range l.charges() {
			id := c.identity()
			at, seen := merged[id]
			if !seen {
				merged[id] = len(charges)
				charges = append(charges, c.Charge)
				continue
			}
			first := &charges[at]
			first.Quantity = new(big.Rat).Add(first.Quantity, c.Quantity)
			first.Cost = new(big.Rat).Add(first.Cost, c.Cost)
			if first.Avoided != nil {
				first.Avoided = new(big.Rat).Add(first.Avoided, c.Avoided)
			}
		}
	}
	return charges, uncharged
}

// metered is a charge of a line.
type metered struct{ focus.Charge }

func (l *line) charges() []metered {
	var all []metered
	add := func(meter focus.Meter, quantity, cost figure, price, saved *big.Rat) {
		c := focus.Charge{
			Meter: meter, Namespace: l.namespace, Begin: l.begin, End: l.end, Kind: l.row.Kind, Peer: l.row.Peer,
			Side: string(l.row.Direction), Engine: string(l.row.EngineClass), Node: l.row.NodeClass, Currency: l.currency,
			Quantity: l.sums.of(quantity), Cost: l.sums.of(cost), UnitPrice: price, Avoided: saved,
			Estimated: quantity == networkCPUSeconds,
		}
		if l.prices != nil {
			c.PriceSource = l.prices.source
		}
		if c.Quantity.Sign() != 0 || c.Cost.Sign() != 0 || saved != nil && saved.Sign() != 0 {
			all = append(all, metered{c})
		}
	}
	var cpuHour, networkGiB, storageGiBHour, writes, reads, egressGiB *big.Rat
	if l.prices != nil {
		writes, reads, egressGiB = l.prices.storeWrites, l.prices.storeReads, l.prices.storeEgressGiB
		cpuHour, networkGiB = l.prices.cpuHour, l.prices.networkGiB
		storageGiBHour = new(big.Rat).Quo(l.prices.storageGiBMonth, big.NewRat(monthHours, 1))
	}
	add(focus.CPU, cpuSeconds, cpuCost, cpuHour, nil)
	add(focus.NetworkCPU, networkCPUSeconds, networkCPUCost, cpuHour, nil)
	add(focus.Wire, wireBytes, networkCost, networkGiB, l.sums.of(avoided))
	add(focus.Storage, storageByteHours, storageCost, storageGiBHour, nil)
	add(focus.StoreWrites, storeWriteRequests, storeWritesCost, writes, nil)
	add(focus.StoreReads, storeReadRequests, storeReadsCost, reads, nil)
	add(focus.StoreEgress, storeReceivedBytes, storeEgressCost, egressGiB, nil)
	return all
}

// identity is what makes a charge one of its own.
func (c *metered) identity() string {
	price := ""
	if c.UnitPrice != nil {
		price = c.UnitPrice.String()
	}
	return strings.Join([]string{
		c.Begin.String(), c.End.String(), c.Namespace, c.Kind, c.Peer, c.Side, c.Engine, c.Node, c.Currency, c.Meter.ID,
		c.PriceSource, price,
	}, "\x00")
}
