// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// outcome is one run: seconds, CPU seconds, bytes on the wire, and what most blocks, messages or bodies got.
type outcome struct {
	elapsed, cpu, bytes float64
	choice              string
}

// contender is a way to send.
type contender struct {
	name     string
	settings policy.Settings
	codec    codec.ID // of mode Always
	runs     []outcome
}

// contenders of a section: the fixed choices, of which the first is none, and Auto with each objective.
func (s section) contenders() (fixed []*contender, auto map[policy.Objective]*contender) {
	fixed = []*contender{{name: "none", settings: policy.Settings{Mode: policy.Never, Level: codec.Fast}}}
	for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
		for _, level := range s.levels {
			fixed = append(fixed, &contender{
				name: fmt.Sprintf("%v %v", id, level), codec: id, settings: policy.Settings{Mode: policy.Always, Level: level},
			})
		}
	}
	auto = make(map[policy.Objective]*contender)
	for _, o := range s.objectives {
		auto[o] = &contender{name: "Auto " + string(o), settings: policy.Settings{
			Mode: policy.Auto, Level: s.levels[len(s.levels)-1], Objective: o, Prices: prices,
		}}
	}
	return fixed, auto
}

// value is the median of what an objective makes of the runs.
func (c *contender) value(o policy.Objective) float64 { return harness.Median(c.values(o)) }

func (c *contender) values(o policy.Objective) []float64 {
	values := make([]float64, 0, len(c.runs))
	for _, r := range c.runs {
		switch o {
		case policy.Cost:
			values = append(values, r.cpu/3600*prices.CPUHour+r.bytes/(1<<30)*prices.NetworkGiB)
		case policy.CPU:
			values = append(values, r.cpu)
		case policy.Bytes:
			values = append(values, r.bytes)
		default:
			values = append(values, r.elapsed)
		}
	}
	return values
}

// objective is that of Auto; empty: the choice is fixed.
func (c *contender) objective() policy.Objective { return c.settings.Objective }

// competes reports whether a contender is to be good by an objective: Auto by its own, a fixed choice by any.
func (c *contender) competes(o policy.Objective) bool {
	return c.objective() == "" || c.objective() == o
}
