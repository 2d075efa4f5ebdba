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

// TestSlots: of agents that are placed for an accelerator there are no more than it has slots, and those that can do
// without one do.
func TestSlots(t *testing.T) {
	mixed := []corev1.Node{node("a", "software"), node("y", "hardware"), node("z", "hardware")}
	all := []corev1.Node{node("y", "hardware"), node("z", "hardware")}
	receiver := placement.Request{Placement: v1alpha1.PlacementPreferHardware, Inflates: true}
	for name, test := range map[string]struct {
		request  placement.Request
		nodes    []corev1.Node
		free     map[string]int64
		awaited  int64
		slot     bool
		reason   string
		required string // nodes that the affinity leaves
		best     string // of them, those that it prefers
	}{
		"no cap": {prefer, mixed, nil, 0, false, "HardwareNode", "a y z", "y z"},
		"one is free": {
			prefer, mixed, map[string]int64{"y": 0, "z": 1}, 0, true, "HardwareNode", "a y z", "y z",
		},
		"none is free": {prefer, mixed, map[string]int64{"y": 0, "z": -1}, 0, false, "AcceleratorBusy", "a", ""},
		"kept off, busy": {
			with(prefer, func(r *placement.Request) { r.Shun = v1alpha1.PlacementReasonAcceleratorBusy }), mixed,
			map[string]int64{"y": 3, "z": 3}, 0, false, "AcceleratorBusy", "a", "",
		},
		"kept off, no free resources": {
			with(prefer, func(r *placement.Request) { r.Shun = v1alpha1.PlacementReasonNoRoom }), mixed,
			map[string]int64{"y": 3, "z": 3}, 0, false, "NoRoom", "a", "",
		},
		"the last is awaited": {prefer, mixed, map[string]int64{"y": 0, "z": 1}, 1, false, "AcceleratorBusy", "a", ""},
		"one more than awaited": {
			prefer, mixed, map[string]int64{"y": -1, "z": 2}, 1, true, "HardwareNode", "a y z", "y z",
		},
		"required, it is awaited": {
			require, mixed, map[string]int64{"y": 0, "z": 1}, 1, true, "AcceleratorBusy", "y z", "",
		},
		"none is free, none other": {
			prefer, all, map[string]int64{"y": 0, "z": 0}, 0, true, "AcceleratorBusy", "y z", "y z",
		},
		"required, one is free": {require, mixed, map[string]int64{"y": 1, "z": 0}, 0, true, "HardwareNode", "y z", ""},
		"required, none is free": {
			require, mixed, map[string]int64{"y": 0, "z": 0}, 0, true, "AcceleratorBusy", "y z", "",
		},
		"no accelerator":           {prefer, mixed[:1], map[string]int64{}, 0, false, "NoAccelerator", "a", ""},
		"a receiver spares them":   {receiver, mixed, map[string]int64{"y": 1, "z": 1}, 0, false, "AnyNode", "a y z", "a"},
		"a receiver without a cap": {receiver, mixed, nil, 0, false, "HardwareNode", "a y z", "y z"},
		"one that does not ask": {
			with(prefer, func(r *placement.Request) { r.Placement = v1alpha1.PlacementAnyNode }), mixed,
			map[string]int64{"y": 1, "z": 1}, 0, false, "AnyNode", "a y z", "a",
		},
		"one that has no use of it": {
			with(prefer, func(r *placement.Request) { r.Mode = v1alpha1.CompressionNever }), mixed,
			map[string]int64{"y": 1, "z": 1}, 0, false, "AnyNode", "a y z", "a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := placement.Decide(
				test.request, placement.Facts{Nodes: test.nodes, FreeSlots: test.free, AwaitedSlots: test.awaited},
			)
			asked := plan.Resources()[v1alpha1.AcceleratorSlotsResource]
			if plan.Slot != test.slot || (asked.Value() == 1) != test.slot || plan.Status.Reason != test.reason ||
				plan.Blocked != nil {
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

// TestWaits: what is said of an agent whose pod the scheduler finds no node for, so that what it waits for and the fix
// are told, and not what would be best. Others that wait are not before it; those that are there are.
func TestWaits(t *testing.T) {
	mixed := []corev1.Node{node("a", "software"), node("z", "hardware")}
	slots := func(free, awaited int64) func(*placement.Facts) {
		return func(f *placement.Facts) { f.FreeSlots, f.AwaitedSlots = map[string]int64{"z": free}, awaited }
	}
	const doWithout = "choose PreferHardware to run without one"
	for name, test := range map[string]struct {
		request placement.Request
		nodes   []corev1.Node
		change  func(*placement.Facts)
		reason  string // of status
		blocked string // reason of what it waits for; empty: the scheduler's words are all
		says    []string
		never   string
	}{
		"required": {require, mixed, nil, "NoRoom", "NoRoom",
			[]string{
				"placement RequireHardware waits for", "beside the accelerator of z", "free resources there",
				"spec.podTemplate.resources", doWithout,
			}, "ends"},
		"of a trial": {with(require, func(r *placement.Request) {
			r.Asker, r.WayOut = "spec.nodeClass", "choose Any"
		}), mixed, nil, "NoRoom", "NoRoom",
			[]string{"spec.nodeClass waits for", "or choose Any"}, "PreferHardware"},
		"required, gone": {
			require, mixed[:1], nil, "NoAccelerator", "NoAccelerator", []string{"no node of the cluster has", doWithout},
			"free resources",
		},
		"required, the last slot is its": {
			require, mixed, slots(1, 1), "NoRoom", "NoRoom", []string{"beside the accelerator of z", "free resources there"},
			"share",
		},
		"required, others wait as well": {
			require, mixed, slots(1, 3), "NoRoom", "NoRoom", []string{"beside the accelerator of z"}, "share",
		},
		"required, slots are taken": {
			require, mixed, slots(0, 1), "AcceleratorBusy", "AcceleratorBusy",
			[]string{"share the accelerator of z are there already", "when one of them ends", doWithout}, "wait to be placed",
		},
		"preferred": {
			prefer, mixed, nil, "NoRoom", "Unschedulable", []string{"nor on another node; free resources"}, "RequireHardware",
		},
		"preferred, the last slot is its": {
			prefer, mixed, slots(1, 1), "NoRoom", "Unschedulable", []string{"beside the accelerator of z"}, "share",
		},
		"preferred, no other node": {
			prefer, mixed[1:], slots(0, 1), "AcceleratorBusy", "Unschedulable",
			[]string{"no other node can take", "when one of them ends"}, "free resources",
		},
		"preferred, kept off": {
			with(prefer, func(r *placement.Request) { r.Shun = "AcceleratorBusy" }), mixed, slots(1, 0), "AcceleratorBusy",
			"Unschedulable", []string{"were there", "no other node", "placed again"}, "already",
		},
		"preferred, no free resources on either side": {
			with(prefer, func(r *placement.Request) { r.Shun = "NoRoom" }), mixed, slots(1, 0), "NoRoom", "Unschedulable",
			[]string{"did not place", "nor on another node"}, "share",
		},
		"a receiver": {
			placement.Request{Placement: v1alpha1.PlacementPreferHardware, Inflates: true}, mixed, nil, "NoRoom",
			"Unschedulable", []string{"free resources there"}, "spec.podTemplate",
		},
		"any node": {
			with(prefer, func(r *placement.Request) { r.Placement = v1alpha1.PlacementAnyNode }), mixed, nil, "AnyNode", "", nil,
			"",
		},
		"bound to a node": {
			prefer, mixed, func(f *placement.Facts) { f.Claim, f.Volume = "ledger", onNodes("a") }, "ClaimBound", "", nil, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			facts := placement.Facts{Nodes: test.nodes}
			if test.change != nil {
				test.change(&facts)
			}
			test.request.Waits = true
			plan := placement.Decide(test.request, facts)
			if plan.Status.Reason != test.reason || plan.Status.Engine != "" {
				t.Errorf("status %+v", plan.Status)
			}
			for _, a := range plan.Status.Alternatives {
				if a.Reason == v1alpha1.PlacementReasonEligible {
					t.Errorf("%+v speaks for what the scheduler does not do", a)
				}
			}
			if plan.Blocked == nil || test.blocked == "" {
				if plan.Blocked != nil || test.blocked != "" {
					t.Errorf("waits for %+v", plan.Blocked)
				}
				return
			}
			message := plan.Blocked.Message
			if plan.Blocked.Reason != test.blocked || !strings.Contains(message, plan.Status.Message) ||
				test.never != "" && strings.Contains(message, test.never) {
				t.Errorf("waits for %s: %s", plan.Blocked.Reason, message)
			}
			for _, words := range test.says {
				if !strings.Contains(message, words) {
					t.Errorf("%q lacks %q", message, words)
				}
			}
		})
	}
}
