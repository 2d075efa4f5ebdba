// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// TransferHistory is the claim of this cluster of which a Transfer has snapshots.
func TransferHistory(transfer *v1alpha1.Transfer) HistoryTarget {
	return HistoryTarget{
		Namespace: transfer.Namespace, Claim: transfer.Spec.Destination.PersistentVolumeClaim.ClaimName,
		Of: string(transfer.UID), About: transfer.Name, Wanted: transfer.Spec.Destination.Snapshot,
		Taking: taking(transfer),
	}
}

// NeedsHistory reports whether a decision about a Transfer needs HistoryFacts: while a snapshot is under way, or one is
// to be removed. What is at a peer is asked for while that of the last run is under way.
func NeedsHistory(transfer *v1alpha1.Transfer) bool {
	status := &transfer.Status
	if !IsLocal(transfer) {
		return len(status.Snapshots) > 0 && unsettled(status.Snapshots[0]) && status.Run != nil &&
			status.Run.CompletionTime != nil && status.Snapshots[0].RunID == status.Run.ID
	}
	return slices.ContainsFunc(status.Snapshots, unsettled) ||
		len(expired(transfer.Spec.Destination.Snapshot, status.Snapshots)) > 0
}

// WatchesHistory reports whether snapshots of a destination are looked at although nothing is to be done about them: no
// event tells that somebody else deletes one. While data are moved that can wait.
func WatchesHistory(transfer *v1alpha1.Transfer) bool {
	return IsLocal(transfer) && len(transfer.Status.Snapshots) > 0 && !UnderWay(transfer)
}

// announceSnapshot notes, with the status that says that a run is Complete, that its snapshot is to be taken. So it is
// never forgotten, and never taken twice. At a peer it has another name, which its cluster tells.
func (d *transferDecision) announceSnapshot() {
	status := &d.transfer.Status
	if d.transfer.Spec.Destination.Snapshot == nil {
		return
	}
	if len(status.Snapshots) >= maxSnapshots && IsLocal(d.transfer) {
		d.noHistory(v1alpha1.ReasonTooManySnapshots, fmt.Sprintf(
			"there is no snapshot of run %s: %d are listed already, and those that are not needed cannot be removed; see what "+
				"keeps them: kubectl -n %s describe volumesnapshots", status.Run.ID, maxSnapshots, d.transfer.Namespace))
		return
	}
	status.Snapshots = slices.Insert(status.Snapshots, 0, v1alpha1.SnapshotStatus{
		Name: attempt.StagedName(status.Run.ID+"-history", d.transfer), RunID: status.Run.ID,
		Time: *status.Run.CompletionTime, RecoveryPoint: status.RecoveryPoint.DeepCopy(), State: v1alpha1.SnapshotPending,
	})
	status.Snapshots = status.Snapshots[:min(len(status.Snapshots), maxSnapshots)]
	d.out.RequeueAfter = time.Millisecond
	d.facts.History = HistoryFacts{} // the claim was not looked at
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
	return mayTake(transfer) && slices.ContainsFunc(transfer.Status.Snapshots,
		func(s v1alpha1.SnapshotStatus) bool { return awaitedSnapshot(s, now) })
}

func awaitedSnapshot(s v1alpha1.SnapshotStatus, now time.Time) bool {
	since := s.Time
	if s.StartTime != nil {
		since = *s.StartTime
	}
	return untaken(s) && now.Before(since.Add(takeDeadline+takeGrace))
}

// awaitSnapshot keeps a run from beginning whose destination is to be snapshotted first.
func (d *transferDecision) awaitSnapshot() {
	d.set(v1alpha1.TransferPending, conditions.Reconciling(v1alpha1.ReasonTakingSnapshot, fmt.Sprintf(
		"the VolumeSnapshot of the destination after the last run is to be taken first, which is awaited for %s at most",
		takeDeadline)))
}

func (d *transferDecision) keeper() *keeper {
	return &keeper{
		target: TransferHistory(d.transfer), facts: &d.facts.History, now: d.facts.Now, generation: d.transfer.Generation,
		snapshots: d.transfer.Status.Snapshots, conditions: d.transfer.Status.Conditions,
	}
}

func (d *transferDecision) kept(k *keeper) {
	d.transfer.Status.Snapshots, d.transfer.Status.Conditions = k.snapshots, k.conditions
}

// observeHistory shows how far snapshots of the destination are.
func (d *transferDecision) observeHistory() {
	if !IsLocal(d.transfer) {
		d.hearHistory()
		return
	}
	k := d.keeper()
	k.observe()
	d.kept(k)
}

// keepHistory brings snapshots of the destination on their way, and has those removed that the retention does not keep.
func (d *transferDecision) keepHistory() {
	status, facts := &d.transfer.Status, &d.facts.History
	if d.transfer.Spec.Destination.Snapshot == nil {
		defer func() { meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionHistoryKept) }()
	}
	switch {
	case !IsLocal(d.transfer):
		d.awaitPeerHistory()
		return
	case !NeedsHistory(d.transfer):
		if WatchesHistory(d.transfer) {
			d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, attempt.Spread(HistoryRest, d.transfer.UID, 0))
		}
		return
	case !facts.Seen:
		d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, time.Millisecond)
		return
	}
	k := d.keeper()
	step, again := k.keep()
	d.kept(k)
	d.out.History, d.out.RequeueAfter = step, attempt.Sooner(d.out.RequeueAfter, again)
}

// RefuseHistory shows why a snapshot of the destination is not made. It is tried again with the next look.
func RefuseHistory(transfer *v1alpha1.Transfer, problem agentpod.Problem, now time.Time) v1alpha1.TransferStatus {
	d := &transferDecision{transfer: transfer.DeepCopy(), facts: TransferFacts{Now: now}}
	d.noHistory(problem.Reason, problem.Message)
	return d.transfer.Status
}

func (d *transferDecision) noHistory(reason, message string) {
	k := d.keeper()
	k.none(reason, message)
	d.kept(k)
}
