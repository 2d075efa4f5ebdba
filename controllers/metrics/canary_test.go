// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// TestCanaries: a policy shows the state of its canary, and the change once there is one, as long as it has a canary.
func TestCanaries(t *testing.T) {
	i, registry := inventory()
	policy := &v1alpha1.CompressionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "z-first", UID: "1"}}
	const change = "lighterage_compressionpolicy_canary_cost_change_ratio{z-first}"
	state := func(name string) string { return "lighterage_compressionpolicy_canary_info{z-first," + name + "}" }
	for _, step := range []struct {
		canary       *v1alpha1.CanaryStatus
		want, absent []string
	}{
		{nil, nil, []string{state("Measuring"), change}},
		{&v1alpha1.CanaryStatus{State: v1alpha1.CanaryMeasuring}, []string{state("Measuring")}, []string{change}},
		{
			&v1alpha1.CanaryStatus{State: v1alpha1.CanaryRolledBack, ChangePercent: "25.0"},
			[]string{state("RolledBack"), change}, []string{state("Measuring")},
		},
		{nil, nil, []string{state("RolledBack"), change}},
	} {
		now := policy.DeepCopy()
		now.Status.Canary = step.canary
		i.Update(policy, now)
		got := gathered(t, registry)
		for _, name := range step.want {
			if want := map[bool]float64{true: 0.25, false: 1}[name == change]; got[name] != want {
				t.Errorf("%s is %v, want %v", name, got[name], want)
			}
		}
		for _, name := range step.absent {
			if value, ok := got[name]; ok {
				t.Errorf("%s is %v", name, value)
			}
		}
	}
}
