// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfersetplan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
)

const (
	// GroupComponent is the value of agentpod.ComponentLabel of VolumeGroupSnapshots.
	GroupComponent = "group"
	// groupDeadline is how long a driver may take where the template has no stagingDeadline.
	groupDeadline = 10 * time.Minute
	// groupFirst and groupLast bound the waits between two looks: nothing tells of a VolumeGroupSnapshot.
	groupFirst = time.Second
	groupLast  = 15 * time.Second
)

// GroupFacts are what was seen of VolumeGroupSnapshots.
type GroupFacts struct {
	// Seen is false when nobody looked: see GroupStep.
	Seen bool
	// Problem is what keeps the manager from looking; nil if nothing does.
	Problem *agentpod.Problem
	// Snapshot is the one that status names; nil when it does not exist.
	Snapshot *plan.Snapshot
	// Class of the next one; nil when it does not exist. Claims are those that its selector finds. Both are looked at
	// before one is begun.
	Class  *plan.SnapshotClass
	Claims []corev1.PersistentVolumeClaim
}

// GroupStep is what is to be done for the VolumeGroupSnapshot of a set.
type GroupStep struct {
	// Look: nothing else counts of the group until it is decided again with GroupFacts. Begin: one is to be begun.
	Look, Begin bool
	// Make has the one made that status names. With Remove all others are removed, or, without Make, all.
	Make, Remove bool
}

// decideGroup goes on with the VolumeGroupSnapshot that members read.
func (d *Decision) decideGroup(facts GroupFacts) {
	kept := d.set.Status.Group
	if d.set.Spec.Group == nil {
		d.Group.Remove = kept != nil
		return
	}
	d.group = kept.DeepCopy()
	if kept != nil && kept.State == v1alpha1.GroupReady && d.wasRead() {
		d.group.State, d.Group.Remove = v1alpha1.GroupComplete, true // whatever keeps the next one from being begun
	}
	runs := d.reads()
	busy := runs || kept != nil && kept.State == v1alpha1.GroupSnapshotting
	table := plan.Keep(
		d.set.Spec.Template.Schedule, d.set.UID, d.set.Status.Schedule, d.set.Spec.Suspend, busy, d.now)
	d.schedule = table.Status
	switch {
	case table.Problem != nil:
		d.grouping = &problem{table.Problem.Reason, table.Problem.Message}
	case kept != nil && kept.State == v1alpha1.GroupSnapshotting:
		d.takeGroup(facts)
	case !runs && d.wantsGroup(table.Due):
		if d.beginGroup(facts); d.Group.Look || d.grouping != nil {
			d.schedule = d.set.Status.Schedule // the time is still to be acted upon
		}
	case kept != nil && kept.State == v1alpha1.GroupFailed:
		if c := meta.FindStatusCondition(d.set.Status.Conditions, v1alpha1.ConditionStalled); c != nil &&
			c.Status == metav1.ConditionTrue {
			d.grouping = &problem{c.Reason, c.Message}
		}
	}
}

// reads reports whether runs of members are under way, or about to begin with the VolumeGroupSnapshot that is Ready.
func (d *Decision) reads() bool {
	for i := range d.states {
		if s := &d.states[i]; s.phase == running || d.begins(s) {
			return true
		}
	}
	return false
}

// begins reports whether a member has been given the VolumeGroupSnapshot and waits for nothing but its manager.
func (d *Decision) begins(s *state) bool {
	if d.group == nil || d.group.State != v1alpha1.GroupReady || !d.given(s) ||
		s.transfer.Annotations[v1alpha1.RunAnnotation] == s.transfer.Status.LastRunRequest {
		return false
	}
	switch s.transfer.Status.Phase {
	case "", v1alpha1.TransferPending, v1alpha1.TransferComplete:
		return s.phase == waiting || s.phase == complete
	}
	return false
}

// given reports whether a member names the VolumeGroupSnapshot.
func (d *Decision) given(s *state) bool {
	return s.transfer != nil && s.transfer.DeletionTimestamp == nil &&
		s.transfer.Spec.Source.VolumeGroupSnapshotName == d.group.Name
}

// wantsGroup reports whether another VolumeGroupSnapshot is wanted. due: a time of the schedule has come.
func (d *Decision) wantsGroup(due bool) bool {
	g := d.group
	switch {
	case d.set.Spec.Suspend || len(d.states) == 0:
		return false
	case g == nil, due:
		return true
	case g.State == v1alpha1.GroupFailed && d.untilRetry() == 0:
		return true
	}
	asked := d.set.Annotations[v1alpha1.RunAnnotation]
	return asked != "" && asked != g.LastRunRequest
}

// beginGroup names a VolumeGroupSnapshot in status. It is written before anything is made.
func (d *Decision) beginGroup(facts GroupFacts) {
	if !facts.Seen {
		d.Group.Look, d.Group.Begin = true, true
		return
	}
	if p := d.checkGroup(facts); p != nil {
		d.grouping = &problem{p.Reason, p.Message}
		return
	}
	// Which claims are in it is told by when they were created, which the clock of the API server says.
	start := metav1.NewTime(d.now)
	for i := range facts.Claims {
		if created := facts.Claims[i].CreationTimestamp; start.Before(&created) {
			start = created
		}
	}
	failures := int32(0)
	if d.group != nil && d.group.State == v1alpha1.GroupFailed {
		failures = d.group.Failures
	}
	d.Group.Begin = true
	d.group = &v1alpha1.TransferSetGroupStatus{
		Name:  "lighterage-" + digest(fmt.Appendf(nil, "%s/%d", d.set.UID, d.now.UnixNano())),
		State: v1alpha1.GroupSnapshotting, StartTime: start, Failures: failures,
		LastRunRequest: d.set.Annotations[v1alpha1.RunAnnotation],
	}
}

// checkGroup looks for what would keep a VolumeGroupSnapshot from being of the members' claims, all and nothing else.
func (d *Decision) checkGroup(facts GroupFacts) *agentpod.Problem {
	class := d.set.Spec.Group.VolumeGroupSnapshotClassName
	switch {
	case facts.Problem != nil:
		return facts.Problem
	case facts.Class == nil:
		return &agentpod.Problem{Reason: v1alpha1.ReasonGroupSnapshotClassNotFound, Message: fmt.Sprintf(
			"there is no VolumeGroupSnapshotClass %q; create it, or correct spec.group.volumeGroupSnapshotClassName", class)}
	case facts.Class.Retains:
		return &agentpod.Problem{Reason: v1alpha1.ReasonClassUnsuitable, Message: fmt.Sprintf(
			"VolumeGroupSnapshotClass %q keeps snapshots that are deleted (deletionPolicy), so each one would stay; set "+
				"spec.group.volumeGroupSnapshotClassName to a class with deletionPolicy: Delete", class)}
	}
	notPossible := func(format string, args ...any) *agentpod.Problem {
		return &agentpod.Problem{Reason: v1alpha1.ReasonGroupNotPossible, Message: fmt.Sprintf(format, args...)}
	}
	if len(d.set.Spec.Selector.MatchExpressions) > 0 {
		return notPossible("claims of a VolumeGroupSnapshot are found by matchLabels only; give the claims a label and " +
			"remove spec.selector.matchExpressions")
	}
	members := make(map[string]bool, len(d.states))
	for i := range d.states {
		if d.states[i].phase != barred {
			members[d.states[i].Claim] = true
		}
	}
	for i := range facts.Claims {
		c := &facts.Claims[i]
		_, triggered := c.Annotations[v1alpha1.UseCopyTriggerAnnotation]
		switch {
		case !members[c.Name]:
			return notPossible("spec.selector finds claim %q, which has no member, so that it would be in the "+
				"VolumeGroupSnapshot; give the claims that are to be moved a label of their own, and select that", c.Name)
		case c.Status.Phase != corev1.ClaimBound:
			return notPossible("claim %q has no volume yet, so that no VolumeGroupSnapshot can be taken; start the pod that "+
				"uses it, or have spec.selector leave it out", c.Name)
		case triggered:
			return notPossible("claim %q has the annotation %s, and a VolumeGroupSnapshot waits for no trigger; remove the "+
				"annotation, or spec.group", c.Name, v1alpha1.UseCopyTriggerAnnotation)
		}
		delete(members, c.Name)
	}
	if len(members) > 0 {
		// The cache is behind, and will wake the set.
		return notPossible("%d claims that were selected do not exist any more, or have lost the label", len(members))
	}
	return nil
}

// takeGroup follows the VolumeGroupSnapshot that status names until members can read it.
func (d *Decision) takeGroup(facts GroupFacts) {
	if !facts.Seen {
		d.Group.Look = true
		return
	}
	s, allowed := facts.Snapshot, groupDeadline
	if source := d.set.Spec.Template.Source; source != nil && source.StagingDeadline != nil {
		allowed = source.StagingDeadline.Duration
	}
	failed := func(reason, format string, args ...any) {
		d.failGroup(agentpod.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	switch late := d.now.Sub(d.group.StartTime.Time) >= allowed; {
	case facts.Problem != nil:
		d.failGroup(*facts.Problem)
	case s != nil && s.Deleting:
		failed(v1alpha1.ReasonSnapshotFailed, "VolumeGroupSnapshot %q was deleted before members could read it; another one "+
			"is made later", s.Name)
	case s != nil && s.Ready && !s.Created.IsZero():
		taken := metav1.NewTime(s.Created)
		if taken.Before(&d.group.StartTime) || taken.After(d.now) {
			taken = d.group.StartTime // whatever the driver's clock says
		}
		d.group.State, d.group.PointInTime, d.group.Failures = v1alpha1.GroupReady, &taken, 0
	case late && s != nil && s.Failure != "":
		failed(v1alpha1.ReasonSnapshotFailed, "the driver could not take VolumeGroupSnapshot %q within %s and it was "+
			"removed: free space in its pool if that is full, and see that all claims are of the class's driver: %s", s.Name,
			allowed, conditions.Shorten(s.Failure))
	case late && s == nil:
		failed(v1alpha1.ReasonStagingTimedOut, "VolumeGroupSnapshot %q could not be made within %s "+
			"(spec.template.source.stagingDeadline), for example because an older one of the set is still being deleted; look "+
			"at what keeps it: kubectl -n %s get volumegroupsnapshots", d.group.Name, allowed, d.set.Namespace)
	case late:
		failed(v1alpha1.ReasonStagingTimedOut, "VolumeGroupSnapshot %q was not ready within %s "+
			"(spec.template.source.stagingDeadline) and was removed; look at its events, at the log of the CSI driver, and "+
			"whether the driver can take group snapshots", d.group.Name, allowed)
	case s == nil:
		d.Group.Make, d.Group.Remove = true, true
	case s.Failure != "":
		d.grouping = &problem{v1alpha1.ReasonSnapshotFailed, fmt.Sprintf(
			"the driver cannot take VolumeGroupSnapshot %q, and tries again for %s; free space in its pool if that is full, "+
				"and see that all claims are of the class's driver: %s", s.Name, allowed, conditions.Shorten(s.Failure))}
	}
}

// failGroup gives a VolumeGroupSnapshot up. Another one is made after a wait that grows.
func (d *Decision) failGroup(p agentpod.Problem) {
	d.grouping = &problem{p.Reason, p.Message}
	d.group.State = v1alpha1.GroupFailed
	d.group.Failures++
	again := metav1.NewTime(d.now.Add(attempt.StallDelay(d.group.Failures)))
	d.group.RetryTime = &again
	d.Group = GroupStep{Remove: true}
}

// RefuseGroup notes that the API server does not accept the VolumeGroupSnapshot.
func (d *Decision) RefuseGroup(p agentpod.Problem) { d.failGroup(p) }

// wasRead reports whether all members have run since the VolumeGroupSnapshot was taken, at least one. Those whose
// claims are not in it do not count.
func (d *Decision) wasRead() bool {
	read := len(d.states) == 0
	for i := range d.states {
		s := &d.states[i]
		switch {
		case s.phase == barred || !d.joined(s) || d.lacks(s):
		case !d.given(s) || s.transfer.Status.ObservedGeneration != s.transfer.Generation ||
			s.transfer.Annotations[v1alpha1.RunAnnotation] != s.transfer.Status.LastRunRequest ||
			s.transfer.Status.Run == nil || s.transfer.Status.Run.CompletionTime == nil:
			return false
		default:
			read = true
		}
	}
	return read
}

// lacks reports whether a member has found that the VolumeGroupSnapshot has nothing of its claim, which was there and
// got the label later.
func (d *Decision) lacks(s *state) bool {
	return d.given(s) && s.phase == failed && s.problem.reason == v1alpha1.ReasonGroupSnapshotNotFound
}

// joined reports whether the claim of a member was there when the VolumeGroupSnapshot was begun.
func (d *Decision) joined(s *state) bool { return !d.group.StartTime.Before(&s.Created) }

// groupOf is the VolumeGroupSnapshot that a member is to name. joins is false while there can be no member yet.
func (d *Decision) groupOf(s *state) (name string, joins bool) {
	switch {
	case d.set.Spec.Group == nil:
		return "", true
	case d.group != nil && d.group.State == v1alpha1.GroupReady && d.joined(s):
		return d.group.Name, true
	case s.transfer != nil:
		return s.transfer.Spec.Source.VolumeGroupSnapshotName, true
	}
	return "", false
}

// untilRetry is how long one that failed still keeps the next from being begun.
func (d *Decision) untilRetry() time.Duration {
	if d.group.RetryTime == nil {
		return 0
	}
	return max(attempt.UntilNext(d.group.RetryTime, d.now), 0)
}

// untilGroup is when to look at the group again; 0: not by the clock.
func (d *Decision) untilGroup() time.Duration {
	after := plan.UntilNext(d.schedule, d.now)
	switch g := d.group; {
	case g == nil:
	case d.Group.Begin:
		return time.Millisecond
	case g.State == v1alpha1.GroupSnapshotting:
		return attempt.Sooner(after, min(max(d.now.Sub(g.StartTime.Time)/8, groupFirst), groupLast))
	case g.State == v1alpha1.GroupFailed:
		// One whose time has come waits for something else, which wakes the set.
		after = attempt.Sooner(after, d.untilRetry())
	}
	if d.grouping != nil {
		after = attempt.Sooner(after, attempt.StallLast)
	}
	return after
}
