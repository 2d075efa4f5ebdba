// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// figure is one of those that are summed up.
type figure int

const (
	operations figure = iota
	plainBytes
	wireBytes
	storedBytes
	avoidedBytes
	storageByteHours
	storeWriteRequests
	storeReadRequests
	storeSentBytes
	storeReceivedBytes
	cpuSeconds // of processes; what follows up to idleSeconds is a part of it
	compressSeconds
	decompressSeconds
	idleSeconds
	networkCPUSeconds // besides cpuSeconds, and estimated
	cpuCost
	networkCPUCost
	networkCost
	storageCost
	storeWritesCost
	storeReadsCost
	storeEgressCost
	avoided
	figures
)

// sums of figures; nil is 0.
type sums [figures]*big.Rat

func (s *sums) add(other *sums) {
	for f, value := range other {
		if value == nil {
			continue
		}
		if s[f] == nil {
			s[f] = new(big.Rat)
		}
		s[f].Add(s[f], value)
	}
}

// of is the sum of figures.
func (s *sums) of(all ...figure) *big.Rat {
	sum := new(big.Rat)
	for _, f := range all {
		if s[f] != nil {
			sum.Add(sum, s[f])
		}
	}
	return sum
}

// cost is all that is paid.
func (s *sums) cost() *big.Rat {
	return s.of(
		cpuCost, networkCPUCost, networkCost, storageCost, storeWritesCost, storeReadsCost, storeEgressCost,
	)
}

// prices of a line, in its currency.
type prices struct {
	source                                  string
	cpuHour, networkGiB, storageGiBMonth    *big.Rat
	storeWrites, storeReads, storeEgressGiB *big.Rat
}

// line is a row of a Statement.
type line struct {
	namespace  string
	begin, end time.Time
	row        *v1alpha1.StatementRow
	currency   string
	prices     *prices // nil without, and where several applied
	sums       sums
}

// key is the value of a dimension.
func (l *line) key(d Dimension) string {
	switch d {
	case ByNamespace:
		return l.namespace
	case ByKind:
		return l.row.Kind
	case ByPeer:
		return l.row.Peer
	case ByDirection:
		return string(l.row.Direction)
	case ByEngine:
		return string(l.row.EngineClass)
	case ByNodeClass:
		return l.row.NodeClass
	}
	return dayOrMonth(l.begin, l.end)
}

func newLine(namespace string, month time.Time, row *v1alpha1.StatementRow, known map[string]*prices) (line, error) {
	l := line{
		namespace: namespace, begin: month, end: month.AddDate(0, 1, 0), row: row, currency: row.Currency,
		prices: known[row.Prices],
	}
	if row.Day != "" {
		day, err := parseDay(row.Day)
		if err != nil {
			return l, fmt.Errorf("day: %w", err)
		}
		if day.Before(l.begin) || !day.Before(l.end) {
			return l, fmt.Errorf("day: %s is not in the month", row.Day)
		}
		l.begin, l.end = day, day.AddDate(0, 0, 1)
	}
	if row.Prices != "" && l.prices == nil {
		return l, fmt.Errorf("prices: status.prices has no %q", row.Prices)
	}
	for f, value := range map[figure]int64{
		operations: row.Operations, plainBytes: row.PlainBytes, wireBytes: row.WireBytes, storedBytes: row.StoredBytes,
		avoidedBytes: row.Avoided.Bytes, storageByteHours: row.StorageByteHours,
		storeWriteRequests: row.ObjectStore.WriteRequests, storeReadRequests: row.ObjectStore.ReadRequests,
		storeSentBytes: row.ObjectStore.SentBytes, storeReceivedBytes: row.ObjectStore.ReceivedBytes,
	} {
		if value < 0 {
			return l, fmt.Errorf("%s: %d is negative", names[f], value)
		}
		if value > 0 {
			l.sums[f] = big.NewRat(value, 1)
		}
	}
	var errs []error
	for f, text := range map[figure][]string{
		cpuSeconds:        {row.CPU.SendSeconds, row.CPU.ReceiveSeconds},
		compressSeconds:   {row.CPU.CompressSeconds},
		decompressSeconds: {row.CPU.DecompressSeconds},
		idleSeconds:       {row.CPU.IdleSeconds},
		networkCPUSeconds: {row.CPU.NetworkSeconds},
		cpuCost:           {row.Cost.CPU},
		networkCPUCost:    {row.Cost.NetworkCPU},
		networkCost:       {row.Cost.Network},
		storageCost:       {row.Cost.Storage},
		storeWritesCost:   {row.Cost.StoreWrites},
		storeReadsCost:    {row.Cost.StoreReads},
		storeEgressCost:   {row.Cost.StoreEgress},
		avoided:           {row.Avoided.Network},
	} {
		for _, decimal := range text {
			if decimal == "" {
				continue
			}
			value, err := parseDecimal(decimal)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", names[f], err))
				continue
			}
			switch {
			case value.Sign() == 0: // most are, and a Statement has many rows
			case l.sums[f] == nil:
				l.sums[f] = value
			default:
				l.sums[f].Add(l.sums[f], value)
			}
		}
	}
	return l, errors.Join(errs...)
}

// parsePrices reads prices by their names.
func parsePrices(all []v1alpha1.StatementPrices) (map[string]*prices, error) {
	known := map[string]*prices{}
	for i, p := range all {
		read := &prices{source: string(p.Source) + "/" + p.SourceName}
		if p.SourceGeneration > 0 {
			read.source += fmt.Sprintf("@%d", p.SourceGeneration)
		}
		var errs [6]error
		read.cpuHour, errs[0] = parseDecimal(p.CPUHour)
		read.networkGiB, errs[1] = parseDecimal(p.NetworkGiB)
		read.storageGiBMonth, errs[2] = parseDecimal(p.StorageGiBMonth)
		read.storeWrites, errs[3] = parseDecimal(p.StoreWriteRequests)
		read.storeReads, errs[4] = parseDecimal(p.StoreReadRequests)
		read.storeEgressGiB, errs[5] = parseDecimal(p.StoreEgressGiB)
		if err := cmp.Or(errs[:]...); err != nil {
			return nil, fmt.Errorf("status.prices[%d]: %w", i, err)
		}
		known[p.Name] = read
	}
	return known, nil
}

// decimal is the form of amounts in Statements.
var decimal = regexp.MustCompile(`^[0-9]{1,20}([.][0-9]{1,9})?$`)

// parseDecimal reads a decimal that is not negative; nothing is 0.
func parseDecimal(text string) (*big.Rat, error) {
	if text == "" {
		return new(big.Rat), nil
	}
	value, ok := new(big.Rat), decimal.MatchString(text)
	if ok {
		_, ok = value.SetString(text)
	}
	if !ok {
		return nil, fmt.Errorf("%q is no decimal that a manager writes", text)
	}
	return value, nil
}
