// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attempttest has what tests of planning share: pods of agents as the kubelet and the scheduler leave them,
// nodes, and what is asked of conditions and pods.
package attempttest

import (
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/placement"
)

var (
	// Now is the time of tests.
	Now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	// Image of their agents.
	Image = agentpod.Image{
		Name: "registry.example/agent:test", PullPolicy: corev1.PullIfNotPresent, Tunnels: "own.example:8445",
	}
)

// Pod is one whose agent is in that state.
func Pod(state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "pod", CreationTimestamp: metav1.NewTime(Now)},
		Spec:       corev1.PodSpec{NodeName: "z15-a"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1",
			ContainerStatuses: []corev1.ContainerStatus{{Name: agentpod.ContainerName, State: state}},
		},
	}
}

// Ended is a pod whose agent has ended.
func Ended(exitCode int32, reason, message string) *corev1.Pod {
	return Pod(
		corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: reason, Message: message},
		},
	)
}

// Failed is a pod whose agent reports a failure.
func Failed(t *testing.T, reason wirev1.FailureReason, message string) *corev1.Pod {
	t.Helper()
	return FailedWith(t, &wirev1.Failure{Reason: reason, Message: message})
}

// FailedWith is Failed for a failure with more than a message.
func FailedWith(t *testing.T, failure *wirev1.Failure) *corev1.Pod {
	t.Helper()
	text, err := protojson.Marshal(&wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: failure})
	if err != nil {
		t.Fatal(err)
	}
	return Ended(1, "Error", string(text))
}

// Verdict sums up the three conditions that every kind has: which one is True, and the reason.
func Verdict(t *testing.T, conditions []metav1.Condition) (conditionType, reason, message string) {
	t.Helper()
	for _, one := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		condition := meta.FindStatusCondition(conditions, one)
		if condition == nil {
			t.Fatalf("no condition %s", one)
		}
		if condition.Status == metav1.ConditionTrue {
			if conditionType != "" {
				t.Fatalf("%s and %s are both True", conditionType, one)
			}
			conditionType, reason, message = one, condition.Reason, condition.Message
		}
	}
	return conditionType, reason, message
}

// Restricted checks what the Pod Security Standard of that name asks for.
func Restricted(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	context := pod.Containers[0].SecurityContext
	switch {
	case !*pod.SecurityContext.RunAsNonRoot, *pod.SecurityContext.RunAsUser == 0,
		context.RunAsUser != nil && *context.RunAsUser == 0:
		t.Error("may run as root")
	case pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		t.Error("no seccomp profile")
	case *context.AllowPrivilegeEscalation, !*context.ReadOnlyRootFilesystem:
		t.Error("may escalate, or write to its root")
	case len(context.Capabilities.Drop) != 1 || context.Capabilities.Drop[0] != "ALL" ||
		len(context.Capabilities.Add) != 0:
		t.Errorf("capabilities %+v", context.Capabilities)
	case *pod.AutomountServiceAccountToken, *pod.EnableServiceLinks:
		t.Error("knows of the cluster")
	}
}

// Nodes are z15-a, which has an accelerator, and plain.
func Nodes(cordoned bool) placement.Facts {
	node := func(name, deflate string) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.DeflateLabel: deflate}},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		}
	}
	facts := placement.Facts{
		Nodes: []corev1.Node{node("z15-a", placement.Hardware), node("plain", placement.Software)}, Claim: "ledger",
	}
	facts.Nodes[0].Spec.Unschedulable = cordoned
	return facts
}

// Unschedulable is a pod of that age for which the scheduler finds no node.
func Unschedulable(age time.Duration) *corev1.Pod {
	waiting := Pod(corev1.ContainerState{})
	waiting.Spec.NodeName, waiting.CreationTimestamp = "", metav1.NewTime(Now.Add(-age))
	waiting.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/2 nodes are available",
	}}}
	return waiting
}
