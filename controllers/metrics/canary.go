// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

var (
	canaryDescription = describe("lighterage_compressionpolicy_canary_info",
		"1, with the state of a CompressionPolicy's canary: Measuring, Promoted, RolledBack or Inconclusive.", "policy",
		"state")
	canaryChangeDescription = describe("lighterage_compressionpolicy_canary_cost_change_ratio",
		"By which share more of what the objective asks for a GiB takes in the canary of a CompressionPolicy than outside "+
			"of it. See status.canary.changePercent.", "policy")
)

func (i *Inventory) showCanaries(out show) {
	for _, policy := range i.canaries {
		canary := policy.Status.Canary
		out(canaryDescription, 1, policy.Name, string(canary.State))
		if percent, err := strconv.ParseFloat(canary.ChangePercent, 64); err == nil {
			out(canaryChangeDescription, percent/100, policy.Name)
		}
	}
}

// canaryOf is a policy that shows one; kept is false for others.
func canaryOf(object any) (policy *v1alpha1.CompressionPolicy, kept bool) {
	policy, ok := object.(*v1alpha1.CompressionPolicy)
	return policy, ok && policy.Status.Canary != nil
}
