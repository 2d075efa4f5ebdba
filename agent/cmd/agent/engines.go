// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/policy"
)

// encoders are what a sender compresses with.
type encoders struct {
	registry    *codec.Registry
	accelerator policy.Accelerator
	// plan is what mode Auto chooses between.
	plan calibrate.Plan
}

// encoders looks for the accelerator and chooses among the software engines. It takes some hundredths of a second, and
// no time when the policy compresses nothing, or where figures of the engines are known and there is no accelerator.
func (a *agent) encoders(ctx context.Context, c compression.Settings) encoders {
	ids := slices.DeleteFunc(slices.Clone(c.Codecs), func(id codec.ID) bool { return id == codec.None })
	if c.Policy.Mode == policy.Never || len(ids) == 0 {
		return encoders{registry: engines.Default()}
	}
	all, verdict := a.engines(ctx)
	options := calibrate.Options{Engines: all, Codecs: ids, Prefer: c.Engines, Known: a.known}
	if !c.Policy.SoftwareDisabled {
		options.Level = c.Policy.Level
	}
	if c.Policy.Mode == policy.Auto {
		return a.plan(ctx, c, options, verdict)
	}
	chosen := calibrate.Run(ctx, options)
	a.log.Info("Engines were chosen to compress", "level", c.Policy.Level.String(), "software",
		calibrate.Describe(chosen.Compress), "measuredBy", a.measuredBy(),
		"accelerator", verdict.Reason, "acceleratorMessage", verdict.Message)
	return encoders{registry: chosen.Encode, accelerator: verdict.Accelerator(c.Policy.Level)}
}

// plan is encoders for mode Auto.
func (a *agent) plan(
	ctx context.Context, c compression.Settings, options calibrate.Options, verdict hardware.Verdict,
) encoders {
	plan := calibrate.Ways(ctx, options)
	var said []string
	for _, level := range codec.Levels() {
		if choices := plan.Chosen[level]; len(choices) > 0 {
			said = append(said, level.String()+": "+calibrate.Describe(choices))
		}
	}
	a.log.Info("Engines were chosen to compress", "level", c.Policy.Level.String(), "software", strings.Join(said, "; "),
		"measuredBy", a.measuredBy(), "accelerator", verdict.Reason, "acceleratorMessage", verdict.Message)
	return encoders{
		registry: codec.NewRegistry(preferred(plan, options)...), accelerator: verdict.Accelerator(c.Policy.Level),
		plan: plan,
	}
}

// preferred returns all engines, first those that were chosen for the level: who does not follow the plan uses the
// first that does a codec.
func preferred(plan calibrate.Plan, o calibrate.Options) []codec.Engine {
	var first []codec.Engine
	for _, id := range o.Codecs {
		if e, ok := plan.Engines[policy.Option{Codec: id, Class: codec.Software, Level: o.Level}]; ok {
			first = append(first, e)
		}
	}
	for _, e := range o.Engines {
		if !slices.ContainsFunc(first, func(have codec.Engine) bool { return have.Name() == e.Name() }) {
			first = append(first, e)
		}
	}
	return first
}

// decoders are what a receiver inflates with.
type decoders struct {
	registry *codec.Registry
	// rates are the bytes of plain data for each second of CPU time, as far as it was measured.
	rates map[codec.ID]float64
	// software is why software inflates what it does.
	software policy.Reason
}

// decoders does for a receiver what encoders does for a sender. Which codec the sender will use is not known yet.
func (a *agent) decoders(ctx context.Context) decoders { return a.inflaters(ctx, false) }

// inflaters is decoders, without the accelerator if only software is wanted.
func (a *agent) inflaters(ctx context.Context, software bool) decoders {
	all, verdict := a.engines(ctx)
	if software || verdict.InflateMinSize == hardware.NeverInflate {
		all = slices.DeleteFunc(all, func(e codec.Engine) bool { return e.Class() == codec.Hardware })
	}
	chosen := calibrate.Run(ctx, calibrate.Options{Engines: all, Inflate: true, Known: a.known})
	a.log.Info("Engines were chosen to inflate", "software", calibrate.Describe(chosen.Inflate),
		"measuredBy", a.measuredBy(), "accelerator", verdict.Reason, "acceleratorMessage", verdict.Message)
	rates := make(map[codec.ID]float64)
	for _, choice := range chosen.Inflate {
		for _, figure := range choice.Figures {
			if figure.Engine == choice.Engine && figure.Err == nil {
				rates[choice.Codec] = figure.BytesPerSecond
			}
		}
	}
	return decoders{registry: chosen.Decode, rates: rates, software: softwareInflates(verdict)}
}

// softwareInflates is why software inflates what it does.
func softwareInflates(v hardware.Verdict) policy.Reason {
	switch {
	case v.State == hardware.Absent:
		return policy.NoAccelerator
	case v.State != hardware.Verified:
		return policy.SelfTestFailed
	case v.InflateMinSize == hardware.NeverInflate:
		return policy.SoftwareUsed
	default:
		return policy.BelowMinimum
	}
}

// findAccelerator is a variable for tests on machines without one.
var findAccelerator = hardware.Find

// engines returns those of this build and, if its use is proved, the accelerator, within the agent's share of it.
func (a *agent) engines(ctx context.Context) ([]codec.Engine, hardware.Verdict) {
	all := engines.All()
	accelerator, verdict := findAccelerator(ctx)
	if accelerator != nil {
		shared := a.shares.engine(a, accelerator) //nolint:contextcheck // it draws shares until the agent ends
		all = append([]codec.Engine{shared}, all...)
	}
	return all, verdict
}
