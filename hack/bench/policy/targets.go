// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	"github.com/lighterage/lighterage/agent/policy"
)

// target is a figure that should be at most its bound. Missing one fails nothing.
type target struct {
	name            string
	measured, bound float64
}

func (t target) String() string {
	verdict := "ok"
	if t.measured > t.bound {
		verdict = "miss"
	}
	return fmt.Sprintf("target %s %.2f %.2f %s", t.name, t.measured, t.bound, verdict)
}

// targets are in percent.
func targets(cells []cell) []target {
	var regrets []float64
	noise := 0.0
	for i := range cells {
		c := &cells[i]
		for _, o := range objectives {
			regrets = append(regrets, 100*c.regret(o))
		}
		if c.link == 0 && c.kind.hopeless {
			none := c.fixed[0].value(policy.Elapsed)
			noise = max(noise, 100*(c.auto[policy.Elapsed].value(policy.Elapsed)/none-1))
		}
	}
	if len(regrets) == 0 {
		return nil
	}
	slices.Sort(regrets)
	return []target{
		{"policy-regret-median-percent", regrets[len(regrets)/2], 2},
		{"policy-regret-worst-percent", regrets[len(regrets)-1], 10},
		{"policy-incompressible-over-none-percent", noise, 3},
	}
}
