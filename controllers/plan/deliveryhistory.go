// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
)

// DeliveryHistory is the claim of which the Transfer of a Delivery has snapshots. What names it in their labels is a
// hash of its UID with the claim and with what its cluster's Peer vouches for: no peer can name those of a Transfer of
// this cluster, of another namespace of its own, or of another claim.
func DeliveryHistory(delivery *v1alpha1.Delivery) HistoryTarget {
	spec, of := &delivery.Spec, delivery.Spec.Transfer
	target := HistoryTarget{
		Namespace: delivery.Namespace, Claim: spec.Destination.PersistentVolumeClaim.ClaimName,
		Peer: spec.Peer, Sender: SenderHash(spec.Peer, of.Namespace, of.Name),
		About:  spec.Peer + "/" + of.Namespace + "/" + of.Name,
		Taking: DeliveryTakes(delivery),
	}
	if wanted := spec.Destination.Snapshot; wanted != nil {
		sum := sha256.Sum256([]byte(strings.Join(
			[]string{target.About, target.Namespace, target.Claim, wanted.TransferUID}, "/")))
		target.Of, target.Wanted = hex.EncodeToString(sum[:16]), &wanted.DestinationSnapshot
	}
	return target
}

// DeliveryTakes reports whether the snapshot of what a Delivery has received is not taken yet.
func DeliveryTakes(delivery *v1alpha1.Delivery) bool {
	return slices.ContainsFunc(delivery.Status.Snapshots, untaken)
}

// DeliveryAwaited reports whether others wait until that snapshot is taken. That has an end even if the manager cannot
// look after the Delivery.
func DeliveryAwaited(delivery *v1alpha1.Delivery, now time.Time) bool {
	return delivery.DeletionTimestamp == nil && slices.ContainsFunc(delivery.Status.Snapshots,
		func(s v1alpha1.SnapshotStatus) bool { return awaitedSnapshot(s, now) })
}

// DeliveryNeedsHistory reports whether a decision about a Delivery needs HistoryFacts.
func DeliveryNeedsHistory(delivery *v1alpha1.Delivery) bool {
	return delivery.Status.Phase == v1alpha1.DeliveryComplete && delivery.Spec.Destination.Snapshot != nil &&
		(slices.ContainsFunc(delivery.Status.Snapshots, unsettled) ||
			len(expired(&delivery.Spec.Destination.Snapshot.DestinationSnapshot, delivery.Status.Snapshots)) > 0)
}

// announceSnapshot notes, with the status that says that everything was received, that a snapshot is to be taken. An
// attempt may come again after its Delivery was deleted, so that the name has a hash of the UID.
func (d *deliveryDecision) announceSnapshot() {
	status := &d.delivery.Status
	if d.delivery.Spec.Peer == "" || d.delivery.Spec.Destination.Snapshot == nil {
		return
	}
	status.Snapshots = []v1alpha1.SnapshotStatus{{
		Name: attempt.StagedName("history", d.delivery), RunID: status.Run.ID, Time: *status.Run.CompletionTime,
		State: v1alpha1.SnapshotPending,
	}}
	d.out.RequeueAfter = time.Millisecond
}

// keepHistory is that of a Transfer, for the snapshots of all its runs: the Deliveries of earlier ones are gone.
func (d *deliveryDecision) keepHistory() {
	if !DeliveryNeedsHistory(d.delivery) {
		return
	}
	if !d.facts.History.Seen {
		d.out.RequeueAfter = time.Millisecond
		return
	}
	status := &d.delivery.Status
	k := &keeper{
		target: DeliveryHistory(d.delivery), facts: &d.facts.History, now: d.facts.Now, generation: d.delivery.Generation,
		snapshots: status.Snapshots, conditions: status.Conditions,
	}
	k.adopt(status.Run)
	k.observe()
	d.out.History, d.out.RequeueAfter = k.keep()
	status.Snapshots, status.Conditions = k.snapshots, k.conditions
}

// adopt lists what earlier Deliveries of the Transfer have left. One that was not taken before this run began to write
// would be of no run.
func (k *keeper) adopt(run *v1alpha1.RunStatus) {
	if k.facts.Problem != nil {
		return
	}
	var found []v1alpha1.SnapshotStatus
	for i := range k.facts.Snapshots {
		seen := &k.facts.Snapshots[i]
		if slices.ContainsFunc(k.snapshots, func(s v1alpha1.SnapshotStatus) bool { return s.Name == seen.Name }) {
			continue
		}
		made := seen.Made
		s := v1alpha1.SnapshotStatus{
			Name: seen.Name, RunID: seen.RunID, Time: completed(seen), StartTime: &made, Size: seen.RestoreSize,
			State: v1alpha1.SnapshotRemoving,
		}
		switch {
		case seen.Deleting, takenDuring(run, seen, s.Time.Time):
		case seen.Ready:
			s.State = v1alpha1.SnapshotReady
		case !seen.Created.IsZero():
			s.State = v1alpha1.SnapshotTaken
		}
		found = append(found, s)
	}
	slices.SortFunc(found, func(a, b v1alpha1.SnapshotStatus) int {
		return cmp.Or(b.Time.Compare(a.Time.Time), cmp.Compare(a.Name, b.Name))
	})
	k.snapshots = append(slices.Clone(k.snapshots), found...)
	k.snapshots = k.snapshots[:min(len(k.snapshots), maxSnapshots)]
}

// completed is when the run of a snapshot was Complete. What a restore makes again was made later. A tenant may have
// changed what the annotation says: it is never later than the object.
func completed(seen *Snapshot) metav1.Time {
	at := seen.Completed
	if at.IsZero() {
		at = metav1.NewTime(seen.Created)
	}
	if at.IsZero() || at.After(seen.Made.Time) {
		return seen.Made
	}
	return at
}

// takenDuring: the driver has taken a snapshot of an earlier run after this one began. Its clock may be another, so
// that nothing is said of one that was taken soon after its own run, for which this one has waited.
func takenDuring(run *v1alpha1.RunStatus, seen *Snapshot, completed time.Time) bool {
	return run != nil && run.StartTime != nil && seen.Created.After(run.StartTime.Time) &&
		seen.Created.After(completed.Add(takeDeadline))
}

// AbandonHistory is what is to be done when a Delivery is deleted whose snapshot may not be taken yet: another run may
// write then, so that whatever is taken later would be of no run. So it is of one that was given up and that may not
// have been deleted since. nil: nothing.
func AbandonHistory(delivery *v1alpha1.Delivery, facts HistoryFacts) *HistoryStep {
	step := &HistoryStep{}
	for i := range delivery.Status.Snapshots {
		s := &delivery.Status.Snapshots[i]
		seen := facts.snapshot(s.Name)
		if seen != nil && (s.State == v1alpha1.SnapshotRemoving ||
			untaken(*s) && !seen.Ready && seen.Created.IsZero()) {
			step.Remove = append(step.Remove, s.Name)
		}
	}
	if len(step.Remove) == 0 {
		return nil
	}
	return step
}

// DeliveryAbandons reports whether AbandonHistory needs HistoryFacts.
func DeliveryAbandons(delivery *v1alpha1.Delivery) bool {
	return slices.ContainsFunc(delivery.Status.Snapshots, func(s v1alpha1.SnapshotStatus) bool {
		return untaken(s) || s.State == v1alpha1.SnapshotRemoving
	})
}

// RefuseDeliveryHistory shows why the snapshot of what a Delivery has received is not made. It is tried again with the
// next look.
func RefuseDeliveryHistory(
	delivery *v1alpha1.Delivery, problem agentpod.Problem, now time.Time,
) v1alpha1.DeliveryStatus {
	k := &keeper{now: now, generation: delivery.Generation, conditions: delivery.DeepCopy().Status.Conditions}
	k.none(problem.Reason, problem.Message)
	status := *delivery.Status.DeepCopy()
	status.Conditions = k.conditions
	return status
}

// awaitedFirst is the message while the snapshot of another Delivery into the same place is awaited; empty if none is.
func (d *deliveryDecision) awaitedFirst() string {
	for i := range d.facts.Others {
		other := &d.facts.Others[i]
		mine, theirs := d.delivery.Spec.Destination.PersistentVolumeClaim, other.Spec.Destination.PersistentVolumeClaim
		if other.UID != d.delivery.UID && mine.ClaimName == theirs.ClaimName && Overlap(mine.Path, theirs.Path) &&
			DeliveryAwaited(other, d.facts.Now) {
			d.out.Detail = fmt.Sprintf("the VolumeSnapshot of the claim after Delivery %q is to be taken first", other.Name)
			return awaitedElsewhere
		}
	}
	return ""
}
