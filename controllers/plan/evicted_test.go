// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

func TestEvicted(t *testing.T) {
	failedJob := func(reason string) *batchv1.Job {
		return &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{
			Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: reason, Message: "why",
		}}}}
	}
	pod := func(phase corev1.PodPhase, evicted corev1.ConditionStatus, message string, code int32) *corev1.Pod {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		if evicted != "" {
			pod.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.DisruptionTarget, Status: evicted, Reason: "EvictionByEvictionAPI"},
			}
		}
		if code >= 0 {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: AgentContainer, State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message},
			}}}
		}
		return pod
	}
	report := func(reason wirev1.FailureReason) string {
		return `{"state":"AGENT_STATE_FAILED","failure":{"reason":"` + reason.String() + `"},"progress":{"bytes":"7"}}`
	}
	job := &batchv1.Job{}
	for name, c := range map[string]struct {
		job  *batchv1.Job
		pod  *corev1.Pod
		want string
	}{
		"stopped in time": {
			job, pod(corev1.PodFailed, "True", report(wirev1.FailureReason_FAILURE_REASON_ABORTED), 1), v1alpha1.ReasonEvicted,
		},
		"killed":             {job, pod(corev1.PodFailed, "True", "", 137), v1alpha1.ReasonEvicted},
		"before it started":  {job, pod(corev1.PodFailed, "True", "", -1), v1alpha1.ReasonEvicted},
		"not any more":       {job, pod(corev1.PodFailed, "False", "", 137), v1alpha1.ReasonAgentLost},
		"killed by somebody": {job, pod(corev1.PodFailed, "", "", 137), v1alpha1.ReasonAgentLost},
		"failed and was evicted then": {
			job, pod(corev1.PodFailed, "True", report(wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL), 1),
			v1alpha1.ReasonDestinationFull,
		},
		"succeeded":                   {job, pod(corev1.PodSucceeded, "True", "", 0), ""},
		"pod gone, Job knows":         {failedJob(batchv1.JobReasonPodFailurePolicy), nil, v1alpha1.ReasonEvicted},
		"pod gone, for another cause": {failedJob(batchv1.JobReasonBackoffLimitExceeded), nil, v1alpha1.ReasonAgentLost},
	} {
		final := observe(c.job, c.pod).final
		if final == nil {
			t.Errorf("%s: it has not ended", name)
			continue
		}
		got := ""
		if final.GetState() != wirev1.AgentState_AGENT_STATE_SUCCEEDED {
			got = FailureReason(final.GetFailure().GetReason())
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if name == "stopped in time" && final.GetProgress().GetBytes() != 7 {
			t.Error("what it had done is forgotten")
		}
	}
	// A pod that is about to be taken away goes on until it is.
	running := pod(corev1.PodRunning, "True", "", -1)
	running.Status.PodIP = "10.0.0.1"
	running.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: AgentContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	if observe(job, running).phase != agentRunning {
		t.Error("it ended before it did")
	}
}

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
				if got := status.History[0].Reason; got != FailureReason(a.reason) {
					t.Errorf("attempt %d: %s in history", i+1, got)
				}
			}
		})
	}
}
