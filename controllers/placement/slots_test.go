// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/placement"
)

// TestSlots: of agents that are placed for an accelerator there are no more than it has slots, and those that can do without one do.
func TestSlots(t *testing.T) {
	mixed := []corev1.Node{node("a", "software"), node("y", "hardware"), node("z", "hardware")}
	all := []corev1.Node{node("y", "hardware"), node("z", "hardware")}
	receiver := placement.Request{Placement: v1alpha1.PlacementPreferHardware, Inflates: true}
	for name, test := range map[string]struct {
		request  placement.Request
		nodes    []corev1.Node
		free     map[string]int64
		slot     bool
		reason   string
		required string // nodes that the affinity leaves
		best     string // of them, those that it prefers
	}{
		"no cap":                    {prefer, mixed, nil, false, "HardwareNode", "a y z", "y z"},
		"one is free":               {prefer, mixed, map[string]int64{"y": 0, "z": 1}, true, "HardwareNode", "a y z", "y z"},
		"none is free":              {prefer, mixed, map[string]int64{"y": 0, "z": -1}, false, "AcceleratorBusy", "a", ""},
		"no room beside them":       {with(prefer, func(r *placement.Request) { r.Shun = true }), mixed, map[string]int64{"y": 3, "z": 3}, false, "AcceleratorBusy", "a", ""},
		"none is free, none other":  {prefer, all, map[string]int64{"y": 0, "z": 0}, true, "AcceleratorBusy", "y z", "y z"},
		"required, one is free":     {require, mixed, map[string]int64{"y": 1, "z": 0}, true, "HardwareNode", "y z", ""},
		"required, none is free":    {require, mixed, map[string]int64{"y": 0, "z": 0}, true, "AcceleratorBusy", "y z", ""},
		"no accelerator":            {prefer, mixed[:1], map[string]int64{}, false, "NoAccelerator", "a", ""},
		"a receiver spares them":    {receiver, mixed, map[string]int64{"y": 1, "z": 1}, false, "AnyNode", "a y z", "a"},
		"a receiver without a cap":  {receiver, mixed, nil, false, "HardwareNode", "a y z", "y z"},
		"one that does not ask":     {with(prefer, func(r *placement.Request) { r.Placement = v1alpha1.PlacementAnyNode }), mixed, map[string]int64{"y": 1, "z": 1}, false, "AnyNode", "a y z", "a"},
		"one that has no use of it": {with(prefer, func(r *placement.Request) { r.Mode = v1alpha1.CompressionNever }), mixed, map[string]int64{"y": 1, "z": 1}, false, "AnyNode", "a y z", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			plan := placement.Decide(test.request, placement.Facts{Nodes: test.nodes, FreeSlots: test.free})
			asked := plan.Resources()[v1alpha1.AcceleratorSlotsResource]
			if plan.Slot != test.slot || (asked.Value() == 1) != test.slot || plan.Status.Reason != test.reason || plan.Blocked != nil {
				t.Errorf("%+v", plan)
			}
			if placement.Avoids(plan.Affinity) != (test.required == "a" && len(test.nodes) > 0) {
				t.Errorf("avoids accelerators: %t", placement.Avoids(plan.Affinity))
			}
			required := scheduling.NewRequiredNodeAffinity(nil, plan.Affinity)
			var preferred []corev1.PreferredSchedulingTerm
			if plan.Affinity != nil {
				preferred = plan.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
			}
			terms, err := scheduling.NewPreferredSchedulingTerms(preferred)
			if err != nil {
				t.Fatal(err)
			}
			var may, best []string
			for i := range test.nodes {
				matches, err := required.Match(&test.nodes[i])
				if err != nil {
					t.Fatal(err)
				}
				if !matches {
					continue
				}
				may = append(may, test.nodes[i].Name)
				if terms.Score(&test.nodes[i]) > 0 {
					best = append(best, test.nodes[i].Name)
				}
			}
			if strings.Join(may, " ") != test.required || strings.Join(best, " ") != test.best {
				t.Errorf("may run on %v, prefers %v", may, best)
			}
		})
	}
}
