// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tariff_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/tariff"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// berlin has a price of the night, of the weekend, of nodes of a class, and of two Peers.
func berlin() v1alpha1.Tariff {
	night := []v1alpha1.TariffWindow{{Start: "20:00", End: "06:00"}}
	return v1alpha1.Tariff{
		ObjectMeta: metav1.ObjectMeta{Name: "berlin", UID: "u1", Generation: 3, CreationTimestamp: metav1.NewTime(epoch)},
		Spec: v1alpha1.TariffSpec{
			Currency: "EUR", TimeZone: "Europe/Berlin", StorageGiBMonth: "0.02",
			CPUHour: v1alpha1.CPUHourPrice{Price: "0.05", Rules: []v1alpha1.CPUHourRule{
				{Price: "0.01", NodeSelector: map[string]string{"class": "spot"}, Windows: night},
				{Price: "0.09", NodeSelector: map[string]string{"class": "z"}},
				{Price: "0.03", Windows: append(night, v1alpha1.TariffWindow{
					Days: []v1alpha1.Weekday{v1alpha1.Saturday, v1alpha1.Sunday},
				})},
			}},
			NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0.02", Rules: []v1alpha1.NetworkGiBRule{
				{Price: "0", Direction: v1alpha1.DirectionReceive},
				{Price: "0.08", Peers: []string{"west", "north"}},
				{Price: "7", Peers: []string{"west"}, Direction: v1alpha1.DirectionSend},
			}},
		},
	}
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestResolve(t *testing.T) {
	type labels = map[string]string
	for name, c := range map[string]struct {
		time           string
		node           labels
		peer           string
		direction      v1alpha1.Direction
		cpu, network   string
		changeOfTariff func(*v1alpha1.TariffSpec)
	}{
		"day":                       {time: "2026-03-04T12:00:00+01:00", cpu: "0.05", network: "0.02"},
		"night, next day":           {time: "2026-03-04T05:59:59+01:00", cpu: "0.03", network: "0.02"},
		"the end is excluded":       {time: "2026-03-04T06:00:00+01:00", cpu: "0.05", network: "0.02"},
		"the start is included":     {time: "2026-03-04T20:00:00+01:00", cpu: "0.03", network: "0.02"},
		"in another zone":           {time: "2026-03-04T19:30:00Z", cpu: "0.03", network: "0.02"},
		"weekend":                   {time: "2026-03-07T12:00:00+01:00", cpu: "0.03", network: "0.02"},
		"weekend has ended":         {time: "2026-03-09T12:00:00+01:00", cpu: "0.05", network: "0.02"},
		"other class":               {time: "2026-03-04T12:00:00+01:00", node: labels{"class": "x"}, cpu: "0.05", network: "0.02"},
		"node at all times":         {time: "2026-03-04T23:00:00+01:00", node: labels{"class": "z"}, cpu: "0.09", network: "0.02"},
		"overlap: the first":        {time: "2026-03-04T23:00:00+01:00", node: labels{"class": "spot"}, cpu: "0.01", network: "0.02"},
		"spot by day":               {time: "2026-03-04T12:00:00+01:00", node: labels{"class": "spot"}, cpu: "0.05", network: "0.02"},
		"Peer":                      {time: "2026-03-04T12:00:00+01:00", peer: "north", cpu: "0.05", network: "0.08"},
		"overlap of Peers":          {time: "2026-03-04T12:00:00+01:00", peer: "west", direction: v1alpha1.DirectionSend, cpu: "0.05", network: "0.08"},
		"direction":                 {time: "2026-03-04T12:00:00+01:00", peer: "west", direction: v1alpha1.DirectionReceive, cpu: "0.05", network: "0"},
		"before the clock is set":   {time: "2026-03-29T00:59:59Z", cpu: "0.03", network: "0.02"}, // 01:59:59
		"after the hour left out":   {time: "2026-03-30T04:00:00Z", cpu: "0.05", network: "0.02"}, // 06:00 in summer
		"06:00 of winter in summer": {time: "2026-03-30T05:00:00Z", cpu: "0.05", network: "0.02"},
		"no time zone is UTC": {time: "2026-03-04T19:30:00Z", cpu: "0.05", network: "0.02",
			changeOfTariff: func(s *v1alpha1.TariffSpec) {
				s.TimeZone = ""
			}},
	} {
		t.Run(name, func(t *testing.T) {
			subject := berlin()
			if c.changeOfTariff != nil {
				c.changeOfTariff(&subject.Spec)
			}
			got, err := tariff.Resolve(tariff.Query{
				Tariffs: []v1alpha1.Tariff{subject}, Name: "berlin", Node: c.node, Peer: c.peer, Direction: c.direction,
				Time: at(t, c.time),
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&v1alpha1.PricesStatus{
				Currency: "EUR", CPUHour: c.cpu, NetworkGiB: c.network, Source: v1alpha1.PricesOfTariff, Name: "berlin", UID: "u1",
				Generation: 3,
			}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDaylightSaving: a window is in local time. The hour that is left out in spring is in none, and the
// one that is there twice in autumn is in a window twice.
func TestDaylightSaving(t *testing.T) {
	subject := berlin()
	subject.Spec.CPUHour = v1alpha1.CPUHourPrice{Price: "1", Rules: []v1alpha1.CPUHourRule{{
		Price: "2", Windows: []v1alpha1.TariffWindow{{Start: "02:00", End: "03:00"}},
	}}}
	for day, minutes := range map[string]int{"2026-03-28": 60, "2026-03-29": 0, "2026-10-25": 120, "2026-10-26": 60} {
		begin, got := at(t, day+"T00:00:00Z").Add(-2*time.Hour), 0
		for minute := range 24 * 60 {
			prices, err := tariff.Resolve(tariff.Query{
				Tariffs: []v1alpha1.Tariff{subject}, Name: "berlin", Time: begin.Add(time.Duration(minute) * time.Minute),
			})
			if err != nil {
				t.Fatal(err)
			}
			if prices.CPUHour == "2" {
				got++
			}
		}
		if got != minutes {
			t.Errorf("%s: %d minutes at the price of the window, want %d", day, got, minutes)
		}
	}
}

func TestFind(t *testing.T) {
	made := func(name string, age time.Duration, isDefault bool) v1alpha1.Tariff {
		made := berlin()
		made.Name, made.CreationTimestamp = name, metav1.NewTime(epoch.Add(-age))
		if isDefault {
			made.Annotations = map[string]string{v1alpha1.DefaultTariffAnnotation: "true"}
		}
		return made
	}
	plain, old, young := made("plain", 3*time.Hour, false), made("old", 2*time.Hour, true), made("young", time.Hour, true)
	twin := made("a-twin", 2*time.Hour, true)
	for name, c := range map[string]struct {
		all    []v1alpha1.Tariff
		called string
		want   string
	}{
		"none":                   {nil, "", ""},
		"no default":             {[]v1alpha1.Tariff{plain}, "", ""},
		"named":                  {[]v1alpha1.Tariff{old, plain}, "plain", "plain"},
		"default":                {[]v1alpha1.Tariff{plain, young}, "", "young"},
		"oldest of two defaults": {[]v1alpha1.Tariff{young, old}, "", "old"},
		"first of one second":    {[]v1alpha1.Tariff{old, twin}, "", "a-twin"},
	} {
		got, err := tariff.Find(c.all, c.called)
		if err != nil || got == nil && c.want != "" || got != nil && got.Name != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	var notFound *tariff.NotFoundError
	if _, err := tariff.Find([]v1alpha1.Tariff{old}, "gone"); !errors.As(err, &notFound) || notFound.Name != "gone" {
		t.Errorf("got %v", err)
	}
	// What cannot be used is not passed over for another one, which nobody meant.
	old.Spec.TimeZone = "Europe/Atlantis"
	var invalid *tariff.InvalidError
	if _, err := tariff.Find([]v1alpha1.Tariff{young, old}, ""); !errors.As(err, &invalid) || invalid.Tariff != "old" {
		t.Errorf("got %v", err)
	}
}

func TestStatedPricesWin(t *testing.T) {
	stated := tariff.Stated(&v1alpha1.Prices{Currency: "USD", CPUHour: "9", NetworkGiB: "8"}, "what-if", "u2", 4)
	got, err := tariff.Resolve(tariff.Query{Tariffs: []v1alpha1.Tariff{berlin()}, Name: "gone", Stated: stated})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&v1alpha1.PricesStatus{
		Currency: "USD", CPUHour: "9", NetworkGiB: "8", Source: v1alpha1.PricesOfPolicy, Name: "what-if", UID: "u2",
		Generation: 4,
	}, got); diff != "" {
		t.Error(diff)
	}
	if tariff.Stated(nil, "p", "", 1) != nil {
		t.Error("a policy without prices states some")
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.TariffSpec)
		field  string
	}{
		"unknown time zone":    {func(s *v1alpha1.TariffSpec) { s.TimeZone = "Mars/Olympus" }, "spec.timeZone"},
		"the machine's":        {func(s *v1alpha1.TariffSpec) { s.TimeZone = "Local" }, "spec.timeZone"},
		"no time zone's path":  {func(s *v1alpha1.TariffSpec) { s.TimeZone = "../etc/passwd" }, "spec.timeZone"},
		"no currency":          {func(s *v1alpha1.TariffSpec) { s.Currency = "" }, "spec.currency"},
		"a sign":               {func(s *v1alpha1.TariffSpec) { s.Currency = "€" }, "spec.currency"},
		"small letters":        {func(s *v1alpha1.TariffSpec) { s.Currency = "eur" }, "spec.currency"},
		"no price":             {func(s *v1alpha1.TariffSpec) { s.CPUHour.Price = "" }, "spec.cpuHour.price"},
		"negative":             {func(s *v1alpha1.TariffSpec) { s.NetworkGiB.Price = "-1" }, "spec.networkGiB.price"},
		"absurd":               {func(s *v1alpha1.TariffSpec) { s.StorageGiBMonth = "1e99" }, "spec.storageGiBMonth"},
		"a million":            {func(s *v1alpha1.TariffSpec) { s.StorageGiBMonth = "1000000" }, "spec.storageGiBMonth"},
		"price of a rule":      {func(s *v1alpha1.TariffSpec) { s.CPUHour.Rules[1].Price = "NaN" }, "spec.cpuHour.rules[1].price"},
		"price for a Peer":     {func(s *v1alpha1.TariffSpec) { s.NetworkGiB.Rules[2].Price = "0.0000000001" }, "spec.networkGiB.rules[2].price"},
		"hour of one digit":    {window("9:00", "10:00"), "spec.cpuHour.rules[0].windows[0]"},
		"hour that is not":     {window("24:00", "10:00"), "spec.cpuHour.rules[0].windows[0]"},
		"start without end":    {window("09:00", ""), "spec.cpuHour.rules[0].windows[0]"},
		"no time at all":       {window("09:00", "09:00"), "spec.cpuHour.rules[0].windows[0]"},
		"neither day nor time": {window("", ""), "spec.cpuHour.rules[0].windows[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			subject := berlin()
			c.change(&subject.Spec)
			var invalid *tariff.InvalidError
			if err := tariff.Validate(&subject); !errors.As(err, &invalid) || invalid.Field != c.field {
				t.Errorf("got %v, want one about %s", err, c.field)
			}
		})
	}
	subject := berlin()
	if err := tariff.Validate(&subject); err != nil {
		t.Error(err)
	}
}

func window(start, end string) func(*v1alpha1.TariffSpec) {
	return func(s *v1alpha1.TariffSpec) {
		s.CPUHour.Rules[0].Windows = []v1alpha1.TariffWindow{{Start: start, End: end}}
	}
}

func TestUnreachable(t *testing.T) {
	night := []v1alpha1.TariffWindow{{Start: "20:00", End: "06:00"}}
	spot := map[string]string{"class": "spot"}
	for name, c := range map[string]struct {
		cpu     []v1alpha1.CPUHourRule
		network []v1alpha1.NetworkGiBRule
		want    string
	}{
		"none":            {cpu: []v1alpha1.CPUHourRule{{NodeSelector: spot, Windows: night}, {NodeSelector: spot}}},
		"the same":        {cpu: []v1alpha1.CPUHourRule{{Windows: night}, {Windows: night}}, want: "spec.cpuHour.rules[1]"},
		"narrower":        {cpu: []v1alpha1.CPUHourRule{{NodeSelector: spot}, {NodeSelector: spot, Windows: night}}, want: "spec.cpuHour.rules[1]"},
		"other nodes":     {cpu: []v1alpha1.CPUHourRule{{NodeSelector: spot}, {Windows: night}}},
		"other direction": {network: []v1alpha1.NetworkGiBRule{{Direction: "Send"}, {Direction: "Receive"}}},
		"one of the Peers": {
			network: []v1alpha1.NetworkGiBRule{{Peers: []string{"a", "b"}}, {Peers: []string{"b"}, Direction: "Send"}},
			want:    "spec.networkGiB.rules[1]",
		},
		"more Peers":          {network: []v1alpha1.NetworkGiBRule{{Peers: []string{"a"}}, {Peers: []string{"a", "b"}}}},
		"Peers of all":        {network: []v1alpha1.NetworkGiBRule{{Direction: "Send"}, {Peers: []string{"a"}, Direction: "Send"}}, want: "spec.networkGiB.rules[1]"},
		"all after some Peer": {network: []v1alpha1.NetworkGiBRule{{Peers: []string{"a"}}, {Direction: "Send"}}},
	} {
		subject := v1alpha1.Tariff{}
		subject.Spec.CPUHour.Rules, subject.Spec.NetworkGiB.Rules = c.cpu, c.network
		if got := tariff.Unreachable(&subject); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestMean(t *testing.T) {
	priced := func(hour string) *v1alpha1.PricesStatus {
		return &v1alpha1.PricesStatus{Currency: "EUR", CPUHour: hour, NetworkGiB: "1"}
	}
	for name, c := range map[string]struct {
		all  []*v1alpha1.PricesStatus
		want *v1alpha1.PricesStatus
	}{
		"none":      {nil, nil},
		"one":       {[]*v1alpha1.PricesStatus{priced("0.50")}, priced("0.50")},
		"the same":  {[]*v1alpha1.PricesStatus{priced("0.50"), priced("0.50")}, priced("0.50")},
		"different": {[]*v1alpha1.PricesStatus{priced("0.5"), priced("0.25"), priced("0")}, priced("0.25")},
		"unusable":  {[]*v1alpha1.PricesStatus{priced("0.5"), priced("much")}, nil},
	} {
		if diff := cmp.Diff(c.want, tariff.Mean(c.all)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestParsePrice(t *testing.T) {
	for price, want := range map[string]uint64{
		"1": 1e9, "0.5": 5e8, "0.000000001": 1, "12.030": 12_030_000_000, "0": 0, "000.000": 0, "999999.999999999": 1e15 - 1,
	} {
		if got, err := tariff.ParsePrice(price); got != want || err != nil {
			t.Errorf("%s: %d, %v", price, got, err)
		}
	}
	for _, price := range []string{"", "-1", "1e3", "1000000", "0.0000000001", "Inf", "NaN", ".5", "1.", "1,5", " 1",
		"0x1"} {
		if got, err := tariff.ParsePrice(price); err == nil {
			t.Errorf("%q is taken for %d", price, got)
		}
	}
}

// TestOneConversion: agents decide by the rates that costs and explanations are made of.
func TestOneConversion(t *testing.T) {
	prices := &v1alpha1.PricesStatus{Currency: "EUR", CPUHour: "3.6", NetworkGiB: "0.25"}
	rates, ok := tariff.Parse(prices)
	wire := tariff.Wire(prices)
	if !ok || rates.CPU(float64(time.Second)) != 0.001 || rates.Network(1<<30) != 0.25 ||
		wire.GetCpuHourNanos() != 3_600_000_000 || wire.GetNetworkGibNanos() != 250_000_000 {
		t.Errorf("%v %v %v", rates, wire, ok)
	}
	for _, unusable := range []*v1alpha1.PricesStatus{nil, {CPUHour: "1"}, {NetworkGiB: "1"}} {
		if _, ok := tariff.Parse(unusable); ok || tariff.Wire(unusable) != nil {
			t.Errorf("%+v is used", unusable)
		}
	}
}
