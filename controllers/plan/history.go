// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
)

const (
	// HistoryComponent is the value of agentpod.ComponentLabel of the snapshots of destinations.
	HistoryComponent = "history"
	// takeDeadline is how long the next run waits for a snapshot to be taken, and readyDeadline how long one may take
	// until it can be restored. The API tells both.
	takeDeadline  = 10 * time.Minute
	readyDeadline = 24 * time.Hour
	// takeGrace is how much longer others wait, so that the Transfer itself gives up first if it can.
	takeGrace = time.Minute
	// maxUnready bounds the snapshots of a Transfer that were taken and are not ready.
	maxUnready = 4
	// maxSnapshots is what the API allows in status.
	maxSnapshots = 128
	// historyLast bounds the waits between two looks at a snapshot that was taken and is not ready.
	historyLast = 5 * time.Minute
	// HistoryRest is the least time between two looks at snapshots of which nothing is to be done, in case somebody else
	// deletes one. Up to half as much is added.
	HistoryRest = time.Hour
)

// HistoryFacts are what was seen of the snapshots of a destination and of what they need.
type HistoryFacts struct {
	// Seen is false when nobody looked: see NeedsHistory.
	Seen bool
	// Problem is what keeps the manager from looking; nil if nothing does.
	Problem *agentpod.Problem
	// Claim is the destination; nil when it does not exist. It and what follows are looked at where TakesSnapshot.
	Claim *corev1.PersistentVolumeClaim
	// Driver of its volume; empty if it is of no CSI driver, or there is none yet.
	Driver string
	// Class that applies; nil when it does not exist.
	Class *SnapshotClass
	// Snapshots are those that the Transfer has taken of its destination, by their labels. They are looked at always.
	Snapshots []Snapshot
}

func (f *HistoryFacts) snapshot(name string) *Snapshot {
	if i := slices.IndexFunc(f.Snapshots, func(s Snapshot) bool { return s.Name == name }); i >= 0 {
		return &f.Snapshots[i]
	}
	return nil
}

// HistoryStep is what is to be done about the snapshots of a destination.
type HistoryStep struct {
	// Take is the snapshot to be made, by the class; nil: none.
	Take  *v1alpha1.SnapshotStatus
	Class string
	// Remove are names of snapshots to be deleted.
	Remove []string
}

// HistoryLabels are those of the snapshot of a Transfer's destination after a run.
func HistoryLabels(transfer *v1alpha1.Transfer, run string) map[string]string {
	return attempt.Labels(HistoryComponent, v1alpha1.TransferLabel, transfer, run)
}

// NeedsHistory reports whether a decision about a Transfer needs HistoryFacts: while a snapshot is under way, or one is
// to be removed.
func NeedsHistory(transfer *v1alpha1.Transfer) bool {
	return slices.ContainsFunc(transfer.Status.Snapshots, func(s v1alpha1.SnapshotStatus) bool {
		return s.State != v1alpha1.SnapshotReady && s.State != v1alpha1.SnapshotFailed
	}) || len(expired(transfer)) > 0
}

// WatchesHistory reports whether snapshots of a destination are looked at although nothing is to be done about them: no
// event tells that somebody else deletes one. While data are moved that can wait.
func WatchesHistory(transfer *v1alpha1.Transfer) bool {
	return len(transfer.Status.Snapshots) > 0 && !UnderWay(transfer)
}

// TakesSnapshot reports whether the snapshot of a run is not taken yet.
func TakesSnapshot(transfer *v1alpha1.Transfer) bool { return taking(transfer) }

func expired(transfer *v1alpha1.Transfer) []string {
	if transfer.Spec.Destination.Snapshot == nil {
		return nil
	}
	return Expired(transfer.Spec.Destination.Snapshot.Retention, transfer.Status.Snapshots)
}

// announceSnapshot notes, with the status that says that a run is Complete, that its snapshot is to be taken. So it is
// never forgotten, and never taken twice.
func (d *transferDecision) announceSnapshot() {
	status := &d.transfer.Status
	if d.transfer.Spec.Destination.Snapshot == nil {
		return
	}
	if len(status.Snapshots) >= maxSnapshots {
		d.noHistory(v1alpha1.ReasonTooManySnapshots, fmt.Sprintf(
			"there is no snapshot of run %s: %d are listed already, and those that are not needed cannot be removed; see what "+
				"keeps them: kubectl -n %s describe volumesnapshots", status.Run.ID, maxSnapshots, d.transfer.Namespace))
		return
	}
	status.Snapshots = slices.Insert(status.Snapshots, 0, v1alpha1.SnapshotStatus{
		Name: attempt.StagedName(status.Run.ID+"-history", d.transfer), RunID: status.Run.ID,
		Time: *status.Run.CompletionTime, RecoveryPoint: status.RecoveryPoint.DeepCopy(), State: v1alpha1.SnapshotPending,
	})
	d.out.RequeueAfter = time.Millisecond
	d.facts.History.Seen = false // the claim was not looked at
}

// taking reports whether the snapshot of a run is not taken yet, so that nothing may write to the destination.
func taking(transfer *v1alpha1.Transfer) bool {
	return slices.ContainsFunc(transfer.Status.Snapshots, untaken)
}

// mayTake reports whether the snapshot of a run is still to be taken. Nobody takes one for a Transfer that is being
// deleted, whose status may stay as it is for as long as a finalizer of somebody else does.
func mayTake(transfer *v1alpha1.Transfer) bool {
	return transfer.DeletionTimestamp == nil && taking(transfer)
}

// awaited reports whether others wait for the snapshot of a run. That has an end even if the manager cannot look after
// the Transfer, and so cannot give up for it.
func awaited(transfer *v1alpha1.Transfer, now time.Time) bool {
	return mayTake(transfer) && slices.ContainsFunc(transfer.Status.Snapshots, func(s v1alpha1.SnapshotStatus) bool {
		since := s.Time
		if s.StartTime != nil {
			since = *s.StartTime
		}
		return untaken(s) && now.Before(since.Add(takeDeadline+takeGrace))
	})
}

func untaken(s v1alpha1.SnapshotStatus) bool {
	return s.State == v1alpha1.SnapshotPending || s.State == v1alpha1.SnapshotTaking
}

// awaitSnapshot keeps a run from beginning whose destination is to be snapshotted first.
func (d *transferDecision) awaitSnapshot() {
	d.set(v1alpha1.TransferPending, conditions.Reconciling(v1alpha1.ReasonTakingSnapshot, fmt.Sprintf(
		"the VolumeSnapshot of the destination after the last run is to be taken first, which is awaited for %s at most",
		takeDeadline)))
}

// observeHistory shows how far snapshots of the destination are.
func (d *transferDecision) observeHistory() {
	status, facts := &d.transfer.Status, &d.facts.History
	if !facts.Seen || facts.Problem != nil {
		return
	}
	status.Snapshots = slices.DeleteFunc(slices.Clone(status.Snapshots), func(s v1alpha1.SnapshotStatus) bool {
		if untaken(s) || facts.snapshot(s.Name) != nil {
			return false
		}
		if s.Name == status.Snapshots[0].Name {
			d.lost(s)
		}
		return true
	})
	for i := range status.Snapshots {
		s := &status.Snapshots[i]
		if seen := facts.snapshot(s.Name); seen != nil {
			if i == 0 && seen.Deleting && !untaken(*s) {
				d.lost(*s)
			}
			d.observeSnapshot(s, seen, slices.ContainsFunc(status.Snapshots[:i], decided))
		}
	}
}

// lost says of the newest snapshot that it is gone or going, if nothing here deletes it.
func (d *transferDecision) lost(s v1alpha1.SnapshotStatus) {
	if s.State != v1alpha1.SnapshotRemoving {
		d.noHistory(v1alpha1.ReasonSnapshotLost, fmt.Sprintf(
			"VolumeSnapshot %q of run %s was deleted by somebody else; the next run makes another", s.Name, s.RunID))
	}
}

// decided: it is known whether there is a snapshot of that run.
func decided(s v1alpha1.SnapshotStatus) bool {
	return s.State == v1alpha1.SnapshotReady || s.State == v1alpha1.SnapshotFailed
}

// observeSnapshot shows how far one is; surpassed: a newer one is decided.
func (d *transferDecision) observeSnapshot(s *v1alpha1.SnapshotStatus, seen *Snapshot, surpassed bool) {
	if seen.RestoreSize != nil {
		s.Size = seen.RestoreSize
	}
	switch {
	case seen.Deleting:
		if !untaken(*s) {
			s.State = v1alpha1.SnapshotRemoving
		}
	case s.State == v1alpha1.SnapshotTaking && (seen.Ready || !seen.Created.IsZero()):
		s.State = v1alpha1.SnapshotTaken
	case s.State == v1alpha1.SnapshotTaking && seen.Failure != "":
		d.noHistory(v1alpha1.ReasonSnapshotFailed, fmt.Sprintf(
			"the driver cannot take VolumeSnapshot %q of run %s, and tries again until %s; free space in its pool if that is "+
				"full: %s", s.Name, s.RunID, text(s.StartTime.Add(takeDeadline)), conditions.Shorten(seen.Failure)))
	}
	if s.State == v1alpha1.SnapshotTaken && seen.Ready {
		s.State = v1alpha1.SnapshotReady
		if surpassed {
			return
		}
		d.history(conditions.New(v1alpha1.ConditionHistoryKept, true, v1alpha1.ReasonSnapshotReady, fmt.Sprintf(
			"VolumeSnapshot %q of run %s can be restored", s.Name, s.RunID)))
	}
}

// keepHistory brings snapshots of the destination on their way, and has those removed that the retention does not keep.
func (d *transferDecision) keepHistory() {
	status, facts := &d.transfer.Status, &d.facts.History
	if d.transfer.Spec.Destination.Snapshot == nil {
		defer func() { meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionHistoryKept) }()
	}
	if !NeedsHistory(d.transfer) {
		if WatchesHistory(d.transfer) {
			d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, attempt.Spread(HistoryRest, d.transfer.UID, 0))
		}
		return
	}
	if !facts.Seen {
		d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, time.Millisecond)
		return
	}
	waits := taking(d.transfer)
	d.out.History = &HistoryStep{}
	for i := range status.Snapshots {
		d.advanceSnapshot(&status.Snapshots[i], i == 0)
	}
	status.Snapshots = slices.DeleteFunc(status.Snapshots, func(s v1alpha1.SnapshotStatus) bool { return s.State == "" })
	removing := expired(d.transfer)
	for i := range status.Snapshots {
		s := &status.Snapshots[i]
		if slices.Contains(removing, s.Name) {
			s.State = v1alpha1.SnapshotRemoving
		}
		if s.State == v1alpha1.SnapshotRemoving {
			d.out.History.Remove = append(d.out.History.Remove, s.Name)
		}
		d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, d.nextSnapshotLook(s))
	}
	if waits && !taking(d.transfer) {
		d.out.RequeueAfter = time.Millisecond // a run may wait for that
	}
}

// advanceSnapshot begins a snapshot, or gives it up when it is late: a state that is empty then says that there is
// nothing of it. What is said is of the newest.
func (d *transferDecision) advanceSnapshot(s *v1alpha1.SnapshotStatus, newest bool) {
	facts, wanted := &d.facts.History, d.transfer.Spec.Destination.Snapshot != nil
	seen := facts.snapshot(s.Name)
	// One that may have been made is looked for as long as nobody can look.
	none := s.State == v1alpha1.SnapshotPending || seen == nil && facts.Problem == nil
	if s.StartTime == nil {
		now := metav1.NewTime(d.facts.Now)
		s.StartTime = &now
	}
	switch waited := d.facts.Now.Sub(s.StartTime.Time); {
	case untaken(*s) && none && !wanted:
		s.State = ""
	case untaken(*s) && waited >= takeDeadline:
		d.tooLate(s, seen, none)
	case untaken(*s) && seen == nil && wanted:
		if problem := d.checkHistory(*s); problem != nil {
			d.noHistory(problem.Reason, problem.Message)
			return
		}
		s.State = v1alpha1.SnapshotTaking
		d.out.History.Take, d.out.History.Class = s.DeepCopy(), facts.Class.Name
	case s.State == v1alpha1.SnapshotTaken && waited >= readyDeadline:
		s.State = v1alpha1.SnapshotFailed
		if !newest {
			return
		}
		d.noHistory(v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf(
			"VolumeSnapshot %q of run %s was not ready within %s and goes when a later one is; look at the log of the CSI driver "+
				"and at the object: kubectl -n %s describe volumesnapshot %s", s.Name, s.RunID, readyDeadline,
			d.transfer.Namespace, s.Name))
	case s.State == v1alpha1.SnapshotTaken && waited >= takeDeadline && newest:
		d.noHistory(v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf(
			"VolumeSnapshot %q of run %s was taken and cannot be restored yet; if the driver uploads it, wait, else look at its "+
				"log; it is given up at %s", s.Name, s.RunID, text(s.StartTime.Add(readyDeadline))))
	}
}

// tooLate gives up a snapshot that is not taken: the next run may write now, so that whatever would be taken later is
// of no run. What is said of one that could not be made stays.
func (d *transferDecision) tooLate(s *v1alpha1.SnapshotStatus, seen *Snapshot, none bool) {
	s.State = v1alpha1.SnapshotRemoving
	if none {
		s.State = ""
	}
	switch {
	case seen != nil && seen.Failure != "":
		d.noHistory(v1alpha1.ReasonSnapshotFailed, fmt.Sprintf(
			"there is no snapshot of run %s, because the driver could not take it within %s; free space in its pool if that is "+
				"full: %s", s.RunID, takeDeadline, conditions.Shorten(seen.Failure)))
	case seen != nil:
		d.noHistory(v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf(
			"there is no snapshot of run %s, because the driver did not take it within %s; look at the events of the namespace "+
				"and at the logs of the CSI driver and of the snapshot-controller: kubectl -n %s get events", s.RunID,
			takeDeadline, d.transfer.Namespace))
	case !meta.IsStatusConditionFalse(d.transfer.Status.Conditions, v1alpha1.ConditionHistoryKept):
		d.noHistory(v1alpha1.ReasonSnapshotLost, fmt.Sprintf(
			"there is no snapshot of run %s: VolumeSnapshot %q was deleted by somebody else before it was taken", s.RunID,
			s.Name))
	}
}

// nextSnapshotLook is how long to wait until the next look at a snapshot; 0: none is needed.
func (d *transferDecision) nextSnapshotLook(s *v1alpha1.SnapshotStatus) time.Duration {
	wait := max(d.facts.Now.Sub(s.StartTime.Time)/8, stagingFirst)
	switch s.State {
	case v1alpha1.SnapshotPending, v1alpha1.SnapshotTaking:
		return min(wait, stagingLast)
	case v1alpha1.SnapshotTaken:
		return min(wait, historyLast)
	case v1alpha1.SnapshotRemoving:
		if d.facts.History.Problem != nil {
			return attempt.StallLast
		}
		return stagingLast
	}
	return 0
}

// checkHistory is what keeps a snapshot of the destination from being made; nil if nothing is known to.
func (d *transferDecision) checkHistory(s v1alpha1.SnapshotStatus) *agentpod.Problem {
	facts, name := &d.facts.History, d.transfer.Spec.Destination.PersistentVolumeClaim.ClaimName
	class := d.transfer.Spec.Destination.Snapshot.VolumeSnapshotClassName
	unready := 0
	for i := range d.transfer.Status.Snapshots {
		if d.transfer.Status.Snapshots[i].State == v1alpha1.SnapshotTaken {
			unready++
		}
	}
	switch {
	case facts.Problem != nil:
		return facts.Problem
	case facts.Claim == nil, facts.Claim.DeletionTimestamp != nil, facts.Claim.CreationTimestamp.After(s.Time.Time):
		// Of another claim with that name a snapshot would be empty, and the retention would remove good ones for it.
		return &agentpod.Problem{Reason: v1alpha1.ReasonSnapshotsUnsupported, Message: fmt.Sprintf(
			"PersistentVolumeClaim %q was deleted before its snapshot was taken", name)}
	case facts.Driver == "":
		return &agentpod.Problem{Reason: v1alpha1.ReasonSnapshotsUnsupported, Message: fmt.Sprintf(
			"the volume of PersistentVolumeClaim %q is not of a CSI driver, which alone can make snapshots; remove "+
				"spec.destination.snapshot, or make a Transfer into a claim of a CSI driver", name)}
	case unready >= maxUnready:
		return &agentpod.Problem{Reason: v1alpha1.ReasonTooManySnapshots, Message: fmt.Sprintf(
			"%d snapshots were taken and are not ready, so no other is taken; look at the log of the CSI driver, or have runs "+
				"less often", unready)}
	case facts.Class == nil && class == "":
		return &agentpod.Problem{Reason: v1alpha1.ReasonSnapshotClassNotFound, Message: fmt.Sprintf(
			"driver %s has no default VolumeSnapshotClass; set spec.destination.snapshot.volumeSnapshotClassName, or annotate a "+
				"class of that driver with snapshot.storage.kubernetes.io/is-default-class: \"true\"", facts.Driver)}
	case facts.Class == nil:
		return &agentpod.Problem{Reason: v1alpha1.ReasonSnapshotClassNotFound, Message: fmt.Sprintf(
			"there is no VolumeSnapshotClass %q; create it or correct spec.destination.snapshot.volumeSnapshotClassName", class)}
	case facts.Class.Driver != facts.Driver:
		return &agentpod.Problem{Reason: v1alpha1.ReasonClassUnsuitable, Message: fmt.Sprintf(
			"VolumeSnapshotClass %q is of driver %s and the destination of %s; set "+
				"spec.destination.snapshot.volumeSnapshotClassName to a class of that", facts.Class.Name, facts.Class.Driver,
			facts.Driver)}
	case facts.Class.Retains:
		return &agentpod.Problem{Reason: v1alpha1.ReasonClassUnsuitable, Message: fmt.Sprintf(
			"VolumeSnapshotClass %q keeps snapshots that are deleted (deletionPolicy), so the retention would free nothing; set "+
				"spec.destination.snapshot.volumeSnapshotClassName to a class with deletionPolicy: Delete", facts.Class.Name)}
	}
	return nil
}

// RefuseHistory shows why a snapshot of the destination is not made. It is tried again with the next look.
func RefuseHistory(transfer *v1alpha1.Transfer, problem agentpod.Problem, now time.Time) v1alpha1.TransferStatus {
	d := &transferDecision{transfer: transfer.DeepCopy(), facts: TransferFacts{Now: now}}
	d.noHistory(problem.Reason, problem.Message)
	return d.transfer.Status
}

func (d *transferDecision) noHistory(reason, message string) {
	d.history(conditions.New(v1alpha1.ConditionHistoryKept, false, reason, message))
}

func (d *transferDecision) history(condition metav1.Condition) {
	status := &d.transfer.Status
	status.Conditions = conditions.Merge(
		status.Conditions, []metav1.Condition{condition}, d.transfer.Generation, d.facts.Now,
	)
}
