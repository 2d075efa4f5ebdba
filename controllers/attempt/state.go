// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// maxTerminationMessage is what the kubelet keeps.
const maxTerminationMessage = 4096

// Phase is how far the pod of an attempt has come.
type Phase int

const (
	// Absent: there is no Job.
	Absent Phase = iota
	// Starting: the container does not run yet.
	Starting
	// Running: it can be asked.
	Running
	// Ended: it will say no more.
	Ended
)

// State is what a Job and its pod tell of an agent.
type State struct {
	Phase Phase
	Node  string
	IP    string
	// Ready: the agent runs and has passed its startup probe, if it has one.
	Ready bool
	// Stuck says why the container does not start, with since when it has been waited for.
	Stuck *agentpod.Problem
	Since time.Time
	// Apart: no node is found that suits all volumes of the pod, or its node cannot mount them.
	Apart bool
	// Final is the report of an agent that has ended: its own, or one made up from what the kubelet says.
	Final *wirev1.Report
	// Suspended: somebody, such as Kueue, keeps the Job from having a pod, or has its pod end.
	Suspended bool
	// evicted says why the cluster took the pod away; empty if it did not.
	evicted string
}

// Observe reads a Job and its pod; both may be nil.
func Observe(job *batchv1.Job, pod *corev1.Pod) State {
	if job == nil {
		return State{Phase: Absent}
	}
	state := seen(job, pod)
	state.Suspended = suspended(job)
	if state.evicted = evicted(job, pod); state.evicted != "" && state.Final != nil {
		state.Final = asEvicted(state.Final, state.evicted)
	}
	return state
}

// Heard is the state by what the agent said while it ran: one that has succeeded has nothing more to say, and the
// kubelet notices up to a second later that it has ended. How one has failed is read from its pod, without which no
// other attempt begins.
func (s State) Heard(report *wirev1.Report) State {
	if s.Phase == Running && report.GetState() == wirev1.AgentState_AGENT_STATE_SUCCEEDED {
		s.Phase, s.Ready, s.Final = Ended, false, agentreport.Bounded(report)
	}
	return s
}

// OfReceiver is the state of one of several receivers of an agent, of which it said what was heard.
func (s State) OfReceiver(name string, heard *wirev1.Report) State {
	switch {
	case s.Phase == Running && ended(heard):
		s.Phase, s.Ready, s.Final = Ended, false, heard
	case s.Phase == Ended:
		if s.Final = finalOf(s.Final, name); s.evicted != "" {
			s.Final = asEvicted(s.Final, s.evicted)
		}
	}
	return s
}

func ended(report *wirev1.Report) bool {
	switch report.GetState() {
	case wirev1.AgentState_AGENT_STATE_SUCCEEDED, wirev1.AgentState_AGENT_STATE_FAILED:
		return true
	}
	return false
}

// finalOf is what the final report of an agent with several receivers says of one.
func finalOf(report *wirev1.Report, name string) *wirev1.Report {
	one := &wirev1.Report{}
	encoded, left := report.GetReceivers()[name]
	succeeded := report.GetState() == wirev1.AgentState_AGENT_STATE_SUCCEEDED
	switch {
	case left && proto.Unmarshal(encoded, one) == nil && ended(one):
		one.Receivers = nil
		return agentreport.Bounded(one)
	case succeeded:
		return &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED}
	case report.GetVersion() != "":
		// It has told how it ended, and this was left out.
		return Lost("the agent's pod ended before the manager had its report of this destination")
	}
	return report
}

// evicted says why the cluster took a pod away, in its words; empty if it did not, or is not known to have.
func evicted(job *batchv1.Job, pod *corev1.Pod) string {
	if pod != nil {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
				return fmt.Sprintf("%s: %s", condition.Reason, condition.Message)
			}
		}
		if suspended(job) {
			return fmt.Sprintf("Job %q was suspended", job.Name)
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

func suspended(job *batchv1.Job) bool { return job.Spec.Suspend != nil && *job.Spec.Suspend }

// Preempted is the state of an agent that had a node, and whose pod is gone because its Job is Suspended. One that has
// succeeded stays so.
func (s State) Preempted() State {
	if s.Final.GetState() == wirev1.AgentState_AGENT_STATE_SUCCEEDED {
		return s
	}
	s.Phase, s.Ready, s.Stuck = Ended, false, nil
	s.Final = asEvicted(Lost("the agent's pod is gone"), "its Job was suspended")
	return s
}

// asEvicted is the final report of an agent whose pod was taken away, unless it ended for a reason of its own.
func asEvicted(report *wirev1.Report, why string) *wirev1.Report {
	if report.GetState() == wirev1.AgentState_AGENT_STATE_SUCCEEDED ||
		!Interrupted(agentreport.FailureReason(report.GetFailure().GetReason())) {
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
func seen(job *batchv1.Job, pod *corev1.Pod) State {
	finished, succeeded, message := jobFinished(job)
	if pod == nil {
		since, resumed := podless(job)
		state := State{Phase: Starting, Since: since}
		state.Stuck = &agentpod.Problem{Reason: v1alpha1.ReasonAgentNotStarted, Message: fmt.Sprintf(
			"Job %q has no pod yet; a quota or an admission rule may refuse it: kubectl -n %s describe job %s", job.Name,
			job.Namespace, job.Name)}
		switch {
		case !finished && suspended(job):
			state.Stuck = &agentpod.Problem{Reason: v1alpha1.ReasonJobSuspended, Message: fmt.Sprintf(
				"Job %q is suspended, by Kueue if it has a queue; it goes on when the Job is admitted: "+
					"kubectl -n %s get workloads", job.Name, job.Namespace)}
		case succeeded:
			state.Phase = Ended
			state.Final = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED}
		case finished:
			state.Phase = Ended
			state.Final = Lost(fmt.Sprintf("the agent's pod is gone (%s)", message))
		case resumed:
			state.Stuck = nil
		}
		return state
	}
	state := State{
		Phase: Starting, Node: pod.Spec.NodeName, IP: pod.Status.PodIP, Since: pod.CreationTimestamp.Time,
	}
	container := agentpod.ContainerStatus(pod)
	// The kubelet sets the pod's condition Ready with a later status, up to a second after this.
	state.Ready = container != nil && ptr.Deref(container.Started, false)
	switch {
	case container != nil && container.State.Terminated != nil:
		state.Phase, state.Ready = Ended, false
		state.Final = finalReport(container.State.Terminated)
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded || finished:
		state.Phase, state.Ready = Ended, false
		state.Final = Lost(
			fmt.Sprintf("the agent's pod ended without a report: %s %s", pod.Status.Reason, pod.Status.Message),
		)
	case container != nil && container.State.Running != nil && state.IP != "":
		state.Phase = Running
	default:
		state.Stuck = agentpod.WhyNotRunning(pod, container)
		state.Apart = volumesApart(pod)
	}
	return state
}

// podless says since when a Job without a pod could have one. resumed: it is to have one, and its controller has not
// taken note of that yet.
func podless(job *batchv1.Job) (since time.Time, resumed bool) {
	since = job.CreationTimestamp.Time
	if started := job.Status.StartTime; started != nil && started.After(since) {
		since = started.Time
	}
	for _, condition := range job.Status.Conditions {
		if condition.Type != batchv1.JobSuspended {
			continue
		}
		if condition.LastTransitionTime.After(since) {
			since = condition.LastTransitionTime.Time
		}
		resumed = condition.Status == corev1.ConditionTrue && !suspended(job)
	}
	return since, resumed
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
		return Lost("the agent ran out of memory; raise spec.podTemplate.resources.limits.memory")
	case terminated.ExitCode == 0:
		return &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED}
	case terminated.ExitCode == 2:
		return &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: &wirev1.Failure{
			Reason:  wirev1.FailureReason_FAILURE_REASON_INTERNAL,
			Message: "the agent refused its configuration; are the manager and the agent of one version? " + terminated.Message,
		}}
	default:
		return Lost(
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
		return agentreport.Bounded(report), true
	}
	return nil, false
}

// Lost is the report of an agent that ended without one.
func Lost(message string) *wirev1.Report {
	return &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: &wirev1.Failure{
		Reason: wirev1.FailureReason_FAILURE_REASON_AGENT_LOST, Message: message,
	}}
}

// WithoutMessages are conditions without the messages, which may change all the time while an agent runs.
func WithoutMessages(conditions []metav1.Condition) []metav1.Condition {
	all := make([]metav1.Condition, len(conditions))
	for i, condition := range conditions {
		condition.Message = ""
		all[i] = condition
	}
	return all
}

// AgentToAsk returns the address of the agent of a Job's pod; ok is false when it does not run.
func AgentToAsk(job *batchv1.Job, pod *corev1.Pod) (ip string, ok bool) {
	state := Observe(job, pod)
	return state.IP, state.Phase == Running
}
