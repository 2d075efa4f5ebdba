// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package replicastest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/canary"
	"github.com/lighterage/lighterage/controllers/topology"
)

// Kind is what tests have to know of a kind.
type Kind[O client.Object] struct {
	// Agents are what messages call them.
	Agents string
	// Now is when tests begin, and Image what agents run then.
	Now   time.Time
	Image agentpod.Image
	// New is an object of one agent that names a policy, or none, and a placement, or none. Beside it are other objects,
	// without which it would not be Ready.
	New    func(policy string, placement v1alpha1.Placement) O
	Beside func() []client.Object
	// Reconciler is one that remembers nothing, and where it keeps its Topology.
	Reconciler func(*Running[O], Manager) (reconcile.Reconciler, **topology.Topology)
	// Say has the agent answer that it does what its Secret says.
	Say func(*Running[O])
	// Status is that of an object, and PodTemplate a field of its spec.
	Status      func(O) Status
	PodTemplate func(O) **v1alpha1.AgentPodTemplate
	// Follow changes what agents follow without a restart. Followed is in their configuration then.
	Follow   func(O)
	Followed string
	// Spoil makes a spec unusable.
	Spoil func(O)
	// Grow asks for what takes another pod, and Shrink takes that back.
	Grow, Shrink func(O)
}

// Status is what of a status every kind has.
type Status struct {
	Conditions []metav1.Condition
	Policy     *v1alpha1.PolicyStatus
	Placement  *v1alpha1.PlacementStatus
	Baseline   *v1alpha1.CanaryBaseline
}

// Test tests what kinds have in common.
func (k *Kind[O]) Test(t *testing.T) {
	t.Run("PolicyGone", k.testPolicyGone)
	t.Run("Canary", k.testCanary)
	t.Run("Prices", k.testPrices)
	t.Run("SpoiltSpec", k.testSpoiltSpec)
	t.Run("Cordoned", k.testCordoned)
	t.Run("Full", k.testFull)
	t.Run("UpgradeIsPaced", k.testUpgradeIsPaced)
}

func (k *Kind[O]) message(r *Running[O], condition string) string {
	return meta.FindStatusCondition(k.Status(r.Object).Conditions, condition).Message
}

// An object goes on with a policy that is deleted, follows all else that its spec says, and says what is missing.
func (k *Kind[O]) testPolicyGone(t *testing.T) {
	policy := &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "high"}, Spec: v1alpha1.CompressionPolicySpec{Level: v1alpha1.CompressionHigh},
	}
	r := k.Begin(t, k.New("high", ""), policy)
	if err := r.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	r.Look()
	r.Expect(v1alpha1.ConditionStalled, v1alpha1.ReasonPolicyNotFound)
	r.ExpectKept()
	r.Restart()
	r.ExpectKept()
	if policy := k.Status(r.Object).Policy; policy.Level != v1alpha1.CompressionHigh {
		t.Errorf("status shows policy %+v", policy)
	}
	r.Change(k.Follow)
	r.Expect(v1alpha1.ConditionStalled, v1alpha1.ReasonPolicyNotFound)
	if got := r.config(); !strings.Contains(got, k.Followed) || !strings.Contains(got, "LEVEL_HIGH") {
		t.Errorf("the agent is told %s", got)
	}
}

// Agents that run follow the canary of their policy, and what they used before is noted.
func (k *Kind[O]) testCanary(t *testing.T) {
	policy := &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "tried"}, Spec: v1alpha1.CompressionPolicySpec{
			Canary: &v1alpha1.CompressionCanary{Settings: v1alpha1.CanarySettings{Objective: v1alpha1.ObjectiveBytes}},
		},
	}
	r := k.Begin(t, k.New("tried", ""), policy)
	revision := canary.Revision(policy)
	for _, state := range []v1alpha1.CanaryState{
		v1alpha1.CanaryInconclusive, v1alpha1.CanaryPromoted, v1alpha1.CanaryRolledBack,
	} {
		policy.Status.Canary = &v1alpha1.CanaryStatus{Revision: revision, State: state}
		if err := r.Update(t.Context(), policy); err != nil {
			t.Fatal(err)
		}
		r.Clock.SetTime(r.Clock.Now().Add(10 * time.Minute)) // statistics are due
		r.Look()
		applies, seen := state == v1alpha1.CanaryPromoted, k.Status(r.Object)
		if got := r.config(); strings.Contains(got, "OBJECTIVE_BYTES") != applies {
			t.Errorf("%s: the agent is told %s", state, got)
		}
		if (seen.Policy.Canary != nil) != applies || (seen.Baseline != nil) != applies ||
			applies && (!seen.Policy.Canary.Applies || seen.Baseline.Revision != revision) {
			t.Errorf("%s: %+v, %+v", state, seen.Policy, seen.Baseline)
		}
		if got := r.workloads()[0]; template(got).String() != template(r.Workload).String() {
			t.Errorf("%s: the agent would be recreated", state)
		}
	}
}

// Agents that decide by money are told each price when it begins, and nothing is written while prices stay.
func (k *Kind[O]) testPrices(t *testing.T) {
	next := k.Now.UTC().Truncate(time.Minute).Add(time.Minute)
	hours := &v1alpha1.Tariff{ObjectMeta: metav1.ObjectMeta{Name: "hours"}, Spec: v1alpha1.TariffSpec{
		Currency: "EUR", NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0.05"},
		CPUHour: v1alpha1.CPUHourPrice{Price: "4", Rules: []v1alpha1.CPUHourRule{{
			Price:   "3",
			Windows: []v1alpha1.TariffWindow{{Start: next.Format("15:04"), End: next.Add(time.Hour).Format("15:04")}},
		}}},
	}}
	r := k.Begin(t, k.New("priced", ""), hours, &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "priced"}, Spec: v1alpha1.CompressionPolicySpec{TariffName: "hours"},
	})
	written := func() string {
		return r.Secret().ResourceVersion + " " + r.workloads()[0].GetResourceVersion() + " " + r.Object.GetResourceVersion()
	}
	told := func(when, cpuHour string) {
		t.Helper()
		r.Look()
		if got := r.config(); !strings.Contains(got, cpuHour) || strings.Contains(got, "prices") != (cpuHour != "") {
			t.Errorf("%s: the agent is told %s", when, got)
		}
		k.Say(r)
		r.Look()
		r.Expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)
		before := written()
		if r.Look(); written() != before {
			t.Errorf("%s: another look writes", when)
		}
	}
	told("at first", `"cpuHourNanos":"4000000000"`)
	r.Clock.SetTime(next.Add(-7 * time.Second))
	if r.Look(); r.again != 7*time.Second {
		t.Errorf("the next look is in %s", r.again)
	}
	r.Clock.SetTime(next)
	told("in the window", `"cpuHourNanos":"3000000000"`)
	hours.Spec.CPUHour.Rules = nil
	if err := r.Update(t.Context(), hours); err != nil {
		t.Fatal(err)
	}
	told("without windows", `"cpuHourNanos":"4000000000"`)
	if err := r.Delete(t.Context(), hours); err != nil {
		t.Fatal(err)
	}
	told("without the Tariff", "")
}

// Agents go on with what the spec said before it was spoilt, also when the manager remembers nothing of it.
func (k *Kind[O]) testSpoiltSpec(t *testing.T) {
	object := k.New("", "")
	*k.PodTemplate(object) = &v1alpha1.AgentPodTemplate{
		SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)},
	}
	r := k.Begin(t, object)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.GetNamespace()}}
	if err := r.Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	r.Look()
	r.Expect(v1alpha1.ConditionStalled, v1alpha1.ReasonPrivilegeNotAllowed)
	r.ExpectKept()
	r.Restart()
	r.ExpectKept()
	r.Change(func(o O) {
		k.Spoil(o)
		*k.PodTemplate(o) = nil
	})
	r.Expect(v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec)
	r.ExpectKept()
}

// Agents that run well do not mind that no other could be placed. What takes another pod waits.
func (k *Kind[O]) testCordoned(t *testing.T) {
	r := k.Begin(t, k.New("", v1alpha1.PlacementRequireHardware))
	node := &corev1.Node{}
	if err := r.Get(t.Context(), client.ObjectKey{Name: "z15-a"}, node); err != nil {
		t.Fatal(err)
	}
	node.Spec.Unschedulable = true
	if err := r.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	*r.seen = topology.New(r.WithWatch) // as after the event
	r.Look()
	r.Expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	r.ExpectKept()
	r.Expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)

	r.Change(k.Follow)
	if got := r.config(); !strings.Contains(got, k.Followed) {
		t.Errorf("the agent is told %s", got)
	}
	k.Say(r)
	r.Look()
	r.Expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	r.Change(k.Grow)
	r.Expect(v1alpha1.ConditionStalled, v1alpha1.ReasonUnschedulable)
	r.ExpectKept()
	r.Change(k.Shrink)
	r.Expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)

	// An agent that lost its node waits for one.
	if err := r.Delete(t.Context(), r.Pod); err != nil {
		t.Fatal(err)
	}
	r.Look()
	r.Expect(v1alpha1.ConditionStalled, v1alpha1.ReasonUnschedulable)
	if got := k.message(r, v1alpha1.ConditionReady); !strings.Contains(got, "0 of 1 "+k.Agents+" have a node") ||
		!strings.Contains(got, "z15-a: cordoned") {
		t.Error(got)
	}
}

// An agent that needs the accelerator and that the scheduler has no space for beside it: placement and Stalled say the
// same.
func (k *Kind[O]) testFull(t *testing.T) {
	r := k.Begin(t, k.New("", v1alpha1.PlacementRequireHardware))
	r.Pod.Spec.NodeName = ""
	if err := r.Update(t.Context(), r.Pod); err != nil {
		t.Fatal(err)
	}
	r.Pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available: 1 Insufficient cpu."},
	}}
	if err := r.Status().Update(t.Context(), r.Pod); err != nil {
		t.Fatal(err)
	}
	r.becomes(r.workloads()[0], 0)
	r.Look()
	r.Expect(v1alpha1.ConditionStalled, v1alpha1.ReasonUnschedulable)
	where := k.Status(r.Object).Placement
	if where.Reason != v1alpha1.PlacementReasonNoRoom || len(where.Alternatives) != 1 ||
		where.Alternatives[0].Reason != v1alpha1.PlacementReasonNoRoom {
		t.Errorf("%+v", where)
	}
	got := k.message(r, v1alpha1.ConditionStalled)
	for _, words := range []string{
		"0 of 1 " + k.Agents + " are ready", where.Message, "free resources there", "choose PreferHardware",
		"1 Insufficient cpu",
	} {
		if !strings.Contains(got, words) {
			t.Errorf("%q lacks %q", got, words)
		}
	}
}

// Another image of the agents reaches a few objects at a time; a change of an object's own spec waits for nobody.
func (k *Kind[O]) testUpgradeIsPaced(t *testing.T) {
	var others []client.Object
	for i := range 6 {
		other := k.New("", "")
		other.SetName(fmt.Sprintf("other-%d", i))
		other.SetUID(types.UID(fmt.Sprintf("other-uid-%d", i)))
		other.SetGeneration(1)
		others = append(others, other)
	}
	r := k.Begin(t, k.New("", ""), others...)
	all := func() {
		t.Helper()
		for _, other := range others {
			r.reconcile(other)
		}
	}
	// with are the workloads of others that have the image of this name.
	with := func(image string) []client.Object {
		t.Helper()
		return slices.DeleteFunc(r.workloads(), func(w client.Object) bool {
			return w.GetName() == r.Workload.GetName() || template(w).Spec.Containers[0].Image != image
		})
	}
	become := func(ready int32) {
		t.Helper()
		for _, workload := range with(r.Image.Name) {
			r.becomes(workload, ready)
		}
	}
	expect := func(when string, want int) {
		t.Helper()
		if got := len(with(r.Image.Name)); got != want {
			t.Errorf("%s: %d have the present image, want %d", when, got, want)
		}
	}
	all()
	become(1)
	r.Image.Name = "registry.example/agent:next"
	r.Restart()
	all()
	expect("after the upgrade", 3)
	become(0)
	all()
	expect("while the first ones roll out", 3)

	// The owner of one that waits changes its spec.
	waiting, ok := others[5].(O)
	if !ok {
		t.Fatalf("%T", others[5])
	}
	if err := r.Get(t.Context(), client.ObjectKeyFromObject(waiting), waiting); err != nil {
		t.Fatal(err)
	}
	*k.PodTemplate(waiting) = &v1alpha1.AgentPodTemplate{PriorityClassName: "high"}
	waiting.SetGeneration(2)
	if err := r.Update(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	all()
	expect("after a change of a spec", 4)
	become(1)
	all() // sees that they are ready
	all()
	expect("after the first ones are ready", 6)
}
