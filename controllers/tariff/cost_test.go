// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tariff_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/tariff"
)

const (
	gib  = 1 << 30
	hour = int64(time.Hour)
)

func prices(currency, cpuHour, networkGiB string) *v1alpha1.PricesStatus {
	return &v1alpha1.PricesStatus{
		Currency: currency, CPUHour: cpuHour, NetworkGiB: networkGiB, Source: v1alpha1.PricesOfTariff, Name: "t",
		Generation: 1,
	}
}

// report is what was used until a time, in hours.
type report struct {
	used   tariff.Usage
	prices *v1alpha1.PricesStatus
}

func charge(reports ...report) *v1alpha1.CostStatus {
	var cost *v1alpha1.CostStatus
	for i, r := range reports {
		cost = tariff.Charge(cost, r.used, r.prices, epoch.Add(time.Duration(i)*time.Hour))
	}
	return cost
}

func hours(cpu, codec int64, wire, saved int64) tariff.Usage {
	return tariff.Usage{CPUNanos: cpu * hour, CodecNanos: codec * hour, WireBytes: wire * gib, SavedBytes: saved * gib}
}

func TestCharge(t *testing.T) {
	day, night := prices("EUR", "2", "0.5"), prices("EUR", "1", "0.25")
	edited, dollars := prices("EUR", "2", "0.5"), prices("USD", "10", "10")
	edited.Generation = 2
	for name, c := range map[string]struct {
		reports             []report
		cpu, network, saved string
		currency            string
		periods             int
	}{
		"one price":   {[]report{{hours(3, 1, 4, 8), day}}, "6.0000", "2.0000", "2.0000", "EUR", 1},
		"as it grows": {[]report{{hours(1, 0, 2, 0), day}, {hours(3, 1, 4, 8), day}}, "6.0000", "2.0000", "2.0000", "EUR", 1},
		"the price changes in mid-run": {
			[]report{{hours(1, 1, 2, 4), day}, {hours(3, 1, 6, 8), night}}, "4.0000", "2.0000", "1.0000", "EUR", 2,
		},
		"and back": {
			[]report{{hours(1, 0, 2, 0), day}, {hours(3, 0, 6, 0), night}, {hours(4, 0, 6, 0), day}},
			"6.0000", "2.0000", "0.0000", "EUR", 3,
		},
		"an edit that changes no price": {
			[]report{{hours(1, 0, 2, 0), day}, {hours(2, 0, 4, 0), edited}}, "4.0000", "2.0000", "0.0000", "EUR", 2,
		},
		"nothing used at a price": {
			[]report{{hours(0, 0, 0, 0), day}, {hours(2, 0, 4, 0), night}}, "2.0000", "1.0000", "0.0000", "EUR", 1,
		},
		"free":           {[]report{{hours(3, 1, 4, 8), prices("EUR", "0", "0")}}, "0.0000", "0.0000", "0.0000", "EUR", 1},
		"a gap is later": {[]report{{hours(1, 0, 2, 0), day}, {hours(2, 0, 2, 0), nil}, {hours(3, 0, 2, 0), night}}, "4.0000", "1.0000", "0.0000", "EUR", 2},
		"no price yet":   {[]report{{hours(1, 0, 2, 0), nil}, {hours(2, 0, 4, 0), day}}, "4.0000", "2.0000", "0.0000", "EUR", 1},
		"another currency is not added": {
			[]report{{hours(1, 0, 2, 0), day}, {hours(2, 0, 3, 0), dollars}}, "10.0000", "10.0000", "0.0000", "USD", 2,
		},
		"bytes restart": {[]report{{hours(3, 1, 4, 8), day}, {hours(1, 1, 2, 8), night}}, "1.0000", "0.5000", "1.0000", "EUR", 1},
		"CPU restarts":  {[]report{{hours(3, 2, 4, 8), day}, {hours(2, 1, 4, 8), night}}, "2.0000", "1.0000", "1.0000", "EUR", 1},
		"a smaller estimate of the network's": {
			[]report{{hours(3, 1, 4, 8), day}, {hours(2, 1, 4, 8), night}}, "6.0000", "2.0000", "2.0000", "EUR", 2,
		},
		"compression lost": {[]report{{hours(1, 1, 4, -1), day}}, "2.0000", "2.0000", "-2.5000", "EUR", 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := charge(c.reports...)
			if got.CPU != c.cpu || got.Network != c.network || got.Saved != c.saved || got.Currency != c.currency ||
				len(got.Periods) != c.periods {
				t.Errorf("%+v", got)
			}
		})
	}
	if got := charge(report{hours(1, 1, 1, 1), nil}); got != nil {
		t.Errorf("without prices: %+v", got)
	}
}

// TestPeriods: each part has its prices, what was used, and since when.
func TestPeriods(t *testing.T) {
	day, night := prices("EUR", "2", "0.5"), prices("EUR", "1", "0.25")
	at := func(hour int) *metav1.Time { return &metav1.Time{Time: epoch.Add(time.Duration(hour) * time.Hour)} }
	before := charge(report{hours(1, 1, 2, 4), day}, report{hours(2, 1, 3, 4), day}, report{hours(3, 2, 6, 8), night})
	kept := before.DeepCopy()
	if diff := cmp.Diff([]v1alpha1.CostPeriod{
		{
			StartTime: at(2), Prices: *night, CPUSeconds: "3600", CodecSeconds: "3600", WireBytes: 3 * gib, SavedBytes: 4 * gib,
			CPU: "1", Network: "0.75", Saved: "0",
		},
		{
			StartTime: at(0), Prices: *day, CPUSeconds: "7200", CodecSeconds: "3600", WireBytes: 3 * gib, SavedBytes: 4 * gib,
			CPU: "4", Network: "1.5", Saved: "0",
		},
	}, before.Periods); diff != "" {
		t.Error(diff)
	}
	_ = tariff.Charge(before, hours(9, 9, 9, 9), day, epoch)
	if diff := cmp.Diff(kept, before); diff != "" {
		t.Errorf("the cost before was changed: %s", diff)
	}
	if again := tariff.Charge(before, hours(3, 2, 6, 8), night, epoch.Add(5*time.Hour)); !cmp.Equal(again, before) {
		t.Errorf("the same report again makes another cost: %s", cmp.Diff(before, again))
	}
}

// TestManyChanges: however often prices change, a cost has few periods, nothing that was used is lost or charged twice,
// and the sum is what was paid.
func TestManyChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		var cost *v1alpha1.CostStatus
		var used tariff.Usage
		var cpu, network float64
		steps := 1 + random.IntN(60)
		for step := range steps {
			more := tariff.Usage{
				CPUNanos: random.Int64N(hour), WireBytes: random.Int64N(8 * gib), SavedBytes: random.Int64N(gib),
			}
			more.CodecNanos = random.Int64N(more.CPUNanos + 1)
			used.CPUNanos, used.CodecNanos = used.CPUNanos+more.CPUNanos, used.CodecNanos+more.CodecNanos
			used.WireBytes, used.SavedBytes = used.WireBytes+more.WireBytes, used.SavedBytes+more.SavedBytes
			now := prices("EUR", strconv.Itoa(random.IntN(3)), "0."+strconv.Itoa(random.IntN(100)))
			rates, _ := tariff.Parse(now)
			cpu, network = cpu+rates.CPU(float64(more.CPUNanos)), network+rates.Network(float64(more.WireBytes))
			cost = tariff.Charge(cost, used, now, epoch.Add(time.Duration(step)*time.Minute))
		}
		var wire, saved int64
		var seconds float64
		for _, p := range cost.Periods {
			wire, saved = wire+p.WireBytes, saved+p.SavedBytes
			seconds += number(t, p.CPUSeconds)
		}
		if wire != used.WireBytes || saved != used.SavedBytes || math.Abs(seconds-float64(used.CPUNanos)/1e9) > 1e-6 {
			t.Fatalf("round %d: periods have %d and %d bytes and %f s of %+v", round, wire, saved, seconds, used)
		}
		if math.Abs(number(t, cost.CPU)-cpu) > 1e-4 || math.Abs(number(t, cost.Network)-network) > 1e-4 {
			t.Fatalf("round %d: %s and %s, want %f and %f", round, cost.CPU, cost.Network, cpu, network)
		}
		if len(cost.Periods) > 4 || steps > 30 && cost.Periods[len(cost.Periods)-1].Prices.Source != v1alpha1.PricesOfSeveral {
			t.Fatalf("round %d: %d periods after %d steps", round, len(cost.Periods), steps)
		}
		if got := cost.Periods[len(cost.Periods)-1].StartTime; !got.Time.Equal(epoch) {
			t.Fatalf("round %d: the oldest period is since %s", round, got)
		}
	}
}

// TestCurrencies: amounts of one currency are never added to those of another, and what was used is charged once.
func TestCurrencies(t *testing.T) {
	var reports []report
	for i := range 12 {
		currency := "EUR"
		if i%2 == 1 {
			currency = "USD"
		}
		reports = append(reports, report{hours(int64(i+1), 0, int64(i+1), 0), prices(currency, "1", "1")})
	}
	cost := charge(reports...)
	var wire int64
	for _, p := range cost.Periods {
		wire += p.WireBytes
	}
	if wire != 12*gib || cost.Currency != "USD" || len(cost.Periods) != 4 {
		t.Errorf("%+v", cost)
	}
	// Those of hours 12 and 10 are certain; of what was merged only the newer currency's is left.
	if got := number(t, cost.CPU); got < 2 || got > 6 {
		t.Errorf("%s USD for CPU of at most 6", cost.CPU)
	}
}

// TestHostileFigures: a cost is not what makes the manager fail.
func TestHostileFigures(t *testing.T) {
	most := tariff.Usage{
		CPUNanos: math.MaxInt64, CodecNanos: math.MaxInt64, WireBytes: math.MaxInt64, SavedBytes: -math.MaxInt64,
	}
	expensive := prices("EUR", "999999.999999999", "999999.999999999")
	for _, cost := range []*v1alpha1.CostStatus{
		charge(report{most, expensive}, report{tariff.Usage{}, expensive}, report{most, prices("EUR", "1", "1")}),
		{Currency: "EUR", CPU: "NaN", Periods: []v1alpha1.CostPeriod{{CPUSeconds: "-1", CodecSeconds: "1e99", CPU: "Inf"}}},
		{Periods: []v1alpha1.CostPeriod{{}, {}, {}, {}, {}, {}}},
	} {
		got := tariff.Charge(cost, most, expensive, epoch)
		if got.Currency != "EUR" || len(got.Periods) > 4 {
			t.Errorf("%+v", got)
		}
		for _, text := range []string{got.CPU, got.Network, got.Saved} {
			if value := number(t, text); math.IsNaN(value) || math.IsInf(value, 0) {
				t.Errorf("%+v", got)
			}
		}
	}
}

func TestEffective(t *testing.T) {
	day, night := prices("EUR", "2", "0.5"), prices("EUR", "1", "0.25")
	for name, c := range map[string]struct {
		cost *v1alpha1.CostStatus
		want tariff.Rates
	}{
		"not charged yet": {nil, tariff.Rates{CPUHour: 2, NetworkGiB: 0.5}},
		"one period":      {charge(report{hours(1, 0, 1, 0), night}), tariff.Rates{CPUHour: 1, NetworkGiB: 0.25}},
		"two": {
			charge(report{hours(1, 0, 1, 0), day}, report{hours(2, 0, 2, 0), night}), tariff.Rates{CPUHour: 1.5,
				NetworkGiB: 0.375},
		},
		"no network": {
			charge(report{hours(1, 0, 0, 0), day}, report{hours(2, 0, 0, 0), night}), tariff.Rates{CPUHour: 1.5,
				NetworkGiB: 0.25},
		},
	} {
		if got, ok := tariff.Effective(c.cost, day); !ok || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
	if _, ok := tariff.Effective(nil, nil); ok {
		t.Error("there are rates without prices")
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
