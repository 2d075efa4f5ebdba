// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentreport_test

import (
	"math"
	"testing"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
)

func zstd(permille int64, margin, units uint64) *wirev1.Decisions {
	return &wirev1.Decisions{Objective: "CPU", Regret: &wirev1.Regret{
		Permille: permille, MarginPermille: margin, Units: units, Codec: "zstd", Level: "Fast",
	}}
}

func TestRegretStatus(t *testing.T) {
	shown := agentreport.DecisionsStatus(
		[]*wirev1.Decisions{zstd(40, 20, 60), {Objective: "CPU"}, zstd(123, 31, 500)}, nil,
	)
	want := v1alpha1.DecisionsStatus{
		Objective: "CPU", RegretPercent: "12.3", RegretMarginPercent: "3.1", RegretSamples: 500, BestAlternative: "zstd Fast",
	}
	if shown.RegretPercent != want.RegretPercent || shown.RegretMarginPercent != want.RegretMarginPercent ||
		shown.RegretSamples != want.RegretSamples || shown.BestAlternative != want.BestAlternative {
		t.Errorf("%+v", shown)
	}
	other := zstd(-200, 0, 900)
	other.Regret.Codec, other.Regret.Hardware = "deflate", true
	none := &wirev1.Decisions{Objective: "CPU", Regret: &wirev1.Regret{
		Permille: 130, MarginPermille: 31, Units: 510, Codec: "none",
	}}
	cpu, bytes := zstd(125, 31, 510), zstd(125, 31, 510)
	bytes.Objective = "Bytes"
	for name, test := range map[string]struct {
		report        *wirev1.Decisions
		percent, best string
		samples       int64
	}{
		"about the same":               {cpu, "12.3", "zstd Fast", 500},
		"another that is as good":      {none, "12.3", "zstd Fast", 500},
		"another figure":               {zstd(160, 31, 510), "16.0", "zstd Fast", 510},
		"a sample twice as large":      {zstd(125, 20, 1000), "12.5", "zstd Fast", 1000},
		"a sample that begins afresh":  {zstd(125, 31, 60), "12.5", "zstd Fast", 60},
		"another objective":            {bytes, "12.5", "zstd Fast", 510},
		"another that is much better":  {other, "-20.0", "deflate Fast hardware", 900},
		"nothing is measured any more": {&wirev1.Decisions{Objective: "CPU"}, "", "", 0},
	} {
		got := agentreport.DecisionsStatus([]*wirev1.Decisions{test.report}, shown)
		if got.RegretPercent != test.percent || got.BestAlternative != test.best || got.RegretSamples != test.samples {
			t.Errorf("%s: %+v", name, got)
		}
		again := agentreport.DecisionsStatus([]*wirev1.Decisions{test.report}, got)
		if again.RegretPercent != got.RegretPercent || again.RegretSamples != got.RegretSamples {
			t.Errorf("%s: a second look shows %+v", name, again)
		}
	}
}

// TestRegretOfHostileAgents: what agents say is bounded, and alternatives that there are not are not shown.
func TestRegretOfHostileAgents(t *testing.T) {
	worst := zstd(math.MinInt64, math.MaxUint64, math.MaxUint64)
	got := agentreport.DecisionsStatus([]*wirev1.Decisions{worst, worst}, nil)
	if got.RegretPercent != "-100.0" || got.RegretMarginPercent != "1000000.0" || got.RegretSamples != math.MaxInt64 {
		t.Errorf("%+v", got)
	}
	got = agentreport.DecisionsStatus([]*wirev1.Decisions{zstd(math.MaxInt64, 0, 1)}, got)
	if got.RegretPercent != "1000000.0" {
		t.Errorf("%+v", got)
	}
	for _, change := range []func(*wirev1.Regret){
		func(r *wirev1.Regret) { r.Codec = "\x1b[2J" },
		func(r *wirev1.Regret) { r.Codec = "" },
		func(r *wirev1.Regret) { r.Level = "Slow" },
	} {
		hostile := zstd(1, 1, 100)
		change(hostile.GetRegret())
		if got := agentreport.DecisionsStatus([]*wirev1.Decisions{hostile}, nil); got.BestAlternative != "" ||
			got.RegretPercent != "" {
			t.Errorf("%+v", got)
		}
	}
}
