// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/apimachinery/pkg/api/meta"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

func TestFilterReachesTheAgent(t *testing.T) {
	transfer, facts := newTransfer("ledger", 0), goodFacts()
	transfer.Spec.Include, transfer.Spec.Exclude = []string{"*.csv", "/data"}, []string{"tmp/", "!tmp/keep"}
	transfer.Spec.Delete, transfer.Spec.AllowEmptySource = true, true
	b, err := plan.DecideTransfer(transfer, facts, image).Start.Config()
	if err != nil {
		t.Fatal(err)
	}
	var config wirev1.SendConfig
	if err := protojson.Unmarshal(b, &config); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.Include, transfer.Spec.Include) || !slices.Equal(config.Exclude, transfer.Spec.Exclude) ||
		!config.Mirror || !config.AllowEmptySource {
		t.Errorf("the configuration is %v", &config)
	}
}

func TestFilterThatCannotBeUsed(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.TransferSpec){
		"include":            func(s *v1alpha1.TransferSpec) { s.Include = make([]string, 129) },
		"exclude":            func(s *v1alpha1.TransferSpec) { s.Exclude = make([]string, 129) },
		"empty without need": func(s *v1alpha1.TransferSpec) { s.AllowEmptySource = true },
	} {
		transfer := newTransfer("ledger", 0)
		change(&transfer.Spec)
		decision := plan.DecideTransfer(transfer, goodFacts(), image)
		if _, reason, _ := verdict(t, decision.Status.Conditions); reason != v1alpha1.ReasonInvalidSpec ||
			decision.Start != nil {
			t.Errorf("%s: the reason is %s", name, reason)
		}
	}
}

// A run that nobody but the user can fix ends with its first attempt, and starts again with another spec.
func TestRunThatNoAttemptFixes(t *testing.T) {
	transfer, facts := running(1)
	facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_INVALID_FILTER, "fix it")
	decision := plan.DecideTransfer(transfer, facts, image)
	transfer.Status = decision.Status
	if !meta.IsStatusConditionTrue(transfer.Status.Conditions, v1alpha1.ConditionFailed) ||
		transfer.Status.Run.CompletionTime == nil ||
		!decision.Finished.RunEnded || transfer.Status.Run.NextAttemptTime != nil {
		t.Errorf("status is %+v", transfer.Status)
	}
	facts.Job, facts.Pod, facts.NewRunID = nil, nil, "fghij"
	if again := plan.DecideTransfer(transfer, facts, image); again.Start != nil || again.RequeueAfter != 0 {
		t.Errorf("it goes on: %+v", again)
	}
	transfer.Generation++
	if again := plan.DecideTransfer(transfer, facts, image); again.Start == nil || again.Status.Run.ID != "fghij" {
		t.Errorf("it does not go on with another spec: %+v", again)
	}
}

func TestWhatWasNotSentIsCounted(t *testing.T) {
	transfer, facts := running(1)
	text, err := protojson.Marshal(
		&wirev1.Report{
			State: wirev1.AgentState_AGENT_STATE_SUCCEEDED, Progress: &wirev1.Progress{Removed: 7, ReusedBytes: 8, HoleBytes: 9},
			Compression: &wirev1.Compression{
				Hardware: &wirev1.Operations{Operations: 1}, Software: &wirev1.Operations{Operations: 2},
				Stored: &wirev1.Operations{Operations: 3, Bytes: 10},
			},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	facts.Pod = ended(0, "Completed", string(text))
	status := plan.DecideTransfer(transfer, facts, image).Status
	if p, h := status.Progress, status.History[0]; p.Removed != 7 || h.Removed != 7 || p.ReusedBytes != 8 ||
		h.ReusedBytes != 8 || h.Operations != 6 || h.StoredBytes != 10 || p.HoleBytes != 9 {
		t.Errorf("progress is %+v, history %+v", status.Progress, status.History)
	}
}
