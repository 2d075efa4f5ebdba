// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

var (
	now   = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	image = plan.AgentImage{Name: "registry.example/agent:test", PullPolicy: corev1.PullIfNotPresent}
)

func newTransfer(name string, age time.Duration) *v1alpha1.Transfer {
	return &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: name, UID: "uid-of-" + "transfer", Generation: 1,
			CreationTimestamp: metav1.NewTime(now.Add(-age)),
		},
		Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger", Path: "/"},
			},
			Destination: v1alpha1.TransferDestination{
				Peer: "west", PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/books"},
			},
			MaxAttempts: 3,
		},
	}
}

// goodFacts are those under which an attempt can begin.
func goodFacts() plan.TransferFacts {
	return plan.TransferFacts{
		Now: now, NewRunID: "abcde",
		Peer: &v1alpha1.Peer{
			ObjectMeta: metav1.ObjectMeta{Name: "west", Generation: 1},
			Spec:       v1alpha1.PeerSpec{Endpoint: "gateway.west.example:8443", CABundle: []byte("pem")},
		},
		Claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger"}},
	}
}

// running is a Transfer in that attempt of its run, and the facts for it, with a Job.
func running(attempt int32) (*v1alpha1.Transfer, plan.TransferFacts) {
	transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
	decision := plan.DecideTransfer(transfer, facts, image)
	transfer.Status = decision.Status
	transfer.Status.Run.Attempt = attempt
	facts.Job = &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: plan.AttemptName("ledger", "abcde", attempt), CreationTimestamp: metav1.NewTime(now),
	}}
	return transfer, facts
}

func pod(state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "pod", CreationTimestamp: metav1.NewTime(now)},
		Spec:       corev1.PodSpec{NodeName: "z15-a"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1",
			ContainerStatuses: []corev1.ContainerStatus{{Name: plan.AgentContainer, State: state}},
		},
	}
}

func ended(exitCode int32, reason, message string) *corev1.Pod {
	return pod(
		corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: reason, Message: message},
		},
	)
}

func failed(t *testing.T, reason wirev1.FailureReason, message string) *corev1.Pod {
	t.Helper()
	return failedWith(t, &wirev1.Failure{Reason: reason, Message: message})
}

func failedWith(t *testing.T, failure *wirev1.Failure) *corev1.Pod {
	t.Helper()
	text, err := protojson.Marshal(&wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: failure})
	if err != nil {
		t.Fatal(err)
	}
	return ended(1, "Error", string(text))
}

// verdict sums up the three conditions that every kind has: which one is True, and the reason.
func verdict(t *testing.T, conditions []metav1.Condition) (conditionType, reason, message string) {
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
