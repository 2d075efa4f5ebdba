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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

func newDelivery(id string, attempt int32) *v1alpha1.Delivery {
	delivery := plan.NewDelivery("bank", v1alpha1.DeliverySpec{
		Peer:     "east",
		Transfer: v1alpha1.TransferReference{Namespace: "bank", Name: "ledger", Run: "abcde", Attempt: attempt},
		Destination: v1alpha1.DeliveryDestination{
			PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/books"},
		},
	})
	delivery.UID, delivery.Generation, delivery.CreationTimestamp = types.UID("uid-"+id), 1, metav1.NewTime(now)
	return delivery
}

// H3: a Delivery that somebody made by hand starts no agent.
func TestForgedDelivery(t *testing.T) {
	for name, forge := range map[string]func(*v1alpha1.Delivery){
		"name":        func(d *v1alpha1.Delivery) { d.Name = "lighterage-ca" },
		"another run": func(d *v1alpha1.Delivery) { d.Spec.Transfer.Run = "zzzzz" },
		"another sender": func(d *v1alpha1.Delivery) {
			d.Labels[plan.SenderLabel] = plan.SenderHash("east", "bank", "other")
		},
		"another peer": func(d *v1alpha1.Delivery) { d.Labels[plan.PeerLabel] = "north" },
		"peer":         func(d *v1alpha1.Delivery) { d.Spec.Peer = "" },
		"no labels":    func(d *v1alpha1.Delivery) { d.Labels = nil },
	} {
		delivery := newDelivery("mine", 1)
		forge(delivery)
		decision := plan.DecideDelivery(delivery, goodDeliveryFacts(), image)
		stalled := meta.FindStatusCondition(decision.Status.Conditions, v1alpha1.ConditionStalled)
		if decision.Start != nil || decision.Status.Phase != v1alpha1.DeliveryFailed ||
			stalled.Reason != v1alpha1.ReasonInvalidSpec {
			t.Errorf("%s: %+v", name, decision)
		}
	}
}

func goodDeliveryFacts() plan.DeliveryFacts {
	return plan.DeliveryFacts{
		Now: now, Peer: &v1alpha1.Peer{}, Claim: &corev1.PersistentVolumeClaim{}, Retention: 7 * 24 * time.Hour,
	}
}

func TestAdmission(t *testing.T) {
	other := func(change func(*v1alpha1.Delivery)) func(*plan.DeliveryFacts) {
		return func(f *plan.DeliveryFacts) {
			d := newDelivery("other", 1)
			d.Spec.Transfer.Name = "other"
			d.Status.Phase, d.Status.Run = v1alpha1.DeliveryReceiving, &v1alpha1.RunStatus{}
			change(d)
			f.Others = []v1alpha1.Delivery{*d}
		}
	}
	for name, test := range map[string]struct {
		change func(*plan.DeliveryFacts)
		phase  v1alpha1.DeliveryPhase
		reason string
	}{
		"nothing wrong": {func(*plan.DeliveryFacts) {}, v1alpha1.DeliveryStarting, "Starting"},
		"unknown claim": {
			func(f *plan.DeliveryFacts) { f.Claim = nil }, v1alpha1.DeliveryFailed, "DestinationNotFound",
		},
		"Peer gone":            {func(f *plan.DeliveryFacts) { f.Peer = nil }, v1alpha1.DeliveryFailed, "PeerNotFound"},
		"another writes there": {other(func(*v1alpha1.Delivery) {}), v1alpha1.DeliveryFailed, "DestinationInUse"},
		"another beside it": {other(func(d *v1alpha1.Delivery) {
			d.Spec.Destination.PersistentVolumeClaim.Path = "/bookshop"
		}),
			v1alpha1.DeliveryStarting, "Starting"},
		"another claim": {other(func(d *v1alpha1.Delivery) { d.Spec.Destination.PersistentVolumeClaim.ClaimName = "else" }),
			v1alpha1.DeliveryStarting, "Starting"},
		"another that has ended": {other(func(d *v1alpha1.Delivery) { d.Status.Phase = v1alpha1.DeliveryComplete }),
			v1alpha1.DeliveryStarting, "Starting"},
		"another that is being ended": {other(func(d *v1alpha1.Delivery) { d.DeletionTimestamp = &metav1.Time{Time: now} }),
			v1alpha1.DeliveryPending, "Pending"},
		"another that came later and waits": {other(func(d *v1alpha1.Delivery) {
			d.Status, d.CreationTimestamp = v1alpha1.DeliveryStatus{}, metav1.NewTime(now.Add(time.Minute))
		}), v1alpha1.DeliveryStarting, "Starting"},
		"an earlier attempt": {other(func(d *v1alpha1.Delivery) { d.Spec.Transfer.Name = "ledger" }),
			v1alpha1.DeliveryPending, "Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := goodDeliveryFacts()
			test.change(&facts)
			decision := plan.DecideDelivery(newDelivery("mine", 2), facts, image)
			_, reason, message := verdict(t, decision.Status.Conditions)
			if decision.Status.Phase != test.phase || reason != test.reason || message == "" {
				t.Fatalf("%s, %s: %s", decision.Status.Phase, reason, message)
			}
			if (decision.Start != nil) != (test.phase == v1alpha1.DeliveryStarting) {
				t.Fatalf("started: %v", decision.Start != nil)
			}
		})
	}
}

func TestEndpointIsThereWhileTheAgentIsReady(t *testing.T) {
	d, facts := newDelivery("mine", 1), goodDeliveryFacts()
	d.Status = plan.DecideDelivery(d, facts, image).Status
	facts.Job = &batchv1.Job{}
	facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	if status := plan.DecideDelivery(d, facts, image).Status; status.Endpoint != "" || status.ServerName != "" {
		t.Fatal("let through before it had started")
	}
	facts.Pod.Status.ContainerStatuses[0].Started = ptr.To(true)
	d.Status = plan.DecideDelivery(d, facts, image).Status
	if d.Status.Endpoint != "10.0.0.1:8443" || d.Status.ServerName != "uid-mine.receive.lighterage.internal" {
		t.Fatalf("%q %q", d.Status.Endpoint, d.Status.ServerName)
	}
	facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_ABORTED, "no sender connected")
	decision := plan.DecideDelivery(d, facts, image)
	if decision.Status.Endpoint != "" || decision.Status.Phase != v1alpha1.DeliveryFailed || !decision.Ended {
		t.Fatalf("%+v", decision.Status)
	}
	if _, reason, _ := verdict(t, decision.Status.Conditions); reason != v1alpha1.ReasonAborted {
		t.Fatal(reason)
	}
}

func TestRetention(t *testing.T) {
	d, facts := newDelivery("mine", 1), goodDeliveryFacts()
	facts.Claim = nil
	d.Status = plan.DecideDelivery(d, facts, image).Status
	for after, want := range map[time.Duration]bool{time.Hour: false, 8 * 24 * time.Hour: true} {
		facts.Now = now.Add(after)
		decision := plan.DecideDelivery(d, facts, image)
		if decision.Expired != want || !want && decision.RequeueAfter != facts.Retention-after {
			t.Errorf("after %s: expired %v, looks again after %s", after, decision.Expired, decision.RequeueAfter)
		}
	}
	facts.Retention = 0
	if plan.DecideDelivery(d, facts, image).Expired {
		t.Error("expired although it stays for ever")
	}
}

// Peer.spec.revokedBefore is in the configuration of each receiving agent that starts.
func TestReceiverLearnsWhatIsRevoked(t *testing.T) {
	revoked := metav1.NewTime(now.Add(-time.Hour))
	for name, test := range map[string]struct {
		before *metav1.Time
		want   int64
	}{"revoked": {&revoked, revoked.Unix()}, "not revoked": {nil, 0}} {
		facts := goodDeliveryFacts()
		facts.Peer.Spec.RevokedBefore = test.before
		first := plan.DecideDelivery(newDelivery("mine", 1), facts, image)
		again := newDelivery("mine", 1)
		again.Status = first.Status
		// The manager ended before it made the Job.
		for _, decision := range []plan.DeliveryDecision{first, plan.DecideDelivery(again, facts, image)} {
			if decision.Start == nil {
				t.Fatalf("%s: no agent starts: %+v", name, decision.Status)
			}
			text, err := decision.Start.Config()
			if err != nil {
				t.Fatal(err)
			}
			config := &wirev1.ReceiveConfig{}
			if err := protojson.Unmarshal(text, config); err != nil {
				t.Fatal(err)
			}
			if config.GetRevokedBefore() != test.want {
				t.Errorf("%s: revoked_before is %d, want %d", name, config.GetRevokedBefore(), test.want)
			}
		}
	}
}

// TestKilledReceiverIsCounted: metrics get what an agent reported before it was killed.
func TestKilledReceiverIsCounted(t *testing.T) {
	delivery, facts := receiving()
	facts.Report = &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, WireBytes: 120,
		Cpu: &wirev1.CPU{ReceiveNanos: 3e9, DecompressNanos: 1e9},
	}
	delivery.Status = plan.DecideDelivery(delivery, facts, image).Status
	facts.Report, facts.Job, facts.Pod = nil, nil, nil
	decision := plan.DecideDelivery(delivery, facts, image)
	if final := decision.Final; !decision.Ended || final.GetWireBytes() != 120 ||
		final.GetCpu().GetReceiveNanos() != 3e9 || final.GetCpu().GetDecompressNanos() != 1e9 {
		t.Errorf("ended %v with %v", decision.Ended, final)
	}
}
