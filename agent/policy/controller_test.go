// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/policy/policytest"
)

var (
	objectives = []policy.Objective{policy.Cost, policy.Elapsed, policy.CPU, policy.Bytes}
	prices     = policy.Prices{CPUHour: 0.031, NetworkGiB: 0.05}
)

const mbit = 1e6 / 8

func controller(o policy.Objective, p policy.Prices, cores int) *policy.Controller {
	return policy.NewController(policy.ControllerOptions{
		Objective: o, Prices: p, Ways: policytest.Measured(), Cores: cores, PeerCores: cores,
	})
}

// TestRegret: over all networks, kinds of data and objectives Auto comes close to the best that one option for all
// could have done.
func TestRegret(t *testing.T) {
	var all []float64
	for _, link := range []float64{10 * mbit, 100 * mbit, 1000 * mbit, 2500 * mbit, 10000 * mbit, 0} {
		for _, cores := range worlds(8, 2, 1) {
			world, blocks := policytest.Here(cores, link), 600*cores
			for _, data := range policytest.Kinds() {
				var fixed []policytest.Result
				for _, o := range append(policytest.Options(), policy.Option{}) {
					fixed = append(fixed, policytest.Run(world, policytest.Fixed{Option: o}, []policytest.Data{data}, blocks))
				}
				for _, objective := range objectives {
					got := policytest.Run(world, controller(objective, prices, cores), []policytest.Data{data}, blocks)
					best := math.Inf(1)
					for _, f := range fixed {
						best = min(best, f.Value(objective, prices))
					}
					if objective == policy.Bytes {
						best = max(best, 0.01*float64(blocks)*(1<<20)) // less is nothing
					}
					regret := got.Value(objective, prices)/best - 1
					all = append(all, regret)
					if regret > 0.10 {
						t.Errorf(
							"%s at %.0f Mbit/s, %d cores, %s: %.1f %% more than the best: %s", data.Name, link/mbit, cores, objective,
							100*regret, describe(got),
						)
					}
				}
			}
		}
	}
	slices.Sort(all)
	if median := all[len(all)/2]; median > 0.02 {
		t.Errorf("the median regret is %.1f %%", 100*median)
	}
	t.Logf("median %.2f %%, worst %.2f %%", 100*all[len(all)/2], 100*all[len(all)-1])
}

func describe(r policytest.Result) string { return fmt.Sprint(r.Blocks, r.Reasons) }
