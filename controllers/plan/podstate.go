// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// maxTerminationMessage is what the kubelet keeps.
const maxTerminationMessage = 4096

// Reasons of the kubelet for a container whose image it cannot have.
const (
	errImagePull     = "ErrImagePull"
	imagePullBackOff = "ImagePullBackOff"
)

// agentPhase is how far the pod of an attempt has come.
type agentPhase int

const (
	// agentAbsent: there is no Job.
	agentAbsent agentPhase = iota
	// agentStarting: the container does not run yet.
	agentStarting
	// agentRunning: it can be asked.
	agentRunning
	// agentEnded: it will say no more.
	agentEnded
)

// agentState is what a Job and its pod tell of an agent.
type agentState struct {
	phase agentPhase
	node  string
	ip    string
	// ready: the pod passes its readiness probe.
	ready bool
	// stuck says why the container does not start, with since when it has been waited for.
	stuck *Problem
	since time.Time
	// apart: no node is found that suits all volumes of the pod, or its node cannot mount them.
	apart bool
	// final is the report of an agent that has ended: its own, or one made up from what the kubelet says.
	final *wirev1.Report
}

// observe reads a Job and its pod; both may be nil.
func observe(job *batchv1.Job, pod *corev1.Pod) agentState {
	if job == nil {
		return agentState{phase: agentAbsent}
	}
	state := seen(job, pod)
	if why := evicted(job, pod); why != "" && state.final != nil {
		state.final = asEvicted(state.final, why)
	}
	return state
}

// evicted says why the cluster took a pod away, in its words; empty if it did not, or is not known to have.
func evicted(job *batchv1.Job, pod *corev1.Pod) string {
	if pod != nil {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
				return fmt.Sprintf("%s: %s", condition.Reason, condition.Message)
			}
		}
		return ""
	}
	for _, condition := range job.Status.Conditions {
		// There is one rule, which is about evictions.
		if condition.Type == batchv1.JobFailed && condition.Status == corev1.ConditionTrue &&
			condition.Reason == batchv1.JobReasonPodFailurePolicy {
			return condition.Message
		}
	}
	return ""
}

// asEvicted is the final report of an agent whose pod was taken away, unless it ended for a reason of its own.
func asEvicted(report *wirev1.Report, why string) *wirev1.Report {
	if report.GetState() == wirev1.AgentState_AGENT_STATE_SUCCEEDED ||
		!interrupted(FailureReason(report.GetFailure().GetReason())) {
		return report
	}
	report = proto.CloneOf(report)
	report.Failure = &wirev1.Failure{
		Reason:  wirev1.FailureReason_FAILURE_REASON_EVICTED,
		Message: conditions.Shorten("the agent's pod was evicted: " + why),
	}
	return report
}

// seen is observe for a pod that nobody evicted.
func seen(job *batchv1.Job, pod *corev1.Pod) agentState {
	finished, succeeded, message := jobFinished(job)
	if pod == nil {
		state := agentState{phase: agentStarting, since: job.CreationTimestamp.Time}
		state.stuck = &Problem{v1alpha1.ReasonAgentNotStarted, fmt.Sprintf(
			"Job %q has no pod yet; a quota or an admission rule may refuse it: kubectl -n %s describe job %s", job.Name,
			job.Namespace, job.Name)}
		switch {
		case succeeded:
			state.phase = agentEnded
			state.final = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED}
		case finished:
			state.phase = agentEnded
			state.final = lost(fmt.Sprintf("the agent's pod is gone (%s)", message))
		}
		return state
	}
	state := agentState{
		phase: agentStarting, node: pod.Spec.NodeName, ip: pod.Status.PodIP, since: pod.CreationTimestamp.Time,
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			state.ready = true
		}
	}
	container := agentContainerStatus(pod)
	switch {
	case container != nil && container.State.Terminated != nil:
		state.phase, state.ready = agentEnded, false
		state.final = finalReport(container.State.Terminated)
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded || finished:
		state.phase, state.ready = agentEnded, false
		state.final = lost(
			fmt.Sprintf("the agent's pod ended without a report: %s %s", pod.Status.Reason, pod.Status.Message),
		)
	case container != nil && container.State.Running != nil && state.ip != "":
		state.phase = agentRunning
	default:
		state.stuck = stuckPod(pod, container)
		state.apart = volumesApart(pod)
	}
	return state
}

func jobFinished(job *batchv1.Job) (finished, succeeded bool, message string) {
	for _, condition := range job.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			return true, true, condition.Message
		case batchv1.JobFailed:
			return true, false, condition.Message
		}
	}
	return false, false, ""
}

func agentContainerStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == AgentContainer {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// stuckPod says in the scheduler's or the kubelet's words why a container does not run.
func stuckPod(pod *corev1.Pod, container *corev1.ContainerStatus) *Problem {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return &Problem{v1alpha1.ReasonUnschedulable, "the agent's pod cannot be placed: " + condition.Message}
		}
	}
	if container != nil && container.State.Waiting != nil && container.State.Waiting.Message != "" {
		waiting := container.State.Waiting
		message := fmt.Sprintf("the agent's container does not start: %s: %s", waiting.Reason, waiting.Message)
		if waiting.Reason == errImagePull || waiting.Reason == imagePullBackOff {
			message += "; if the image was not built for this node's architecture, leave that out of image.architectures of " +
				"the chart, and agents go elsewhere"
		}
		return &Problem{v1alpha1.ReasonAgentNotStarted, message}
	}
	return &Problem{v1alpha1.ReasonAgentNotStarted,
		fmt.Sprintf(
			"the agent's container has not started yet; kubectl -n %s describe pod %s says why", pod.Namespace, pod.Name,
		)}
}

// volumesApart reports whether a pod that does not start waits for a node or for its volumes. The kubelet mounts all
// volumes before it makes the sandbox that the condition is about; images are pulled after.
func volumesApart(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && (condition.Type == corev1.PodScheduled ||
			condition.Type == corev1.PodReadyToStartContainers) {
			return true
		}
	}
	return false
}

// finalReport reads what an agent left in its termination message, and makes a report where it left none.
func finalReport(terminated *corev1.ContainerStateTerminated) *wirev1.Report {
	if report, ok := parseReport(terminated.Message); ok {
		return report
	}
	switch {
	case terminated.Reason == "OOMKilled":
		return lost("the agent ran out of memory; raise spec.podTemplate.resources.limits.memory")
	case terminated.ExitCode == 0:
		return &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED}
	case terminated.ExitCode == 2:
		return &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: &wirev1.Failure{
			Reason:  wirev1.FailureReason_FAILURE_REASON_INTERNAL,
			Message: "the agent refused its configuration; are the manager and the agent of one version? " + terminated.Message,
		}}
	default:
		return lost(
			fmt.Sprintf("the agent ended with exit code %d and without a report (%s)", terminated.ExitCode, terminated.Reason),
		)
	}
}

func parseReport(message string) (*wirev1.Report, bool) {
	if message == "" || len(message) > maxTerminationMessage {
		return nil, false
	}
	report := &wirev1.Report{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(message), report); err != nil {
		return nil, false
	}
	switch report.GetState() {
	case wirev1.AgentState_AGENT_STATE_SUCCEEDED, wirev1.AgentState_AGENT_STATE_FAILED:
		return Bounded(report), true
	}
	return nil, false
}

func lost(message string) *wirev1.Report {
	return &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: &wirev1.Failure{
		Reason: wirev1.FailureReason_FAILURE_REASON_AGENT_LOST, Message: message,
	}}
}
