// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/canary"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/tariff"
)

// resolved tells where the values of a run's policy came from. Status has the outcome only, so that it follows from
// comparing: what is set inline wins, and what differs from what is built in came from the policy.
func resolved(status *v1alpha1.PolicyStatus, inline *v1alpha1.Compression) *Policy {
	if status == nil {
		return nil
	}
	if inline == nil {
		inline = &v1alpha1.Compression{}
	}
	builtIn := policy.Kept(nil)
	if status.TariffName != "" || status.Prices != nil && status.Prices.Source != v1alpha1.PricesOfTariff {
		builtIn.Objective = v1alpha1.ObjectiveCost // what is built in where the policy has prices
	}
	p := &Policy{Kind: status.Kind, Name: status.Name, Source: status.Source}
	add := func(name, value, inlined, initial string) {
		if value == "" {
			return // of an older operator, which did not say
		}
		p.Values = append(p.Values, Value{Name: name, Value: value, Origin: origin(status, value, inlined, initial)})
	}
	if text := canaryText(status.Canary); text != "" {
		p.Values = append(p.Values, Value{Name: "canary", Value: text, Origin: policy.Title(false, status.Name)})
	}
	add("objective", string(status.Objective), string(inline.Objective), string(builtIn.Objective))
	add("mode", string(status.Mode), string(inline.Mode), string(builtIn.Mode))
	add("codecs", list(status.Codecs), list(inline.Codecs), list(builtIn.Codecs))
	add("level", string(status.Level), string(inline.Level), string(builtIn.Level))
	add("placement", string(status.Placement), string(inline.Placement), string(builtIn.Placement))
	add("hardware.minSize", minSize(status.HardwareMinSize), minSize(inline.MinSize), fmt.Sprint(builtIn.HardwareMinSize))
	add("software.minSize", minSize(status.SoftwareMinSize), minSize(inline.MinSize), fmt.Sprint(builtIn.SoftwareMinSize))
	add("software.disabled", fmt.Sprint(status.SoftwareDisabled), disabled(inline.Software), "false")
	add("software.engines", cmp.Or(list(status.SoftwareEngines), byMeasurement), "", byMeasurement)
	text := noPrices
	if status.Prices != nil {
		text = pricesText(*status.Prices)
	}
	add("prices", text, "", noPrices)
	switch prices := status.Prices; {
	case prices == nil:
	case prices.Source == v1alpha1.PricesOfTariff:
		p.Values[len(p.Values)-1].Origin = tariffOrigin(status)
	case status.IsLocal():
		p.Values[len(p.Values)-1].Origin = policy.Title(false, prices.Name) + ", the default of the cluster"
	}
	return p
}

func pricesText(p v1alpha1.PricesStatus) string {
	return fmt.Sprintf("%s %s per CPU hour, %s per GiB", p.Currency, p.CPUHour, p.NetworkGiB)
}

// tariffOrigin is how the Tariff was found whose prices the run decided by.
func tariffOrigin(status *v1alpha1.PolicyStatus) string {
	how := "the default of the cluster"
	if status.TariffName != "" {
		how = "named by " + policy.Title(false, status.Name)
		if status.IsLocal() {
			how = "named by the default CompressionPolicy"
		}
	}
	return fmt.Sprintf("Tariff %q, generation %d, %s, as it was when the run began",
		status.Prices.Name, status.Prices.Generation, how)
}

// effective are the rates that the run was charged at, or, until it was, those that it decides by.
func effective(status *v1alpha1.TransferStatus) (tariff.Rates, bool) {
	var decided *v1alpha1.PricesStatus
	if status.Policy != nil {
		decided = status.Policy.Prices
	}
	return tariff.Effective(status.Cost, decided)
}

const (
	byMeasurement = "chosen by measurement"
	noPrices      = "none"
)

// origin is where a value came from; inlined is empty where nothing is set inline.
func origin(status *v1alpha1.PolicyStatus, value, inlined, initial string) string {
	name, fromPolicy := status.Name, policy.Title(status.IsLocal(), status.Name)
	if status.Canary != nil && status.Canary.Applies {
		fromPolicy += " or its canary"
	}
	var from string
	switch {
	case inlined != "" && inlined == value:
		return "spec.compression of the Transfer"
	case name == "" && value == initial:
		from = "built in"
	case name == "":
		from = "spec.compression as it was when the run began"
	case value == initial:
		from = fromPolicy + ", or built in, which is the same"
	default:
		from = fromPolicy
	}
	if inlined != "" {
		from += fmt.Sprintf("; spec.compression now says %s, which applies to runs that start after it", inlined)
	}
	return from
}

func disabled(use v1alpha1.SoftwareUse) string {
	switch use {
	case v1alpha1.SoftwareDisabled:
		return "true"
	case v1alpha1.SoftwareAllowed:
		return "false"
	default:
		return ""
	}
}

func minSize(quantity *resource.Quantity) string {
	if quantity == nil {
		return ""
	}
	return fmt.Sprint(quantity.Value())
}

func list[T ~string](values []T) string {
	texts := make([]string, 0, len(values))
	for _, v := range values {
		texts = append(texts, string(v))
	}
	return strings.Join(texts, ", ")
}

// accelerated is the engine that works on the accelerator.
const accelerated = "dfltcc"

// excluded says why a choice was not open to the agent; empty where it was. profile is that of the sender's node.
func excluded(
	p *v1alpha1.PolicyStatus, profile *v1alpha1.NodeProfile, codec, engine string, level v1alpha1.LevelProfile,
) string {
	if p == nil {
		return ""
	}
	switch {
	case p.Mode == v1alpha1.CompressionNever:
		return "mode Never"
	case !slices.Contains(p.Codecs, v1alpha1.Codec(codec)):
		return "not in codecs"
	case p.Mode == v1alpha1.CompressionAlways && p.Codecs[0] != v1alpha1.Codec(codec):
		return "not the first of codecs"
	case p.Mode == v1alpha1.CompressionAlways && level.Level != p.Level, effort(level.Level) > effort(p.Level):
		return fmt.Sprintf("level is %s", p.Level)
	case engine == accelerated:
		return ""
	case p.SoftwareDisabled:
		return "software.disabled"
	case p.Placement != v1alpha1.PlacementAnyNode && profile.Status.Accelerator != nil &&
		profile.Status.Accelerator.State == v1alpha1.AcceleratorVerified:
		return "hardware is preferred"
	}
	switch preferred := namedFor(codec, p.SoftwareEngines, profile, level.Level); {
	case preferred != "" && preferred != engine:
		return fmt.Sprintf("software.engines prefers %s", preferred)
	case preferred == "" && !level.Selected:
		return "another engine is chosen here"
	}
	return ""
}

// namedFor is the first of the engines that the policy names which the node has for a codec at a level; empty when the
// agent chooses.
func namedFor(
	codec string, named []v1alpha1.SoftwareEngine, profile *v1alpha1.NodeProfile, level v1alpha1.CompressionLevel,
) string {
	for _, name := range named {
		for _, engine := range profile.Status.Engines {
			if engine.Name == string(name) && engine.Codec == codec &&
				slices.ContainsFunc(engine.Levels, func(l v1alpha1.LevelProfile) bool { return l.Level == level }) {
				return engine.Name
			}
		}
	}
	return ""
}

func effort(level v1alpha1.CompressionLevel) int {
	return slices.Index(
		[]v1alpha1.CompressionLevel{v1alpha1.CompressionFast, v1alpha1.CompressionBalanced, v1alpha1.CompressionHigh}, level,
	)
}

func ofLocalPolicy(p *v1alpha1.LocalCompressionPolicy, s *sheet) {
	stated := policy.Local(p)
	stated.Status.UsedBy = p.Status.UsedBy
	ofPolicy(&stated, s)
}

func ofPolicy(p *v1alpha1.CompressionPolicy, s *sheet) {
	local, written := p.Namespace != "", p
	if promoted(p) {
		p = p.DeepCopy()
		p.Spec = canary.Applied(p.Spec)
	}
	stated := p.DeepCopy()
	objective := string(p.Spec.Objective)
	switch {
	case objective != "":
	case local:
		objective = "Cost where the default CompressionPolicy has prices or names a Tariff, otherwise Elapsed"
	case p.Spec.Prices != nil || p.Spec.TariffName != "":
		objective = string(v1alpha1.ObjectiveCost)
	default:
		objective = string(v1alpha1.ObjectiveElapsed)
	}
	stated.Spec.Objective = v1alpha1.ObjectiveElapsed // Cost cannot be resolved without the Tariffs
	resolved, err := policy.Resolve(
		"", &v1alpha1.Compression{PolicyName: p.Name}, []v1alpha1.CompressionPolicy{*stated}, nil,
	)
	s.section("What objects get that name it and set nothing themselves")
	if err != nil {
		s.row("nothing", err.Error())
		return
	}
	add := func(name, value string, set bool) {
		origin := "built in"
		if set {
			origin = "from spec"
		}
		s.row(name, value, origin)
	}
	hardware, software := p.Spec.Hardware, p.Spec.Software
	add("objective", objective, p.Spec.Objective != "")
	add("mode", string(resolved.Mode), p.Spec.Mode != "")
	add("codecs", list(resolved.Codecs), p.Spec.Codecs != nil)
	add("level", string(resolved.Level), p.Spec.Level != "")
	add("placement", string(resolved.Placement), p.Spec.Placement != "")
	add("hardware.minSize", fmt.Sprint(resolved.HardwareMinSize), hardware != nil && hardware.MinSize != nil)
	add("software.minSize", fmt.Sprint(resolved.SoftwareMinSize), software != nil && software.MinSize != nil)
	add("software.disabled", fmt.Sprint(resolved.SoftwareDisabled), software != nil && software.Disabled)
	add("software.engines", cmp.Or(list(resolved.SoftwareEngines), byMeasurement), len(resolved.SoftwareEngines) > 0)
	switch {
	case resolved.Prices != nil:
		add("prices", pricesText(*resolved.Prices), true)
	case p.Spec.TariffName != "":
		add("prices", "of Tariff "+p.Spec.TariffName, true)
	case local:
		s.row("prices", "of the default CompressionPolicy, or else of the default Tariff, if there is one")
	default:
		add("prices", "of the default Tariff, if there is one", false)
	}
	s.canary(written)
	s.usedBy("Used by", p.Status.UsedBy)
	s.next("compare all engines and levels on your data: make a CompressionTrial (docs/how-to/trial.md)")
}
