// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// assessed is what is thought of one node.
type assessed struct {
	name string
	// announced: the node has, or is said to have, an accelerator.
	announced bool
	// shortfall is why the accelerator does not do the agent's work; empty when it does. Set wherever there is none.
	shortfall string
	// silent: there was an accelerator that worked, and the node agent does not answer any more or is not believed.
	silent bool
	// obstacle is why the agent cannot be put there; empty when it can.
	obstacle string
	// engine that would do the agent's work there; empty when that is not known.
	engine string
}

// serves: the node has an accelerator that does the agent's work.
func (a assessed) serves() bool { return a.shortfall == "" }

// reason is what speaks against the node, or that nothing does.
func (a assessed) reason() string {
	switch {
	case a.shortfall != "":
		return a.shortfall
	case a.obstacle != "":
		return a.obstacle
	}
	return v1alpha1.PlacementReasonEligible
}

// words are what speaks against the node, for messages.
func (a assessed) words() string {
	if a.silent {
		return "its node agent does not answer, or is not believed, see the NodeProfile"
	}
	return obstacles[a.reason()]
}

// candidates are the nodes with an accelerator that can take the agent.
func candidates(nodes []assessed) []assessed {
	return slices.DeleteFunc(slices.Clone(nodes), func(a assessed) bool { return !a.serves() || a.obstacle != "" })
}

// assessAll returns all nodes by name.
func assessAll(r Request, f Facts) []assessed {
	all := make([]assessed, 0, len(f.Nodes))
	counted, promised := r.counted(f), r.promised(f)
	for i := range f.Nodes {
		a := assess(r, f, &f.Nodes[i])
		if counted && a.serves() && a.obstacle == "" && (promised || f.FreeSlots[a.name] <= 0) {
			a.obstacle = v1alpha1.PlacementReasonAcceleratorBusy
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b assessed) int { return strings.Compare(a.name, b.name) })
	return all
}

func assess(r Request, f Facts, node *corev1.Node) assessed {
	profile, profiled := f.Profiles[node.Name]
	a := assessed{name: node.Name, obstacle: obstacle(r, f, node, profile)}
	a.announced, a.shortfall = accelerator(r, node, profile)
	a.silent = a.shortfall == v1alpha1.CompressionNoAccelerator && proved(profile)
	if a.serves() && a.obstacle == "" {
		a.obstacle = r.Shun
	}
	switch {
	case !r.Inflates && r.Mode == v1alpha1.CompressionNever:
		a.engine = EngineNone
	case a.serves() && deflates(r):
		a.engine = EngineHardware
	case !r.Inflates && r.SoftwareDisabled:
		a.engine = EngineNone
	case profiled:
		a.engine = softwareEngine(r, profile)
	}
	return a
}

func deflates(r Request) bool {
	return len(r.Codecs) == 0 || r.Codecs[0] == v1alpha1.CodecDeflate
}

// accelerator says whether one is announced, and why it does not do the agent's work. The manager's label is what was
// measured; Node Feature Discovery's counts until there is one.
func accelerator(r Request, node *corev1.Node, profile v1alpha1.NodeProfileStatus) (announced bool, shortfall string) {
	measured, discovered := node.Labels[v1alpha1.DeflateLabel], node.Labels[v1alpha1.NFDDeflateLabel] == "true"
	seen := profile.Accelerator != nil && profile.Accelerator.State != v1alpha1.AcceleratorAbsent
	switch {
	case measured == Hardware, measured != Software && discovered:
		if !r.Inflates && !r.AnyLevel && !accelerates(r.Level, profile) {
			return true, v1alpha1.CompressionLevelNotAccelerated
		}
		return true, ""
	case proved(profile):
		return true, v1alpha1.CompressionNoAccelerator
	case seen:
		return true, v1alpha1.CompressionSelfTestFailed
	default:
		return discovered, v1alpha1.CompressionNoAccelerator
	}
}

// proved: the last figures that were believed have an accelerator that works.
func proved(profile v1alpha1.NodeProfileStatus) bool {
	return profile.Accelerator != nil && profile.Accelerator.State == v1alpha1.AcceleratorVerified
}

// accelerates: the accelerator was measured at the level, or was not measured.
func accelerates(level v1alpha1.CompressionLevel, profile v1alpha1.NodeProfileStatus) bool {
	i := slices.IndexFunc(profile.Engines, func(e v1alpha1.EngineProfile) bool { return e.Name == EngineHardware })
	return i < 0 || hasLevel(profile.Engines[i], level)
}

func hasLevel(engine v1alpha1.EngineProfile, level v1alpha1.CompressionLevel) bool {
	return slices.ContainsFunc(engine.Levels, func(l v1alpha1.LevelProfile) bool { return l.Level == level })
}

// obstacle looks for what keeps the scheduler from putting the agent on the node, as far as that can be seen from the
// node.
func obstacle(r Request, f Facts, node *corev1.Node, profile v1alpha1.NodeProfileStatus) string {
	architecture := profile.Architecture
	if architecture == "" {
		architecture = node.Labels[corev1.LabelArchStable]
	}
	switch {
	case !r.selects(node):
		return v1alpha1.PlacementReasonNotSelected
	case !reaches(f.Volume, node), f.Attached != "" && f.Attached != node.Name:
		return v1alpha1.PlacementReasonClaimBound
	case node.Spec.Unschedulable:
		return v1alpha1.PlacementReasonCordoned
	case !ready(node):
		return v1alpha1.PlacementReasonNotReady
	case architecture != "" && len(r.Architectures) > 0 && !slices.Contains(r.Architectures, architecture):
		return v1alpha1.PlacementReasonImageArchitecture
	case tainted(r.Tolerations, node):
		return v1alpha1.PlacementReasonTainted
	}
	return ""
}

// reaches: the volume can be used on the node. A selector that cannot be read is left to the scheduler.
func reaches(volume *corev1.NodeSelector, node *corev1.Node) bool {
	if volume == nil {
		return true
	}
	matches, err := scheduling.MatchNodeSelectorTerms(node, volume)
	return matches || err != nil
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func tainted(tolerations []corev1.Toleration, node *corev1.Node) bool {
	hard := func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}
	_, found := scheduling.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, tolerations, hard, false)
	return found
}

// softwareEngine is what an agent on the node takes: of the engines that the policy names the first that the node has
// at the level, otherwise the one that proved best there.
func softwareEngine(r Request, profile v1alpha1.NodeProfileStatus) string {
	codec := v1alpha1.CodecDeflate
	if len(r.Codecs) > 0 {
		codec = r.Codecs[0]
	}
	find := func(fits func(v1alpha1.EngineProfile) bool) string {
		i := slices.IndexFunc(profile.Engines, func(e v1alpha1.EngineProfile) bool {
			return e.Name != EngineHardware && e.Codec == string(codec) && fits(e)
		})
		if i < 0 {
			return ""
		}
		return profile.Engines[i].Name
	}
	if r.Inflates {
		return find(func(e v1alpha1.EngineProfile) bool { return e.Inflates })
	}
	for _, name := range r.SoftwareEngines {
		if engine := find(func(e v1alpha1.EngineProfile) bool {
			return e.Name == string(name) && hasLevel(e, r.Level)
		}); engine != "" {
			return engine
		}
	}
	return find(func(e v1alpha1.EngineProfile) bool {
		return slices.ContainsFunc(e.Levels, func(l v1alpha1.LevelProfile) bool { return l.Level == r.Level && l.Selected })
	})
}
