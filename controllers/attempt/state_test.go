// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
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
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: agentpod.ContainerName, State: corev1.ContainerState{
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
		final := attempt.Observe(c.job, c.pod).Final
		if final == nil {
			t.Errorf("%s: it has not ended", name)
			continue
		}
		got := ""
		if final.GetState() != wirev1.AgentState_AGENT_STATE_SUCCEEDED {
			got = agentreport.FailureReason(final.GetFailure().GetReason())
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
		Name: agentpod.ContainerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	if attempt.Observe(job, running).Phase != attempt.Running {
		t.Error("it ended before it did")
	}
}

// TestWaitBeginsWhenResumed: the time that a Job was suspended does not count as time without a pod.
func TestWaitBeginsWhenResumed(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	admitted := created.Add(time.Hour)
	condition := func(status corev1.ConditionStatus, at time.Time) batchv1.JobStatus {
		return batchv1.JobStatus{Conditions: []batchv1.JobCondition{{
			Type: batchv1.JobSuspended, Status: status, LastTransitionTime: metav1.NewTime(at),
		}}}
	}
	started := metav1.NewTime(admitted)
	for name, c := range map[string]struct {
		suspend bool
		status  batchv1.JobStatus
		since   time.Time
		reason  string // "": nothing is in the way
	}{
		"never suspended":             {since: created, reason: v1alpha1.ReasonAgentNotStarted},
		"suspended":                   {true, condition(corev1.ConditionTrue, created), created, v1alpha1.ReasonJobSuspended},
		"resumed a moment ago":        {false, condition(corev1.ConditionTrue, created), created, ""},
		"resumed":                     {false, condition(corev1.ConditionFalse, admitted), admitted, v1alpha1.ReasonAgentNotStarted},
		"resumed before it was begun": {false, batchv1.JobStatus{StartTime: &started}, admitted, v1alpha1.ReasonAgentNotStarted},
	} {
		state := attempt.Observe(&batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)},
			Spec:       batchv1.JobSpec{Suspend: ptr.To(c.suspend)}, Status: c.status,
		}, nil)
		reason := ""
		if state.Stuck != nil {
			reason = state.Stuck.Reason
		}
		if state.Phase != attempt.Starting || !state.Since.Equal(c.since) || reason != c.reason {
			t.Errorf("%s: since %s, %q", name, state.Since, reason)
		}
	}
}

// TestPreempted: an agent whose pod is gone with its Job suspended was evicted, unless it has succeeded.
func TestPreempted(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
	final := attempt.Observe(job, nil).Preempted().Final
	if final.GetFailure().GetReason() != wirev1.FailureReason_FAILURE_REASON_EVICTED {
		t.Errorf("%v", final)
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	state := attempt.Observe(job, nil).Preempted()
	if state.Phase != attempt.Ended || state.Final.GetState() != wirev1.AgentState_AGENT_STATE_SUCCEEDED {
		t.Errorf("it has succeeded: %+v", state)
	}
}

// TestHeard: an agent that runs and says that it has succeeded has ended; nothing else that it says ends it.
func TestHeard(t *testing.T) {
	report := func(state wirev1.AgentState) *wirev1.Report { return &wirev1.Report{State: state, Version: "v9"} }
	succeeded := report(wirev1.AgentState_AGENT_STATE_SUCCEEDED)
	for name, test := range map[string]struct {
		phase attempt.Phase
		heard *wirev1.Report
		want  attempt.Phase
	}{
		"nothing":       {attempt.Running, nil, attempt.Running},
		"at work":       {attempt.Running, report(wirev1.AgentState_AGENT_STATE_TRANSFERRING), attempt.Running},
		"failed":        {attempt.Running, report(wirev1.AgentState_AGENT_STATE_FAILED), attempt.Running},
		"succeeded":     {attempt.Running, succeeded, attempt.Ended},
		"of before":     {attempt.Starting, succeeded, attempt.Starting},
		"it has no Job": {attempt.Absent, succeeded, attempt.Absent},
	} {
		state := attempt.State{Phase: test.phase, Ready: true}.Heard(test.heard)
		ended := state.Phase == attempt.Ended
		if state.Phase != test.want || ended == state.Ready || ended != (state.Final.GetVersion() == "v9") {
			t.Errorf("%s: %+v", name, state)
		}
	}
}
