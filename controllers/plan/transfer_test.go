// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// TestBadInputCostsNoAttempt has everything that can be seen to be wrong before a pod is made.
func TestBadInputCostsNoAttempt(t *testing.T) {
	peerNotReady := func(reason string) func(*v1alpha1.Transfer, *plan.TransferFacts) {
		return func(_ *v1alpha1.Transfer, f *plan.TransferFacts) {
			f.Peer.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: "what the Peer says",
				ObservedGeneration: 1,
			}}
		}
	}
	rival := func(path string, age time.Duration) func(*v1alpha1.Transfer, *plan.TransferFacts) {
		return func(_ *v1alpha1.Transfer, f *plan.TransferFacts) {
			other := newTransfer("other", age)
			other.UID = "another"
			other.Spec.Destination.PersistentVolumeClaim.Path = path
			f.Others = []v1alpha1.Transfer{*other}
		}
	}
	security := func(context corev1.SecurityContext) func(*v1alpha1.Transfer, *plan.TransferFacts) {
		return func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
			transfer.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{SecurityContext: &context}
		}
	}
	for name, test := range map[string]struct {
		change  func(*v1alpha1.Transfer, *plan.TransferFacts)
		verdict string
		reason  string
		message string
	}{
		"nothing wrong": {func(*v1alpha1.Transfer, *plan.TransferFacts) {}, "Reconciling", "Starting", "attempt 1"},
		"unknown claim": {func(_ *v1alpha1.Transfer, f *plan.TransferFacts) { f.Claim = nil },
			"Stalled", "SourceNotFound", "claims of the own namespace"},
		"claim that is being deleted": {func(_ *v1alpha1.Transfer, f *plan.TransferFacts) {
			f.Claim.DeletionTimestamp = &metav1.Time{Time: now}
		},
			"Stalled", "SourceNotFound", "being deleted"},
		"unknown peer": {func(_ *v1alpha1.Transfer, f *plan.TransferFacts) { f.Peer = nil },
			"Stalled", "PeerNotFound", "create it"},
		"peer without endpoint": {func(_ *v1alpha1.Transfer, f *plan.TransferFacts) { f.Peer.Spec.Endpoint = "" },
			"Stalled", "PeerHasNoEndpoint", "set spec.endpoint"},
		"peer that does not answer": {
			peerNotReady(v1alpha1.ReasonPeerUnreachable), "Reconciling", "PeerUnreachable", "what the Peer says",
		},
		"peer with another CA": {
			peerNotReady(v1alpha1.ReasonPeerUntrusted), "Stalled", "PeerUntrusted", "what the Peer says",
		},
		"peer with a broken CA": {
			peerNotReady(v1alpha1.ReasonInvalidCABundle), "Stalled", "PeerUntrusted", "what the Peer says",
		},
		"peer of another version": {
			peerNotReady(v1alpha1.ReasonPeerIncompatible), "Stalled", "PeerIncompatible", "what the Peer says",
		},
		"peer judged before its spec changed": {func(transfer *v1alpha1.Transfer, f *plan.TransferFacts) {
			peerNotReady(v1alpha1.ReasonPeerUntrusted)(transfer, f)
			f.Peer.Generation = 2
		}, "Reconciling", "Starting", ""},
		"unknown policy": {func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
			transfer.Spec.Compression = &v1alpha1.Compression{PolicyName: "gone"}
		}, "Stalled", "PolicyNotFound", "create it"},
		"negative minSize": {func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
			transfer.Spec.Compression = &v1alpha1.Compression{MinSize: ptr.To(resource.MustParse("-1"))}
		}, "Stalled", "InvalidSpec", "16Ki"},
		"absurd maxAttempts": {func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
			transfer.Spec.MaxAttempts = 1 << 30
		},
			"Stalled", "InvalidSpec", "between 1 and 100"},
		"source path that climbs": {func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
			transfer.Spec.Source.PersistentVolumeClaim.Path = "/a/../../b"
		}, "Stalled", "InvalidSpec", "name the directory itself"},
		"relative destination path": {func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
			transfer.Spec.Destination.PersistentVolumeClaim.Path = "books"
		}, "Stalled", "InvalidSpec", "/data"},
		"path with a NUL": {func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
			transfer.Spec.Destination.PersistentVolumeClaim.Path = "/a\x00"
		}, "Stalled", "InvalidSpec", "NUL"},
		"root": {
			security(corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}), "Stalled", "PrivilegeNotAllowed",
			"annotate the namespace",
		},
		"privileged": {
			security(corev1.SecurityContext{Privileged: ptr.To(true)}), "Stalled", "PrivilegeNotAllowed", "privileged",
		},
		"added capability": {
			security(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"DAC_READ_SEARCH"}}}),
			"Stalled", "PrivilegeNotAllowed", "DAC_READ_SEARCH",
		},
		"another ordinary user": {
			security(corev1.SecurityContext{RunAsUser: ptr.To[int64](1000)}), "Stalled", "PrivilegeNotAllowed",
			"runAsUser: 1000",
		},
		"another group": {
			security(corev1.SecurityContext{RunAsGroup: ptr.To[int64](0)}), "Stalled", "PrivilegeNotAllowed", "runAsGroup: 0",
		},
		"Windows options": {
			security(corev1.SecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{}}), "Stalled",
			"PrivilegeNotAllowed", "windowsOptions",
		},
		"the agent's own user": {
			security(corev1.SecurityContext{RunAsUser: ptr.To[int64](65532), RunAsGroup: ptr.To[int64](65532)}), "Reconciling",
			"Starting", "",
		},
		"dropped capability": {
			security(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"NET_RAW"}}}),
			"Reconciling", "Starting", "",
		},
		"older into same place":  {rival("/books", 2*time.Hour), "Stalled", "DestinationInUse", `Transfer "other"`},
		"older into a directory": {rival("/books/2026/", 2*time.Hour), "Stalled", "DestinationInUse", `Transfer "other"`},
		"older around it":        {rival("/", 2*time.Hour), "Stalled", "DestinationInUse", `Transfer "other"`},
		"older beside it":        {rival("/booksellers", 2*time.Hour), "Reconciling", "Starting", ""},
		"younger":                {rival("/books", time.Minute), "Reconciling", "Starting", ""},
		"of the same second":     {rival("/books", time.Hour), "Stalled", "DestinationInUse", `Transfer "other"`},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
			test.change(transfer, &facts)
			decision := plan.DecideTransfer(transfer, facts, image)
			conditionType, reason, message := verdict(t, decision.Status.Conditions)
			if conditionType != test.verdict || reason != test.reason || !strings.Contains(message, test.message) {
				t.Fatalf("%s=True, %s: %s", conditionType, reason, message)
			}
			started := test.reason == "Starting"
			if (decision.Start != nil) != started || (decision.Status.Run != nil) != started {
				t.Fatalf("started: %v, run: %+v", decision.Start != nil, decision.Status.Run)
			}
			if decision.RequeueAfter == 0 || !started && decision.RequeueAfter < time.Minute {
				t.Fatalf("looks again after %s", decision.RequeueAfter)
			}
			if transfer.Status.Run != nil || transfer.Status.Conditions != nil {
				t.Fatal("the argument was changed")
			}
		})
	}
}

// TestHowAttemptsEnd has what a pod, a Job or nothing tells of an attempt.
func TestHowAttemptsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*testing.T, *plan.TransferFacts)
		phase   v1alpha1.TransferPhase
		verdict string
		reason  string
		record  string
		message string
	}{
		"not granted": {func(t *testing.T, f *plan.TransferFacts) {
			f.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED, "create a PeerGrant")
		}, v1alpha1.TransferRetrying, "Stalled", "NotGranted", "NotGranted", "create a PeerGrant"},
		"path that does not exist": {func(t *testing.T, f *plan.TransferFacts) {
			f.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND, "no /x")
		}, v1alpha1.TransferRetrying, "Stalled", "SourceNotFound", "SourceNotFound", "no /x"},
		"wrong CA": {func(t *testing.T, f *plan.TransferFacts) {
			f.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED, "caBundle")
		}, v1alpha1.TransferRetrying, "Stalled", "PeerUntrusted", "PeerUntrusted", "caBundle"},
		"destination full": {func(t *testing.T, f *plan.TransferFacts) {
			f.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL, "enlarge it")
		}, v1alpha1.TransferRetrying, "Reconciling", "Retrying", "DestinationFull", "enlarge it"},
		"a reason of a later version": {func(t *testing.T, f *plan.TransferFacts) {
			f.Pod = ended(1, "Error", `{"state":"AGENT_STATE_FAILED","failure":{"reason":4711,"message":"new"},"later":1}`)
		}, v1alpha1.TransferRetrying, "Reconciling", "Retrying", "Internal", "new"},
		"pattern that cannot be used": {func(t *testing.T, f *plan.TransferFacts) {
			f.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_INVALID_FILTER, "spec.exclude pattern 1")
		}, v1alpha1.TransferFailed, "Stalled", "InvalidSpec", "InvalidSpec", "spec.exclude pattern 1"},
		"mirror of nothing": {func(t *testing.T, f *plan.TransferFacts) {
			f.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY, "set spec.allowEmptySource")
		}, v1alpha1.TransferFailed, "Stalled", "SourceEmpty", "SourceEmpty", "set spec.allowEmptySource"},
		"no report": {func(_ *testing.T, f *plan.TransferFacts) { f.Pod = ended(139, "Error", "") },
			v1alpha1.TransferRetrying, "Reconciling", "Retrying", "AgentLost", "exit code 139"},
		"garbage for a report": {func(_ *testing.T, f *plan.TransferFacts) { f.Pod = ended(1, "Error", "{]") },
			v1alpha1.TransferRetrying, "Reconciling", "Retrying", "AgentLost", "without a report"},
		"a report that is not final": {func(_ *testing.T, f *plan.TransferFacts) {
			f.Pod = ended(1, "Error", `{"state":"AGENT_STATE_TRANSFERRING"}`)
		}, v1alpha1.TransferRetrying, "Reconciling", "Retrying", "AgentLost", "without a report"},
		"out of memory": {func(_ *testing.T, f *plan.TransferFacts) { f.Pod = ended(137, "OOMKilled", "") },
			v1alpha1.TransferRetrying, "Reconciling", "Retrying", "AgentLost", "limits.memory"},
		"configuration refused": {func(_ *testing.T, f *plan.TransferFacts) { f.Pod = ended(2, "Error", "unknown field") },
			v1alpha1.TransferRetrying, "Reconciling", "Retrying", "Internal", "one version"},
		"evicted": {func(_ *testing.T, f *plan.TransferFacts) {
			f.Pod = pod(corev1.ContainerState{})
			f.Pod.Status.Phase, f.Pod.Status.Reason, f.Pod.Status.Message = corev1.PodFailed, "Evicted",
				"the node was low on memory"
		}, v1alpha1.TransferRetrying, "Reconciling", "Retrying", "AgentLost", "low on memory"},
		"pod gone": {func(_ *testing.T, f *plan.TransferFacts) {
			f.Job.Status.Conditions = []batchv1.JobCondition{
				{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Message: "backoff limit"},
			}
		}, v1alpha1.TransferRetrying, "Reconciling", "Retrying", "AgentLost", "backoff limit"},
		"succeeded without a report": {func(_ *testing.T, f *plan.TransferFacts) { f.Pod = ended(0, "Completed", "") },
			v1alpha1.TransferComplete, "Ready", "Succeeded", "Succeeded", "complete"},
		"Job complete and pod gone": {func(_ *testing.T, f *plan.TransferFacts) {
			f.Job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}, v1alpha1.TransferComplete, "Ready", "Succeeded", "Succeeded", "complete"},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := running(1)
			test.change(t, &facts)
			decision := plan.DecideTransfer(transfer, facts, image)
			conditionType, reason, message := verdict(t, decision.Status.Conditions)
			if decision.Status.Phase != test.phase || conditionType != test.verdict || reason != test.reason ||
				!strings.Contains(message, test.message) {
				t.Fatalf("phase %s, %s=True, %s: %s", decision.Status.Phase, conditionType, reason, message)
			}
			if len(decision.Status.History) != 1 || decision.Status.History[0].Reason != test.record ||
				decision.Finished == nil || decision.Finished.Reason != test.record {
				t.Fatalf("history %+v, finished %+v", decision.Status.History, decision.Finished)
			}
			if test.phase == v1alpha1.TransferRetrying {
				atLeast := 5 * time.Second
				if test.verdict == "Stalled" {
					atLeast = time.Minute
				}
				if !about(decision.RequeueAfter, atLeast) ||
					!decision.Status.Run.NextAttemptTime.Equal(&metav1.Time{Time: now.Add(decision.RequeueAfter)}) {
					t.Fatalf("next attempt after %s", decision.RequeueAfter)
				}
			}
		})
	}
}

func TestPodsThatDoNotStart(t *testing.T) {
	waiting := func(reason, message string) *corev1.Pod {
		p := pod(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
		p.Status.Phase = corev1.PodPending
		return p
	}
	unschedulable := waiting("", "")
	unschedulable.Status.ContainerStatuses = nil
	unschedulable.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"},
	}
	for name, test := range map[string]struct {
		pod             *corev1.Pod
		after           time.Duration
		verdict, reason string
		message         string
	}{
		"just made":       {nil, time.Second, "Reconciling", "Starting", ""},
		"no pod for long": {nil, 2 * time.Minute, "Stalled", "AgentNotStarted", "kubectl -n bank describe job"},
		"creating":        {waiting("ContainerCreating", ""), 5 * time.Second, "Reconciling", "Starting", ""},
		"creating for long": {
			waiting("ContainerCreating", ""), 2 * time.Minute, "Stalled", "AgentNotStarted", "kubectl -n bank describe pod pod",
		},
		"image cannot be had": {
			waiting("ImagePullBackOff", "no such image"), 2 * time.Minute, "Stalled", "AgentNotStarted",
			"no such image; if the image was not built for",
		},
		"unschedulable":          {unschedulable, time.Second, "Reconciling", "Unschedulable", "0/3 nodes"},
		"unschedulable for long": {unschedulable, 2 * time.Minute, "Stalled", "Unschedulable", "0/3 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := running(1)
			facts.Pod, facts.Now = test.pod, now.Add(test.after)
			decision := plan.DecideTransfer(transfer, facts, image)
			conditionType, reason, message := verdict(t, decision.Status.Conditions)
			if conditionType != test.verdict || reason != test.reason || !strings.Contains(message, test.message) {
				t.Fatalf("%s=True, %s: %s", conditionType, reason, message)
			}
			if decision.Finished != nil || decision.Status.Phase != v1alpha1.TransferStarting ||
				decision.Status.Run.Failures != 0 {
				t.Fatalf("an attempt was spent: %+v", decision.Status)
			}
		})
	}
}

// TestBackOff walks a run through failures until it is given up.
func TestBackOff(t *testing.T) {
	transfer, facts := running(1)
	transfer.Spec.MaxAttempts = 10
	var waits []time.Duration
	for attempt := int32(1); ; attempt++ {
		facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "disconnected")
		decision := plan.DecideTransfer(transfer, facts, image)
		transfer.Status = decision.Status
		if transfer.Status.Phase == v1alpha1.TransferFailed {
			break
		}
		waits = append(waits, decision.RequeueAfter)
		early := facts
		early.Now = facts.Now.Add(decision.RequeueAfter - time.Second)
		if waiting := plan.DecideTransfer(transfer, early, image); waiting.Start != nil ||
			waiting.RequeueAfter != time.Second {
			t.Fatalf("attempt %d began early", attempt+1)
		}
		facts.Now = facts.Now.Add(decision.RequeueAfter)
		decision = plan.DecideTransfer(transfer, facts, image)
		if decision.Start == nil || decision.Status.Run.Attempt != attempt+1 {
			t.Fatalf("attempt %d did not begin: %+v", attempt+1, decision.Status.Run)
		}
		transfer.Status = decision.Status
	}
	want := []time.Duration{5, 10, 20, 40, 80, 160, 300, 300, 300}
	for i := range want {
		if !about(waits[i], want[i]*time.Second) {
			t.Fatalf("waits %v", waits)
		}
	}
	if len(waits) != len(want) || len(transfer.Status.History) != 10 || transfer.Status.Run.CompletionTime == nil {
		t.Fatalf("%d waits, %+v", len(waits), transfer.Status)
	}
	conditionType, reason, message := verdict(t, transfer.Status.Conditions)
	if conditionType != "Stalled" || reason != "MaxAttemptsReached" || !strings.Contains(message, "disconnected") ||
		!meta.IsStatusConditionTrue(transfer.Status.Conditions, v1alpha1.ConditionFailed) {
		t.Fatalf("%s %s %s", conditionType, reason, message)
	}
	// Nothing more happens by itself.
	facts.Now = facts.Now.Add(24 * time.Hour)
	if decision := plan.DecideTransfer(transfer, facts, image); decision.Start != nil || decision.RequeueAfter != 0 {
		t.Fatalf("%+v", decision)
	}
}

// about: a wait is as long as wanted, or up to half as long again.
func about(wait, want time.Duration) bool { return wait >= want && wait <= want*3/2 }

// TestSpread: Transfers that one fault has hit come back at different times, and each always at its own.
func TestSpread(t *testing.T) {
	waits := map[time.Duration]int{}
	for i := range 200 {
		transfer, facts := running(5)
		transfer.Spec.MaxAttempts, transfer.Status.Run.Failures = 10, 4
		transfer.UID = types.UID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", i))
		facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "disconnected")
		wait := plan.DecideTransfer(transfer, facts, image).RequeueAfter
		if again := plan.DecideTransfer(transfer, facts, image).RequeueAfter; again != wait {
			t.Fatalf("one decision waits %s, the same one %s", wait, again)
		}
		waits[wait]++
	}
	for wait, n := range waits {
		if !about(wait, 80*time.Second) || n > 20 {
			t.Errorf("%d of 200 wait %s", n, wait)
		}
	}
	if len(waits) < 30 {
		t.Errorf("only %d different waits: %v", len(waits), waits)
	}
}

// TestNeedsSomebody: attempts that only somebody can fix go on slowly and count for nothing.
func TestNeedsSomebody(t *testing.T) {
	transfer, facts := running(1)
	var waits []time.Duration
	for range 7 {
		facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED, "create a PeerGrant")
		decision := plan.DecideTransfer(transfer, facts, image)
		waits = append(waits, decision.RequeueAfter)
		facts.Now = facts.Now.Add(decision.RequeueAfter)
		transfer.Status = decision.Status
		transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	}
	for i, want := range []time.Duration{1, 2, 3, 4, 5, 5, 5} {
		if !about(waits[i], want*time.Minute) {
			t.Fatalf("waits %v", waits)
		}
	}
	if transfer.Status.Run.Failures != 0 || transfer.Status.Run.Attempt != 8 ||
		transfer.Status.Phase != v1alpha1.TransferStarting {
		t.Fatalf("%+v", transfer.Status.Run)
	}
}

// TestSuperseded: a cluster that was restored goes on after the newest attempt that its peer knows of, without a
// failure, and no peer can move a run on by more than a bound.
func TestSuperseded(t *testing.T) {
	for newest, want := range map[uint32]int32{0: 2, 1: 2, 7: 8, math.MaxUint32: 1002} {
		transfer, facts := running(1)
		facts.Pod = failedWith(
			t,
			&wirev1.Failure{Reason: wirev1.FailureReason_FAILURE_REASON_SUPERSEDED, Message: "replaced", NewestAttempt: newest},
		)
		decision := plan.DecideTransfer(transfer, facts, image)
		if decision.RequeueAfter < time.Minute || decision.Status.Run.CompletionTime != nil ||
			decision.Status.History[0].Attempt != 1 {
			t.Fatalf("newest %d: next look after %s, %+v", newest, decision.RequeueAfter, decision.Status.Run)
		}
		facts.Now = facts.Now.Add(decision.RequeueAfter)
		transfer.Status = decision.Status
		run := plan.DecideTransfer(transfer, facts, image).Status.Run
		if run.Attempt != want || run.Failures != 0 {
			t.Errorf("newest %d: attempt %d after %d failures, want attempt %d", newest, run.Attempt, run.Failures, want)
		}
	}
}

func TestPeerThatIsReadyAgainIsTriedAtOnce(t *testing.T) {
	transfer, facts := running(1)
	facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED, "caBundle")
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	facts.Now = now.Add(10 * time.Second)
	if plan.DecideTransfer(transfer, facts, image).Start != nil {
		t.Fatal("tried again without a reason")
	}
	facts.Peer.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReachable,
		LastTransitionTime: metav1.NewTime(now.Add(5 * time.Second)),
	}}
	if plan.DecideTransfer(transfer, facts, image).Start == nil {
		t.Fatal("not tried again")
	}
}

// TestClockThatIsSetBack: a wait that was planned by a clock that was ahead is not waited for, and a Peer that became
// Ready by that clock does not end every wait that is planned from then on.
func TestClockThatIsSetBack(t *testing.T) {
	transfer, facts := running(1)
	facts.Now = now.Add(24 * time.Hour)
	facts.Peer.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReachable,
		LastTransitionTime: metav1.NewTime(facts.Now),
	}}
	facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED, "caBundle")
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	facts.Now = now.Add(time.Second)
	decision := plan.DecideTransfer(transfer, facts, image)
	if decision.Start == nil || decision.Status.Run.Attempt != 2 {
		t.Fatalf("waits for %s", decision.RequeueAfter)
	}
	transfer.Status = decision.Status
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	facts.Now = facts.Now.Add(time.Second)
	if decision := plan.DecideTransfer(transfer, facts, image); decision.Start != nil ||
		!about(decision.RequeueAfter+time.Second, 2*time.Minute) {
		t.Fatalf("started %v, waits for %s", decision.Start != nil, decision.RequeueAfter)
	}
}

func TestNewRuns(t *testing.T) {
	complete := func(*testing.T) *v1alpha1.Transfer {
		transfer, facts := running(1)
		facts.Pod = ended(0, "Completed", "")
		transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
		return transfer
	}
	givenUp := func(t *testing.T) *v1alpha1.Transfer {
		transfer, facts := running(1)
		transfer.Spec.MaxAttempts = 1
		facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL, "full")
		transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
		return transfer
	}
	stuck := func(t *testing.T) *v1alpha1.Transfer {
		transfer, facts := running(1)
		facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED, "grant")
		transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
		return transfer
	}
	active := func(*testing.T) *v1alpha1.Transfer {
		transfer, _ := running(1)
		return transfer
	}
	annotate := func(transfer *v1alpha1.Transfer) {
		transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	}
	edit := func(transfer *v1alpha1.Transfer) { transfer.Generation++ }
	for name, test := range map[string]struct {
		make   func(*testing.T) *v1alpha1.Transfer
		change func(*v1alpha1.Transfer)
		starts bool
	}{
		"complete":            {complete, func(*v1alpha1.Transfer) {}, false},
		"complete, annotated": {complete, annotate, true},
		"complete, edited":    {complete, edit, false},
		"given up":            {givenUp, func(*v1alpha1.Transfer) {}, false},
		"given up, annotated": {givenUp, annotate, true},
		"given up, edited":    {givenUp, edit, true},
		"stuck":               {stuck, func(*v1alpha1.Transfer) {}, false},
		"stuck, annotated":    {stuck, annotate, true},
		"stuck, edited":       {stuck, edit, true},
		"active, annotated":   {active, annotate, false},
		"active, edited":      {active, edit, false},
		"annotated before": {
			complete, func(transfer *v1alpha1.Transfer) { annotate(transfer); transfer.Status.LastRunRequest = "again" }, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			transfer := test.make(t)
			test.change(transfer)
			_, facts := running(1)
			facts.NewRunID = "fghij"
			decision := plan.DecideTransfer(transfer, facts, image)
			if (decision.Start != nil) != test.starts || (decision.Status.Run.ID == "fghij") != test.starts {
				t.Fatalf("started: %v, %+v", decision.Start != nil, decision.Status.Run)
			}
			if test.starts && (decision.Status.Run.Attempt != 1 || decision.Status.Run.Failures != 0 || !decision.Retire ||
				decision.Status.Run.CompletionTime != nil) {
				t.Fatalf("%+v", decision.Status.Run)
			}
		})
	}
}

// TestWantedRunIsNotForgotten: a run that is asked for and cannot begin does so when it can.
func TestWantedRunIsNotForgotten(t *testing.T) {
	transfer, facts := running(1)
	facts.Pod = ended(0, "Completed", "")
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	_, facts = running(1)
	facts.Claim, facts.NewRunID = nil, "fghij"
	decision := plan.DecideTransfer(transfer, facts, image)
	if decision.Status.Phase != v1alpha1.TransferPending || decision.Start != nil {
		t.Fatalf("%+v", decision.Status)
	}
	transfer.Status = decision.Status
	facts.Claim = goodFacts().Claim
	if decision = plan.DecideTransfer(transfer, facts, image); decision.Start == nil || decision.Status.Run.ID != "fghij" {
		t.Fatalf("%+v", decision.Status)
	}
}

func TestJobDeletedBySomebodyElse(t *testing.T) {
	transfer, facts := running(1)
	facts.Job = nil
	if decision := plan.DecideTransfer(transfer, facts, image); decision.Start == nil || decision.Status.Run.Attempt != 1 {
		t.Fatal("an attempt whose Job was not made yet is not made")
	}
	transfer.Status.Phase = v1alpha1.TransferTransferring
	decision := plan.DecideTransfer(transfer, facts, image)
	if decision.Start != nil || decision.Finished == nil || decision.Finished.Reason != v1alpha1.ReasonAgentLost {
		t.Fatalf("%+v", decision.Finished)
	}
}
