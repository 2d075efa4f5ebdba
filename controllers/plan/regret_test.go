// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// TestRegretBecomesStatus: what choices lose is shown, also when a later report lacks it.
func TestRegretBecomesStatus(t *testing.T) {
	report := &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, Compression: &wirev1.Compression{Codec: "zstd"},
		Decisions: &wirev1.Decisions{Objective: "CPU", Regret: &wirev1.Regret{
			Permille: 34, MarginPermille: 7, Units: 60, Codec: "deflate", Level: "Fast",
		}},
	}
	want := &v1alpha1.DecisionsStatus{
		Objective: v1alpha1.ObjectiveCPU, RegretPercent: "3.4", RegretMarginPercent: "0.7", RegretSamples: 60,
		BestAlternative: "deflate Fast",
	}
	if diff := cmp.Diff(want, follow(report, nil).Decisions); diff != "" {
		t.Error(diff)
	}
	report.Decisions = nil
	got := follow(report, func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) { transfer.Status.Decisions = want })
	if diff := cmp.Diff(want, got.Decisions); diff != "" {
		t.Error(diff)
	}
}
