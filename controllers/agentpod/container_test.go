// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentpod_test

import (
	"testing"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// TestShares: agents are told where shares of accelerators are granted, and where none are they get no variable, with
// which they would restart.
func TestShares(t *testing.T) {
	for _, address := range []string{"", "10.96.0.7:9444", "[fd00::7]:9444"} {
		c := agentpod.Container(agentpod.Image{Name: "agent", Shares: address}, v1alpha1.AgentPodTemplate{})
		told, variables := "", 0
		for _, e := range c.Env {
			if e.Name == wirev1.SharesVariable {
				told = e.Value
				variables++
			}
		}
		if told != address || variables != min(len(address), 1) {
			t.Errorf("%q: %+v", address, c.Env)
		}
	}
}
