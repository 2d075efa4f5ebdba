// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/tariff"
)

const (
	gib = 1 << 30
	// hoursOfMonth is what a month of storage is sold as.
	hoursOfMonth = 730
	// requestsPriced are those that a price is for.
	requestsPriced = 1000
)

// decimals after the point of amounts and of seconds.
const decimals = 9

// formatNanos writes billionths as a decimal, empty for 0.
func formatNanos(n int64) string { return format(big.NewInt(n)) }

// nanosOf reads a decimal into billionths; 0 for what cannot be read. Statuses are written by managers.
func nanosOf(text string) int64 {
	n := parse(text)
	if n.Sign() < 0 {
		return 0
	}
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return n.Int64()
}

// format writes billionths of a unit as a decimal, empty for 0.
func format(n *big.Int) string {
	if n.Sign() == 0 {
		return ""
	}
	digits := new(big.Int).Abs(n).String()
	if len(digits) <= decimals {
		digits = strings.Repeat("0", decimals+1-len(digits)) + digits
	}
	point := len(digits) - decimals
	text := strings.TrimSuffix(strings.TrimRight(digits[:point]+"."+digits[point:], "0"), ".")
	if n.Sign() < 0 {
		return "-" + text
	}
	return text
}

// maxDigits bounds what is read, which people may have edited.
const maxDigits = 64

// parse reads a decimal into billionths; 0 for what is none. More digits than that are cut.
func parse(text string) *big.Int {
	units, fraction, _ := strings.Cut(text, ".")
	if units == "" || len(units) > maxDigits {
		return new(big.Int)
	}
	fraction = (fraction + strings.Repeat("0", decimals))[:decimals]
	if _, err := strconv.ParseUint(fraction, 10, 64); err != nil {
		return new(big.Int)
	}
	n, ok := new(big.Int).SetString(units+fraction, 10)
	if !ok {
		return new(big.Int)
	}
	return n
}

// amounts are what figures cost, in billionths of a unit of money.
type amounts struct {
	cpu, networkCPU, network, storage, storeWrites, storeReads, storeEgress, avoided *big.Int
}

func newAmounts() amounts {
	return amounts{
		new(big.Int), new(big.Int), new(big.Int), new(big.Int), new(big.Int), new(big.Int), new(big.Int), new(big.Int),
	}
}

func (a amounts) add(b amounts) {
	a.cpu.Add(a.cpu, b.cpu)
	a.networkCPU.Add(a.networkCPU, b.networkCPU)
	a.network.Add(a.network, b.network)
	a.storage.Add(a.storage, b.storage)
	a.storeWrites.Add(a.storeWrites, b.storeWrites)
	a.storeReads.Add(a.storeReads, b.storeReads)
	a.storeEgress.Add(a.storeEgress, b.storeEgress)
	a.avoided.Add(a.avoided, b.avoided)
}

// total is the cost.
func (a amounts) total() *big.Int {
	sum := new(big.Int).Add(a.cpu, a.networkCPU)
	for _, one := range []*big.Int{a.network, a.storage, a.storeWrites, a.storeReads, a.storeEgress} {
		sum.Add(sum, one)
	}
	return sum
}

// charge prices figures and byte-hours.
func charge(f Figures, byteHours int64, p v1alpha1.StatementPrices) amounts {
	cpu, network, storage := price(p.CPUHour), price(p.NetworkGiB), price(p.StorageGiBMonth)
	return amounts{
		storeWrites: times(big.NewInt(f[storeWrites]), price(p.StoreWriteRequests), requestsPriced),
		storeReads:  times(big.NewInt(f[storeReads]), price(p.StoreReadRequests), requestsPriced),
		storeEgress: times(big.NewInt(f[storeReceived]), price(p.StoreEgressGiB), gib),
		cpu:         times(new(big.Int).Add(big.NewInt(f[sendNanos]), big.NewInt(f[receiveNanos])), cpu, int64(time.Hour)),
		networkCPU:  times(big.NewInt(f[networkNanos]), cpu, int64(time.Hour)),
		network:     times(big.NewInt(f[wireBytes]), network, gib),
		storage:     times(big.NewInt(byteHours), storage, gib*hoursOfMonth),
		avoided:     times(big.NewInt(f[avoidedBytes]), network, gib),
	}
}

// price in billionths; 0 for none.
func price(text string) uint64 {
	if text == "" {
		return 0
	}
	nanos, err := tariff.ParsePrice(text)
	if err != nil {
		return 0
	}
	return nanos
}

// times is a quantity times the price of so many units of it, rounded down to a billionth. So it is not less for a
// larger quantity, nor for a sum than for its parts together, as when days are summed up.
func times(quantity *big.Int, nanos uint64, units int64) *big.Int {
	n := new(big.Int).Mul(quantity, new(big.Int).SetUint64(nanos))
	return n.Div(n, big.NewInt(units))
}
