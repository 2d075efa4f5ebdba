// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/placement"
)

// node makes a node; words are hardware, software, nfd, cordoned, unready, tainted, arm64 and s390x.
func node(name string, words ...string) corev1.Node {
	is := func(word string) bool { return slices.Contains(words, word) }
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{corev1.LabelArchStable: "amd64", corev1.LabelHostname: name},
		},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, word := range words {
		switch word {
		case placement.Hardware, placement.Software:
			n.Labels[v1alpha1.DeflateLabel] = word
		case "arm64", "s390x":
			n.Labels[corev1.LabelArchStable] = word
		}
	}
	if is("nfd") {
		n.Labels[v1alpha1.NFDDeflateLabel] = "true"
	}
	n.Spec.Unschedulable = is("cordoned")
	if is("unready") {
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
	}
	if is("tainted") {
		n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "database", Effect: corev1.TaintEffectNoSchedule}}
	}
	return n
}

// profile of a node; fast is the engine that proved best at Fast, hardware the levels of the accelerator.
func profile(
	state v1alpha1.AcceleratorState, fast string, hardware ...v1alpha1.CompressionLevel,
) v1alpha1.NodeProfileStatus {
	p := v1alpha1.NodeProfileStatus{
		Accelerator: &v1alpha1.NodeAccelerator{
			AcceleratorProfile: v1alpha1.AcceleratorProfile{State: state},
		},
		Engines: []v1alpha1.EngineProfile{
			{Name: "zlib-ng", Codec: "deflate", Levels: []v1alpha1.LevelProfile{{Level: v1alpha1.CompressionFast}}},
			{
				Name: fast, Codec: "deflate", Inflates: true,
				Levels: []v1alpha1.LevelProfile{{Level: v1alpha1.CompressionFast, Selected: true}},
			},
			{Name: "libzstd", Codec: "zstd", Levels: []v1alpha1.LevelProfile{{Level: v1alpha1.CompressionFast, Selected: true}}},
		},
	}
	if len(hardware) > 0 {
		engine := v1alpha1.EngineProfile{Name: placement.EngineHardware, Codec: "deflate", Verified: true}
		for _, level := range hardware {
			engine.Levels = append(engine.Levels, v1alpha1.LevelProfile{Level: level, Selected: true})
		}
		p.Engines = append(p.Engines, engine)
	}
	return p
}

func onNodes(names ...string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: names},
	}}}}
}

var (
	prefer = placement.Request{
		Placement: v1alpha1.PlacementPreferHardware, Mode: v1alpha1.CompressionAuto, Level: v1alpha1.CompressionFast,
		Codecs: []v1alpha1.Codec{"deflate"},
	}
	require = with(prefer, func(r *placement.Request) { r.Placement = v1alpha1.PlacementRequireHardware })
)

func with(r placement.Request, change func(*placement.Request)) placement.Request {
	change(&r)
	return r
}

func TestDecide(t *testing.T) {
	const none = v1alpha1.CompressionNoAccelerator
	bound := func(f *placement.Facts) { f.Claim, f.Volume = "ledger", onNodes("a") }
	for name, test := range map[string]struct {
		request placement.Request
		nodes   []corev1.Node
		change  func(*placement.Facts)
		node    string // that the scheduler chose; empty: not yet
		reason  string
		engine  string
		words   string
		// alternatives as node:reason.
		alternatives string
		blocked      bool
	}{
		"hardware is there": {
			prefer, []corev1.Node{
				node("a", "software"), node("z", "hardware"),
			}, nil, "", "HardwareNode", "dfltcc", "z", "z:Eligible", false},
		"and was chosen": {
			prefer, []corev1.Node{
				node("a", "software"), node("z", "hardware"),
			}, nil, "z", "HardwareNode", "dfltcc", "works", "", false},
		"the scheduler chose another": {
			prefer, []corev1.Node{
				node("a"), node("z", "hardware"),
			}, nil, "a", "NoRoom", "", "although z could", "z:NoRoom", false},
		"no nodes at all": {
			prefer, nil, nil, "", none, "", "no node of the cluster", "", false},
		"no hardware": {
			prefer, []corev1.Node{node("a", "software")}, nil, "a", none, "", "no node of the cluster has an accelerator", "",
			false},
		"required, no hardware": {
			require, []corev1.Node{node("a", "software")}, nil, "", none, "", "no node of the cluster", "", true},
		"required, hardware": {
			require, []corev1.Node{
				node("a", "software"), node("z", "hardware"),
			}, nil, "", "HardwareNode", "dfltcc", "z", "z:Eligible", false},
		"all cordoned": {
			prefer, []corev1.Node{
				node("a"), node("z", "hardware", "cordoned"),
			}, nil, "a", none, "", "z: cordoned", "z:Cordoned", false},
		"required, all cordoned": {
			require, []corev1.Node{node("z", "hardware", "cordoned")}, nil, "", none, "", "z: cordoned", "z:Cordoned", true},
		"one cordoned": {
			require, []corev1.Node{
				node("y", "hardware"), node("z", "hardware", "cordoned"),
			}, nil, "", "HardwareNode", "dfltcc", "works: y", "y:Eligible z:Cordoned", false},
		"not ready": {
			require, []corev1.Node{node("z", "hardware", "unready")}, nil, "", none, "", "z: not ready", "z:NotReady", true},
		"tainted": {
			require, []corev1.Node{
				node("z", "hardware", "tainted"),
			}, nil, "", none, "", "spec.podTemplate.tolerations", "z:Tainted", true},
		"tainted, tolerated": {
			with(require, func(r *placement.Request) {
				r.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
			}), []corev1.Node{node("z", "hardware", "tainted")}, nil, "", "HardwareNode", "dfltcc", "z", "z:Eligible", false},
		"image not built for it": {
			with(require, func(r *placement.Request) { r.Architectures = []string{"amd64", "arm64"} }),
			[]corev1.Node{node("z", "hardware", "s390x")}, nil, "", none, "",
			"image was not built for its architecture", "z:ImageArchitecture", true},
		"image built for what the agent says it is": {
			with(require, func(r *placement.Request) { r.Architectures = []string{"s390x"} }),
			[]corev1.Node{node("z", "hardware")},
			func(f *placement.Facts) {
				f.Profiles["z"] = v1alpha1.NodeProfileStatus{Architecture: "s390x"}
			}, "", "HardwareNode", "dfltcc", "z", "z:Eligible", false},
		"claim bound elsewhere": {
			prefer, []corev1.Node{
				node("a"), node("z", "hardware"),
			}, bound, "", "ClaimBound", "", `claim "ledger" can be used on a only, which wins over the accelerator of z`,
			"z:ClaimBound", false},
		"claim bound elsewhere, placed": {
			prefer, []corev1.Node{
				node("a"), node("z", "hardware"),
			}, bound, "a", "ClaimBound", "", "wins over the accelerator", "z:ClaimBound", false},
		"required, claim bound elsewhere": {
			require, []corev1.Node{
				node("a"), node("z", "hardware"),
			}, bound, "", "ClaimBound", "", "choose PreferHardware", "z:ClaimBound", true},
		"claim bound to the hardware": {
			require, []corev1.Node{
				node("a", "hardware"), node("z", "hardware"),
			}, bound, "", "HardwareNode", "dfltcc", "works: a", "a:Eligible z:ClaimBound", false},
		"discovered and not measured": {
			require, []corev1.Node{node("z", "nfd")}, nil, "", "HardwareNode", "dfltcc", "z", "z:Eligible", false},
		"discovered and measured not to be there": {
			prefer, []corev1.Node{node("z", "nfd", "software")}, nil, "z", none, "", "not confirmed by the node agent", "",
			false},
		"there and not proved": {
			require, []corev1.Node{node("z", "nfd", "software")},
			func(f *placement.Facts) { f.Profiles["z"] = profile(v1alpha1.AcceleratorNotUsed, "zlib-ng") }, "", none, "zlib-ng",
			"its use is not proved", "z:SelfTestFailed", true},
		"discovered, and its agent silent from the start": {
			require, []corev1.Node{node("z", "nfd", "software")}, nil, "", none, "", "z: announced by Node Feature Discovery " +
				"and not confirmed by the node agent", "z:NoAccelerator", true},
		"there, and its agent silent": {
			require, []corev1.Node{node("z", "software")},
			func(f *placement.Facts) { f.Profiles["z"] = profile(v1alpha1.AcceleratorVerified, "zlib-ng") }, "", none, "zlib-ng",
			"z: its node agent does not answer, or is not believed", "z:NoAccelerator", true},
		"level not in hardware": {
			with(require, func(r *placement.Request) { r.Level = v1alpha1.CompressionHigh }),
			[]corev1.Node{node("z", "hardware")},
			func(f *placement.Facts) {
				f.Profiles["z"] = profile(v1alpha1.AcceleratorVerified, "zlib-ng", v1alpha1.CompressionFast)
			}, "", "LevelNotAccelerated", "", "does not compress at level High, but does at Fast; choose",
			"z:LevelNotAccelerated", true},
		"level not in hardware, at any": {
			with(require, func(r *placement.Request) { r.Level, r.AnyLevel = v1alpha1.CompressionHigh, true }),
			[]corev1.Node{node("z", "hardware")},
			func(f *placement.Facts) {
				f.Profiles["z"] = profile(v1alpha1.AcceleratorVerified, "zlib-ng", v1alpha1.CompressionFast)
			}, "", "HardwareNode", "dfltcc", "z", "z:Eligible", false},
		"any node": {
			with(prefer, func(r *placement.Request) {
				r.Placement = v1alpha1.PlacementAnyNode
			}), []corev1.Node{node("a"), node("z", "hardware")}, nil, "a", "AnyNode", "", "does not look", "", false},
		"compresses nothing": {
			with(prefer, func(r *placement.Request) {
				r.Mode = v1alpha1.CompressionNever
			}), []corev1.Node{node("z", "hardware")}, nil, "z", "AnyNode", "none", "of no use", "", false},
		"zstd first": {
			with(prefer, func(r *placement.Request) { r.Codecs = []v1alpha1.Codec{"zstd", "deflate"} }),
			[]corev1.Node{node("z", "hardware")},
			func(f *placement.Facts) {
				f.Profiles["z"] = profile(v1alpha1.AcceleratorVerified, "zlib-ng")
			}, "z", "CodecNotAccelerated", "libzstd", "zstd, which no accelerator does", "", false},
		"the node's best engine": {
			prefer, []corev1.Node{node("a", "software")}, func(f *placement.Facts) {
				f.Profiles["a"] = profile(v1alpha1.AcceleratorAbsent, "isa-l")
			}, "a", none, "isa-l", "", "", false},
		"the policy's engine": {
			with(prefer, func(r *placement.Request) { r.SoftwareEngines = []v1alpha1.SoftwareEngine{"go", "zlib-ng"} }),
			[]corev1.Node{node("a", "software")},
			func(f *placement.Facts) {
				f.Profiles["a"] = profile(v1alpha1.AcceleratorAbsent, "isa-l")
			}, "a", none, "zlib-ng", "", "", false},
		"software disabled": {
			with(prefer, func(r *placement.Request) {
				r.SoftwareDisabled = true
			}), []corev1.Node{node("a", "software")}, nil, "a", none, "none", "", "", false},
		"inflates": {
			placement.Request{Placement: v1alpha1.PlacementPreferHardware, Inflates: true, Codecs: []v1alpha1.Codec{"deflate"}},
			[]corev1.Node{node("a", "software")},
			func(f *placement.Facts) {
				f.Profiles["a"] = profile(v1alpha1.AcceleratorAbsent, "isa-l")
			}, "a", none, "isa-l", "", "", false},
		"a node that nobody knows": {
			prefer, []corev1.Node{node("z", "hardware")}, nil, "gone", "NoRoom", "", "z", "z:NoRoom", false},
	} {
		t.Run(name, func(t *testing.T) {
			facts := placement.Facts{Nodes: test.nodes, Profiles: map[string]v1alpha1.NodeProfileStatus{}}
			if test.change != nil {
				test.change(&facts)
			}
			plan := placement.Decide(test.request, facts)
			status := plan.Status
			if test.node != "" {
				status = placement.Explain(test.request, facts, test.node)
			}
			message := status.Message
			if plan.Blocked != nil {
				message = plan.Blocked.Message
				if plan.Blocked.Reason != status.Reason {
					t.Errorf("blocked for %s, placed for %s", plan.Blocked.Reason, status.Reason)
				}
			}
			if status.Reason != test.reason || !strings.Contains(message, test.words) || status.Node != test.node ||
				(plan.Blocked != nil) != test.blocked {
				t.Errorf("%+v, blocked: %v", status, plan.Blocked)
			}
			if test.node != "" && status.Engine != test.engine || test.engine == "dfltcc" && status.Engine != "dfltcc" {
				t.Errorf("engine %q, want %q", status.Engine, test.engine)
			}
			var got []string
			for _, a := range status.Alternatives {
				got = append(got, a.Node+":"+a.Reason)
			}
			if strings.Join(got, " ") != test.alternatives {
				t.Errorf("alternatives %v, want %s", got, test.alternatives)
			}
		})
	}
}

// TestAffinity asks the scheduler's own code what it makes of the affinity.
func TestAffinity(t *testing.T) {
	nodes := []corev1.Node{
		node("plain", "software"), node("measured", "hardware"), node("discovered", "nfd"),
		node("contradicted", "nfd", "software"), node("foreign", "hardware", "arm64"),
	}
	names := func(wanted func(*corev1.Node) bool) string {
		var list []string
		for i := range nodes {
			if wanted(&nodes[i]) {
				list = append(list, nodes[i].Name)
			}
		}
		return strings.Join(list, " ")
	}
	built := func(r placement.Request) placement.Request {
		r.Architectures = []string{"amd64", "s390x"}
		return r
	}
	for name, test := range map[string]struct {
		request  placement.Request
		required string
		scores   string
	}{
		"prefer": {
			prefer, "plain measured discovered contradicted foreign", "measured:100 discovered:50 foreign:100",
		},
		"prefer, built":  {built(prefer), "plain measured discovered contradicted", "measured:100 discovered:50 foreign:100"},
		"require":        {require, "measured discovered foreign", ""},
		"require, built": {built(require), "measured discovered", ""},
		"any": {
			placement.Request{Placement: v1alpha1.PlacementAnyNode}, "plain measured discovered contradicted foreign", "",
		},
		"never": {
			with(prefer, func(r *placement.Request) { r.Mode = v1alpha1.CompressionNever }),
			"plain measured discovered contradicted foreign", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			affinity := placement.Decide(test.request, placement.Facts{Nodes: nodes}).Affinity
			required := scheduling.NewRequiredNodeAffinity(nil, affinity)
			got := names(func(n *corev1.Node) bool {
				matches, err := required.Match(n)
				return matches && err == nil
			})
			if got != test.required {
				t.Errorf("may run on %s, want %s", got, test.required)
			}
			var preferred []corev1.PreferredSchedulingTerm
			if affinity != nil && affinity.NodeAffinity != nil {
				preferred = affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
			}
			terms, err := scheduling.NewPreferredSchedulingTerms(preferred)
			if err != nil {
				t.Fatal(err)
			}
			var scores []string
			for i := range nodes {
				if score := terms.Score(&nodes[i]); score > 0 {
					scores = append(scores, fmt.Sprintf("%s:%d", nodes[i].Name, score))
				}
			}
			if strings.Join(scores, " ") != test.scores {
				t.Errorf("scores %v, want %s", scores, test.scores)
			}
		})
	}
}

// TestBounds: what is shown stays small in a cluster of many nodes.
func TestBounds(t *testing.T) {
	var facts placement.Facts
	for i := range 500 {
		facts.Nodes = append(facts.Nodes, node(fmt.Sprintf("z%03d-%s", i, strings.Repeat("x", 40)), "hardware", "cordoned"))
	}
	plan := placement.Decide(require, facts)
	if len(plan.Status.Alternatives) != 8 || len(plan.Status.Message) > 1024 || len(plan.Blocked.Message) > 1024 ||
		!strings.Contains(plan.Status.Message, "and 495 more") {
		t.Errorf("%d alternatives, message %s", len(plan.Status.Alternatives), plan.Blocked.Message)
	}
}
