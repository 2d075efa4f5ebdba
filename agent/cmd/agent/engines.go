// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer"
)

// encoders are what a sender compresses with.
type encoders struct {
	registry    *codec.Registry
	accelerator policy.Accelerator
}

// encoders looks for the accelerator and chooses among the software engines. It takes some hundredths of a second, and no time when
// the policy compresses nothing.
func (a *agent) encoders(ctx context.Context, c transfer.Compression) encoders {
	ids := slices.DeleteFunc(slices.Clone(c.Codecs), func(id codec.ID) bool { return id == codec.None })
	if c.Policy.Mode == policy.Never || len(ids) == 0 {
		return encoders{registry: engines.Default()}
	}
	all, verdict := a.engines(ctx)
	options := calibrate.Options{Engines: all, Codecs: ids, Prefer: c.Engines}
	if !c.Policy.SoftwareDisabled {
		options.Level = c.Policy.Level
	}
	chosen := calibrate.Run(ctx, options)
	a.log.Info("Engines were chosen to compress", "level", c.Policy.Level.String(), "software", calibrate.Describe(chosen.Compress),
		"accelerator", verdict.Reason, "acceleratorMessage", verdict.Message)
	return encoders{registry: chosen.Encode, accelerator: verdict.Accelerator(c.Policy.Level)}
}

// decoders does for a receiver what encoders does for a sender. Which codec the sender will use is not known yet.
func (a *agent) decoders(ctx context.Context) *codec.Registry {
	all, verdict := a.engines(ctx)
	if verdict.InflateMinSize == hardware.NeverInflate {
		all = slices.DeleteFunc(all, func(e codec.Engine) bool { return e.Class() == codec.Hardware })
	}
	chosen := calibrate.Run(ctx, calibrate.Options{Engines: all, Inflate: true})
	a.log.Info("Engines were chosen to inflate", "software", calibrate.Describe(chosen.Inflate),
		"accelerator", verdict.Reason, "acceleratorMessage", verdict.Message)
	return chosen.Decode
}

// engines returns those of this build and, if its use is proved, the accelerator.
func (a *agent) engines(ctx context.Context) ([]codec.Engine, hardware.Verdict) {
	all := engines.All()
	accelerator, verdict := hardware.Find(ctx)
	if accelerator != nil {
		all = append([]codec.Engine{accelerator}, all...)
	}
	return all, verdict
}
