// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/plan"
)

// vault is a receiving cluster: it has one Delivery at a time, and does what is decided as an API server and a driver
// would.
type vault struct {
	*testing.T
	delivery  *v1alpha1.Delivery
	at        time.Time
	snapshots []plan.Snapshot
	driver    func(*plan.Snapshot)
	limit     int
	others    int // snapshots of other Transfers
	refusal   string
	last      plan.DeliveryDecision
	job       *batchv1.Job
	made      int
	received  int
}

func newVault(t *testing.T) *vault { return &vault{T: t, at: now, driver: ready, limit: 2} }

// receive has the Delivery of another run in the place of the one before, which is Complete after two looks.
func (v *vault) receive(run string) {
	v.Helper()
	v.delivery = newDelivery(run, 1)
	spec := v.delivery.Spec
	spec.Transfer.Run = run
	spec.Destination.Snapshot = &v1alpha1.DeliverySnapshot{
		DestinationSnapshot: v1alpha1.DestinationSnapshot{Retention: v1alpha1.SnapshotRetention{Last: 2}},
		TransferUID:         "uid",
	}
	made := plan.NewDelivery("bank", spec)
	v.received++
	made.UID = types.UID(fmt.Sprintf("%s-%d", v.delivery.UID, v.received))
	made.Generation, made.CreationTimestamp = 1, metav1.NewTime(v.at)
	v.delivery, v.job = made, nil
	v.look()
	v.look()
	if v.delivery.Status.Phase != v1alpha1.DeliveryComplete || !plan.DeliveryTakes(v.delivery) {
		v.Fatalf("%+v", v.delivery.Status)
	}
}

func (v *vault) facts() plan.DeliveryFacts {
	facts := goodDeliveryFacts()
	facts.Now = v.at
	if v.job != nil {
		facts.Job, facts.Pod = v.job, ended(0, "Completed", `{"state":"AGENT_STATE_SUCCEEDED"}`)
	}
	if plan.DeliveryNeedsHistory(v.delivery) {
		facts.History = plan.HistoryFacts{Seen: true, Snapshots: v.snapshots}
	}
	if plan.DeliveryTakes(v.delivery) {
		facts.History.Claim, facts.History.Driver = &corev1.PersistentVolumeClaim{}, "csi.example"
		facts.History.Class = &plan.SnapshotClass{Name: "fast", Driver: "csi.example"}
		facts.History.Held, facts.History.Limit, facts.History.Refusal = v.others+len(v.snapshots), v.limit, v.refusal
	}
	return facts
}

func (v *vault) look() {
	v.Helper()
	for i := range v.snapshots {
		if v.driver != nil {
			v.driver(&v.snapshots[i])
		}
	}
	v.last = plan.DecideDelivery(v.delivery, v.facts(), image)
	v.delivery.Status = v.last.Status
	if v.last.Start != nil {
		v.job = v.last.Start.Job()
		v.job.CreationTimestamp = metav1.NewTime(v.at)
		v.job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	}
	step := v.last.History
	if step == nil {
		return
	}
	v.snapshots = slices.DeleteFunc(v.snapshots, func(s plan.Snapshot) bool {
		return slices.Contains(step.Remove, s.Name)
	})
	if step.Take != nil {
		v.made++
		v.snapshots = append(v.snapshots, plan.Snapshot{
			Name: step.Take.Name, RunID: step.Take.RunID, Made: metav1.NewTime(v.at), Completed: step.Take.Time,
		})
	}
}

func (v *vault) until(what string, holds func() bool) {
	v.Helper()
	for range 900 {
		if holds() {
			return
		}
		v.at = v.at.Add(time.Second)
		v.look()
	}
	v.Fatalf("%s: not reached: %+v", what, v.delivery.Status)
}

func (v *vault) settled() bool { return !plan.DeliveryNeedsHistory(v.delivery) }

func (v *vault) says(reason string) func() bool {
	return func() bool {
		c := meta.FindStatusCondition(v.delivery.Status.Conditions, v1alpha1.ConditionHistoryKept)
		return c != nil && c.Reason == reason
	}
}

// Each Delivery knows the snapshots of earlier ones, which are gone, and removes what the retention does not keep.
func TestHistoryForAPeer(t *testing.T) {
	v := newVault(t)
	for _, run := range []string{"run1", "run2", "run3"} {
		v.at = v.at.Add(time.Hour)
		v.receive(run)
		v.until("settled", v.settled)
		if !v.says(v1alpha1.ReasonSnapshotReady)() || v.delivery.Status.Snapshots[0].RunID != run {
			t.Fatalf("%+v", v.delivery.Status)
		}
		before := v.delivery.DeepCopy()
		for range 3 {
			v.at = v.at.Add(time.Minute)
			if v.look(); v.last.History != nil || !equality.Semantic.DeepEqual(before.Status, v.delivery.Status) {
				t.Errorf("at rest: %+v", v.last)
			}
		}
	}
	if v.made != 3 || len(v.snapshots) != 2 || v.snapshots[0].RunID != "run2" || v.snapshots[1].RunID != "run3" {
		t.Errorf("made %d, left %+v", v.made, v.snapshots)
	}
	for i, s := range v.delivery.Status.Snapshots {
		if s.State != v1alpha1.SnapshotReady || s.Name != v.snapshots[1-i].Name || s.Time.IsZero() {
			t.Errorf("listed: %+v", s)
		}
	}
}

// What a Delivery that was deleted meanwhile has left and the driver had not taken would be of no run.
func TestHistoryLeftUntaken(t *testing.T) {
	v := newVault(t)
	v.driver = nil
	v.receive("run1")
	v.look()
	if len(v.snapshots) != 1 {
		t.Fatal(v.snapshots)
	}
	facts := plan.HistoryFacts{Snapshots: v.snapshots}
	step := plan.AbandonHistory(v.delivery, facts)
	if step == nil || !slices.Equal(step.Remove, []string{v.snapshots[0].Name}) {
		t.Errorf("%+v", step)
	}
	taken := slices.Clone(v.snapshots)
	taken[0].Created = now
	if step := plan.AbandonHistory(v.delivery, plan.HistoryFacts{Snapshots: taken}); step != nil {
		t.Errorf("one that was taken goes: %+v", step)
	}
	v.receive("run2")
	v.driver = func(s *plan.Snapshot) {
		if s.RunID == "run2" {
			ready(s)
		}
	}
	v.until("settled", v.settled)
	if len(v.snapshots) != 1 || v.snapshots[0].RunID != "run2" {
		t.Errorf("%+v", v.snapshots)
	}
}

// Without a grant, and beyond what it allows, nothing is made, and the next run begins after a while.
func TestHistoryBeyondTheGrant(t *testing.T) {
	for reason, change := range map[string]func(*vault){
		v1alpha1.ReasonNotGranted:       func(v *vault) { v.refusal = "nobody allows that" },
		v1alpha1.ReasonTooManySnapshots: func(v *vault) { v.others = 3 },
	} {
		v := newVault(t)
		v.receive("run1")
		change(v)
		v.until(reason, v.says(reason))
		began := v.at
		v.until("given up", func() bool { return !plan.DeliveryTakes(v.delivery) })
		patience := 11 * time.Minute
		if reason == v1alpha1.ReasonNotGranted {
			patience = time.Minute // nobody changes that so soon
		}
		if v.made != 0 || v.at.Sub(began) > patience || !v.says(reason)() {
			t.Errorf("%s: %d made after %s, %+v", reason, v.made, v.at.Sub(began), v.delivery.Status.Conditions)
		}
	}
}

// What waits to be ready frees no place, and takes none from the next run.
func TestUnreadySnapshotsTakeNoPlace(t *testing.T) {
	v := newVault(t)
	for _, run := range []string{"run1", "run2"} {
		v.receive(run)
		v.until("settled", v.settled)
	}
	v.driver = func(s *plan.Snapshot) {
		if s.Created.IsZero() {
			s.Created = now
		}
	}
	for _, run := range []string{"run3", "run4"} {
		v.receive(run)
		v.until("taken", func() bool { return !plan.DeliveryTakes(v.delivery) })
	}
	if v.made != 4 {
		t.Errorf("%d made: %+v", v.made, v.delivery.Status.Conditions)
	}
	v.limit = 0
	v.receive("run5")
	v.until("beyond", v.says(v1alpha1.ReasonTooManySnapshots))
}

// One that was given up and not deleted is of no run, whenever the driver takes it.
func TestHistoryGivenUp(t *testing.T) {
	v := newVault(t)
	v.driver = nil
	v.receive("run1")
	v.look()
	left := slices.Clone(v.snapshots)
	v.until("given up", func() bool { return !plan.DeliveryTakes(v.delivery) })
	if len(left) != 1 || !plan.DeliveryAbandons(v.delivery) ||
		plan.AbandonHistory(v.delivery, plan.HistoryFacts{Snapshots: left}) == nil {
		t.Errorf("%+v stays of %+v", left, v.delivery.Status.Snapshots)
	}
	v.snapshots = left
	v.snapshots[0].Ready, v.snapshots[0].Created = true, v.at.Add(time.Minute)
	v.receive("run2")
	v.driver = func(s *plan.Snapshot) {
		if s.RunID == "run2" {
			ready(s)
		}
	}
	v.until("settled", v.settled)
	if len(v.snapshots) != 1 || v.snapshots[0].RunID != "run2" {
		t.Errorf("%+v", v.snapshots)
	}
}

// What the driver takes when others may write is of no run, although nobody has looked until then.
func TestHistoryTakenTooLate(t *testing.T) {
	v := newVault(t)
	v.driver = nil
	v.receive("run1")
	v.look()
	v.at = v.at.Add(15 * time.Minute)
	v.snapshots[0].Ready, v.snapshots[0].Created = true, v.at.Add(-time.Minute)
	v.look()
	if len(v.snapshots) > 0 || !v.says(v1alpha1.ReasonSnapshotNotReady)() {
		t.Errorf("%+v, %+v", v.snapshots, v.delivery.Status)
	}
}

// A restore makes all objects at once. The retention goes by the times of the runs.
func TestHistoryAfterARestore(t *testing.T) {
	v := newVault(t)
	v.receive("run1")
	v.until("settled", v.settled)
	ended := v.delivery.Status.Snapshots[0].Time
	v.at = v.at.Add(72 * time.Hour)
	v.snapshots[0].Made = metav1.NewTime(v.at)
	v.receive("run2")
	v.until("settled", v.settled)
	if all := v.delivery.Status.Snapshots; len(all) != 2 || !all[1].Time.Equal(&ended) {
		t.Errorf("%s: %+v", ended, all)
	}
}

// An attempt that comes again after its Delivery was deleted has a snapshot of its own.
func TestHistoryOfAnAttemptThatComesAgain(t *testing.T) {
	v := newVault(t)
	for range 2 {
		began := v.at
		v.receive("run1")
		v.until("settled", v.settled)
		if v.at.Sub(began) > time.Minute {
			t.Errorf("after %s", v.at.Sub(began))
		}
	}
	if v.made != 2 || len(v.snapshots) != 2 {
		t.Errorf("%d made: %+v", v.made, v.snapshots)
	}
}

// A peer that lists no snapshot of the run, and gives no reason, has none.
func TestPeerWithoutTheSnapshotOfTheRun(t *testing.T) {
	transfer, facts := keeping(t)
	meta.SetStatusCondition(&transfer.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionHistoryKept, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSnapshotReady,
	})
	facts.History = plan.HistoryFacts{Seen: true, Answer: &wirev1.HistoryResponse{Decided: true}}
	d := plan.DecideTransfer(transfer, facts, image)
	kept := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionHistoryKept)
	if kept == nil || kept.Status != metav1.ConditionFalse || kept.Reason != v1alpha1.ReasonSnapshotLost {
		t.Errorf("%+v", kept)
	}
}

// A run that waits for a snapshot begins when none is wanted any more.
func TestRunGoesOnWithoutHistory(t *testing.T) {
	transfer, facts := keeping(t)
	transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	facts.NewRunID = "fghij"
	transfer.Spec.Destination.Snapshot = nil
	d := plan.DecideTransfer(transfer, facts, image)
	if d.Start == nil && (d.RequeueAfter == 0 || d.RequeueAfter > time.Second) {
		t.Errorf("nobody looks again: %+v", d)
	}
}

// Nobody writes into the same place before the driver has taken the snapshot.
func TestOthersAwaitHistoryOfADelivery(t *testing.T) {
	v := newVault(t)
	v.driver = nil
	v.receive("run1")
	other := newDelivery("other", 1)
	other.Spec.Transfer.Name = "other"
	other = plan.NewDelivery("bank", other.Spec)
	facts := goodDeliveryFacts()
	facts.Others = []v1alpha1.Delivery{*v.delivery}
	decided := func() (started bool, reason string) {
		facts.Now = v.at
		d := plan.DecideDelivery(other, facts, image)
		return d.Start != nil, meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady).Reason
	}
	transfer, local := localTransfer("")
	into := other.Spec.Destination.PersistentVolumeClaim
	transfer.Spec.Destination.PersistentVolumeClaim.PersistentVolumeClaimPath = into
	local.Local.Deliveries = facts.Others
	began := func() bool {
		local.Now = v.at
		return plan.DecideTransfer(transfer, local, image).Start != nil
	}
	if started, reason := decided(); started || reason != v1alpha1.ReasonTakingSnapshot || began() {
		t.Errorf("started %t, %s, Transfer %t", started, reason, began())
	}
	v.at = v.at.Add(12 * time.Minute) // whatever the manager does
	if started, _ := decided(); !started || !began() {
		t.Error("others wait for ever")
	}
}

// The labels of snapshots follow from what the Peer vouches for, whatever UID is claimed.
func TestHistoryOfOthers(t *testing.T) {
	v := newVault(t)
	v.receive("run1")
	of := func(change func(*v1alpha1.Delivery)) string {
		d := v.delivery.DeepCopy()
		change(d)
		return plan.DeliveryHistory(d).Of
	}
	seen := map[string]bool{}
	for _, change := range []func(*v1alpha1.Delivery){
		func(*v1alpha1.Delivery) {}, func(d *v1alpha1.Delivery) { d.Spec.Peer = "north" },
		func(d *v1alpha1.Delivery) { d.Spec.Transfer.Namespace = "bank2" },
		func(d *v1alpha1.Delivery) { d.Spec.Transfer.Name = "other" },
		func(d *v1alpha1.Delivery) { d.Spec.Destination.PersistentVolumeClaim.ClaimName = "other" },
		func(d *v1alpha1.Delivery) { d.Namespace = "other" },
		func(d *v1alpha1.Delivery) { d.Spec.Destination.Snapshot.TransferUID = "uid2" },
	} {
		seen[of(change)] = true
	}
	local := plan.TransferHistory(&v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}).Labels("run1")
	if len(seen) != 7 || seen[local[v1alpha1.TransferLabel]] {
		t.Errorf("%v", seen)
	}
	labels := plan.DeliveryHistory(v.delivery).Labels("run1")
	if labels[plan.PeerLabel] != "east" || labels[agentpod.ComponentLabel] != plan.HistoryComponent ||
		labels[agentpod.ManagedByLabel] != agentpod.ManagedBy || labels[v1alpha1.RunLabel] != "run1" {
		t.Errorf("%v", labels)
	}
}

// keeping is a Transfer to a peer whose run is Complete, and the facts for it.
func keeping(t *testing.T) (*v1alpha1.Transfer, plan.TransferFacts) {
	t.Helper()
	transfer, facts := running(1)
	transfer.Spec.Destination.Snapshot = &v1alpha1.DestinationSnapshot{Retention: v1alpha1.SnapshotRetention{Last: 2}}
	facts.Job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	facts.Pod = ended(0, "Completed", `{"state":"AGENT_STATE_SUCCEEDED"}`)
	decision := plan.DecideTransfer(transfer, facts, image)
	transfer.Status = decision.Status
	facts.Job, facts.Pod = nil, nil
	if transfer.Status.Phase != v1alpha1.TransferComplete || !plan.NeedsHistory(transfer) ||
		len(transfer.Status.Snapshots) != 1 || decision.History != nil {
		t.Fatalf("%+v", transfer.Status)
	}
	return transfer, facts
}

func told(states ...v1alpha1.SnapshotState) *wirev1.HistoryResponse {
	answer := &wirev1.HistoryResponse{Decided: true}
	for i, state := range states {
		answer.Snapshots = append(answer.Snapshots, &wirev1.HistorySnapshot{
			Name: "history-" + string(rune('a'+i)), RunId: []string{"abcde", "older"}[i], State: string(state),
			Time: timestamppb.New(now.Add(-time.Duration(i) * time.Hour)), Size: 1 << 30,
		})
	}
	return answer
}

// The sender shows what its peer says, waits until the snapshot is taken, and then asks and writes no more.
func TestHistoryAtAPeer(t *testing.T) {
	transfer, facts := keeping(t)
	point := transfer.Status.RecoveryPoint
	ask := func(answer *wirev1.HistoryResponse) plan.TransferDecision {
		facts.Now = facts.Now.Add(5 * time.Second)
		facts.History = plan.HistoryFacts{Seen: true, Answer: answer}
		decision := plan.DecideTransfer(transfer, facts, image)
		transfer.Status = decision.Status
		return decision
	}
	transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	facts.NewRunID = "fghij"
	taking := told(v1alpha1.SnapshotTaking, v1alpha1.SnapshotReady)
	for _, answer := range []*wirev1.HistoryResponse{{}, {Gone: true}, taking} {
		d := ask(answer)
		if d.Start != nil || readyOf(d.Status).Reason != v1alpha1.ReasonTakingSnapshot || d.RequeueAfter == 0 {
			t.Errorf("a run begins: %+v", d)
		}
	}
	transfer.Annotations = nil
	transfer.Status.Phase = v1alpha1.TransferComplete
	ask(told(v1alpha1.SnapshotTaken, v1alpha1.SnapshotReady))
	if !plan.NeedsHistory(transfer) {
		t.Error("it is not asked for until it is ready")
	}
	answer := told(v1alpha1.SnapshotReady, v1alpha1.SnapshotReady)
	answer.Kept, answer.Reason, answer.Message = true, v1alpha1.ReasonSnapshotReady, "it can be restored"
	ask(answer)
	all := transfer.Status.Snapshots
	if len(all) != 2 || all[0].Name != "history-a" || all[0].State != v1alpha1.SnapshotReady ||
		!all[0].RecoveryPoint.Equal(point) || all[1].RecoveryPoint != nil || all[1].Size.Value() != 1<<30 ||
		!meta.IsStatusConditionTrue(transfer.Status.Conditions, v1alpha1.ConditionHistoryKept) {
		t.Errorf("%+v, %+v", all, transfer.Status.Conditions)
	}
	before := transfer.DeepCopy()
	facts.History = plan.HistoryFacts{}
	facts.Now = facts.Now.Add(time.Hour)
	if d := plan.DecideTransfer(transfer, facts, image); plan.NeedsHistory(transfer) || plan.WatchesHistory(transfer) ||
		!equality.Semantic.DeepEqual(before.Status, d.Status) {
		t.Errorf("at rest: %+v", d)
	}
	transfer.Spec.Destination.Snapshot = nil
	if d := plan.DecideTransfer(transfer, facts, image); len(d.Status.Snapshots) > 0 ||
		meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionHistoryKept) != nil {
		t.Errorf("without snapshot: %+v", d.Status)
	}
}

// A peer that says nothing keeps no run waiting for ever; one of an earlier release none at all.
func TestSilentPeerKeepsNoRunWaiting(t *testing.T) {
	unreachable := plan.HistoryFacts{Seen: true, Problem: &agentpod.Problem{Reason: v1alpha1.ReasonPeerUnreachable}}
	older := plan.HistoryFacts{Seen: true, Problem: &agentpod.Problem{Reason: v1alpha1.ReasonPeerIncompatible}}
	busy := plan.HistoryFacts{Again: time.Second}
	for name, test := range map[string]struct {
		heard   plan.HistoryFacts
		reason  string
		patient time.Duration
	}{
		"unreachable": {unreachable, v1alpha1.ReasonPeerUnreachable, 12 * time.Minute},
		"older":       {older, v1alpha1.ReasonPeerIncompatible, time.Minute},
		"busy":        {busy, v1alpha1.ReasonSnapshotNotReady, 12 * time.Minute},
		"gone": {
			plan.HistoryFacts{Seen: true, Answer: &wirev1.HistoryResponse{Gone: true}}, v1alpha1.ReasonSnapshotLost,
			2 * time.Minute,
		},
		"taking": {
			plan.HistoryFacts{Seen: true, Answer: told(v1alpha1.SnapshotTaking)}, v1alpha1.ReasonSnapshotNotReady,
			12 * time.Minute,
		},
	} {
		transfer, facts := keeping(t)
		began := facts.Now
		facts.History = test.heard
		for plan.NeedsHistory(transfer) && facts.Now.Sub(began) < time.Hour {
			d := plan.DecideTransfer(transfer, facts, image)
			transfer.Status = d.Status
			if d.RequeueAfter == 0 && plan.NeedsHistory(transfer) {
				t.Errorf("%s: nobody looks again", name)
			}
			facts.Now = facts.Now.Add(5 * time.Second)
		}
		kept := meta.FindStatusCondition(transfer.Status.Conditions, v1alpha1.ConditionHistoryKept)
		if kept == nil || kept.Reason != test.reason || kept.Status != metav1.ConditionFalse ||
			facts.Now.Sub(began) > test.patient || plan.TransferHistory(transfer).Taking {
			t.Errorf("%s: %+v after %s", name, kept, facts.Now.Sub(began))
		}
	}
}

// A peer reads what concerns it, and nothing that drivers and the API server say.
func TestHistoryOfHidesOthersWords(t *testing.T) {
	v := newVault(t)
	v.receive("run1")
	for reason, hidden := range map[string]bool{
		v1alpha1.ReasonSnapshotFailed: true, v1alpha1.ReasonSnapshotRejected: true, v1alpha1.ReasonTooManySnapshots: true,
		v1alpha1.ReasonSnapshotClassNotFound: true, v1alpha1.ReasonNotGranted: true, "Another": true,
		v1alpha1.ReasonSnapshotReady: false, v1alpha1.ReasonSnapshotLost: false,
	} {
		v.delivery.Status = plan.RefuseDeliveryHistory(v.delivery, agentpod.Problem{Reason: reason, Message: "pool-7"}, v.at)
		answer := plan.HistoryOf(v.delivery)
		if answer.GetReason() != reason || answer.GetMessage() == "" ||
			strings.Contains(answer.GetMessage(), "pool-7") == hidden {
			t.Errorf("%+v", answer)
		}
	}
}

// FuzzHistoryAnswer: whatever another cluster answers, status has what the API takes.
func FuzzHistoryAnswer(f *testing.F) {
	answer := told(v1alpha1.SnapshotReady, v1alpha1.SnapshotTaken)
	answer.Reason, answer.Message = v1alpha1.ReasonSnapshotReady, "m"
	for _, seed := range []*wirev1.HistoryResponse{answer, {Gone: true}, {Decided: true, Reason: "no reason\n"},
		told(v1alpha1.SnapshotReady, v1alpha1.SnapshotTaking)} {
		whole, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(whole)
	}
	f.Fuzz(func(t *testing.T, given []byte) {
		answer := &wirev1.HistoryResponse{}
		if proto.Unmarshal(given, answer) != nil {
			return
		}
		transfer, facts := keeping(t)
		facts.History = plan.HistoryFacts{Seen: true, Answer: answer}
		status := plan.DecideTransfer(transfer, facts, image).Status
		transfer.Status = status
		if plan.TransferHistory(transfer).Taking && !plan.NeedsHistory(transfer) {
			t.Error("a run waits for what nobody looks at")
		}
		names := map[string]bool{}
		for _, s := range status.Snapshots {
			if names[s.Name] || s.Name == "" || len(s.Name) > 253 || len(s.RunID) > 6 || s.Time.IsZero() ||
				s.Time.After(facts.Now) || s.Size != nil && s.Size.Sign() <= 0 ||
				!slices.Contains([]v1alpha1.SnapshotState{"Pending", "Taking", "Taken", "Ready", "Failed"}, s.State) {
				t.Errorf("%+v", s)
			}
			names[s.Name] = true
		}
		if len(status.Snapshots) > 128 {
			t.Errorf("%d snapshots", len(status.Snapshots))
		}
		for _, c := range status.Conditions {
			if c.Reason == "" || len(c.Reason) > 1024 || strings.ContainsAny(c.Reason, " \n\x00") || len(c.Message) > 32<<10 {
				t.Errorf("condition %+v", c)
			}
		}
	})
}
