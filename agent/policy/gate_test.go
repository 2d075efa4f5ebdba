// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/policy"
)

// gate refuses who is not patient.
type gate struct {
	codec.Engine
	asked *int
}

func (g gate) Enter(patient bool) policy.Reason {
	if *g.asked++; patient {
		return ""
	}
	return policy.AcceleratorShare
}

// TestYield: the gate of an engine is asked for blocks that the accelerator may have, and for no others.
func TestYield(t *testing.T) {
	const mib = 1 << 20
	patient, never, larger := base(), base(), base()
	larger.SoftwareMinSize = 2 * mib
	patient.SoftwareDisabled = true
	never.Mode = policy.Never
	asked := 0
	for name, c := range map[string]struct {
		settings policy.Settings
		engine   codec.Engine
		size     int64
		want     policy.Reason
		asks     int
	}{
		"no engine":              {base(), nil, mib, "", 0},
		"not shared":             {base(), goflate.New(), mib, "", 0},
		"shared":                 {base(), gate{goflate.New(), &asked}, mib, policy.AcceleratorShare, 1},
		"waits":                  {patient, gate{goflate.New(), &asked}, mib, "", 1},
		"too small for software": {larger, gate{goflate.New(), &asked}, mib, "", 1},
		"too small":              {base(), gate{goflate.New(), &asked}, 19999, "", 0},
		"never":                  {never, gate{goflate.New(), &asked}, mib, "", 0},
		"just enough":            {base(), gate{goflate.New(), &asked}, 20000, policy.AcceleratorShare, 1},
	} {
		asked = 0
		if got := policy.Yield(c.settings, c.engine, c.size); got != c.want || asked != c.asks {
			t.Errorf("%s: %q, asked %d times", name, got, asked)
		}
	}
}
