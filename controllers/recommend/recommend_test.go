// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package recommend_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/recommend"
)

func result(codec, engine, level, ratio, cpu, cost string, seconds ...string) v1alpha1.TrialResult {
	r := v1alpha1.TrialResult{Codec: codec, Engine: engine, Level: level, Ratio: ratio}
	for i, s := range seconds {
		r.Predictions = append(
			r.Predictions,
			v1alpha1.TrialPrediction{
				Link: []string{"wan", "lan", "bus"}[i], SecondsPerGiB: s, CPUSecondsPerGiB: cpu, CostPerGiB: cost,
			},
		)
	}
	return r
}

const (
	stored, accelerated, isal, zstdBalanced, goFast = 0, 1, 2, 3, 4
)

func input(best ...int) recommend.Input {
	s := &v1alpha1.CompressionTrialStatus{
		Sample: &v1alpha1.TrialSampleStatus{Bytes: 64 << 20, HopelessBytes: 16 << 20},
		Results: []v1alpha1.TrialResult{
			result("none", "none", "", "1.000", "3.00", "0.05002", "86.00", "8.60", "1.00"),
			result("deflate", "dfltcc", "Fast", "3.000", "4.00", "0.0167", "29.00", "3.00", "1.20"),
			result("deflate", "isa-l", "Fast", "2.900", "6.00", "0.0173", "30.00", "3.10", "2.00"),
			result("zstd", "libzstd", "Balanced", "4.000", "8.00", "0.0125", "22.00", "4.00", "4.00"),
			{Codec: "deflate", Engine: "go", Level: "Fast", Problem: "no memory"},
		},
	}
	for i := range best {
		s.Links = append(
			s.Links, v1alpha1.TrialLink{Name: []string{"wan", "lan", "bus"}[i], BytesPerSecond: resource.MustParse("125M")},
		)
	}
	return recommend.Input{
		Name: "ledger", Status: s, Best: best, Current: v1alpha1.PolicyStatus{
			Name: "priced", Objective: v1alpha1.ObjectiveElapsed, Placement: v1alpha1.PlacementPreferHardware,
			HardwareMinSize: ptr.To(resource.MustParse("20000")),
			Prices:          &v1alpha1.PricesStatus{Currency: "USD", CPUHour: "0.031", NetworkGiB: "0.05"},
		},
	}
}

// TestPricesOfARecommendation: what a Tariff says stays in the Tariff, by its name or as the default, and what a policy
// states itself is taken over.
func TestPricesOfARecommendation(t *testing.T) {
	stated := v1alpha1.PricesStatus{Currency: "USD", CPUHour: "0.031", NetworkGiB: "0.05"}
	ofTariff := stated
	ofTariff.Source = v1alpha1.PricesOfTariff
	for name, c := range map[string]struct {
		prices *v1alpha1.PricesStatus
		called string
		states bool
	}{
		"stated": {&stated, "", true}, "stated beside a Tariff": {&stated, "t", true},
		"of a Tariff": {&ofTariff, "t", false}, "of the default": {&ofTariff, "", false}, "none": {nil, "", false},
	} {
		in := input(isal)
		in.Current.Prices, in.Current.TariffName = c.prices, c.called
		r, err := recommend.Recommend(in)
		if err != nil {
			t.Fatal(err)
		}
		var p v1alpha1.CompressionPolicy
		if err := yaml.UnmarshalStrict([]byte(r.Policy), &p); err != nil {
			t.Fatalf("%s: %v: %s", name, err, r.Policy)
		}
		if p.Spec.TariffName != c.called || (p.Spec.Prices != nil) != c.states ||
			c.states && p.Spec.Prices.CPUHour != stated.CPUHour {
			t.Errorf("%s: %+v", name, p.Spec)
		}
	}
}

func TestRecommend(t *testing.T) {
	for name, test := range map[string]struct {
		best      []int
		change    func(*recommend.Input)
		codecs    []v1alpha1.Codec
		level     v1alpha1.CompressionLevel
		mode      v1alpha1.CompressionMode
		placement v1alpha1.Placement
		says      []string
	}{
		"one": {
			[]int{isal}, func(in *recommend.Input) { in.Status.Results[accelerated].Problem = "x" }, []v1alpha1.Codec{"deflate"},
			"Fast", "Auto", "PreferHardware", []string{"since no accelerator was measured"},
		},
		"most first": {
			[]int{zstdBalanced, isal, isal}, nil, []v1alpha1.Codec{"deflate", "zstd"}, "Balanced", "Auto", "AnyNode",
			[]string{"zstd by libzstd at Balanced is best over wan", "deflate by isa-l at Fast is best over lan, bus"},
		},
		"accelerator": {
			[]int{accelerated, accelerated, stored}, nil, []v1alpha1.Codec{"deflate"}, "Fast", "Auto", "PreferHardware",
			[]string{"the accelerator was best", "no compression is best over bus", "25 %"},
		},
		"second place": {
			[]int{zstdBalanced, zstdBalanced, accelerated}, nil, []v1alpha1.Codec{"zstd", "deflate"}, "Balanced", "Auto",
			"AnyNode", []string{"not best over most"},
		},
		"nothing": {[]int{stored}, nil, nil, "", "Never", "", []string{"nothing is better"}},
		"forbidden": {[]int{zstdBalanced}, func(in *recommend.Input) {
			in.Current.SoftwareDisabled, in.Current.Placement = true, v1alpha1.PlacementRequireHardware
			in.Status.Results[accelerated].Problem = "x"
		}, []v1alpha1.Codec{"zstd"}, "Balanced", "Auto", "PreferHardware", []string{
			"software is allowed", "no accelerator does zstd",
		}},
		"hardware alone": {
			[]int{accelerated}, func(in *recommend.Input) { in.Current.SoftwareDisabled = true }, []v1alpha1.Codec{"deflate"},
			"Fast", "Auto", "PreferHardware", nil,
		},
	} {
		in := input(test.best...)
		if test.change != nil {
			test.change(&in)
		}
		r, err := recommend.Recommend(in)
		if err != nil {
			t.Fatal(err)
		}
		var p v1alpha1.CompressionPolicy
		if err := yaml.UnmarshalStrict([]byte(r.Policy), &p); err != nil {
			t.Fatalf("%s: %v: %s", name, err, r.Policy)
		}
		// What is recommended can be applied.
		if err := policy.ValidateSpec(p.Spec); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if p.Kind != "CompressionPolicy" || p.Name != "ledger" || !slices.Equal(p.Spec.Codecs, test.codecs) ||
			p.Spec.Level != test.level || p.Spec.Mode != test.mode ||
			p.Spec.Placement != test.placement || p.Spec.Objective != v1alpha1.ObjectiveElapsed ||
			p.Spec.Prices.NetworkGiB != "0.05" || p.Spec.Hardware.MinSize.Value() != 20000 {
			t.Errorf("%s: %s", name, r.Policy)
		}
		if disabled := p.Spec.Software != nil && p.Spec.Software.Disabled; disabled != (name == "hardware alone") {
			t.Errorf("%s: %s", name, r.Policy)
		}
		in.Current.Kind, in.Current.TariffName, in.Namespace = v1alpha1.LocalPolicyKind, "dear", "bank"
		if r, err = recommend.Recommend(in); err != nil {
			t.Fatal(err)
		}
		var local v1alpha1.LocalCompressionPolicy
		if err := yaml.UnmarshalStrict([]byte(r.Policy), &local); err != nil || local.Kind != v1alpha1.LocalPolicyKind ||
			local.Namespace != "bank" ||
			local.Spec.Mode != test.mode || !slices.Equal(local.Spec.Codecs, test.codecs) {
			t.Errorf("%s: %v: %s", name, err, r.Policy)
		}
		for _, say := range test.says {
			if !strings.Contains(r.Message, say) {
				t.Errorf("%s: %q lacks %q", name, r.Message, say)
			}
		}
		if len(r.Choices) != len(test.best) {
			t.Errorf("%s: %+v", name, r.Choices)
		}
	}
}

// TestOneForAll: what HTTPEndpoints and Queues compress, they compress at exactly the level of their policy. Whether
// they do is decided for each class by what they measure, so that a link over which nothing is worth compressing says
// neither Never nor with what.
func TestOneForAll(t *testing.T) {
	body, message := v1alpha1.TrialUnitBody, v1alpha1.TrialUnitMessage
	for name, test := range map[string]struct {
		unit      v1alpha1.TrialUnit
		best      []int
		codec     []v1alpha1.Codec
		level     v1alpha1.CompressionLevel
		mode      v1alpha1.CompressionMode
		placement v1alpha1.Placement
		codings   string // what to write into the spec of an HTTPEndpoint
	}{
		"body": {body, []int{zstdBalanced}, []v1alpha1.Codec{"zstd"}, "Balanced", "Auto", "AnyNode", "codings: [zstd, gzip]"},
		"most links": {
			body, []int{zstdBalanced, isal, isal}, []v1alpha1.Codec{"deflate"}, "Fast", "Auto", "AnyNode", "codings: [gzip]",
		},
		"two engines": {
			message, []int{zstdBalanced, isal, accelerated}, []v1alpha1.Codec{"deflate"}, "Fast", "Auto", "PreferHardware", "",
		},
		"as many": {message, []int{zstdBalanced, isal}, []v1alpha1.Codec{"zstd"}, "Balanced", "Auto", "AnyNode", ""},
		"worth it over one link": {
			message, []int{stored, zstdBalanced, stored}, []v1alpha1.Codec{"zstd"}, "Balanced", "Auto", "AnyNode", "",
		},
		"bodies worth it over one link": {
			body, []int{stored, stored, isal}, []v1alpha1.Codec{"deflate"}, "Fast", "Auto", "AnyNode", "codings: [gzip]",
		},
		"worth it over no link":        {message, []int{stored, stored, stored}, nil, "", "Never", "", ""},
		"bodies worth it over no link": {body, []int{stored}, nil, "", "Never", "", ""},
		"blocks": {
			v1alpha1.TrialUnitBlock, []int{zstdBalanced, stored, isal}, []v1alpha1.Codec{"zstd", "deflate"}, "Balanced", "Auto",
			"AnyNode", "",
		},
	} {
		in := input(test.best...)
		in.Status.Sample.Unit = test.unit
		r, err := recommend.Recommend(in)
		if err != nil {
			t.Fatal(err)
		}
		var p v1alpha1.CompressionPolicy
		if err := yaml.UnmarshalStrict([]byte(r.Policy), &p); err != nil {
			t.Fatalf("%s: %v: %s", name, err, r.Policy)
		}
		if err := policy.ValidateSpec(p.Spec); err != nil || !slices.Equal(p.Spec.Codecs, test.codec) ||
			p.Spec.Level != test.level || p.Spec.Mode != test.mode || p.Spec.Placement != test.placement {
			t.Errorf("%s: %v %s", name, err, r.Policy)
		}
		if !strings.Contains(r.Message, test.codings) || (test.codings == "") == strings.Contains(r.Message, "codings:") ||
			len(r.Choices) != len(test.best) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestChoicesAreExplained(t *testing.T) {
	for objective, want := range map[v1alpha1.CompressionObjective]string{
		v1alpha1.ObjectiveElapsed: "zstd by libzstd at Balanced over wan (125M bytes per second): 22 s for a GiB; no " +
			"compression: 86 s (+291 %); deflate by dfltcc at Fast: 29 s (+32 %)",
		v1alpha1.ObjectiveCost:  "USD 0.01250 for a GiB; no compression: USD 0.05002 (+300 %)",
		v1alpha1.ObjectiveCPU:   "8 CPU seconds for a GiB; no compression: 3 CPU seconds (-62 %)",
		v1alpha1.ObjectiveBytes: "256 MiB for a GiB; no compression: 1024 MiB (+300 %)",
	} {
		in := input(zstdBalanced, zstdBalanced)
		in.Current.Objective = objective
		// Over another link the figures are others.
		for _, row := range in.Status.Results[:goFast] {
			row.Predictions[1].CPUSecondsPerGiB, row.Predictions[1].CostPerGiB = "77.00", "77"
		}
		r, err := recommend.Recommend(in)
		if err != nil {
			t.Fatal(err)
		}
		if other := r.Choices[1].Message; (objective == v1alpha1.ObjectiveCPU ||
			objective == v1alpha1.ObjectiveCost) != strings.Contains(other, "77") {
			t.Errorf("%s: %s", objective, other)
		}
		if got := r.Choices[0]; !strings.Contains(got.Message, want) || got.Link != "wan" || got.Engine != "libzstd" {
			t.Errorf("%s: %s", objective, got.Message)
		}
	}
}
