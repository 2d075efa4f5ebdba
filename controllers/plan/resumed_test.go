// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// TestResumedBytes runs attempts one after the other, each of which loses the connection after it has reported.
func TestResumedBytes(t *testing.T) {
	type attempt struct{ bytes, unchanged, sent, resumed uint64 }
	for name, test := range map[string]struct {
		attempts []attempt
		want     int64
	}{
		"the first attempt resumes nothing": {[]attempt{{bytes: 100, unchanged: 60, sent: 40}}, 0},
		"what was there before the run": {
			[]attempt{{bytes: 60, unchanged: 60, sent: 900}, {bytes: 60, unchanged: 60, sent: 900}}, 0,
		},
		"whole files of the attempt before": {
			[]attempt{{bytes: 100, unchanged: 60, sent: 900}, {bytes: 120, unchanged: 100, sent: 900}}, 40,
		},
		"of all attempts before": {
			[]attempt{{bytes: 40, sent: 50}, {bytes: 70, unchanged: 40, sent: 50}, {bytes: 70, unchanged: 70}}, 70,
		},
		"only what is still there": {
			[]attempt{{bytes: 100, sent: 100}, {bytes: 100, unchanged: 30, sent: 70}}, 30,
		},
		"less than nothing, by an agent that cannot count": {
			[]attempt{{bytes: 10, unchanged: 60}, {bytes: 60, unchanged: 60}}, 0,
		},
		"parts of files": {[]attempt{{bytes: 40, sent: 90}, {bytes: 70, unchanged: 40, sent: 20, resumed: 50}}, 90},
		"more than there are numbers, by such an agent again": {
			[]attempt{{bytes: 1 << 63}, {bytes: 1 << 63}, {bytes: 5, unchanged: 5}}, 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := running(1)
			transfer.Spec.MaxAttempts = 100
			for i, attempt := range test.attempts {
				report := &wirev1.Report{
					State:   wirev1.AgentState_AGENT_STATE_FAILED,
					Failure: &wirev1.Failure{Reason: wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, Message: "lost"},
					Progress: &wirev1.Progress{
						Bytes: attempt.bytes, UnchangedBytes: attempt.unchanged, ResumedBytes: attempt.resumed,
						ResentBytes: attempt.resumed / 2,
					},
					Compression: &wirev1.Compression{UncompressedBytes: attempt.sent},
				}
				text, err := protojson.Marshal(report)
				if err != nil {
					t.Fatal(err)
				}
				facts.Pod = ended(1, "Error", string(text))
				transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
				if i == len(test.attempts)-1 {
					break
				}
				facts.Now = transfer.Status.Run.NextAttemptTime.Time
				transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
			}
			if got := transfer.Status.Progress.ResumedBytes; got != test.want ||
				transfer.Status.History[0].ResumedBytes != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
			if got, want := transfer.Status.Progress.ResentBytes, int64(
				test.attempts[len(test.attempts)-1].resumed/2,
			); got != want || transfer.Status.History[0].ResentBytes != want {
				t.Errorf("%d came again, want %d", got, want)
			}
		})
	}
}

// TestLostAgentDelivered: an agent that leaves no report has delivered what it said last.
func TestLostAgentDelivered(t *testing.T) {
	transfer, facts := running(1)
	facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	facts.Report = &wirev1.Report{
		State:    wirev1.AgentState_AGENT_STATE_TRANSFERRING,
		Progress: &wirev1.Progress{Bytes: 100, PartialBytes: 50, UnchangedBytes: 60, BytesTotal: 200},
	}
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	if p := transfer.Status.Progress; p.Bytes != 150 || p.PartialBytes != 50 || p.Percent != 75 {
		t.Errorf("progress is %+v", p)
	}
	facts.Pod, facts.Report = ended(137, "OOMKilled", ""), nil
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	if got := transfer.Status.Run.DeliveredBytes; got != 40 {
		t.Errorf("%d", got)
	}
}
