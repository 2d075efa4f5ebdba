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
func targets(rows []row) []target {
	var regrets []float64
	noise := 0.0
	for i := range rows {
		r := &rows[i]
		regrets = append(regrets, 100*r.regret())
		if r.Network == 0 && r.Objective == policy.Elapsed && r.hopeless() && r.None != nil {
			noise = max(noise, 100*(r.Auto.Value / *r.None - 1))
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
