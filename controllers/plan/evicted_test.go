// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
)

// outcome is of an attempt of a run, and what status says of it.
type outcome struct {
	reason wirev1.FailureReason
	// whole are the bytes of files that it brought to the destination, resumed those of others that it went on from.
	whole, resumed uint64
	failures       int32
	wait           time.Duration
	failed         bool
}

func TestWhatCountsAsAFailure(t *testing.T) {
	const (
		evicted  = wirev1.FailureReason_FAILURE_REASON_EVICTED
		lostLink = wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST
		full     = wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL
		corrupt  = wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED
	)
	for name, attempts := range map[string][]outcome{
		"evictions only": {
			{reason: evicted, wait: 5 * time.Second}, {reason: evicted, wait: 10 * time.Second},
			{reason: evicted, wait: 20 * time.Second},
			{reason: evicted, wait: 40 * time.Second}, {reason: evicted, wait: 80 * time.Second},
			{reason: evicted, wait: 160 * time.Second},
			{reason: evicted, wait: 5 * time.Minute}, {reason: evicted, wait: 5 * time.Minute},
		},
		"an eviction among failures": {
			{reason: full, failures: 1, wait: 5 * time.Second}, {reason: evicted, failures: 1, wait: 5 * time.Second},
			{reason: full, failures: 2, wait: 10 * time.Second}, {reason: full, failures: 3, failed: true},
		},
		"a link that breaks": {
			{reason: lostLink, failures: 1, wait: 5 * time.Second}, {reason: lostLink, failures: 2, wait: 10 * time.Second},
			{reason: lostLink, failures: 3, failed: true},
		},
		"a link that breaks again and again, and something arrives": {
			{reason: lostLink, failures: 1, wait: 5 * time.Second}, {reason: lostLink, failures: 2, wait: 10 * time.Second},
			{reason: lostLink, whole: 5, failures: 1, wait: 5 * time.Second},
			{reason: lostLink, whole: 5, failures: 1, wait: 5 * time.Second},
			{reason: lostLink, resumed: 9, failures: 1, wait: 5 * time.Second},
			{reason: lostLink, resumed: 9, failures: 2, wait: 10 * time.Second},
			{reason: lostLink, resumed: 8, failures: 3, failed: true},
		},
		"what arrives is of no use": {
			{reason: corrupt, whole: 5, failures: 1, wait: 5 * time.Second},
			{reason: corrupt, whole: 5, failures: 2, wait: 10 * time.Second},
			{reason: full, whole: 5, failures: 3, failed: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			transfer := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger", UID: "uid"}}
			transfer.Spec.MaxAttempts = 3
			transfer.Status.Run = &v1alpha1.RunStatus{ID: "abcde"}
			now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
			for i, a := range attempts {
				transfer.Status.Run.Attempt, transfer.Status.Progress = int32(i+1), nil
				d := &transferDecision{transfer: transfer, facts: TransferFacts{Now: now}}
				d.finish(&wirev1.Report{
					State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: &wirev1.Failure{Reason: a.reason, Message: "why"},
					Progress: &wirev1.Progress{Bytes: a.whole, ResumedBytes: a.resumed},
				})
				status := transfer.Status
				if status.Run.Failures != a.failures || (status.Phase == v1alpha1.TransferFailed) != a.failed {
					t.Fatalf("attempt %d: %d failures, %s", i+1, status.Run.Failures, status.Phase)
				}
				if !a.failed && (d.out.RequeueAfter < a.wait || d.out.RequeueAfter > a.wait*3/2) {
					t.Errorf("attempt %d: %s until the next, want %s", i+1, d.out.RequeueAfter, a.wait)
				}
				if got := status.History[0].Reason; got != agentreport.FailureReason(a.reason) {
					t.Errorf("attempt %d: %s in history", i+1, got)
				}
			}
		})
	}
}
