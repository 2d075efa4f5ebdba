// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"math/big"
	"math/bits"
	"slices"
	"strconv"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// key is what a row is the only one of.
type key struct {
	day string
	Dimensions
	prices, currency string
}

// sums of a row.
type sums struct {
	figures   Figures
	byteHours int64
	// money of rows that name no prices; that of others follows from their figures.
	money amounts
}

// sheet is the rows of a Statement.
type sheet struct {
	prices []v1alpha1.StatementPrices
	rows   map[key]*sums
	// whole counts rows with a day and all dimensions, months those without a day, days those of the kind Other that have
	// one.
	whole, months, days int
}

// readSheet reads rows; what people made unreadable counts as 0.
func readSheet(status *v1alpha1.StatementStatus) *sheet {
	s := &sheet{prices: slices.Clone(status.Prices), rows: map[key]*sums{}}
	for i := range status.Rows {
		r := &status.Rows[i]
		k := key{
			day: r.Day, prices: r.Prices, currency: r.Currency, Dimensions: Dimensions{
				Kind: r.Kind, Peer: r.Peer, Direction: r.Direction, EngineClass: r.EngineClass, NodeClass: r.NodeClass,
			},
		}
		s.add(k, Figures{
			natural(r.Operations), natural(r.PlainBytes), natural(r.WireBytes), natural(r.StoredBytes),
			natural(r.Avoided.Bytes), nanosOf(r.CPU.SendSeconds), nanosOf(r.CPU.ReceiveSeconds),
			nanosOf(r.CPU.CompressSeconds), nanosOf(r.CPU.DecompressSeconds), nanosOf(r.CPU.IdleSeconds),
			nanosOf(r.CPU.NetworkSeconds), natural(r.ObjectStore.WriteRequests), natural(r.ObjectStore.ReadRequests),
			natural(r.ObjectStore.SentBytes), natural(r.ObjectStore.ReceivedBytes),
		}, natural(r.StorageByteHours), amounts{
			cpu: parse(r.Cost.CPU), networkCPU: parse(r.Cost.NetworkCPU), network: parse(r.Cost.Network),
			storage: parse(r.Cost.Storage), storeWrites: parse(r.Cost.StoreWrites), storeReads: parse(r.Cost.StoreReads),
			storeEgress: parse(r.Cost.StoreEgress), avoided: parse(r.Avoided.Network),
		})
	}
	return s
}

func (s *sheet) add(k key, f Figures, byteHours int64, money amounts) {
	row := s.rows[k]
	if row == nil {
		row = &sums{money: newAmounts()}
		s.rows[k] = row
		switch {
		case k.Kind != v1alpha1.StatementKindOther && k.day != "":
			s.whole++
		case k.Kind != v1alpha1.StatementKindOther:
			s.months++
		case k.day != "":
			s.days++
		}
	}
	row.figures = row.figures.plus(f)
	row.byteHours = saturated(row.byteHours, byteHours)
	row.money.add(money)
}

// book adds figures to the row of a day. It returns false if there is no space for them in any row.
func (s *sheet) book(day string, life Life, f Figures, byteHours int64) bool {
	var prices v1alpha1.StatementPrices
	if life.Prices != nil {
		prices = life.Prices()
	}
	k := key{day: day, Dimensions: life.Dimensions, currency: prices.Currency}
	named := s.name(prices)
	k.prices = named.Name
	k, ok := s.space(k)
	if ok {
		if k.prices != "" && s.price(k.prices) == nil {
			s.prices = append(s.prices, named)
		}
		s.add(k, f, byteHours, charge(f, byteHours, prices))
	}
	return ok
}

// name returns prices with the name that they have or are to get; it is empty if there is no space for them, or if they
// are none.
func (s *sheet) name(p v1alpha1.StatementPrices) v1alpha1.StatementPrices {
	if p.Currency == "" {
		return p
	}
	for _, known := range s.prices {
		if p.Name = known.Name; p == known {
			return known
		}
	}
	if p.Name = ""; len(s.prices) < maxPrices {
		p.Name = "p" + strconv.Itoa(len(s.prices)+1)
	}
	return p
}

// price is nil where there is none of that name.
func (s *sheet) price(name string) *v1alpha1.StatementPrices {
	i := slices.IndexFunc(s.prices, func(p v1alpha1.StatementPrices) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &s.prices[i]
}

// space is the key of the row to book in.
func (s *sheet) space(wanted key) (key, bool) {
	if s.rows[wanted] != nil {
		return wanted, true
	}
	if s.whole < maxRows {
		return wanted, true
	}
	month := wanted
	month.day = ""
	if s.rows[month] != nil || s.months < maxMonthRows {
		return month, true
	}
	other := key{
		day: wanted.day, currency: wanted.currency, Dimensions: Dimensions{Kind: v1alpha1.StatementKindOther},
	}
	if s.rows[other] != nil || s.days < maxDayRows {
		return other, true
	}
	other.day = ""
	return other, s.rows[other] != nil || len(s.rows) < maxAllRows
}

// fold sums up the days.
func (s *sheet) fold() {
	days := s.rows
	s.rows, s.whole, s.months, s.days = map[key]*sums{}, 0, 0, 0
	for k, row := range days {
		k.day = ""
		s.add(k, row.figures, row.byteHours, row.money)
	}
}

// write puts rows, prices and totals into a status.
func (s *sheet) write(status *v1alpha1.StatementStatus) {
	keys := make([]key, 0, len(s.rows))
	for k := range s.rows {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	status.Prices, status.Rows = s.prices, nil
	type total struct {
		plain, wire, cpu int64
		cost, avoided    *big.Int
	}
	totals := map[string]*total{}
	for _, k := range keys {
		row := s.rows[k]
		money := row.money
		if p := s.price(k.prices); p != nil {
			money = charge(row.figures, row.byteHours, *p)
		}
		status.Rows = append(status.Rows, statementRow(k, row, money))
		sum := totals[k.currency]
		if sum == nil {
			sum = &total{cost: new(big.Int), avoided: new(big.Int)}
			totals[k.currency] = sum
		}
		f := row.figures
		sum.plain, sum.wire = saturated(sum.plain, f[plainBytes]), saturated(sum.wire, f[wireBytes])
		sum.cpu = saturated(sum.cpu, saturated(saturated(f[sendNanos], f[receiveNanos]), f[networkNanos]))
		sum.cost.Add(sum.cost, money.total())
		sum.avoided.Add(sum.avoided, money.avoided)
	}
	currencies := make([]string, 0, len(totals))
	for currency := range totals {
		currencies = append(currencies, currency)
	}
	slices.SortFunc(currencies, func(a, b string) int {
		return cmp.Or(totals[b].cost.Cmp(totals[a].cost), cmp.Compare(b, a))
	})
	status.Totals = nil
	for _, currency := range currencies[:min(len(currencies), maxPrices)] {
		sum := totals[currency]
		one := v1alpha1.StatementTotal{
			Currency: currency, PlainBytes: sum.plain, WireBytes: sum.wire, CPUSeconds: formatNanos(sum.cpu),
		}
		if currency != "" {
			one.Cost, one.Avoided = amount(sum.cost), amount(sum.avoided)
		}
		status.Totals = append(status.Totals, one)
	}
}

// amount writes 0, too.
func amount(n *big.Int) string { return cmp.Or(format(n), "0") }

func statementRow(k key, row *sums, money amounts) v1alpha1.StatementRow {
	f := row.figures
	r := v1alpha1.StatementRow{
		Day: k.day, Kind: k.Kind, Peer: k.Peer, Direction: k.Direction, EngineClass: k.EngineClass, NodeClass: k.NodeClass,
		Prices: k.prices, Currency: k.currency,
		Operations: f[operations], PlainBytes: f[plainBytes], WireBytes: f[wireBytes], StoredBytes: f[storedBytes],
		StorageByteHours: row.byteHours,
		ObjectStore: v1alpha1.ObjectStoreUsage{
			WriteRequests: f[storeWrites], ReadRequests: f[storeReads], SentBytes: f[storeSent], ReceivedBytes: f[storeReceived],
		},
		CPU: v1alpha1.StatementCPU{
			SendSeconds: formatNanos(f[sendNanos]), ReceiveSeconds: formatNanos(f[receiveNanos]),
			CompressSeconds: formatNanos(f[compressNanos]), DecompressSeconds: formatNanos(f[decompressNanos]),
			IdleSeconds: formatNanos(f[idleNanos]), NetworkSeconds: formatNanos(f[networkNanos]),
		},
		Avoided: v1alpha1.StatementAvoided{Bytes: f[avoidedBytes]},
	}
	if k.currency != "" {
		r.Cost = v1alpha1.StatementCost{
			CPU: format(money.cpu), NetworkCPU: format(money.networkCPU), Network: format(money.network),
			Storage: format(money.storage), StoreWrites: format(money.storeWrites), StoreReads: format(money.storeReads),
			StoreEgress: format(money.storeEgress),
		}
		r.Avoided.Network = format(money.avoided)
	}
	return r
}

func compareKeys(a, b key) int {
	return cmp.Or(
		cmp.Compare(a.day, b.day), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Peer, b.Peer),
		cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.EngineClass, b.EngineClass),
		cmp.Compare(a.NodeClass, b.NodeClass), cmp.Compare(a.prices, b.prices), cmp.Compare(a.currency, b.currency),
	)
}

// byteHours of bytes that were at rest for so many nanoseconds.
func byteHours(bytes, nanos int64) int64 {
	const hour = 3_600_000_000_000
	high, low := bits.Mul64(uint64(bytes), uint64(nanos))
	if high >= hour {
		return 1<<63 - 1
	}
	quotient, _ := bits.Div64(high, low, hour)
	return int64(min(quotient, 1<<63-1))
}
