// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/policy"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func quantity(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}

func named(name string, age int, isDefault bool, spec v1alpha1.CompressionPolicySpec) v1alpha1.CompressionPolicy {
	p := v1alpha1.CompressionPolicy{Spec: spec, ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(epoch.Add(-time.Duration(age) * time.Hour)),
	}}
	if isDefault {
		p.Annotations = map[string]string{v1alpha1.DefaultPolicyAnnotation: "true"}
	}
	return p
}

// localPolicy is annotated as a default, which no LocalCompressionPolicy is.
func localPolicy(name string) v1alpha1.CompressionPolicy {
	return policy.Local(&v1alpha1.LocalCompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: name, Annotations: map[string]string{v1alpha1.DefaultPolicyAnnotation: "true"},
		},
		Spec: v1alpha1.LocalCompressionPolicySpec{Level: v1alpha1.CompressionBalanced},
	})
}

func TestResolve(t *testing.T) {
	stated := &v1alpha1.Prices{Currency: "EUR", CPUHour: "0.03", NetworkGiB: "0.05"}
	prices := &v1alpha1.PricesStatus{
		Currency: "EUR", CPUHour: "0.03", NetworkGiB: "0.05", Source: v1alpha1.PricesOfPolicy, Name: "high",
	}
	high := named("high", 1, false, v1alpha1.CompressionPolicySpec{
		Mode: v1alpha1.CompressionAlways, Level: v1alpha1.CompressionHigh, Prices: stated,
		Hardware: &v1alpha1.HardwareCompression{MinSize: quantity("4Ki")},
		Software: &v1alpha1.SoftwareCompression{MinSize: quantity("1Ki"), Disabled: true},
	})
	zstd := named("zstd", 1, false, v1alpha1.CompressionPolicySpec{
		Objective: v1alpha1.ObjectiveBytes,
		Codecs:    []v1alpha1.Codec{v1alpha1.CodecZstd, v1alpha1.CodecDeflate},
		Software: &v1alpha1.SoftwareCompression{
			Engines: []v1alpha1.SoftwareEngine{v1alpha1.EngineLibzstd, v1alpha1.EngineGo},
		},
	})
	young := named("young", 1, true, v1alpha1.CompressionPolicySpec{Level: v1alpha1.CompressionBalanced})
	old := named("old", 2, true, v1alpha1.CompressionPolicySpec{Placement: v1alpha1.PlacementAnyNode})
	priced := named("priced", 3, true, v1alpha1.CompressionPolicySpec{Prices: stated, TariffName: "dear"})
	all := []v1alpha1.CompressionPolicy{young, high, zstd, old}
	deflate := []v1alpha1.Codec{v1alpha1.CodecDeflate}

	for name, test := range map[string]struct {
		inline   *v1alpha1.Compression
		policies []v1alpha1.CompressionPolicy
		want     policy.Resolved
	}{
		"built in": {nil, nil, policy.Resolved{
			Source: policy.BuiltIn, Objective: v1alpha1.ObjectiveElapsed, Mode: v1alpha1.CompressionAuto, Codecs: deflate,
			Level:     v1alpha1.CompressionFast,
			Placement: v1alpha1.PlacementPreferHardware, HardwareMinSize: 20000,
		}},
		"no default among them": {nil, []v1alpha1.CompressionPolicy{high}, policy.Resolved{
			Source: policy.BuiltIn, Objective: v1alpha1.ObjectiveElapsed, Mode: v1alpha1.CompressionAuto, Codecs: deflate,
			Level:     v1alpha1.CompressionFast,
			Placement: v1alpha1.PlacementPreferHardware, HardwareMinSize: 20000,
		}},
		"oldest default": {&v1alpha1.Compression{}, all, policy.Resolved{
			Name: "old", Source: policy.Default, Objective: v1alpha1.ObjectiveElapsed, Mode: v1alpha1.CompressionAuto,
			Codecs: deflate, Level: v1alpha1.CompressionFast,
			Placement: v1alpha1.PlacementAnyNode, HardwareMinSize: 20000,
		}},
		"named": {&v1alpha1.Compression{PolicyName: "high"}, all, policy.Resolved{
			Name: "high", Source: policy.Named, Objective: v1alpha1.ObjectiveCost, Mode: v1alpha1.CompressionAlways,
			Codecs: deflate, Level: v1alpha1.CompressionHigh,
			Placement: v1alpha1.PlacementPreferHardware, HardwareMinSize: 4096, SoftwareMinSize: 1024, SoftwareDisabled: true,
			Prices: prices,
		}},
		"codecs and engines": {&v1alpha1.Compression{PolicyName: "zstd"}, all, policy.Resolved{
			Name: "zstd", Source: policy.Named, Objective: v1alpha1.ObjectiveBytes, Mode: v1alpha1.CompressionAuto,
			Codecs: []v1alpha1.Codec{v1alpha1.CodecZstd, v1alpha1.CodecDeflate},
			Level:  v1alpha1.CompressionFast, Placement: v1alpha1.PlacementPreferHardware, HardwareMinSize: 20000,
			SoftwareEngines: []v1alpha1.SoftwareEngine{v1alpha1.EngineLibzstd, v1alpha1.EngineGo},
		}},
		"inline codecs": {&v1alpha1.Compression{PolicyName: "zstd", Codecs: deflate}, all, policy.Resolved{
			Name: "zstd", Source: policy.Named, Objective: v1alpha1.ObjectiveBytes, Mode: v1alpha1.CompressionAuto,
			Codecs: deflate,
			Level:  v1alpha1.CompressionFast, Placement: v1alpha1.PlacementPreferHardware, HardwareMinSize: 20000,
			SoftwareEngines: []v1alpha1.SoftwareEngine{v1alpha1.EngineLibzstd, v1alpha1.EngineGo},
		}},
		"inline objective": {&v1alpha1.Compression{
			PolicyName: "high", Objective: v1alpha1.ObjectiveCPU,
		}, all, policy.Resolved{
			Name: "high", Source: policy.Named, Objective: v1alpha1.ObjectiveCPU, Mode: v1alpha1.CompressionAlways,
			Codecs: deflate,
			Level:  v1alpha1.CompressionHigh, Placement: v1alpha1.PlacementPreferHardware, HardwareMinSize: 4096,
			SoftwareMinSize:  1024,
			SoftwareDisabled: true, Prices: prices,
		}},
		"inline software over named": {
			&v1alpha1.Compression{PolicyName: "high", Software: v1alpha1.SoftwareAllowed}, all, policy.Resolved{
				Name: "high", Source: policy.Named, Objective: v1alpha1.ObjectiveCost, Mode: v1alpha1.CompressionAlways,
				Codecs: deflate, Level: v1alpha1.CompressionHigh, Placement: v1alpha1.PlacementPreferHardware,
				HardwareMinSize: 4096, SoftwareMinSize: 1024, Prices: prices,
			},
		},
		"inline without software": {
			&v1alpha1.Compression{Software: v1alpha1.SoftwareDisabled}, nil, policy.Resolved{
				Source: policy.BuiltIn, Objective: v1alpha1.ObjectiveElapsed, Mode: v1alpha1.CompressionAuto, Codecs: deflate,
				Level: v1alpha1.CompressionFast, Placement: v1alpha1.PlacementPreferHardware, HardwareMinSize: 20000,
				SoftwareDisabled: true,
			},
		},
		"inline over named": {
			&v1alpha1.Compression{PolicyName: "high", Mode: v1alpha1.CompressionNever, Level: v1alpha1.CompressionFast,
				Placement: v1alpha1.PlacementRequireHardware, MinSize: quantity("0")},
			all, policy.Resolved{
				Name: "high", Source: policy.Named, Objective: v1alpha1.ObjectiveCost, Mode: v1alpha1.CompressionNever,
				Codecs: deflate, Level: v1alpha1.CompressionFast,
				Placement: v1alpha1.PlacementRequireHardware, SoftwareDisabled: true, Prices: prices,
			},
		},
		"local before the cluster's, at the prices of the default one": {
			&v1alpha1.Compression{PolicyName: "zstd"},
			[]v1alpha1.CompressionPolicy{localPolicy("zstd"), zstd, high, priced}, policy.Resolved{
				Local: true, Name: "zstd", Source: policy.Named, Objective: v1alpha1.ObjectiveCost,
				Mode: v1alpha1.CompressionAuto, Codecs: deflate, Level: v1alpha1.CompressionBalanced,
				Placement: v1alpha1.PlacementPreferHardware, HardwareMinSize: 20000, TariffName: "dear",
				Prices: &v1alpha1.PricesStatus{
					Currency: "EUR", CPUHour: "0.03", NetworkGiB: "0.05", Source: v1alpha1.PricesOfPolicy, Name: "priced",
				},
			},
		},
		"local of which none is the default": {
			&v1alpha1.Compression{}, []v1alpha1.CompressionPolicy{localPolicy("small"), old}, policy.Resolved{
				Name: "old", Source: policy.Default, Objective: v1alpha1.ObjectiveElapsed, Mode: v1alpha1.CompressionAuto,
				Codecs: deflate, Level: v1alpha1.CompressionFast, Placement: v1alpha1.PlacementAnyNode, HardwareMinSize: 20000,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := policy.Resolve("", test.inline, test.policies, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Fatal(diff)
			}
		})
	}
	if _, several := policy.FindDefault(all); !several {
		t.Error("two defaults were not noticed")
	}
}

func TestResolveRefuses(t *testing.T) {
	spec := func(change func(*v1alpha1.CompressionPolicySpec)) []v1alpha1.CompressionPolicy {
		s := v1alpha1.CompressionPolicySpec{Prices: &v1alpha1.Prices{Currency: "EUR", CPUHour: "1", NetworkGiB: "1"}}
		change(&s)
		return []v1alpha1.CompressionPolicy{named("p", 1, true, s)}
	}
	for name, test := range map[string]struct {
		inline   *v1alpha1.Compression
		policies []v1alpha1.CompressionPolicy
		message  string
	}{
		"negative minSize": {&v1alpha1.Compression{MinSize: quantity("-1")}, nil, "between 0 and 1Gi"},
		"absurd minSize":   {&v1alpha1.Compression{MinSize: quantity("9Ei")}, nil, "between 0 and 1Gi"},
		"unknown mode":     {&v1alpha1.Compression{Mode: "Sometimes"}, nil, "Auto, Always or Never"},
		"unknown codec":    {&v1alpha1.Compression{Codecs: []v1alpha1.Codec{"lzw"}}, nil, "[zstd, deflate]"},
		"codec twice": {
			&v1alpha1.Compression{Codecs: []v1alpha1.Codec{"zstd", "deflate", "zstd"}}, nil, "each codec once",
		},
		"unknown engine": {nil, spec(func(s *v1alpha1.CompressionPolicySpec) {
			s.Software = &v1alpha1.SoftwareCompression{Engines: []v1alpha1.SoftwareEngine{"zlib"}}
		}), "known engines"},
		"engine twice": {nil, spec(func(s *v1alpha1.CompressionPolicySpec) {
			s.Software = &v1alpha1.SoftwareCompression{Engines: []v1alpha1.SoftwareEngine{"go", "zlib-ng", "go"}}
		}), "each engine once"},
		"zstd without software": {nil, spec(func(s *v1alpha1.CompressionPolicySpec) {
			s.Codecs, s.Software = []v1alpha1.Codec{"zstd", "deflate"}, &v1alpha1.SoftwareCompression{Disabled: true}
		}), "spec.codecs must not have zstd"},
		"zstd on hardware": {nil, spec(func(s *v1alpha1.CompressionPolicySpec) {
			s.Codecs, s.Placement = []v1alpha1.Codec{"zstd", "deflate"}, v1alpha1.PlacementRequireHardware
		}), "spec.codecs must have deflate first"},
		"inline zstd on hardware": {&v1alpha1.Compression{
			Codecs: []v1alpha1.Codec{"zstd"}, Placement: v1alpha1.PlacementRequireHardware,
		}, nil,
			"must not be RequireHardware where the first of codecs is zstd"},
		"inline zstd without software": {&v1alpha1.Compression{
			Codecs: []v1alpha1.Codec{"zstd"},
		}, spec(func(s *v1alpha1.CompressionPolicySpec) {
			s.Software = &v1alpha1.SoftwareCompression{Disabled: true}
		}), "must not have zstd where software is disabled, by spec.compression.software or CompressionPolicy \"p\""},
		"inline zstd and no software": {&v1alpha1.Compression{
			Codecs: []v1alpha1.Codec{"zstd"}, Software: v1alpha1.SoftwareDisabled,
		}, nil, "must not have zstd where software is disabled: no accelerator does zstd"},
		"unknown software": {
			&v1alpha1.Compression{Software: "Sometimes"}, nil, "spec.compression.software must be Allowed or Disabled",
		},
		"hardware minSize": {nil, spec(func(s *v1alpha1.CompressionPolicySpec) {
			s.Hardware = &v1alpha1.HardwareCompression{MinSize: quantity("2Gi")}
		}), "spec.hardware.minSize"},
		"software minSize": {nil, spec(func(s *v1alpha1.CompressionPolicySpec) {
			s.Software = &v1alpha1.SoftwareCompression{MinSize: quantity("-4Ki")}
		}), "spec.software.minSize"},
		"negative price": {
			nil, spec(func(s *v1alpha1.CompressionPolicySpec) { s.Prices.CPUHour = "-1" }),
			"spec.prices.cpuHour must be a decimal below 1000000, not negative",
		},
		"absurd price": {
			nil, spec(func(s *v1alpha1.CompressionPolicySpec) { s.Prices.NetworkGiB = "1e300" }), "write for example \"0.05\"",
		},
		"huge price": {
			nil, spec(func(s *v1alpha1.CompressionPolicySpec) { s.Prices.NetworkGiB = "1000000" }), "below 1000000",
		},
		"endless price": {
			nil, spec(func(s *v1alpha1.CompressionPolicySpec) { s.Prices.NetworkGiB = strings.Repeat("9", 32) }),
			"below 1000000",
		},
		"too fine": {
			nil, spec(func(s *v1alpha1.CompressionPolicySpec) { s.Prices.CPUHour = "0.0000000001" }),
			"at most 9 digits after the point",
		},
		"not a number": {
			nil, spec(func(s *v1alpha1.CompressionPolicySpec) { s.Prices.CPUHour = "NaN" }), "must be a decimal",
		},
		"infinite": {
			nil, spec(func(s *v1alpha1.CompressionPolicySpec) { s.Prices.CPUHour = "Inf" }), "must be a decimal",
		},
		"zero": {
			nil, spec(func(s *v1alpha1.CompressionPolicySpec) { s.Prices.CPUHour = "0" }), "must be more than 0",
		},
		"zero in full": {
			nil, spec(func(s *v1alpha1.CompressionPolicySpec) { s.Prices.NetworkGiB = "000.000" }), "must be more than 0",
		},
		"objective": {&v1alpha1.Compression{Objective: "Beauty"}, nil, "Cost, Elapsed, CPU or Bytes"},
		"cost, no price": {
			nil, spec(func(s *v1alpha1.CompressionPolicySpec) { s.Objective, s.Prices = v1alpha1.ObjectiveCost, nil }),
			"spec.compression.objective must not be Cost where there are no prices",
		},
		"inline cost, no price": {&v1alpha1.Compression{Objective: v1alpha1.ObjectiveCost}, nil,
			"annotate a Tariff with lighterage.dev/is-default-tariff=true"},
		"no currency": {nil, spec(func(s *v1alpha1.CompressionPolicySpec) { s.Prices.Currency = "" }), "USD"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Resolve("", test.inline, test.policies, nil)
			var invalid *policy.InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), test.message) {
				t.Fatalf("got %v, want a message with %q", err, test.message)
			}
		})
	}
	var notFound *policy.NotFoundError
	if _, err := policy.Resolve("", &v1alpha1.Compression{PolicyName: "gone"}, nil, nil); !errors.As(err, &notFound) {
		t.Fatalf("got %v", err)
	}
}

// TestTariffs: a policy that names a Tariff minimises money, and one that only inherits it does not.
func TestTariffs(t *testing.T) {
	tariff := func(name string, isDefault bool) v1alpha1.Tariff {
		made := v1alpha1.Tariff{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 2}, Spec: v1alpha1.TariffSpec{
			Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: "0.05"},
			NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0", Rules: []v1alpha1.NetworkGiBRule{{Price: "3",
				Peers: []string{"west"}}}},
		}}
		if isDefault {
			made.Annotations = map[string]string{v1alpha1.DefaultTariffAnnotation: "true"}
		}
		return made
	}
	tariffs := []v1alpha1.Tariff{tariff("named", false), tariff("default", true)}
	stated := &v1alpha1.Prices{Currency: "USD", CPUHour: "1", NetworkGiB: "1"}
	for name, c := range map[string]struct {
		spec      v1alpha1.CompressionPolicySpec
		objective v1alpha1.CompressionObjective
		from      string
		network   string
	}{
		"inherits":  {v1alpha1.CompressionPolicySpec{}, v1alpha1.ObjectiveElapsed, "default", "3"},
		"names one": {v1alpha1.CompressionPolicySpec{TariffName: "named"}, v1alpha1.ObjectiveCost, "named", "3"},
		"asks for Cost": {
			v1alpha1.CompressionPolicySpec{Objective: v1alpha1.ObjectiveCost}, v1alpha1.ObjectiveCost, "default", "3",
		},
		"states prices": {v1alpha1.CompressionPolicySpec{TariffName: "named", Prices: stated}, v1alpha1.ObjectiveCost, "p", "1"},
		"names none that is": {
			v1alpha1.CompressionPolicySpec{TariffName: "gone", Objective: v1alpha1.ObjectiveCPU}, v1alpha1.ObjectiveCPU, "", "",
		},
	} {
		resolved, err := policy.Resolve("", nil, []v1alpha1.CompressionPolicy{named("p", 1, true, c.spec)}, tariffs)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		priced := resolved.Priced(tariffs, "west", epoch)
		if priced.Objective != c.objective || (priced.Prices == nil) != (c.from == "") ||
			priced.Prices != nil && (priced.Prices.Name != c.from || priced.Prices.NetworkGiB != c.network) {
			t.Errorf("%s: %s by %+v", name, priced.Objective, priced.Prices)
		}
	}
	var invalid *policy.InvalidError
	missing := []v1alpha1.CompressionPolicy{named("p", 1, true, v1alpha1.CompressionPolicySpec{TariffName: "gone"})}
	if _, err := policy.Resolve("", nil, missing, tariffs); !errors.As(err, &invalid) ||
		!strings.Contains(err.Error(), `"gone"`) {
		t.Errorf("got %v", err)
	}
}

// TestServingObjectives: what serves asks for an objective by itself as Transfers do. A Tariff of the policy that is
// not there stops nothing that does not.
func TestServingObjectives(t *testing.T) {
	missing := named("p", 1, true, v1alpha1.CompressionPolicySpec{TariffName: "gone"})
	bytes := named("p", 1, true, v1alpha1.CompressionPolicySpec{Objective: v1alpha1.ObjectiveBytes})
	usual := v1alpha1.Tariff{
		ObjectMeta: metav1.ObjectMeta{
			Name: "usual", Annotations: map[string]string{v1alpha1.DefaultTariffAnnotation: "true"},
		},
		Spec: v1alpha1.TariffSpec{
			Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: "0.05"}, NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0"},
		},
	}
	only := func(p v1alpha1.CompressionPolicy) []v1alpha1.CompressionPolicy {
		return []v1alpha1.CompressionPolicy{p}
	}
	for name, c := range map[string]struct {
		asked    v1alpha1.CompressionObjective
		policies []v1alpha1.CompressionPolicy
		tariffs  []v1alpha1.Tariff
		want     v1alpha1.CompressionObjective
		message  string
	}{
		"of the policy":         {"", only(bytes), nil, v1alpha1.ObjectiveBytes, ""},
		"its own":               {v1alpha1.ObjectiveCPU, only(bytes), nil, v1alpha1.ObjectiveCPU, ""},
		"its own, built in":     {v1alpha1.ObjectiveBytes, nil, nil, v1alpha1.ObjectiveBytes, ""},
		"the policy's Tariff":   {"", only(missing), nil, v1alpha1.ObjectiveCost, ""},
		"CPU without a Tariff":  {v1alpha1.ObjectiveCPU, only(missing), nil, v1alpha1.ObjectiveCPU, ""},
		"Cost":                  {v1alpha1.ObjectiveCost, nil, []v1alpha1.Tariff{usual}, v1alpha1.ObjectiveCost, ""},
		"Cost without prices":   {v1alpha1.ObjectiveCost, nil, nil, "", v1alpha1.DefaultTariffAnnotation},
		"Cost without a Tariff": {v1alpha1.ObjectiveCost, only(missing), nil, "", `"gone"`},
		"none":                  {"Beauty", nil, nil, "", "Cost, Elapsed, CPU or Bytes"},
	} {
		check := func(kind string, got policy.Resolved, err error) {
			t.Helper()
			var invalid *policy.InvalidError
			switch {
			case c.message == "" && (err != nil || got.Objective != c.want):
				t.Errorf("%s: %s: %q, %v", name, kind, got.Objective, err)
			case c.message != "" && (!errors.As(err, &invalid) || invalid.Field != "spec.compression.objective" ||
				!strings.Contains(err.Error(), c.message)):
				t.Errorf("%s: %s: %v, want a message with %q", name, kind, err, c.message)
			}
		}
		endpoint, err := policy.ResolveHTTP("", &v1alpha1.HTTPCompression{Objective: c.asked}, c.policies, c.tariffs)
		check("HTTPEndpoint", endpoint, err)
		queue, err := policy.ResolveQueue("", &v1alpha1.QueueCompression{Objective: c.asked}, c.policies, c.tariffs)
		check("Queue", queue, err)
	}
}

// TestServing: only who decides by money is told prices, and they last until the next window.
func TestServing(t *testing.T) {
	tariffs := []v1alpha1.Tariff{{
		ObjectMeta: metav1.ObjectMeta{Name: "t"},
		Spec: v1alpha1.TariffSpec{
			Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: "2", Rules: []v1alpha1.CPUHourRule{
				{Price: "1", Windows: []v1alpha1.TariffWindow{{Start: "06:00", End: "07:00"}}},
			}},
			NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "3", Rules: []v1alpha1.NetworkGiBRule{
				{Price: "4", Peers: []string{"west"}},
			}},
		},
	}}
	stated := &v1alpha1.PricesStatus{Currency: "EUR", CPUHour: "7", NetworkGiB: "8"}
	byMoney := policy.Resolved{Objective: v1alpha1.ObjectiveCost, TariffName: "t"}
	for name, c := range map[string]struct {
		resolved         policy.Resolved
		peer             string
		at               time.Duration
		cpuHour, network string
		lasts            time.Duration
	}{
		"at night":       {byMoney, "", 0, "2", "3", 6 * time.Hour},
		"to a Peer":      {byMoney, "west", 0, "2", "4", 6 * time.Hour},
		"in the morning": {byMoney, "", 6 * time.Hour, "1", "3", time.Hour},
		"stated":         {policy.Resolved{Objective: v1alpha1.ObjectiveCost, Prices: stated}, "", 0, "7", "8", 0},
		"none":           {policy.Resolved{Objective: v1alpha1.ObjectiveCost}, "", 0, "", "", 0},
		"gone":           {policy.Resolved{Objective: v1alpha1.ObjectiveCost, TariffName: "gone"}, "", 0, "", "", 0},
		"not by money":   {policy.Resolved{Objective: v1alpha1.ObjectiveCPU, TariffName: "t"}, "", 0, "", "", 0},
	} {
		now := epoch.Add(c.at)
		var got v1alpha1.PricesStatus
		if prices := c.resolved.Serving(tariffs, c.peer, now).Prices; prices != nil {
			got = *prices
		}
		if lasts := c.resolved.ServesFor(tariffs, now); got.CPUHour != c.cpuHour || got.NetworkGiB != c.network ||
			lasts != c.lasts {
			t.Errorf("%s: %+v for %s", name, got, lasts)
		}
	}
}

func TestWire(t *testing.T) {
	resolved := policy.Resolved{
		Mode: v1alpha1.CompressionNever, Level: v1alpha1.CompressionHigh, Placement: v1alpha1.PlacementAnyNode,
		Codecs: []v1alpha1.Codec{v1alpha1.CodecDeflate}, HardwareMinSize: 1, SoftwareMinSize: 2, SoftwareDisabled: true,
		SoftwareEngines: []v1alpha1.SoftwareEngine{v1alpha1.EngineZlibNG, v1alpha1.EngineGo},
		Objective:       v1alpha1.ObjectiveCost,
		Prices:          &v1alpha1.PricesStatus{Currency: "USD", CPUHour: "0.031", NetworkGiB: "999999.999999999"},
	}
	got := resolved.Wire()
	if got.Objective != wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_COST ||
		got.Prices.GetCpuHourNanos() != 31_000_000 ||
		got.Prices.GetNetworkGibNanos() != 999_999_999_999_999 {
		t.Errorf("objective and prices on the wire: %v, %v", got.Objective, got.Prices)
	}
	if status := resolved.Status(); status.Objective != resolved.Objective || *status.Prices != *resolved.Prices {
		t.Errorf("objective and prices in status: %v, %v", status.Objective, status.Prices)
	} else {
		// What the API server answers is decoded into the status, and the CompressionPolicy may be the cache's.
		status.Prices.CPUHour, status.Codecs[0], status.SoftwareEngines[0] = "7", v1alpha1.CodecZstd, v1alpha1.EngineGo
		if resolved.Prices.CPUHour == "7" || resolved.Codecs[0] == v1alpha1.CodecZstd ||
			resolved.SoftwareEngines[0] == v1alpha1.EngineGo {
			t.Error("the status shares memory with the policy")
		}
	}
	if got.Mode != wirev1.CompressionMode_COMPRESSION_MODE_NEVER ||
		got.Level != wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH ||
		got.PreferHardware || !got.SoftwareDisabled || got.HardwareMinSize != 1 || got.SoftwareMinSize != 2 ||
		len(got.Codecs) != 1 {
		t.Fatal(got)
	}
	if want := []string{"zlib-ng", "go"}; !slices.Equal(got.SoftwareEngines, want) {
		t.Errorf("engines on the wire: %q, want %q", got.SoftwareEngines, want)
	}
	if got := resolved.Status().SoftwareEngines; !slices.Equal(got, resolved.SoftwareEngines) {
		t.Errorf("engines in status: %q", got)
	}
}

// TestKept: what a status shows is all that a run needs to go on.
func TestKept(t *testing.T) {
	full := policy.Resolved{
		Local: true, Name: "p", Source: policy.Named, Objective: v1alpha1.ObjectiveBytes, Mode: v1alpha1.CompressionAlways,
		Level:  v1alpha1.CompressionHigh,
		Codecs: []v1alpha1.Codec{v1alpha1.CodecZstd}, Placement: v1alpha1.PlacementAnyNode, HardwareMinSize: 3,
		SoftwareMinSize: 4, SoftwareDisabled: true,
		SoftwareEngines: []v1alpha1.SoftwareEngine{v1alpha1.EngineGo},
		TariffName:      "t",
		Prices:          &v1alpha1.PricesStatus{Currency: "EUR", CPUHour: "1", NetworkGiB: "2"},
		Canary:          &v1alpha1.PolicyCanary{Revision: "r", Applies: true},
	}
	builtIn, err := policy.Resolve("", nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []policy.Resolved{full, builtIn} {
		if diff := cmp.Diff(want, policy.Kept(want.Status())); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff(builtIn, policy.Kept(nil)); diff != "" {
		t.Error(diff)
	}
	for i, value := 0, reflect.ValueOf(full); i < value.NumField(); i++ {
		if value.Field(i).IsZero() {
			t.Errorf("the test says nothing of %s", value.Type().Field(i).Name)
		}
	}
}

func TestWireObjective(t *testing.T) {
	for objective, want := range map[v1alpha1.CompressionObjective]wirev1.CompressionObjective{
		v1alpha1.ObjectiveCost:    wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_COST,
		v1alpha1.ObjectiveElapsed: wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_ELAPSED,
		v1alpha1.ObjectiveCPU:     wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_CPU,
		v1alpha1.ObjectiveBytes:   wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_BYTES,
	} {
		got := policy.Resolved{Objective: objective}.Wire()
		if got.Objective != want || got.Prices != nil {
			t.Errorf("%s: %v", objective, got)
		}
	}
}
