// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy resolves what is wanted of compression: what an object sets inline wins over the policy that it names,
// which wins over the default policy, which wins over what is built in. It is pure.
package policy

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/tariff"
)

// builtInHardwareMinSize is the size below which the fixed cost of a call to the accelerator outweighs what it saves.
const builtInHardwareMinSize = 20000

// Source says where a policy was found.
type Source string

const (
	// Named: the object names the policy.
	Named Source = "Named"
	// Default: the policy is annotated as the default.
	Default Source = "Default"
	// BuiltIn: there is no policy, what is built in applies.
	BuiltIn Source = "BuiltIn"
)

// Resolved is a policy with nothing left open. Sizes are in bytes.
type Resolved struct {
	// Local: the policy is a LocalCompressionPolicy.
	Local bool
	// Name of the policy; empty when BuiltIn.
	Name             string
	Source           Source
	Objective        v1alpha1.CompressionObjective
	Mode             v1alpha1.CompressionMode
	Codecs           []v1alpha1.Codec
	Level            v1alpha1.CompressionLevel
	Placement        v1alpha1.Placement
	HardwareMinSize  int64
	SoftwareMinSize  int64
	SoftwareDisabled bool
	// SoftwareEngines in order of preference; empty when each agent chooses by measurement.
	SoftwareEngines []v1alpha1.SoftwareEngine
	// TariffName is the Tariff that the policy names; empty where it names none, so that the default one applies.
	TariffName string
	// Prices are those that the policy states, or, after Price, those of the Tariff; nil when there are none.
	Prices *v1alpha1.PricesStatus
	// Canary of the policy, as status shows it.
	Canary *v1alpha1.PolicyCanary
}

// NotFoundError is returned when the policy that is named does not exist.
type NotFoundError struct {
	Name string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("CompressionPolicy %q does not exist, nor does a LocalCompressionPolicy of that name in the "+
		"namespace; create it, or name another in spec.compression.policyName", e.Name)
}

// Local is a LocalCompressionPolicy as Resolve and its like take it, before those of the cluster. It has the namespace
// by which they know it.
func Local(p *v1alpha1.LocalCompressionPolicy) v1alpha1.CompressionPolicy {
	return v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		Spec: v1alpha1.CompressionPolicySpec{
			Objective: p.Spec.Objective, Mode: p.Spec.Mode, Codecs: p.Spec.Codecs, Level: p.Spec.Level,
			Placement: p.Spec.Placement, Hardware: p.Spec.Hardware, Software: p.Spec.Software,
		},
	}
}

func isLocal(p *v1alpha1.CompressionPolicy) bool { return p.Namespace != "" }

// Title names a policy for people.
func Title(local bool, name string) string {
	if local {
		return fmt.Sprintf("%s %q", v1alpha1.LocalPolicyKind, name)
	}
	return fmt.Sprintf("CompressionPolicy %q", name)
}

// Resolve applies the inheritance for the object with a UID, which says whether it is in a canary; where it is empty no
// canary counts. policies are those of the cluster, and before them that of the namespace which is named, if there is
// one. The error is a *NotFoundError or an *InvalidError.
func Resolve(
	uid types.UID, inline *v1alpha1.Compression, policies []v1alpha1.CompressionPolicy, tariffs []v1alpha1.Tariff,
) (Resolved, error) {
	return withCanary(uid, inline, policies, func(policies []v1alpha1.CompressionPolicy) (Resolved, error) {
		resolved, err := inherit(inline, policies)
		if err != nil {
			return Resolved{}, err
		}
		if err := resolved.checkCodecs(); err != nil {
			return Resolved{}, err
		}
		if err := resolved.checkPrices(tariffs); err != nil {
			return Resolved{}, err
		}
		return resolved, nil
	})
}

// checkPrices: who minimises money needs prices. For all else to go on without is better than not to go on.
func (r Resolved) checkPrices(tariffs []v1alpha1.Tariff) error {
	if r.Objective != v1alpha1.ObjectiveCost || r.Prices != nil {
		return nil
	}
	found, err := tariff.Find(tariffs, r.TariffName)
	switch {
	case err != nil:
		return &InvalidError{"spec.compression.objective", fmt.Sprintf("cannot be Cost, which is also built in where "+
			"%s names a Tariff, because there are no prices: %s; or choose Elapsed, CPU or Bytes", r.pricedBy(), err)}
	case found == nil:
		return &InvalidError{"spec.compression.objective", "must not be Cost where there are no prices; name a " +
			"CompressionPolicy with prices or tariffName in spec.compression.policyName, annotate a Tariff with " +
			v1alpha1.DefaultTariffAnnotation + "=true, or choose Elapsed, CPU or Bytes"}
	}
	return nil
}

// pricedBy names the policy whose prices apply.
func (r Resolved) pricedBy() string {
	if r.Local {
		return "the default CompressionPolicy"
	}
	return Title(false, r.Name)
}

// Priced is the policy with the prices of the Tariff that applies, for decisions of an agent that sends to a Peer,
// empty for this cluster. It has none where that Tariff cannot be used.
func (r Resolved) Priced(tariffs []v1alpha1.Tariff, peer string, now time.Time) Resolved {
	prices, err := tariff.Resolve(tariff.Query{
		Tariffs: tariffs, Name: r.TariffName, Stated: r.Prices, Peer: peer, Direction: v1alpha1.DirectionSend, Time: now,
	})
	if err == nil {
		r.Prices = prices
	}
	return r
}

// Serving is the policy as agents are told it that serve: with the prices of Priced where they decide by money. Prices
// that nothing is decided by need not be told, so that a change of them changes no configuration.
func (r Resolved) Serving(tariffs []v1alpha1.Tariff, peer string, now time.Time) Resolved {
	if r.Objective != v1alpha1.ObjectiveCost {
		return r
	}
	return r.Priced(tariffs, peer, now)
}

// ServesFor is how long what Serving returns certainly stays the same if nobody changes a Tariff; 0 for ever.
func (r Resolved) ServesFor(tariffs []v1alpha1.Tariff, now time.Time) time.Duration {
	if r.Objective != v1alpha1.ObjectiveCost {
		return 0
	}
	// A Tariff that cannot be used has no prices until somebody changes it. Those of Peers do not depend on the time.
	course, err := tariff.Follow(tariff.Query{Tariffs: tariffs, Name: r.TariffName, Stated: r.Prices})
	if course == nil || err != nil {
		return 0
	}
	if _, until := course.At(now); !until.IsZero() {
		return until.Sub(now)
	}
	return 0
}

// checkCodecs is about codecs that exclude what else was resolved.
func (r Resolved) checkCodecs() error {
	if r.Placement == v1alpha1.PlacementRequireHardware && r.Codecs[0] != v1alpha1.CodecDeflate {
		return &InvalidError{"spec.compression.placement", fmt.Sprintf("must not be RequireHardware where the first of "+
			"codecs is %s, which no accelerator does; put deflate first, or choose PreferHardware", r.Codecs[0])}
	}
	if r.SoftwareDisabled && slices.Contains(r.Codecs, v1alpha1.CodecZstd) {
		return &InvalidError{"spec.compression.codecs", fmt.Sprintf("must not have zstd where software is disabled%s: no "+
			"accelerator does zstd; write [deflate], or set spec.compression.software to Allowed", r.SoftwareDisabledBy())}
	}
	return nil
}

// SoftwareDisabledBy says for a message what may have disabled software; it is empty where only the object itself can.
func (r Resolved) SoftwareDisabledBy() string {
	if r.Name == "" {
		return ""
	}
	return ", by spec.compression.software or " + Title(r.Local, r.Name)
}

// inherit is Resolve for those to whom codecs mean nothing.
func inherit(inline *v1alpha1.Compression, policies []v1alpha1.CompressionPolicy) (Resolved, error) {
	resolved := builtIn()
	resolved.Objective = "" // it depends on whether there are prices
	chosen, source, err := choose(inline, policies)
	if err != nil {
		return Resolved{}, err
	}
	if chosen != nil {
		if err := ValidateSpec(chosen.Spec); err != nil {
			return Resolved{}, fmt.Errorf("%s: %w", Title(isLocal(chosen), chosen.Name), err)
		}
		resolved.Name, resolved.Source, resolved.Local = chosen.Name, source, isLocal(chosen)
		resolved.applySpec(chosen.Spec)
		if err := resolved.applyPrices(chosen, policies); err != nil {
			return Resolved{}, err
		}
	}
	if inline != nil {
		if err := ValidateInline(*inline); err != nil {
			return Resolved{}, err
		}
		resolved.applyInline(*inline)
	}
	switch {
	// A Tariff that is only inherited says what things cost, and not that money is what matters.
	case resolved.Objective == "" && (resolved.Prices != nil || resolved.TariffName != ""):
		resolved.Objective = v1alpha1.ObjectiveCost
	case resolved.Objective == "":
		resolved.Objective = v1alpha1.ObjectiveElapsed
	}
	return resolved, nil
}

// applyPrices: who writes in a namespace does not choose what is charged. There the prices of those who name no policy
// apply.
func (r *Resolved) applyPrices(chosen *v1alpha1.CompressionPolicy, policies []v1alpha1.CompressionPolicy) error {
	if isLocal(chosen) {
		if chosen, _ = FindDefault(policies); chosen == nil {
			return nil
		}
		if err := ValidateSpec(chosen.Spec); err != nil {
			return fmt.Errorf("%s, which is the default and has the prices: %w", Title(false, chosen.Name), err)
		}
	}
	r.TariffName = chosen.Spec.TariffName
	r.Prices = tariff.Stated(chosen.Spec.Prices, chosen.Name, chosen.UID, chosen.Generation)
	return nil
}

func builtIn() Resolved {
	return Resolved{
		Source:          BuiltIn,
		Objective:       v1alpha1.ObjectiveElapsed,
		Mode:            v1alpha1.CompressionAuto,
		Codecs:          []v1alpha1.Codec{v1alpha1.CodecDeflate},
		Level:           v1alpha1.CompressionFast,
		Placement:       v1alpha1.PlacementPreferHardware,
		HardwareMinSize: builtInHardwareMinSize,
	}
}

func choose(
	inline *v1alpha1.Compression, policies []v1alpha1.CompressionPolicy,
) (*v1alpha1.CompressionPolicy, Source, error) {
	if inline != nil && inline.PolicyName != "" {
		for i := range policies {
			if policies[i].Name == inline.PolicyName {
				return &policies[i], Named, nil
			}
		}
		return nil, "", &NotFoundError{Name: inline.PolicyName}
	}
	chosen, _ := FindDefault(policies)
	return chosen, Default, nil
}

// FindDefault returns the policy that applies where none is named, nil if there is none. Of several the oldest is it
// (the first by name among those of one second); several is true then.
func FindDefault(policies []v1alpha1.CompressionPolicy) (chosen *v1alpha1.CompressionPolicy, several bool) {
	for i := range policies {
		candidate := &policies[i]
		if candidate.Annotations[v1alpha1.DefaultPolicyAnnotation] != "true" || isLocal(candidate) {
			continue
		}
		several = chosen != nil
		if chosen == nil || older(candidate, chosen) {
			chosen = candidate
		}
	}
	return chosen, several
}

func older(a, b *v1alpha1.CompressionPolicy) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

func (r *Resolved) applySpec(spec v1alpha1.CompressionPolicySpec) {
	r.applyInline(
		v1alpha1.Compression{
			Objective: spec.Objective, Mode: spec.Mode, Codecs: spec.Codecs, Level: spec.Level, Placement: spec.Placement,
		},
	)
	if spec.Hardware != nil && spec.Hardware.MinSize != nil {
		r.HardwareMinSize = spec.Hardware.MinSize.Value()
	}
	if spec.Software != nil {
		r.SoftwareDisabled = spec.Software.Disabled
		if spec.Software.MinSize != nil {
			r.SoftwareMinSize = spec.Software.MinSize.Value()
		}
		r.SoftwareEngines = spec.Software.Engines
	}
}

func (r *Resolved) applyInline(inline v1alpha1.Compression) {
	if inline.Objective != "" {
		r.Objective = inline.Objective
	}
	if inline.Mode != "" {
		r.Mode = inline.Mode
	}
	if len(inline.Codecs) > 0 {
		r.Codecs = inline.Codecs
	}
	if inline.Level != "" {
		r.Level = inline.Level
	}
	if inline.Placement != "" {
		r.Placement = inline.Placement
	}
	if inline.Software != "" {
		r.SoftwareDisabled = inline.Software == v1alpha1.SoftwareDisabled
	}
	if inline.MinSize != nil {
		r.HardwareMinSize, r.SoftwareMinSize = inline.MinSize.Value(), inline.MinSize.Value()
	}
}

// Status is the policy as status shows it. It shares nothing with the CompressionPolicy.
func (r Resolved) Status() *v1alpha1.PolicyStatus {
	status := v1alpha1.PolicyStatus{
		Kind:             map[bool]string{true: v1alpha1.LocalPolicyKind}[r.Local],
		Name:             r.Name,
		Source:           string(r.Source),
		Objective:        r.Objective,
		Mode:             r.Mode,
		Codecs:           r.Codecs,
		Level:            r.Level,
		Placement:        r.Placement,
		HardwareMinSize:  resource.NewQuantity(r.HardwareMinSize, resource.DecimalSI),
		SoftwareMinSize:  resource.NewQuantity(r.SoftwareMinSize, resource.DecimalSI),
		SoftwareDisabled: r.SoftwareDisabled,
		SoftwareEngines:  r.SoftwareEngines,
		TariffName:       r.TariffName,
		Prices:           r.Prices,
		Canary:           r.Canary,
	}
	// What the API server answers is decoded into what was written, and a policy may be the cache's.
	return status.DeepCopy()
}

// Kept is the policy that a status shows, for a run that goes on with what it began with; nil is what is built in.
func Kept(status *v1alpha1.PolicyStatus) Resolved {
	if status == nil {
		return builtIn()
	}
	resolved := Resolved{
		Local:            status.IsLocal(),
		Name:             status.Name,
		Source:           Source(status.Source),
		Objective:        status.Objective,
		Mode:             status.Mode,
		Codecs:           status.Codecs,
		Level:            status.Level,
		Placement:        status.Placement,
		SoftwareDisabled: status.SoftwareDisabled,
		SoftwareEngines:  status.SoftwareEngines,
		TariffName:       status.TariffName,
		Prices:           status.Prices,
		Canary:           status.Canary,
	}
	if status.HardwareMinSize != nil {
		resolved.HardwareMinSize = status.HardwareMinSize.Value()
	}
	if status.SoftwareMinSize != nil {
		resolved.SoftwareMinSize = status.SoftwareMinSize.Value()
	}
	return resolved
}

// Wire is the policy as agents get it.
func (r Resolved) Wire() *wirev1.CompressionSettings {
	settings := &wirev1.CompressionSettings{
		HardwareMinSize:  uint64(r.HardwareMinSize),
		SoftwareMinSize:  uint64(r.SoftwareMinSize),
		SoftwareDisabled: r.SoftwareDisabled,
		PreferHardware:   r.Placement != v1alpha1.PlacementAnyNode,
	}
	for _, codec := range r.Codecs {
		settings.Codecs = append(settings.Codecs, string(codec))
	}
	for _, engine := range r.SoftwareEngines {
		settings.SoftwareEngines = append(settings.SoftwareEngines, string(engine))
	}
	switch r.Mode {
	case v1alpha1.CompressionAlways:
		settings.Mode = wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS
	case v1alpha1.CompressionNever:
		settings.Mode = wirev1.CompressionMode_COMPRESSION_MODE_NEVER
	default:
		settings.Mode = wirev1.CompressionMode_COMPRESSION_MODE_AUTO
	}
	switch r.Level {
	case v1alpha1.CompressionBalanced:
		settings.Level = wirev1.CompressionLevel_COMPRESSION_LEVEL_BALANCED
	case v1alpha1.CompressionHigh:
		settings.Level = wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH
	default:
		settings.Level = wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST
	}
	settings.Prices = tariff.Wire(r.Prices)
	settings.Objective = wireObjective(r.Objective)
	return settings
}

func wireObjective(objective v1alpha1.CompressionObjective) wirev1.CompressionObjective {
	switch objective {
	case v1alpha1.ObjectiveCost:
		return wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_COST
	case v1alpha1.ObjectiveCPU:
		return wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_CPU
	case v1alpha1.ObjectiveBytes:
		return wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_BYTES
	default:
		return wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_ELAPSED
	}
}
