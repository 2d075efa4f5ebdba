// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfersetplan_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/transfersetplan"
)

// storage is a bed whose VolumeGroupSnapshots are made as decided.
type storage struct {
	*bed
	groups map[string]*plan.Snapshot
	class  *plan.SnapshotClass
	// problem is why nothing of groups can be seen.
	problem *agentpod.Problem
	last    *transfersetplan.Decision
}

func newStorage(t *testing.T, change ...func(*v1alpha1.TransferSetSpec)) *storage {
	group := func(s *v1alpha1.TransferSetSpec) {
		s.Group = &v1alpha1.TransferSetGroup{VolumeGroupSnapshotClassName: "fast"}
		s.Template.Source = &v1alpha1.TransferSetSource{
			SourceCopy: v1alpha1.SourceCopy{CopyMethod: v1alpha1.CopySnapshot},
		}
	}
	changes := append([]func(*v1alpha1.TransferSetSpec){group}, change...)
	s := &storage{
		bed:    newBed(t, newSet("move", time.Hour, changes...), "a", "b"),
		groups: map[string]*plan.Snapshot{}, class: &plan.SnapshotClass{Name: "fast", Driver: "csi.example"},
	}
	for i := range s.claims {
		s.claims[i].Status.Phase = corev1.ClaimBound
		s.claims[i].CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
	}
	return s
}

// step decides once and does it.
func (s *storage) step() []string {
	s.t.Helper()
	s.facts.Group = transfersetplan.GroupFacts{}
	d, done := s.decide()
	if d.Group.Look {
		s.facts.Group = transfersetplan.GroupFacts{Seen: true, Problem: s.problem}
		switch {
		case s.problem != nil:
		case d.Group.Begin:
			s.facts.Group.Class, s.facts.Group.Claims = s.class, s.claims
		default:
			s.facts.Group.Snapshot = s.groups[s.set.Status.Group.Name]
		}
		d, done = s.decide()
	}
	if d.Group.Look {
		s.t.Fatal("somebody looked, and is to look again")
	}
	if g := d.Status().Group; len(d.Create) > 0 && (g == nil || g.State != v1alpha1.GroupReady) {
		s.t.Fatalf("members are made of %+v", g)
	}
	if d.Group.Remove {
		for name := range s.groups {
			if !d.Group.Make || name != s.set.Status.Group.Name {
				delete(s.groups, name)
			}
		}
	}
	if d.Group.Make {
		name := s.set.Status.Group.Name
		s.groups[name] = &plan.Snapshot{Name: name}
	}
	if len(s.groups) > 1 {
		s.t.Fatalf("a pile: %d groups", len(s.groups))
	}
	for _, t := range d.Create {
		s.facts.Transfers = append(s.facts.Transfers, *t)
	}
	for _, u := range d.Update {
		*s.member(u.Before.Name) = *u.After
	}
	s.set.Status, s.last = d.Status(), d
	return done
}

func (s *storage) until(state v1alpha1.GroupSnapshotState) {
	s.t.Helper()
	for range 10 {
		if g := s.set.Status.Group; g != nil && g.State == state {
			return
		}
		s.step()
		s.facts.Now = s.facts.Now.Add(time.Second)
	}
	s.t.Fatalf("not %s: %+v, %+v", state, s.set.Status.Group, s.set.Status.Conditions)
}

// take has the driver take what there is.
func (s *storage) take() {
	s.t.Helper()
	s.until(v1alpha1.GroupSnapshotting)
	s.step()
	if len(s.groups) != 1 {
		s.t.Fatalf("%d groups", len(s.groups))
	}
	for _, g := range s.groups {
		g.Ready, g.Created = true, s.facts.Now
	}
	s.until(v1alpha1.GroupReady)
}

// begins has members begin the run that they were asked for.
func (s *storage) begins(names ...string) {
	s.t.Helper()
	for _, name := range names {
		m := s.member(name)
		if m.Spec.Source.VolumeGroupSnapshotName != s.set.Status.Group.Name {
			s.t.Fatalf("%s reads %q", name, m.Spec.Source.VolumeGroupSnapshotName)
		}
		at := metav1.NewTime(s.facts.Now)
		m.Status.Run = &v1alpha1.RunStatus{ID: "abcde", Attempt: 1, StartTime: &at}
		m.Status.LastRunRequest = m.Annotations[v1alpha1.RunAnnotation]
		m.Status.ObservedGeneration, m.Status.Phase = m.Generation, v1alpha1.TransferTransferring
		m.Status.Conditions = conditions.Reconciling(v1alpha1.ReasonTransferring, "")
	}
}

func (s *storage) ends(names ...string) {
	s.t.Helper()
	for _, name := range names {
		m := s.member(name)
		at := metav1.NewTime(s.facts.Now)
		m.Status.Run.CompletionTime, m.Status.Phase = &at, v1alpha1.TransferComplete
		m.Status.Conditions, m.Status.RecoveryPoint = conditions.Ready(v1alpha1.ReasonSucceeded, ""), &at
	}
}

// TestGroupIsReadByAllAndRemoved: no member exists before it is taken, all read one, and it goes when all have.
func TestGroupIsReadByAllAndRemoved(t *testing.T) {
	s := newStorage(t, func(s *v1alpha1.TransferSetSpec) { s.MaxConcurrent = 1 })
	s.take()
	s.step()
	s.begins("move-a")
	s.step()
	s.ends("move-a")
	s.step()
	s.begins("move-b")
	if s.step(); len(s.groups) != 1 {
		t.Error("removed while it is read")
	}
	s.ends("move-b")
	s.until(v1alpha1.GroupComplete)
	if len(s.groups) > 0 {
		t.Error("it stays")
	}
	s.expect(v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete)
	before := s.set.Status
	for range 5 {
		s.facts.Now = s.facts.Now.Add(time.Hour)
		if done := s.step(); len(done) > 0 || s.set.Status.Group.Name != before.Group.Name || s.last.RequeueAfter() != 0 {
			t.Fatalf("at rest it decides %q, %+v", done, s.set.Status.Group)
		}
	}
	s.set.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	s.take()
	if s.step(); s.set.Status.Group.Name == before.Group.Name {
		t.Error("no other group was made")
	}
	s.begins("move-a", "move-b")
	s.ends("move-a", "move-b")
	s.until(v1alpha1.GroupComplete)
	s.step()
	if s.set.Status.Group.State != v1alpha1.GroupComplete {
		t.Error("one request is acted upon twice")
	}
}

// TestGroupsByTheClock: the set keeps the schedule, and not its members. A time that comes while members run is missed,
// and one that stays stuck is given the next group.
func TestGroupsByTheClock(t *testing.T) {
	s := newStorage(t, func(s *v1alpha1.TransferSetSpec) {
		s.Template.Schedule = &v1alpha1.TransferSchedule{Cron: "0 * * * *"}
	})
	s.take()
	s.step()
	if schedule := s.member("move-a").Spec.Schedule; schedule != nil {
		t.Errorf("a member with a schedule: %+v", schedule)
	}
	first := s.set.Status.Group.Name
	s.begins("move-a", "move-b")
	s.facts.Now = now.Add(time.Hour + time.Minute)
	if s.step(); s.set.Status.Group.Name != first || s.set.Status.Schedule.MissedRuns != 1 {
		t.Errorf("while members run: %+v, %+v", s.set.Status.Group, s.set.Status.Schedule)
	}
	s.ends("move-a")
	m := s.member("move-b")
	m.Status.Phase = v1alpha1.TransferRetrying
	m.Status.Conditions = conditions.Stalled(v1alpha1.ReasonNotGranted, "no grant")
	if s.step(); len(s.groups) != 1 || s.set.Status.Group.State != v1alpha1.GroupReady {
		t.Error("removed although a member still needs it")
	}
	s.facts.Now = now.Add(2*time.Hour + time.Minute)
	s.take()
	if s.step(); s.set.Status.Group.Name == first || s.set.Status.Schedule.MissedRuns != 1 {
		t.Errorf("%+v, %+v", s.set.Status.Group, s.set.Status.Schedule)
	}
	s.begins("move-a", "move-b")
}

// TestGroupIsNotPossible: nothing is made while a group would be of other claims than the members', and then it is.
func TestGroupIsNotPossible(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*storage)
		reason string
		says   string
	}{
		"not installed": {func(s *storage) {
			s.problem = &agentpod.Problem{Reason: v1alpha1.ReasonGroupSnapshotsNotInstalled, Message: "install"}
		}, v1alpha1.ReasonGroupSnapshotsNotInstalled, "install"},
		"no class": {func(s *storage) { s.class = nil }, v1alpha1.ReasonGroupSnapshotClassNotFound, `"fast"`},
		"a class that retains": {
			func(s *storage) { s.class.Retains = true }, v1alpha1.ReasonClassUnsuitable, "deletionPolicy",
		},
		"not bound": {func(s *storage) { s.claims[1].Status.Phase = "" }, v1alpha1.ReasonGroupNotPossible, `"b"`},
		"a copy": {func(s *storage) {
			s.claims[1].Labels[v1alpha1.RunLabel] = "abcde"
		}, v1alpha1.ReasonGroupNotPossible, `"b"`},
		"deleted": {func(s *storage) {
			s.claims[1].DeletionTimestamp = &metav1.Time{Time: now}
		}, v1alpha1.ReasonGroupNotPossible, `"b"`},
		"trigger": {func(s *storage) {
			s.claims[0].Annotations = map[string]string{v1alpha1.UseCopyTriggerAnnotation: ""}
		}, v1alpha1.ReasonGroupNotPossible, `"a"`},
		"the name is taken": {func(s *storage) {
			s.facts.Taken = map[string]bool{"move-b": true}
		}, v1alpha1.ReasonGroupNotPossible, `"b"`},
		"matchExpressions": {func(s *storage) {
			s.set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{
				{Key: "name", Operator: metav1.LabelSelectorOpExists},
			}
		}, v1alpha1.ReasonGroupNotPossible, "matchLabels"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStorage(t)
			test.change(s)
			for range 3 {
				s.step()
			}
			s.expect(v1alpha1.ConditionStalled, test.reason)
			stalled := s.set.Status.Conditions
			found := false
			for _, c := range stalled {
				found = found || c.Type == v1alpha1.ConditionStalled && strings.Contains(c.Message, test.says)
			}
			if !found || len(s.groups)+len(s.facts.Transfers) > 0 || s.set.Status.Group != nil || s.last.RequeueAfter() == 0 {
				t.Errorf("%+v, %d groups, %+v, again in %s", stalled, len(s.groups), s.set.Status.Group, s.last.RequeueAfter())
			}
		})
	}
}

// TestGroupThatFails: its driver's words are shown, it is removed at the deadline, and another one follows a wait that
// grows.
func TestGroupThatFails(t *testing.T) {
	s := newStorage(t)
	s.until(v1alpha1.GroupSnapshotting)
	s.step()
	first := s.set.Status.Group.Name
	s.groups[first].Failure = "out of space"
	s.step()
	s.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonSnapshotFailed)
	if s.set.Status.Group.State != v1alpha1.GroupSnapshotting || len(s.groups) != 1 {
		t.Errorf("given up at once: %+v", s.set.Status.Group)
	}
	s.facts.Now = s.facts.Now.Add(10 * time.Minute)
	s.step()
	g := s.set.Status.Group
	if g.State != v1alpha1.GroupFailed || len(s.groups) > 0 || g.RetryTime == nil || g.Failures != 1 {
		t.Fatalf("%+v, %d groups", g, len(s.groups))
	}
	s.step()
	s.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonSnapshotFailed)
	if len(s.facts.Transfers) > 0 {
		t.Error("members without a group")
	}
	s.facts.Now = g.RetryTime.Time
	s.until(v1alpha1.GroupSnapshotting)
	if s.set.Status.Group.Name == first || s.set.Status.Group.Failures != 1 {
		t.Errorf("%+v", s.set.Status.Group)
	}
	s.last.RefuseGroup(agentpod.Problem{Reason: v1alpha1.ReasonStagingRejected, Message: "quota"})
	s.set.Status = s.last.Status()
	s.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonStagingRejected)
	if again := s.set.Status.Group; again.Failures != 2 || again.State != v1alpha1.GroupFailed {
		t.Errorf("%+v", again)
	}
}

// TestFailedGroupIsLookedAfter: when its time has come and something else is in the way, the set is looked at again by
// the clock, as nothing tells of classes.
func TestFailedGroupIsLookedAfter(t *testing.T) {
	s := newStorage(t)
	s.until(v1alpha1.GroupSnapshotting)
	s.facts.Now = s.facts.Now.Add(10 * time.Minute)
	s.until(v1alpha1.GroupFailed)
	s.class = nil
	for _, retry := range []*metav1.Time{s.set.Status.Group.RetryTime, nil} {
		s.set.Status.Group.RetryTime = retry
		s.facts.Now = s.facts.Now.Add(time.Hour)
		s.step()
		s.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonGroupSnapshotClassNotFound)
		if after := s.last.RequeueAfter(); after <= 0 {
			t.Errorf("RetryTime %v: looked at again in %s", retry, after)
		}
	}
}

// TestClaimIsLabelledLater: the member of a claim that existed already finds nothing of it in the group, and does not
// keep the group.
func TestClaimIsLabelledLater(t *testing.T) {
	s := newStorage(t)
	s.take()
	late := claims("c")[0]
	late.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
	late.Status.Phase = corev1.ClaimBound
	s.claims = append(s.claims, late)
	s.step()
	s.begins("move-a", "move-b")
	s.ends("move-a", "move-b")
	s.step()
	s.begins("move-c")
	m := s.member("move-c")
	m.Status.Phase = v1alpha1.TransferRetrying
	m.Status.Conditions = conditions.Stalled(v1alpha1.ReasonGroupSnapshotNotFound, "no VolumeSnapshot")
	s.until(v1alpha1.GroupComplete)
	if len(s.groups) > 0 {
		t.Error("it stays")
	}
}

// TestGroupThatNobodyCanRead: nobody has read a group that is lost.
func TestGroupThatNobodyCanRead(t *testing.T) {
	s := newStorage(t)
	s.take()
	s.step()
	s.begins("move-a", "move-b")
	for _, name := range []string{"move-a", "move-b"} {
		m := s.member(name)
		m.Status.Phase = v1alpha1.TransferRetrying
		m.Status.Conditions = conditions.Stalled(v1alpha1.ReasonGroupSnapshotNotFound, "no VolumeSnapshot")
	}
	if s.step(); s.set.Status.Group.State != v1alpha1.GroupReady {
		t.Errorf("%+v", s.set.Status.Group)
	}
}

// TestGroupUnderAnotherClock: the API server, which says when claims were created, may be ahead of the manager.
func TestGroupUnderAnotherClock(t *testing.T) {
	s := newStorage(t)
	for i := range s.claims {
		s.claims[i].CreationTimestamp = metav1.NewTime(now.Add(time.Minute))
	}
	s.take()
	s.step()
	s.begins("move-a", "move-b")
	if s.step(); s.set.Status.Group.State != v1alpha1.GroupReady {
		t.Fatalf("nobody has read it: %+v", s.set.Status.Group)
	}
	s.ends("move-a", "move-b")
	s.until(v1alpha1.GroupComplete)
}

// TestGroupIsNotThrownAway: what comes after a group is ready and before the runs of its members begin waits.
func TestGroupIsNotThrownAway(t *testing.T) {
	s := newStorage(t, func(s *v1alpha1.TransferSetSpec) {
		s.Template.Schedule = &v1alpha1.TransferSchedule{Cron: "0 * * * *"}
	})
	s.take()
	first := s.set.Status.Group.Name
	s.set.Annotations = map[string]string{v1alpha1.RunAnnotation: "now"}
	s.facts.Now = now.Add(time.Hour + time.Minute)
	if s.step(); s.set.Status.Group.Name != first || s.set.Status.Schedule.MissedRuns != 1 {
		t.Fatalf("%+v, %+v", s.set.Status.Group, s.set.Status.Schedule)
	}
	for _, name := range []string{"move-a", "move-b"} {
		s.member(name).Status.Phase = v1alpha1.TransferQueued
	}
	if s.until(v1alpha1.GroupSnapshotting); s.set.Status.Group.Name == first {
		t.Error("members that a quota keeps waiting keep the next group from being taken")
	}
}

// TestReadGroupIsRemoved: what keeps the next group from being begun keeps no group that all have read. The time is
// still to be acted upon.
func TestReadGroupIsRemoved(t *testing.T) {
	s := newStorage(t, func(s *v1alpha1.TransferSetSpec) {
		s.Template.Schedule = &v1alpha1.TransferSchedule{Cron: "0 * * * *"}
	})
	s.take()
	s.step()
	s.begins("move-a", "move-b")
	s.ends("move-a", "move-b")
	s.facts.Now = now.Add(time.Hour + time.Minute)
	s.class = nil
	s.step()
	s.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonGroupSnapshotClassNotFound)
	if len(s.groups) > 0 || s.set.Status.Group.State != v1alpha1.GroupComplete {
		t.Errorf("%d groups, %+v", len(s.groups), s.set.Status.Group)
	}
	s.class = &plan.SnapshotClass{Name: "fast", Driver: "csi.example"}
	s.until(v1alpha1.GroupSnapshotting)
}

// TestGroupIsGivenUp: members go on by themselves, by their schedule, and what there is is removed.
func TestGroupIsGivenUp(t *testing.T) {
	s := newStorage(t, func(s *v1alpha1.TransferSetSpec) {
		s.Template.Schedule = &v1alpha1.TransferSchedule{Cron: "0 * * * *"}
	})
	s.take()
	s.step()
	s.set.Spec.Group = nil
	if s.step(); len(s.groups) > 0 || s.set.Status.Group != nil || s.set.Status.Schedule != nil {
		t.Errorf("%d groups, %+v", len(s.groups), s.set.Status)
	}
	if m := s.member("move-a").Spec; m.Source.VolumeGroupSnapshotName != "" || m.Schedule == nil || m.Schedule.Cron == "" {
		t.Errorf("%+v", m)
	}
	if done := s.step(); len(done) > 0 || s.last.Group != (transfersetplan.GroupStep{}) {
		t.Errorf("%q, %+v", done, s.last.Group)
	}
}
