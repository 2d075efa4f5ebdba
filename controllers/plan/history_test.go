// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/plan"
)

// archive has a local Transfer with history, and does what is decided as an API server and a driver would.
type archive struct {
	*testing.T
	transfer *v1alpha1.Transfer
	facts    plan.TransferFacts
	at       time.Time
	last     plan.TransferDecision
	// driver does something with each snapshot before a look; nil: nothing.
	driver func(*plan.Snapshot)
	// refused: the API server makes nothing.
	refused bool
	made    int
	runs    int
}

func newArchive(t *testing.T) *archive {
	transfer, facts := localTransfer("")
	transfer.Spec.Destination.Snapshot = &v1alpha1.DestinationSnapshot{Retention: v1alpha1.SnapshotRetention{Last: 2}}
	facts.History = plan.HistoryFacts{
		Claim: facts.Local.Claim, Driver: "csi.example", Class: &plan.SnapshotClass{Name: "fast", Driver: "csi.example"},
	}
	return &archive{T: t, transfer: transfer, facts: facts, at: now, driver: ready}
}

func ready(s *plan.Snapshot) { s.Ready, s.Created = true, now }

func (a *archive) look() {
	a.Helper()
	for i := range a.facts.History.Snapshots {
		if a.driver != nil {
			a.driver(&a.facts.History.Snapshots[i])
		}
	}
	facts := a.facts
	facts.Now = a.at
	facts.History.Seen = plan.NeedsHistory(a.transfer) || plan.WatchesHistory(a.transfer)
	if !facts.History.Seen {
		facts.History = plan.HistoryFacts{}
	}
	if !plan.TransferHistory(a.transfer).Taking {
		facts.History.Claim, facts.History.Class, facts.History.Driver = nil, nil, ""
	}
	a.last = plan.DecideTransfer(a.transfer, facts, image)
	a.transfer.Status = a.last.Status
	if step := a.last.History; step != nil {
		history := &a.facts.History
		history.Snapshots = slices.DeleteFunc(history.Snapshots, func(s plan.Snapshot) bool {
			return slices.Contains(step.Remove, s.Name)
		})
		if step.Take != nil && !a.refused {
			a.made++
			history.Snapshots = append(history.Snapshots, plan.Snapshot{Name: step.Take.Name})
		}
	}
	a.facts.Job, a.facts.Pod = nil, nil
	if a.last.Start != nil {
		if plan.NeedsHistory(a.transfer) && slices.ContainsFunc(a.transfer.Status.Snapshots,
			func(s v1alpha1.SnapshotStatus) bool { return s.State == v1alpha1.SnapshotTaking }) {
			a.Error("a run writes before the snapshot of the last is taken")
		}
		job := a.last.Start.Job()
		job.CreationTimestamp = metav1.NewTime(a.at)
		a.facts.Job, a.facts.Pod = job, ended(0, "Completed", `{"state":"AGENT_STATE_SUCCEEDED"}`)
		a.facts.Job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	}
}

// run asks for another run.
func (a *archive) run() {
	a.runs++
	a.transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: strings.Repeat("x", a.runs)}
	a.facts.NewRunID = "run" + string(rune('a'+a.runs)) + "2"
}

// until looks, a second apart, until something holds.
func (a *archive) until(what string, holds func() bool) {
	a.Helper()
	for range 900 {
		if holds() {
			return
		}
		a.at = a.at.Add(time.Second)
		a.look()
	}
	a.Fatalf("%s: not reached: %+v", what, a.transfer.Status)
}

func (a *archive) kept(reason string) func() bool {
	return func() bool {
		c := meta.FindStatusCondition(a.transfer.Status.Conditions, v1alpha1.ConditionHistoryKept)
		ready := reason == v1alpha1.ReasonSnapshotReady
		return c != nil && c.Reason == reason && (c.Status == metav1.ConditionTrue) == ready
	}
}

func (a *archive) settled() bool {
	return a.transfer.Status.Phase == v1alpha1.TransferComplete && !plan.NeedsHistory(a.transfer)
}

func (a *archive) listed(states ...v1alpha1.SnapshotState) {
	a.Helper()
	var found []v1alpha1.SnapshotState
	for _, s := range a.transfer.Status.Snapshots {
		found = append(found, s.State)
	}
	if !slices.Equal(found, states) {
		a.Errorf("listed are %v, want %v", found, states)
	}
}

func TestHistoryOfRuns(t *testing.T) {
	a := newArchive(t)
	a.until("complete", func() bool { return a.transfer.Status.Phase == v1alpha1.TransferComplete })
	// The status that says so names the snapshot, before there is one.
	a.listed(v1alpha1.SnapshotPending)
	if a.made != 0 || a.last.RequeueAfter == 0 {
		t.Error("nothing may be made before it is announced, and then soon")
	}
	a.until("settled", a.settled)
	one := a.transfer.Status.Snapshots[0]
	if !a.kept(v1alpha1.ReasonSnapshotReady)() || one.RunID != a.transfer.Status.Run.ID ||
		!one.Time.Equal(a.transfer.Status.Run.CompletionTime) || !one.RecoveryPoint.Equal(a.transfer.Status.RecoveryPoint) {
		t.Errorf("%+v", one)
	}
	for range 3 {
		a.run()
		a.until("the run", func() bool { return !a.settled() })
		a.until("settled", a.settled)
	}
	a.listed(v1alpha1.SnapshotReady, v1alpha1.SnapshotReady)
	if a.made != 4 || len(a.facts.History.Snapshots) != 2 {
		t.Errorf("%d made, %d left", a.made, len(a.facts.History.Snapshots))
	}
}

func TestRunWaitsForItsSnapshot(t *testing.T) {
	a := newArchive(t)
	a.driver = nil
	a.until("taking", func() bool { return a.made == 1 })
	a.run()
	for range 5 {
		a.at = a.at.Add(time.Second)
		a.look()
		c := meta.FindStatusCondition(a.transfer.Status.Conditions, v1alpha1.ConditionReady)
		if c.Reason != v1alpha1.ReasonTakingSnapshot || a.last.Start != nil || a.last.RequeueAfter == 0 {
			t.Fatalf("%+v", c)
		}
	}
	first := a.transfer.Status.Run.ID
	// Cut is enough: what the driver does with it later is of that moment.
	a.driver = func(s *plan.Snapshot) { s.Created = a.at }
	a.until("the next run", func() bool { return a.transfer.Status.Run.ID != first })
	if s := a.transfer.Status.Snapshots; s[len(s)-1].State != v1alpha1.SnapshotTaken {
		t.Errorf("%+v", s)
	}
}

// TestOthersWaitForTheSnapshot: from when a run begins until its snapshot is cut nobody else writes into its place.
func TestOthersWaitForTheSnapshot(t *testing.T) {
	a := newArchive(t)
	a.driver = nil
	a.transfer.Name, a.transfer.UID = "payroll", "payroll"
	a.transfer.CreationTimestamp = metav1.NewTime(now.Add(time.Hour)) // else its age would keep others waiting for ever
	arrives, facts := newDelivery("other", 1), goodDeliveryFacts()
	arrives.Spec.Destination.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/books"}
	arrives.Name = plan.NewDelivery("bank", arrives.Spec).Name
	waits := func(what, reason string, begins bool) {
		t.Helper()
		for _, namespace := range []string{"bank", "vault"} {
			transfer, seen := localTransfer("bank")
			transfer.Namespace = namespace
			if seen.Others = []v1alpha1.Transfer{*a.transfer}; namespace == "vault" {
				seen.Others, seen.Local.Rivals = nil, seen.Others
			}
			decision := plan.DecideTransfer(transfer, seen, image)
			_, got, message := verdict(t, decision.Status.Conditions)
			if (decision.Status.Run != nil) != begins || !begins && got != reason || namespace == "vault" &&
				strings.Contains(message, "payroll") {
				t.Errorf("%s: Transfer of %s: %s: %s", what, namespace, got, message)
			}
			if stalled := meta.IsStatusConditionTrue(decision.Status.Conditions, v1alpha1.ConditionStalled); !begins &&
				stalled != (reason == v1alpha1.ReasonDestinationInUse) {
				t.Errorf("%s: stalled: %v", what, stalled)
			}
		}
		if facts.Transfers = nil; plan.OccupiesClaim(a.transfer) { // as the index has it
			facts.Transfers = []v1alpha1.Transfer{*a.transfer}
		}
		decision := plan.DecideDelivery(arrives, facts, image)
		_, got, message := verdict(t, decision.Status.Conditions)
		if (decision.Start != nil) != begins || !begins && got != reason || strings.Contains(message, "payroll") {
			t.Errorf("%s: Delivery: %s: %s", what, got, message)
		}
		if reason == v1alpha1.ReasonTakingSnapshot && (plan.DeliveryEnded(&v1alpha1.Delivery{Status: decision.Status}) ||
			decision.RequeueAfter == 0) {
			t.Errorf("%s: the Delivery does not wait", what)
		}
	}
	waits("before", "", true)
	a.look()
	waits("under way", v1alpha1.ReasonDestinationInUse, false)
	// Of a run with two agents the receiving one may have ended before the Transfer knows that it is Complete.
	direct := a.transfer.DeepCopy()
	if direct.Status.Run.Route = v1alpha1.RouteDirect; !plan.OccupiesClaim(direct) {
		t.Error("a run with two agents that keeps history leaves the claim before its end")
	}
	facts.Transfers = []v1alpha1.Transfer{*direct}
	if own := plan.LocalDelivery(direct); plan.DecideDelivery(own, facts, image).Status.Phase == v1alpha1.DeliveryFailed {
		t.Error("a Transfer keeps its own Delivery from beginning")
	}
	before := a.transfer.DeepCopy()
	a.until("complete", func() bool { return a.transfer.Status.Phase == v1alpha1.TransferComplete })
	waits("announced", v1alpha1.ReasonTakingSnapshot, false)
	a.until("taking", func() bool { return a.made == 1 })
	waits("taking", v1alpha1.ReasonTakingSnapshot, false)
	if !plan.LeftPlace(before, a.transfer) {
		t.Error("nobody is woken by the end of the run")
	}
	before = a.transfer.DeepCopy()
	a.driver = func(s *plan.Snapshot) { s.Created = a.at }
	a.until("taken", a.settledBut)
	waits("taken", "", true)
	if !plan.LeftPlace(before, a.transfer) {
		t.Error("nobody is woken when the snapshot is taken")
	}
}

// TestOthersDoNotWaitForEver: the manager may be unable to look after the Transfer whose snapshot they wait for.
func TestOthersDoNotWaitForEver(t *testing.T) {
	a := newArchive(t)
	a.driver = nil
	a.transfer.Name, a.transfer.UID = "payroll", "payroll"
	a.transfer.CreationTimestamp = metav1.NewTime(now.Add(time.Hour)) // else its age would keep others waiting for ever
	begin := func(what string, seen *v1alpha1.Transfer, at time.Time, want bool) {
		t.Helper()
		for _, namespace := range []string{"bank", "vault"} {
			transfer, facts := localTransfer("bank")
			transfer.Namespace, facts.Now = namespace, at
			if facts.Others = []v1alpha1.Transfer{*seen}; namespace == "vault" {
				facts.Others, facts.Local.Rivals = nil, facts.Others
			}
			if d := plan.DecideTransfer(transfer, facts, image); (d.Status.Run != nil) != want {
				t.Errorf("%s: Transfer of %s begins: %v: %+v", what, namespace, !want, d.Status.Conditions)
			}
		}
		arrives, facts := newDelivery("other", 1), goodDeliveryFacts()
		arrives.Spec.Destination.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/books"}
		arrives.Name = plan.NewDelivery("bank", arrives.Spec).Name
		facts.Transfers, facts.Now = []v1alpha1.Transfer{*seen}, at
		if d := plan.DecideDelivery(arrives, facts, image); (d.Start != nil) != want {
			t.Errorf("%s: Delivery begins: %v: %+v", what, !want, d.Status.Conditions)
		}
	}
	check := func(what string) {
		t.Helper()
		begin(what, a.transfer, a.at.Add(10*time.Minute), false)
		begin(what+", and nobody gives up", a.transfer, a.at.Add(11*time.Minute), true)
		deleted := a.transfer.DeepCopy()
		deleted.DeletionTimestamp = &metav1.Time{Time: a.at}
		begin(what+", and the Transfer is being deleted", deleted, a.at, true)
		if !plan.LeftPlace(a.transfer, deleted) {
			t.Errorf("%s: nobody is woken by the deletion", what)
		}
		if plan.OccupiesClaim(deleted) {
			t.Errorf("%s: the Transfer that is being deleted occupies the claim", what)
		}
	}
	a.until("complete", func() bool { return a.transfer.Status.Phase == v1alpha1.TransferComplete })
	check("announced")
	// The manager was away: the wait is from when it began to look.
	a.at = a.at.Add(time.Hour)
	a.until("taking", func() bool { return a.made == 1 })
	check("taking")
}

// TestWaitingDeliveryGoesFirst: the Transfer whose snapshot a Delivery waited for does not overtake it with its own
// next run, which would make the Delivery fail.
func TestWaitingDeliveryGoesFirst(t *testing.T) {
	a := newArchive(t)
	a.driver = nil
	a.transfer.Name, a.transfer.UID = "payroll", "payroll"
	a.until("taking", func() bool { return a.made == 1 })
	a.run() // is due as soon as the snapshot is taken
	arrives, facts := newDelivery("other", 1), goodDeliveryFacts()
	arrives.Spec.Destination.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/books"}
	arrives.Name = plan.NewDelivery("bank", arrives.Spec).Name
	deliver := func() plan.DeliveryDecision {
		facts.Now, facts.Transfers = a.at, []v1alpha1.Transfer{*a.transfer}
		d := plan.DecideDelivery(arrives, facts, image)
		arrives.Status = d.Status
		a.facts.Local.Deliveries = []v1alpha1.Delivery{*arrives}
		return d
	}
	if d := deliver(); d.Status.Phase != v1alpha1.DeliveryPending {
		t.Fatalf("%+v", d.Status)
	}
	first := a.transfer.Status.Run.ID
	a.driver = func(s *plan.Snapshot) { s.Created = a.at }
	a.until("taken", func() bool { return a.transfer.Status.Snapshots[0].State == v1alpha1.SnapshotTaken })
	for range 3 {
		a.at = a.at.Add(time.Second)
		a.look()
	}
	if _, reason, _ := verdict(t, a.transfer.Status.Conditions); a.transfer.Status.Run.ID != first ||
		reason != v1alpha1.ReasonDestinationInUse {
		t.Errorf("run %s: %s", a.transfer.Status.Run.ID, reason)
	}
	if d := deliver(); d.Start == nil {
		t.Errorf("%+v", d.Status)
	}
	arrives.Status.Phase = v1alpha1.DeliveryComplete
	a.facts.Local.Deliveries = nil // the index has those that have not ended
	a.until("the next run", func() bool { return a.transfer.Status.Run.ID != first })
}

func TestWhatKeepsHistoryFromBeingMade(t *testing.T) {
	for _, c := range []struct {
		reason string
		change func(*archive)
	}{
		{v1alpha1.ReasonSnapshotsNotInstalled, func(a *archive) {
			a.facts.History.Problem = &agentpod.Problem{Reason: v1alpha1.ReasonSnapshotsNotInstalled, Message: "no CRDs"}
		}},
		{v1alpha1.ReasonSnapshotClassNotFound, func(a *archive) { a.facts.History.Class = nil }},
		{v1alpha1.ReasonSnapshotClassNotFound, func(a *archive) {
			a.facts.History.Class = nil
			a.transfer.Spec.Destination.Snapshot.VolumeSnapshotClassName = "gone"
		}},
		{v1alpha1.ReasonClassUnsuitable, func(a *archive) { a.facts.History.Class.Driver = "another" }},
		{v1alpha1.ReasonClassUnsuitable, func(a *archive) { a.facts.History.Class.Retains = true }},
		{v1alpha1.ReasonSnapshotsUnsupported, func(a *archive) { a.facts.History.Driver = "" }},
		{v1alpha1.ReasonSnapshotsUnsupported, func(a *archive) { a.facts.History.Claim = nil }},
		{v1alpha1.ReasonSnapshotsUnsupported, func(a *archive) { // another claim of that name
			a.facts.History.Claim = a.facts.History.Claim.DeepCopy()
			a.facts.History.Claim.CreationTimestamp = metav1.NewTime(now.Add(24 * time.Hour))
		}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			a := newArchive(t)
			class := *a.facts.History.Class
			c.change(a)
			a.until("the condition", a.kept(c.reason))
			begun := a.at
			a.listed(v1alpha1.SnapshotPending)
			for range 3 {
				a.run()
				run := a.transfer.Status.Run.ID
				a.until("the next run", func() bool { return a.transfer.Status.Run.ID != run })
				if waited := a.at.Sub(begun); waited > 11*time.Minute {
					t.Errorf("the next run waited for %s", waited)
				}
				a.until("settled", func() bool { begun = a.at; return a.transfer.Status.Phase == v1alpha1.TransferComplete })
			}
			if !a.kept(c.reason)() || a.made != 0 {
				t.Errorf("%d made, %+v", a.made, a.transfer.Status.Conditions)
			}
			// What lacked comes, and nothing else is needed.
			a.facts.History.Problem, a.facts.History.Class, a.facts.History.Driver = nil, &class, "csi.example"
			a.facts.History.Claim = &corev1.PersistentVolumeClaim{}
			a.facts.History.Class.Driver, a.facts.History.Class.Retains = "csi.example", false
			a.until("settled", a.settled)
			a.listed(v1alpha1.SnapshotReady)
		})
	}
}

func TestSnapshotThatIsNotTaken(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		driver       func(*plan.Snapshot)
	}{
		{"Silent", v1alpha1.ReasonSnapshotNotReady, nil},
		{"Fails", v1alpha1.ReasonSnapshotFailed, func(s *plan.Snapshot) { s.Failure = "out of space" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newArchive(t)
			a.driver = c.driver
			a.until("given up", func() bool { return a.made == 1 && len(a.facts.History.Snapshots) == 0 })
			a.until("settled", a.settled)
			a.listed()
			if !a.kept(c.reason)() {
				t.Errorf("%+v", a.transfer.Status.Conditions)
			}
			a.driver = ready
			a.run()
			a.until("ready", a.kept(v1alpha1.ReasonSnapshotReady))
		})
	}
}

func TestRefusedSnapshotsDoNotPile(t *testing.T) {
	a := newArchive(t)
	a.refused = true
	problem := agentpod.Problem{Reason: v1alpha1.ReasonSnapshotRejected, Message: "exceeded quota"}
	asked := 0
	a.until("given up", func() bool {
		if step := a.last.History; step != nil && step.Take != nil {
			a.transfer.Status = plan.RefuseHistory(a.transfer, problem, a.at)
			asked++
			a.at = a.at.Add(a.last.RequeueAfter)
		}
		return asked > 0 && a.settled()
	})
	a.listed()
	if !a.kept(v1alpha1.ReasonSnapshotRejected)() || asked > 100 {
		t.Errorf("asked %d times: %+v", asked, a.transfer.Status.Conditions)
	}
}

func TestSnapshotThatIsNeverReady(t *testing.T) {
	a := newArchive(t)
	a.driver = func(s *plan.Snapshot) { s.Created = now }
	a.until("taken", func() bool { return len(a.transfer.Status.Snapshots) == 1 && a.made == 1 && a.settledBut() })
	a.at = a.at.Add(11 * time.Minute)
	a.look()
	if !a.kept(v1alpha1.ReasonSnapshotNotReady)() {
		t.Errorf("%+v", a.transfer.Status.Conditions)
	}
	a.at = a.at.Add(24 * time.Hour)
	a.until("failed", a.settled)
	a.listed(v1alpha1.SnapshotFailed)
	// Others fail as well: there is one of them at any time.
	for range 3 {
		a.run()
		a.until("the run", func() bool { return !a.settled() })
		a.until("taken", a.settledBut)
		a.at = a.at.Add(25 * time.Hour)
		a.until("failed", a.settled)
		a.listed(v1alpha1.SnapshotFailed)
	}
	a.driver = ready
	a.run()
	a.until("the run", func() bool { return !a.settled() })
	a.until("ready", a.settled)
	a.listed(v1alpha1.SnapshotReady)
	if len(a.facts.History.Snapshots) != 1 {
		t.Errorf("left are %+v", a.facts.History.Snapshots)
	}
}

// settledBut: the run is complete and its snapshot taken.
func (a *archive) settledBut() bool {
	s := a.transfer.Status.Snapshots
	return a.transfer.Status.Phase == v1alpha1.TransferComplete && len(s) > 0 && s[0].State == v1alpha1.SnapshotTaken
}

func TestUnreadySnapshotsAreBounded(t *testing.T) {
	a := newArchive(t)
	a.driver = func(s *plan.Snapshot) { s.Created = now }
	a.until("taken", a.settledBut)
	full := false
	for range 8 {
		a.run()
		run := a.transfer.Status.Run.ID
		a.until("the next run", func() bool {
			full = full || a.kept(v1alpha1.ReasonTooManySnapshots)()
			return a.transfer.Status.Run.ID != run
		})
		a.until("complete", func() bool { return a.transfer.Status.Phase == v1alpha1.TransferComplete })
	}
	if len(a.facts.History.Snapshots) != 4 || !full {
		t.Errorf("%d, %+v", len(a.facts.History.Snapshots), a.transfer.Status.Conditions)
	}
}

func TestHistoryThatIsNotWantedAnyMore(t *testing.T) {
	a := newArchive(t)
	a.until("settled", a.settled)
	a.run()
	a.until("announced", func() bool { return len(a.transfer.Status.Snapshots) == 2 })
	a.transfer.Spec.Destination.Snapshot = nil
	a.until("settled", a.settled)
	// What is there stays.
	a.listed(v1alpha1.SnapshotReady)
	if len(a.facts.History.Snapshots) != 1 ||
		meta.FindStatusCondition(a.transfer.Status.Conditions, v1alpha1.ConditionHistoryKept) != nil {
		t.Errorf("%+v", a.transfer.Status)
	}
}

func TestSnapshotsThatSomebodyDeleted(t *testing.T) {
	a := newArchive(t)
	a.until("settled", a.settled)
	a.run()
	a.driver = nil
	a.until("taking", func() bool { return a.made == 2 })
	// Both go: that of the run is taken again, the other forgotten.
	a.facts.History.Snapshots = nil
	a.driver = ready
	a.until("settled", a.settled)
	a.listed(v1alpha1.SnapshotReady)
	if a.made != 3 {
		t.Errorf("%d made", a.made)
	}
}

// TestSnapshotsDeletedAtRest: it is noticed without a run, and nothing is written while nothing changes.
func TestSnapshotsDeletedAtRest(t *testing.T) {
	a := newArchive(t)
	a.until("settled", a.settled)
	a.run()
	a.until("the run", func() bool { return !a.settled() })
	a.until("settled", a.settled)
	newest := a.transfer.Status.Snapshots[0].Name
	before := a.transfer.Status.DeepCopy()
	a.at = a.at.Add(24 * time.Hour)
	if a.look(); !equality.Semantic.DeepEqual(before, &a.transfer.Status) || a.last.History != nil {
		t.Errorf("a look that finds all: %+v", a.transfer.Status)
	}
	if again := a.last.RequeueAfter; again < time.Hour || again > 2*time.Hour {
		t.Errorf("the next look is in %s", again)
	}
	for i := range a.facts.History.Snapshots {
		if s := &a.facts.History.Snapshots[i]; s.Name == newest {
			s.Deleting = true // its finalizers are still there
		}
	}
	if a.look(); !a.kept(v1alpha1.ReasonSnapshotLost)() {
		t.Errorf("%+v", a.transfer.Status.Conditions)
	}
	a.until("gone", a.settled)
	a.listed(v1alpha1.SnapshotReady)
	if !a.kept(v1alpha1.ReasonSnapshotLost)() || a.transfer.Status.Snapshots[0].Name == newest {
		t.Errorf("%+v", a.transfer.Status)
	}
	a.facts.History.Snapshots = nil // at once
	a.look()
	if a.listed(); a.last.RequeueAfter != 0 || a.made != 2 {
		t.Errorf("in %s, %d made", a.last.RequeueAfter, a.made)
	}
	a.run()
	a.until("ready", a.kept(v1alpha1.ReasonSnapshotReady))
}

func TestFullListTakesNoMore(t *testing.T) {
	a := newArchive(t)
	for range 128 {
		a.transfer.Status.Snapshots = append(a.transfer.Status.Snapshots, v1alpha1.SnapshotStatus{
			Name:  a.transfer.Name + strings.Repeat("x", len(a.transfer.Status.Snapshots)),
			State: v1alpha1.SnapshotRemoving, StartTime: &metav1.Time{Time: now},
		})
		a.facts.History.Snapshots = append(a.facts.History.Snapshots, plan.Snapshot{
			Name: a.transfer.Status.Snapshots[len(a.transfer.Status.Snapshots)-1].Name, Deleting: true,
		})
	}
	stuck := slices.Clone(a.facts.History.Snapshots)
	a.until("the condition", func() bool {
		a.facts.History.Snapshots = slices.Clone(stuck)
		return a.kept(v1alpha1.ReasonTooManySnapshots)()
	})
	if len(a.transfer.Status.Snapshots) != 128 || a.made != 0 {
		t.Errorf("%d listed, %d made", len(a.transfer.Status.Snapshots), a.made)
	}
}
