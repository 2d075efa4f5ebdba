// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/canary"
	"github.com/lighterage/lighterage/controllers/policy"
)

// measured is a policy whose canary is measured on half of its objects, and one object on each side.
func measured(
	change func(*v1alpha1.CompressionPolicySpec), settings v1alpha1.CanarySettings,
) (all []v1alpha1.CompressionPolicy, inside, outside types.UID) {
	spec := v1alpha1.CompressionPolicySpec{
		Objective: v1alpha1.ObjectiveCPU, Canary: &v1alpha1.CompressionCanary{Settings: settings, SharePercent: 50},
	}
	change(&spec)
	p := named("p", 1, true, spec)
	p.Status.Canary = &v1alpha1.CanaryStatus{Revision: canary.Revision(&p), State: v1alpha1.CanaryMeasuring}
	for i := 0; inside == "" || outside == ""; i++ {
		uid := types.UID(fmt.Sprint("object-", i))
		if canary.Of(&p, uid).Applies {
			inside = uid
		} else {
			outside = uid
		}
	}
	return []v1alpha1.CompressionPolicy{named("other", 2, false, v1alpha1.CompressionPolicySpec{}), p}, inside, outside
}

func unchanged(*v1alpha1.CompressionPolicySpec) {}

// TestCanary: some objects have the canary's settings, others are compared with them, and where it cannot matter no
// object says so.
func TestCanary(t *testing.T) {
	zstd := []v1alpha1.Codec{v1alpha1.CodecZstd}
	high := v1alpha1.CanarySettings{Level: v1alpha1.CompressionHigh}
	for name, c := range map[string]struct {
		change   func(*v1alpha1.CompressionPolicySpec)
		settings v1alpha1.CanarySettings
		inline   v1alpha1.Compression
		level    v1alpha1.CompressionLevel
		matters  bool
	}{
		"named":   {unchanged, high, v1alpha1.Compression{PolicyName: "p"}, v1alpha1.CompressionHigh, true},
		"default": {unchanged, high, v1alpha1.Compression{}, v1alpha1.CompressionHigh, true},
		"set inline": {
			unchanged, high, v1alpha1.Compression{Level: v1alpha1.CompressionBalanced}, v1alpha1.CompressionBalanced, false,
		},
		"as the policy": {
			unchanged, v1alpha1.CanarySettings{Level: v1alpha1.CompressionFast}, v1alpha1.Compression{},
			v1alpha1.CompressionFast,
			false,
		},
		"another policy": {unchanged, high, v1alpha1.Compression{PolicyName: "other"}, v1alpha1.CompressionFast, false},
		// They would make the object Stalled.
		"impossible": {
			unchanged, v1alpha1.CanarySettings{Codecs: zstd, Level: v1alpha1.CompressionHigh},
			v1alpha1.Compression{Placement: v1alpha1.PlacementRequireHardware}, v1alpha1.CompressionFast, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			all, inside, outside := measured(c.change, c.settings)
			in, err := policy.Resolve(inside, &c.inline, all, nil)
			out, outErr := policy.Resolve(outside, &c.inline, all, nil)
			nobody, nobodyErr := policy.Resolve("", &c.inline, all, nil)
			if err := errors.Join(err, outErr, nobodyErr); err != nil {
				t.Fatal(err)
			}
			if in.Level != c.level || (in.Canary != nil) != c.matters || c.matters && !in.Canary.Applies {
				t.Errorf("inside: %+v", in)
			}
			if (out.Canary != nil) != c.matters || c.matters && (out.Canary.Applies || out.Level == c.level) {
				t.Errorf("outside: %+v", out)
			}
			if nobody.Canary != nil || nobody.Level != out.Level {
				t.Errorf("of no object: %+v", nobody)
			}
		})
	}
}

// TestCanaryOfServing: Queues and HTTPEndpoints take the settings that mean something to them, and no other sizes.
func TestCanaryOfServing(t *testing.T) {
	all, inside, _ := measured(unchanged, v1alpha1.CanarySettings{
		Objective: v1alpha1.ObjectiveBytes, Codecs: []v1alpha1.Codec{v1alpha1.CodecZstd},
	})
	queue, err := policy.ResolveQueue(inside, nil, all, nil)
	if err != nil || queue.Codecs[0] != v1alpha1.CodecZstd || queue.Objective != v1alpha1.ObjectiveBytes ||
		queue.SoftwareMinSize != 1024 || queue.Canary == nil {
		t.Errorf("%+v, %v", queue, err)
	}
	endpoint, err := policy.ResolveHTTP(inside, nil, all, nil)
	if err != nil || endpoint.Objective != v1alpha1.ObjectiveBytes || endpoint.Canary == nil {
		t.Errorf("%+v, %v", endpoint, err)
	}
	all, inside, _ = measured(unchanged, v1alpha1.CanarySettings{Codecs: []v1alpha1.Codec{v1alpha1.CodecZstd}})
	if endpoint, err = policy.ResolveHTTP(inside, nil, all, nil); err != nil || endpoint.Canary != nil {
		t.Errorf("codecs mean nothing to HTTP: %+v, %v", endpoint, err)
	}
	local := localPolicy("p")
	named := &v1alpha1.Compression{PolicyName: "p"}
	if got, err := policy.Resolve(inside, named, append([]v1alpha1.CompressionPolicy{local}, all...), nil); err != nil ||
		got.Canary != nil {
		t.Errorf("a policy of a namespace: %+v, %v", got, err)
	}
}

func TestCanaryIsValidated(t *testing.T) {
	high := v1alpha1.CanarySettings{Level: v1alpha1.CompressionHigh}
	zstd := v1alpha1.CanarySettings{Codecs: []v1alpha1.Codec{v1alpha1.CodecZstd}}
	for name, c := range map[string]struct {
		canary v1alpha1.CompressionCanary
		spec   v1alpha1.CompressionPolicySpec
		field  string
	}{
		"good": {v1alpha1.CompressionCanary{Settings: high, SharePercent: 50, MaxCostIncreasePercent: ptr.To[int32](0),
			Duration: &metav1.Duration{Duration: 10 * time.Minute}}, v1alpha1.CompressionPolicySpec{}, ""},
		"no settings": {v1alpha1.CompressionCanary{}, v1alpha1.CompressionPolicySpec{}, "spec.canary.settings"},
		"most": {v1alpha1.CompressionCanary{Settings: high, SharePercent: 51}, v1alpha1.CompressionPolicySpec{},
			"spec.canary.sharePercent"},
		"short": {v1alpha1.CompressionCanary{Settings: high, Duration: &metav1.Duration{Duration: time.Minute}},
			v1alpha1.CompressionPolicySpec{}, "spec.canary.duration"},
		"negative": {v1alpha1.CompressionCanary{Settings: high, MaxCostIncreasePercent: ptr.To[int32](-1)},
			v1alpha1.CompressionPolicySpec{}, "spec.canary.maxCostIncreasePercent"},
		"unknown": {v1alpha1.CompressionCanary{Settings: v1alpha1.CanarySettings{Mode: "Sometimes"}},
			v1alpha1.CompressionPolicySpec{}, "spec.canary.settings.mode"},
		"zstd without software": {v1alpha1.CompressionCanary{Settings: zstd}, v1alpha1.CompressionPolicySpec{
			Software: &v1alpha1.SoftwareCompression{Disabled: true}}, "spec.canary.settings"},
		"zstd on hardware": {v1alpha1.CompressionCanary{Settings: zstd}, v1alpha1.CompressionPolicySpec{
			Placement: v1alpha1.PlacementRequireHardware}, "spec.canary.settings"},
	} {
		c.spec.Canary = &c.canary
		err := policy.ValidateSpec(c.spec)
		var invalid *policy.InvalidError
		if c.field == "" && err != nil ||
			c.field != "" && (!errors.As(err, &invalid) || !strings.HasPrefix(invalid.Field, c.field)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
