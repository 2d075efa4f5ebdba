// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// DeliveryHistory is the claim of which the Transfer of a Delivery has snapshots. What names it in their labels is a
// hash of its UID with what its cluster's Peer vouches for: no peer can name those of a Transfer of this cluster, or of
// another namespace of its own.
func DeliveryHistory(delivery *v1alpha1.Delivery) HistoryTarget {
	spec, of := &delivery.Spec, delivery.Spec.Transfer
	target := HistoryTarget{
		Namespace: delivery.Namespace, Claim: spec.Destination.PersistentVolumeClaim.ClaimName,
		Peer: spec.Peer, Sender: SenderHash(spec.Peer, of.Namespace, of.Name),
		About:  spec.Peer + "/" + of.Namespace + "/" + of.Name,
		Taking: DeliveryTakes(delivery),
	}
	if wanted := spec.Destination.Snapshot; wanted != nil {
		sum := sha256.Sum256([]byte(target.About + "/" + wanted.TransferUID))
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

// announceSnapshot notes, with the status that says that everything was received, that a snapshot is to be taken.
func (d *deliveryDecision) announceSnapshot() {
	status := &d.delivery.Status
	if d.delivery.Spec.Peer == "" || d.delivery.Spec.Destination.Snapshot == nil {
		return
	}
	status.Snapshots = []v1alpha1.SnapshotStatus{{
		Name: d.delivery.Name + "-history", RunID: status.Run.ID, Time: *status.Run.CompletionTime,
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
	k.adopt()
	k.observe()
	d.out.History, d.out.RequeueAfter = k.keep()
	status.Snapshots, status.Conditions = k.snapshots, k.conditions
}

// adopt lists what earlier Deliveries of the Transfer have left. One that was not taken by then would be of no run.
func (k *keeper) adopt() {
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
			Name: seen.Name, RunID: seen.RunID, Time: made, StartTime: &made, Size: seen.RestoreSize,
			State: v1alpha1.SnapshotRemoving,
		}
		switch {
		case seen.Deleting:
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

// AbandonHistory is what is to be done when a Delivery is deleted whose snapshot may not be taken yet: another run may
// write then, so that whatever is taken later would be of no run. nil: nothing.
func AbandonHistory(delivery *v1alpha1.Delivery, facts HistoryFacts) *HistoryStep {
	var step *HistoryStep
	for i := range delivery.Status.Snapshots {
		s := &delivery.Status.Snapshots[i]
		seen := facts.snapshot(s.Name)
		if untaken(*s) && seen != nil && !seen.Ready && seen.Created.IsZero() {
			step = &HistoryStep{Remove: []string{s.Name}}
		}
	}
	return step
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
