// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tariff

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	// nanosPerUnit is how fine prices are: 9 digits after the point.
	nanosPerUnit = 1_000_000_000
	gib          = 1 << 30
)

var decimal = regexp.MustCompile(`^([0-9]{1,6})(?:[.]([0-9]{1,9}))?$`)

// ParsePrice parses a decimal of at least 0 and less than 1000000 with at most 9 digits after the point, and returns it
// in billionths.
func ParsePrice(price string) (nanos uint64, err error) {
	parts := decimal.FindStringSubmatch(price)
	if parts == nil {
		return 0, fmt.Errorf(
			"must be a decimal below 1000000, not negative, with at most 9 digits after the point, not %q", price,
		)
	}
	units, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("must be a decimal: %w", err)
	}
	fraction, err := strconv.ParseUint((parts[2] + "000000000")[:9], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("must be a decimal: %w", err)
	}
	return units*nanosPerUnit + fraction, nil
}

// billionths writes a number of them as a decimal, without trailing zeros.
func billionths(nanos uint64) string {
	text := fmt.Sprintf("%d.%09d", nanos/nanosPerUnit, nanos%nanosPerUnit)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Rates are prices to reckon with, in units of a currency.
type Rates struct {
	// CPUHour is the price of one core for one hour, NetworkGiB that of one GiB on the wire.
	CPUHour, NetworkGiB float64
}

// Parse returns the rates of prices; ok is false when there are none.
func Parse(prices *v1alpha1.PricesStatus) (rates Rates, ok bool) {
	wire := Wire(prices)
	return Rates{
		CPUHour:    float64(wire.GetCpuHourNanos()) / nanosPerUnit,
		NetworkGiB: float64(wire.GetNetworkGibNanos()) / nanosPerUnit,
	}, wire != nil
}

// CPU is the price of CPU time in nanoseconds.
func (r Rates) CPU(nanos float64) float64 { return nanos / float64(time.Hour) * r.CPUHour }

// Network is the price of bytes on the wire.
func (r Rates) Network(bytes float64) float64 { return bytes / gib * r.NetworkGiB }

// Wire is how agents get prices; nil where there are none.
func Wire(prices *v1alpha1.PricesStatus) *wirev1.Prices {
	if prices == nil {
		return nil
	}
	cpuHour, err := ParsePrice(prices.CPUHour)
	if err != nil {
		return nil
	}
	networkGiB, err := ParsePrice(prices.NetworkGiB)
	if err != nil {
		return nil
	}
	return &wirev1.Prices{CpuHourNanos: cpuHour, NetworkGibNanos: networkGiB}
}

// Money writes an amount with four decimals, or more when there would be few left.
func Money(amount float64) string {
	if amount != 0 && amount > -0.01 && amount < 0.01 {
		return exact(amount, 8)
	}
	return strconv.FormatFloat(amount, 'f', 4, 64)
}

// exact writes a number with so many decimals at most.
func exact(value float64, decimals int) string {
	text := strconv.FormatFloat(value, 'f', decimals, 64)
	text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	if text == "" || text == "-0" {
		return "0"
	}
	return text
}
