// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/plan"
)

func withPlacement(wanted v1alpha1.Placement) *v1alpha1.Transfer {
	transfer := newTransfer("ledger", time.Hour)
	transfer.Spec.Compression = &v1alpha1.Compression{Placement: wanted}
	return transfer
}

func TestPodGetsAffinity(t *testing.T) {
	for wanted, want := range map[v1alpha1.Placement][2]int{
		v1alpha1.PlacementAnyNode: {0, 0}, v1alpha1.PlacementPreferHardware: {0, 2},
		v1alpha1.PlacementRequireHardware: {2, 0},
	} {
		facts := goodFacts()
		facts.Placement = nodes(false)
		decision := plan.DecideTransfer(withPlacement(wanted), facts, image)
		var required, preferred int
		if affinity := decision.Start.Job().Spec.Template.Spec.Affinity; affinity != nil {
			preferred = len(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
			if selector := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; selector != nil {
				required = len(selector.NodeSelectorTerms)
			}
		}
		if got := [2]int{required, preferred}; got != want || decision.Status.Placement == nil ||
			decision.Status.Placement.Reason == "" {
			t.Errorf("%s: %v, %+v", wanted, got, decision.Status.Placement)
		}
	}
}

func TestRequiredHardwareThatIsNotThere(t *testing.T) {
	transfer, facts := withPlacement(v1alpha1.PlacementRequireHardware), goodFacts()
	facts.Placement = nodes(true)
	decision := plan.DecideTransfer(transfer, facts, image)
	what, reason, message := verdict(t, decision.Status.Conditions)
	if decision.Start != nil || what != v1alpha1.ConditionStalled || reason != v1alpha1.CompressionNoAccelerator ||
		!strings.Contains(message, "z15-a: cordoned") {
		t.Fatalf("%s %s: %s", what, reason, message)
	}
	if where := decision.Status.Placement; where == nil || len(where.Alternatives) != 1 ||
		where.Alternatives[0].Reason != v1alpha1.PlacementReasonCordoned {
		t.Errorf("%+v", where)
	}
	transfer.Status = decision.Status
	facts.Placement = nodes(false)
	if decision := plan.DecideTransfer(transfer, facts, image); decision.Start == nil ||
		decision.Status.Placement.Engine != placement.EngineHardware {
		t.Errorf("nothing was started when the node was there again: %+v", decision.Status)
	}
}

// TestRequiredHardwareWithoutItsImage: where the agent's image was not built for the nodes with an accelerator, a
// Transfer that needs one waits and says so, one that prefers it goes on without.
func TestRequiredHardwareWithoutItsImage(t *testing.T) {
	facts := goodFacts()
	facts.Placement = nodes(false)
	facts.Placement.Nodes[0].Labels[corev1.LabelArchStable] = "s390x"
	foreign := image
	foreign.Architectures = []string{"amd64", "arm64"}
	decision := plan.DecideTransfer(withPlacement(v1alpha1.PlacementRequireHardware), facts, foreign)
	what, reason, message := verdict(t, decision.Status.Conditions)
	if decision.Start != nil || what != v1alpha1.ConditionStalled || reason != v1alpha1.CompressionNoAccelerator ||
		!strings.Contains(message, "z15-a: the agent's image was not built for its architecture") ||
		!strings.Contains(message, "PreferHardware") {
		t.Errorf("%s %s: %s", what, reason, message)
	}
	decision = plan.DecideTransfer(withPlacement(v1alpha1.PlacementPreferHardware), facts, foreign)
	if where := decision.Status.Placement; decision.Start == nil || where.Reason != v1alpha1.CompressionNoAccelerator ||
		len(where.Alternatives) != 1 ||
		where.Alternatives[0].Reason != v1alpha1.PlacementReasonImageArchitecture {
		t.Errorf("%+v", decision.Status)
	}
}

// unschedulable is a pod that the scheduler has no node for.

func TestRequiredHardwareThatIsFullOrGoes(t *testing.T) {
	for name, test := range map[string]struct {
		cordoned bool
		reason   string
		at       string
	}{
		"full":           {false, v1alpha1.PlacementReasonNoRoom, v1alpha1.PlacementReasonNoRoom},
		"cordoned since": {true, v1alpha1.CompressionNoAccelerator, v1alpha1.PlacementReasonCordoned},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := withPlacement(v1alpha1.PlacementRequireHardware), goodFacts()
			facts.Placement = nodes(false)
			transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
			_, begun := running(1)
			facts.Job, facts.Pod, facts.Placement = begun.Job, unschedulable(2*time.Minute), nodes(test.cordoned)
			decision := plan.DecideTransfer(transfer, facts, image)
			what, reason, message := verdict(t, decision.Status.Conditions)
			if what != v1alpha1.ConditionStalled || reason != test.reason ||
				!strings.Contains(message, "0/2 nodes are available") ||
				!strings.Contains(message, "choose PreferHardware to run without one") {
				t.Errorf("%s %s: %s", what, reason, message)
			}
			where := decision.Status.Placement
			if where.Reason != reason || !strings.Contains(message, where.Message) || len(where.Alternatives) != 1 ||
				where.Alternatives[0].Reason != test.at {
				t.Errorf("placement says %+v, Stalled %s: %s", where, reason, message)
			}
			facts.Pod = unschedulable(time.Second)
			if what, _, _ := verdict(
				t, plan.DecideTransfer(transfer, facts, image).Status.Conditions,
			); what != v1alpha1.ConditionReconciling {
				t.Errorf("%s at once, although an autoscaler may bring a node", what)
			}
		})
	}
}

// TestSlotOfAnAccelerator: a pod that is placed for an accelerator of which there are so many slots asks for one, and
// goes without when the scheduler has no space for it there.
func TestSlotOfAnAccelerator(t *testing.T) {
	slot := corev1.ResourceName(v1alpha1.AcceleratorSlotsResource)
	transfer, facts := withPlacement(v1alpha1.PlacementPreferHardware), goodFacts()
	facts.Placement = nodes(false)
	facts.Placement.FreeSlots = map[string]int64{"z15-a": 1}
	decision := plan.DecideTransfer(transfer, facts, image)
	resources := decision.Start.Job().Spec.Template.Spec.Containers[0].Resources
	if resources.Requests.Name(slot, "").Value() != 1 || resources.Limits.Name(slot, "").Value() != 1 ||
		resources.Requests.Cpu().IsZero() {
		t.Fatalf("%+v", resources)
	}
	transfer.Status, facts.Job, facts.Pod = decision.Status, decision.Start.Job(), unschedulable(5*time.Second)
	facts.Placement.FreeSlots["z15-a"] = 0
	if again := plan.DecideTransfer(transfer, facts, image); again.Start != nil {
		t.Error("it did not wait")
	}
	facts.Pod = unschedulable(20 * time.Second)
	again := plan.DecideTransfer(transfer, facts, image)
	if again.Start == nil || !again.Retire || again.Status.Run.Attempt != 2 || again.Status.Run.Failures != 0 ||
		again.Status.Placement.Reason != v1alpha1.PlacementReasonAcceleratorBusy {
		t.Fatalf("%+v, %+v", again.Status.Run, again.Status.Placement)
	}
	if _, asked := again.Start.Job().Spec.Template.Spec.Containers[0].Resources.Requests[slot]; asked {
		t.Error("it asks for a slot again")
	}

	// With a slot left it was something else that it lacked there, which is still said when it runs elsewhere.
	left := facts
	left.Placement.FreeSlots, left.Placement.AwaitedSlots = map[string]int64{"z15-a": 1}, 1
	again = plan.DecideTransfer(transfer, left, image)
	if again.Start == nil || again.Status.Placement.Reason != v1alpha1.PlacementReasonNoRoom {
		t.Fatalf("%+v", again.Status.Placement)
	}
	fallen := transfer.DeepCopy()
	fallen.Status, left.Job = again.Status, again.Start.Job()
	left.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	left.Pod.Spec.NodeName = "plain"
	if where := plan.DecideTransfer(fallen, left, image).Status.Placement; where.Node != "plain" ||
		where.Reason != v1alpha1.PlacementReasonNoRoom {
		t.Errorf("%+v", where)
	}

	// Where every node has an accelerator it waits for a slot.
	facts.Placement.Nodes = facts.Placement.Nodes[:1]
	if again := plan.DecideTransfer(transfer, facts, image); again.Start != nil ||
		again.Status.Placement.Reason != v1alpha1.PlacementReasonAcceleratorBusy {
		t.Errorf("%+v", again.Status.Placement)
	}
}

// TestWhoWaitsForWhom: an agent that waits with the last slot waits for no other agent, one that comes after it does,
// and so does one whose slots are all taken.
func TestWhoWaitsForWhom(t *testing.T) {
	const busy, full = v1alpha1.PlacementReasonAcceleratorBusy, v1alpha1.PlacementReasonNoRoom
	transfer, facts := withPlacement(v1alpha1.PlacementRequireHardware), goodFacts()
	facts.Placement = nodes(false)
	slots := func(free, awaited int64) {
		facts.Placement.FreeSlots, facts.Placement.AwaitedSlots = map[string]int64{"z15-a": free}, awaited
	}
	slots(1, 0)
	first := plan.DecideTransfer(transfer, facts, image)
	transfer.Status, facts.Job, facts.Pod = first.Status, first.Start.Job(), unschedulable(2*time.Minute)
	for name, test := range map[string]struct {
		free, awaited int64
		reason, says  string
	}{
		"it has the last slot":       {1, 1, full, "free resources there"},
		"with another that waits":    {1, 2, full, "free resources there"},
		"the slot is somebody's now": {0, 1, busy, "when one of them ends"},
	} {
		slots(test.free, test.awaited)
		status := plan.DecideTransfer(transfer, facts, image).Status
		if what, reason, message := verdict(t, status.Conditions); what != v1alpha1.ConditionStalled ||
			reason != test.reason || !strings.Contains(message, test.says) {
			t.Errorf("%s: %s %s: %s", name, what, reason, message)
		}
		if status.Placement.Reason != test.reason {
			t.Errorf("%s: %+v", name, status.Placement)
		}
	}

	slots(1, 1)
	facts.Job, facts.Pod = nil, nil
	for wanted, asks := range map[v1alpha1.Placement]bool{
		v1alpha1.PlacementRequireHardware: true, v1alpha1.PlacementPreferHardware: false,
	} {
		second := plan.DecideTransfer(withPlacement(wanted), facts, image)
		_, asked := second.Start.Job().Spec.Template.Spec.Containers[0].Resources.Requests[v1alpha1.AcceleratorSlotsResource]
		if where := second.Status.Placement; asked != asks || where.Reason != busy ||
			!strings.Contains(where.Message, "or wait to be placed there") {
			t.Errorf("%s: asks for a slot: %t, %+v", wanted, asked, where)
		}
	}
}

// TestSlotThatBecomesFree: a pod that was planned when no slot was left, and for which there is no space on other
// nodes, is planned again when a slot is free. Until then status says what that pod asks for, and not what another
// would.
func TestSlotThatBecomesFree(t *testing.T) {
	slot := corev1.ResourceName(v1alpha1.AcceleratorSlotsResource)
	transfer, facts := withPlacement(v1alpha1.PlacementPreferHardware), goodFacts()
	facts.Placement = nodes(false)
	facts.Placement.FreeSlots = map[string]int64{"z15-a": 0}
	decision := plan.DecideTransfer(transfer, facts, image)
	transfer.Status, facts.Job, facts.Pod = decision.Status, decision.Start.Job(), unschedulable(10*time.Minute)
	busy := func(when string) {
		t.Helper()
		again := plan.DecideTransfer(transfer, facts, image)
		if again.Start != nil || again.Status.Placement.Reason != v1alpha1.PlacementReasonAcceleratorBusy {
			t.Errorf("%s: %+v", when, again.Status.Placement)
		}
	}
	busy("no slot is free")
	facts.Placement.FreeSlots["z15-a"] = 1
	facts.Pod = unschedulable(10 * time.Second)
	busy("the scheduler may still find a node")
	placed := *facts.Pod
	facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	facts.Pod.Spec.NodeName = "plain"
	busy("it was placed")
	facts.Pod = &placed

	facts.Pod = unschedulable(20 * time.Second)
	again := plan.DecideTransfer(transfer, facts, image)
	if again.Start == nil || !again.Retire || again.Status.Run.Attempt != 2 || again.Status.Run.Failures != 0 ||
		again.Status.Placement.Reason != v1alpha1.PlacementReasonHardware {
		t.Fatalf("%+v, %+v", again.Status.Run, again.Status.Placement)
	}
	if asked := again.Start.Job().Spec.Template.Spec.Containers[0].Resources.Requests[slot]; asked.Value() != 1 {
		t.Error("it asks for no slot")
	}

	// There may be no space beside the accelerator either: it does not go to and fro every few seconds.
	transfer.Status.Run.Attempt = 5
	busy("the third time")
	facts.Pod = unschedulable(5 * time.Minute)
	if again := plan.DecideTransfer(transfer, facts, image); again.Start == nil {
		t.Error("it never comes back")
	}
	// Nobody counts slots any more.
	facts.Placement.FreeSlots = nil
	if again := plan.DecideTransfer(transfer, facts, image); again.Start == nil {
		t.Error("it stays away from accelerators that are not counted")
	}
}

// TestLevelOfTheAccelerator: mode Auto takes the accelerator at the level that it has; mode Always compresses at the
// policy's.
func TestLevelOfTheAccelerator(t *testing.T) {
	for mode, starts := range map[v1alpha1.CompressionMode]bool{
		v1alpha1.CompressionAuto: true, v1alpha1.CompressionAlways: false,
	} {
		transfer, facts := withPlacement(v1alpha1.PlacementRequireHardware), goodFacts()
		transfer.Spec.Compression.Mode, transfer.Spec.Compression.Level = mode, v1alpha1.CompressionHigh
		facts.Placement = nodes(false)
		facts.Placement.Profiles = map[string]v1alpha1.NodeProfileStatus{"z15-a": {
			Accelerator: &v1alpha1.NodeAccelerator{
				AcceleratorProfile: v1alpha1.AcceleratorProfile{State: v1alpha1.AcceleratorVerified},
			},
			Engines: []v1alpha1.EngineProfile{
				{
					Name: placement.EngineHardware, Codec: "deflate",
					Levels: []v1alpha1.LevelProfile{{Level: v1alpha1.CompressionFast}},
				},
			},
		}}
		decision := plan.DecideTransfer(transfer, facts, image)
		if (decision.Start != nil) != starts ||
			!starts && decision.Status.Placement.Reason != v1alpha1.CompressionLevelNotAccelerated {
			t.Errorf("%s: %+v", mode, decision.Status.Placement)
		}
	}
}

func TestFallbackIsExplained(t *testing.T) {
	transfer, facts := running(1)
	transfer.Status.Placement = nil
	facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	facts.Pod.Spec.NodeName = "plain"
	facts.Placement = nodes(true)
	facts.Report = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, Compression: &wirev1.Compression{
		Codec: "deflate", Engine: "isa-l", Reason: v1alpha1.CompressionNoAccelerator, UncompressedBytes: 9,
		CompressedBytes: 3,
		Software:        &wirev1.Operations{Operations: 1, Bytes: 9},
	}}
	status := plan.DecideTransfer(transfer, facts, image).Status
	if where := status.Placement; where == nil || where.Node != "plain" ||
		where.Reason != v1alpha1.CompressionNoAccelerator {
		t.Fatalf("%+v", where)
	}
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHardwareCompression)
	if condition == nil || condition.Status != metav1.ConditionFalse ||
		condition.Reason != v1alpha1.CompressionNoAccelerator ||
		!strings.Contains(condition.Message, "z15-a: cordoned") {
		t.Errorf("%+v", condition)
	}

	// Once it is known where the agent is, what becomes of other nodes is of no interest.
	transfer.Status, facts.Placement = status, placement.Facts{}
	if again := plan.DecideTransfer(transfer, facts, image).Status.Placement; again.Message != status.Placement.Message {
		t.Errorf("%+v", again)
	}
}

// TestNodeThatHasNoAcceleratorAfterAll: a node agent that claims too much costs nothing but the way, and status says
// who contradicts whom.
func TestNodeThatHasNoAcceleratorAfterAll(t *testing.T) {
	transfer, facts := running(1)
	transfer.Status.Placement = nil
	facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	facts.Pod.Spec.NodeName = "z15-a"
	facts.Placement = nodes(false)
	facts.Report = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, Compression: &wirev1.Compression{
		Codec: "deflate", Engine: "isa-l", Reason: v1alpha1.CompressionNoAccelerator, UncompressedBytes: 9,
		CompressedBytes: 3,
		Software:        &wirev1.Operations{Operations: 1, Bytes: 9},
	}}
	status := plan.DecideTransfer(transfer, facts, image).Status
	const words = "although its NodeProfile or a label says that one works there"
	where := status.Placement
	if where == nil || where.Node != "z15-a" || where.Engine != "isa-l" ||
		where.Reason != v1alpha1.CompressionNoAccelerator || !strings.Contains(where.Message, words) {
		t.Errorf("%+v", where)
	}
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHardwareCompression)
	if condition == nil || condition.Status != metav1.ConditionFalse ||
		condition.Reason != v1alpha1.CompressionNoAccelerator || !strings.Contains(condition.Message, words) {
		t.Errorf("%+v", condition)
	}

	// A report in which the accelerator compressed leaves it as it is.
	facts.Report.Compression.Engine, facts.Report.Compression.Reason = "dfltcc", v1alpha1.CompressionHardwareUsed
	if where := plan.DecideTransfer(transfer, facts, image).Status.Placement; where.Reason != v1alpha1.PlacementReasonHardware {
		t.Errorf("%+v", where)
	}
}

// TestClaimInUse: agents of both sides go to the node on which a volume is in use that can be used on one only, and not
// to the accelerator.
func TestClaimInUse(t *testing.T) {
	in := nodes(false)
	in.Attached = "plain"
	facts := goodFacts()
	facts.Placement = in
	transfer := withPlacement(v1alpha1.PlacementPreferHardware)
	decision := plan.DecideTransfer(transfer, facts, image)
	deliveryFacts := goodDeliveryFacts()
	deliveryFacts.Placement = in
	delivery := plan.DecideDelivery(newDelivery("ledger-abcde-1-01234567", 1), deliveryFacts, image)
	for side, got := range map[string]struct {
		job    *batchv1.Job
		status *v1alpha1.PlacementStatus
	}{
		"sender":   {decision.Start.Job(), decision.Status.Placement},
		"receiver": {delivery.Start.Job(), delivery.Status.Placement},
	} {
		preferred := got.job.Spec.Template.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		if len(preferred) != 1 || placement.Beside(got.job.Spec.Template.Spec.Affinity) != "plain" {
			t.Errorf("%s: %+v", side, preferred)
		}
		if got.status.Reason != v1alpha1.PlacementReasonClaimBound ||
			!strings.Contains(got.status.Message, `"ledger" is in use on plain`) {
			t.Errorf("%s: %+v", side, got.status)
		}
	}
	// A pod that was planned when the volume was not in use has it in use itself now.
	facts.Placement.Attached = ""
	decision = plan.DecideTransfer(transfer, facts, image)
	transfer.Status, facts.Job = decision.Status, decision.Start.Job()
	facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	facts.Pod.Spec.NodeName, facts.Placement.Attached = "plain", "plain"
	if where := plan.DecideTransfer(transfer, facts, image).Status.Placement; where.Node != "plain" ||
		where.Reason != v1alpha1.PlacementReasonNoRoom {
		t.Errorf("%+v", where)
	}

	required := withPlacement(v1alpha1.PlacementRequireHardware)
	facts = goodFacts()
	facts.Placement = in
	decision = plan.DecideTransfer(required, facts, image)
	if _, reason, message := verdict(t, decision.Status.Conditions); decision.Start != nil ||
		reason != v1alpha1.PlacementReasonClaimBound || !strings.Contains(message, "in use on plain") {
		t.Errorf("%s: %s", reason, message)
	}
}

func TestDeliveryIsPlaced(t *testing.T) {
	delivery := newDelivery("ledger-abcde-1-01234567", 1)
	facts := goodDeliveryFacts()
	facts.Placement = nodes(false)
	decision := plan.DecideDelivery(delivery, facts, image)
	if decision.Start == nil || decision.Status.Placement.Engine != placement.EngineHardware {
		t.Fatalf("%+v", decision.Status)
	}
	if affinity := decision.Start.Job().Spec.Template.Spec.Affinity; affinity == nil {
		t.Error("the accelerator is not preferred")
	}
	delivery.Status, facts.Job, facts.Pod = decision.Status, decision.Start.Job(), unschedulable(time.Minute)
	if where := plan.DecideDelivery(delivery, facts, image).Status.Placement; where.Reason != v1alpha1.PlacementReasonNoRoom {
		t.Errorf("of one that no node has free resources for: %+v", where)
	}
}

// TestRunKeepsItsPolicy: a policy that changes, or goes, is seen by the next run and not by the attempts of this one.
func TestRunKeepsItsPolicy(t *testing.T) {
	transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
	transfer.Spec.Compression = &v1alpha1.Compression{PolicyName: "p"}
	facts.Policies = []v1alpha1.CompressionPolicy{{
		ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.CompressionPolicySpec{Level: v1alpha1.CompressionHigh},
	}}
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	if transfer.Status.Policy.Level != v1alpha1.CompressionHigh {
		t.Fatalf("%+v", transfer.Status.Policy)
	}
	for name, policies := range map[string][]v1alpha1.CompressionPolicy{
		"changed": {
			{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.CompressionPolicySpec{Level: v1alpha1.CompressionFast}},
		},
		"deleted": nil,
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := transfer.DeepCopy(), facts
			facts.Policies = policies
			if again := plan.DecideTransfer(transfer, facts, image); again.Start == nil ||
				again.Status.Policy.Level != v1alpha1.CompressionHigh {
				t.Errorf("an attempt that was not made yet: %+v", again.Status.Policy)
			}
			past := metav1.NewTime(now.Add(-time.Second))
			transfer.Status.Run.NextAttemptTime = &past
			retry := plan.DecideTransfer(transfer, facts, image)
			if retry.Start == nil || retry.Status.Run.Attempt != 2 || retry.Status.Policy.Level != v1alpha1.CompressionHigh {
				t.Errorf("the next attempt: %+v, %+v", retry.Status.Run, retry.Status.Policy)
			}
			transfer.Status.Run.NextAttemptTime, transfer.Status.Run.CompletionTime = nil, &past
			transfer.Status.Phase = v1alpha1.TransferComplete
			transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
			next := plan.DecideTransfer(transfer, facts, image)
			what, reason, _ := verdict(t, next.Status.Conditions)
			if policies == nil && (what != v1alpha1.ConditionStalled || reason != v1alpha1.ReasonPolicyNotFound) {
				t.Errorf("the next run: %s %s", what, reason)
			}
			if policies != nil && (next.Start == nil || next.Status.Policy.Level != v1alpha1.CompressionFast) {
				t.Errorf("the next run: %+v", next.Status.Policy)
			}
		})
	}
}
