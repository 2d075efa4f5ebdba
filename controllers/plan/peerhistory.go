// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// peerGrace is how long after a run its receiving cluster may not know of it: its gateway answers from a cache.
const peerGrace = time.Minute

// wireSnapshot is what history a Transfer asks a peer for.
func wireSnapshot(transfer *v1alpha1.Transfer) *wirev1.SnapshotRequest {
	wanted := transfer.Spec.Destination.Snapshot
	if wanted == nil || IsLocal(transfer) {
		return nil
	}
	r := wanted.Retention
	return &wirev1.SnapshotRequest{
		TransferUid: string(transfer.UID), VolumeSnapshotClassName: wanted.VolumeSnapshotClassName,
		Last: uint32(r.Last), Hourly: uint32(r.Hourly), Daily: uint32(r.Daily), //nolint:gosec // The API has bounds.
		Weekly: uint32(r.Weekly), Monthly: uint32(r.Monthly), Yearly: uint32(r.Yearly), //nolint:gosec // The same.
	}
}

// HistoryOf is what a Delivery says of history to the cluster that it is from. What others say, such as a driver, is
// for this cluster's people.
func HistoryOf(delivery *v1alpha1.Delivery) *wirev1.HistoryResponse {
	answer := &wirev1.HistoryResponse{Decided: true}
	for i := range delivery.Status.Snapshots {
		s := &delivery.Status.Snapshots[i]
		if s.State == v1alpha1.SnapshotRemoving {
			continue
		}
		one := &wirev1.HistorySnapshot{
			Name: s.Name, RunId: s.RunID, Time: timestamppb.New(s.Time.Time), State: string(s.State),
		}
		if s.Size != nil {
			one.Size = uint64(max(0, s.Size.Value()))
		}
		answer.Snapshots = append(answer.Snapshots, one)
	}
	kept := meta.FindStatusCondition(delivery.Status.Conditions, v1alpha1.ConditionHistoryKept)
	if kept == nil {
		return answer
	}
	answer.Reason, answer.Kept = kept.Reason, kept.Status == metav1.ConditionTrue
	switch kept.Reason {
	case v1alpha1.ReasonSnapshotReady, v1alpha1.ReasonSnapshotNotReady, v1alpha1.ReasonSnapshotLost:
		answer.Message = kept.Message // of the Transfer's own snapshots
	default:
		answer.Message = fmt.Sprintf("the condition HistoryKept of Delivery %q says why", delivery.Name)
		if fixed := historyTexts[kept.Reason]; fixed != "" {
			answer.Message = fixed + "; " + answer.Message
		}
	}
	return answer
}

// historyTexts are what another cluster may read in place of messages: nothing of classes, drivers, grants and others'
// snapshots.
var historyTexts = map[string]string{
	v1alpha1.ReasonNotGranted: "no PeerGrant there allows snapshots of the claim; have maxSnapshots set",
	v1alpha1.ReasonTooManySnapshots: "as many snapshots of the claim are kept there as may be; keep less by " +
		"spec.destination.snapshot.retention, or have maxSnapshots of the PeerGrant raised",
	v1alpha1.ReasonSnapshotClassNotFound: "there is no such VolumeSnapshotClass, or no default one; correct " +
		"spec.destination.snapshot.volumeSnapshotClassName",
	v1alpha1.ReasonSnapshotsNotInstalled: "that cluster has no VolumeSnapshots; remove spec.destination.snapshot",
	v1alpha1.ReasonSnapshotsUnsupported:  "of that claim no snapshot can be taken",
}

// hearHistory shows what the receiving cluster says of the snapshots of the destination.
func (d *transferDecision) hearHistory() {
	status, answer := &d.transfer.Status, agentreport.Bounded(d.facts.History.Answer)
	if answer == nil || !NeedsHistory(d.transfer) {
		return
	}
	newest := status.Snapshots[0]
	switch {
	case answer.GetGone():
		if d.facts.Now.Sub(newest.Time.Time) >= peerGrace {
			d.giveUpPeer(v1alpha1.ReasonSnapshotLost, fmt.Sprintf(
				"the receiving cluster has no Delivery of run %s that keeps history: it was deleted there, or that cluster was of "+
					"a release that takes no snapshots for peers, or spec.destination.snapshot was added while it ran; the next run "+
					"has one", newest.RunID))
		}
		return
	case !answer.GetDecided():
		return
	}
	status.Snapshots = peerSnapshots(answer, status, d.facts.Now)
	if answer.GetReason() == "" {
		if !slices.ContainsFunc(status.Snapshots, func(s v1alpha1.SnapshotStatus) bool { return s.RunID == newest.RunID }) {
			d.noHistory(v1alpha1.ReasonSnapshotLost, fmt.Sprintf(
				"the receiving cluster has no snapshot of run %s, and does not say why; look at its Delivery", newest.RunID))
		}
		return
	}
	reason := answer.GetReason()
	if !conditionReason.MatchString(reason) {
		reason = v1alpha1.ReasonSnapshotNotReady
	}
	k := d.keeper()
	k.say(conditions.New(v1alpha1.ConditionHistoryKept, answer.GetKept(), reason,
		conditions.Shorten("the receiving cluster says: "+answer.GetMessage())))
	d.kept(k)
}

// peerSnapshots are those that a receiving cluster lists. What this cluster knows of a run stays. The next run waits
// for one that is not taken, which can only be the first, of the last run: that is asked for again.
func peerSnapshots(
	answer *wirev1.HistoryResponse, status *v1alpha1.TransferStatus, now time.Time,
) []v1alpha1.SnapshotStatus {
	var all []v1alpha1.SnapshotStatus
	known := status.Snapshots
	for _, told := range answer.GetSnapshots() {
		s := v1alpha1.SnapshotStatus{
			Name: told.GetName(), RunID: told.GetRunId(), State: v1alpha1.SnapshotState(told.GetState()),
		}
		named := func(other v1alpha1.SnapshotStatus) bool { return other.Name == s.Name }
		at := timeOf(told.GetTime())
		if len(all) == maxSnapshots || at == nil || len(validation.IsDNS1123Subdomain(s.Name)) > 0 ||
			!pulledRun.MatchString(s.RunID) || !slices.Contains(peerStates, s.State) || slices.ContainsFunc(all, named) ||
			untaken(s) && (len(all) > 0 || s.RunID != status.Run.ID) {
			continue
		}
		if s.Time = *at; at.After(now) {
			s.Time = metav1.NewTime(now)
		}
		if size := told.GetSize(); size > 0 && size <= MaxClaimSize {
			s.Size = resource.NewQuantity(int64(size), resource.BinarySI) //nolint:gosec // It is at most 2^60.
		}
		if i := slices.IndexFunc(known, func(k v1alpha1.SnapshotStatus) bool { return k.RunID == s.RunID }); i >= 0 {
			s.Time, s.RecoveryPoint, s.StartTime = known[i].Time, known[i].RecoveryPoint, known[i].StartTime
		}
		all = append(all, s)
	}
	return all
}

// peerStates are those of snapshots that a receiving cluster lists.
var peerStates = []v1alpha1.SnapshotState{
	v1alpha1.SnapshotPending, v1alpha1.SnapshotTaking, v1alpha1.SnapshotTaken, v1alpha1.SnapshotReady,
	v1alpha1.SnapshotFailed,
}

// giveUpPeer forgets the newest snapshot, of which nobody tells any more. The next run is told of all that there are.
func (d *transferDecision) giveUpPeer(reason, message string) {
	d.transfer.Status.Snapshots = slices.Delete(slices.Clone(d.transfer.Status.Snapshots), 0, 1)
	d.noHistory(reason, message)
}

// awaitPeerHistory asks the receiving cluster again, or gives up: it never keeps the next run from beginning for longer
// than a snapshot of this cluster could.
func (d *transferDecision) awaitPeerHistory() {
	status, facts := &d.transfer.Status, &d.facts.History
	if d.transfer.Spec.Destination.Snapshot == nil {
		if taking(d.transfer) {
			d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, time.Millisecond) // a run may wait for that
		}
		status.Snapshots = nil // nobody would tell what becomes of them
		return
	}
	if !NeedsHistory(d.transfer) {
		return
	}
	newest := &status.Snapshots[0]
	if newest.StartTime == nil {
		status.Snapshots = slices.Clone(status.Snapshots)
		newest = &status.Snapshots[0]
		now := metav1.NewTime(d.facts.Now)
		newest.StartTime = &now
	}
	waited := d.facts.Now.Sub(newest.StartTime.Time)
	late := waited >= readyDeadline+takeGrace || untaken(*newest) && waited >= takeDeadline+takeGrace
	switch problem := facts.Problem; {
	case problem != nil && (late || problem.Reason == v1alpha1.ReasonPeerIncompatible):
		d.giveUpPeer(problem.Reason, conditions.Shorten(fmt.Sprintf(
			"it is not known whether there is a snapshot of run %s: %s", newest.RunID, problem.Message)))
	case late:
		d.giveUpPeer(v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf(
			"the receiving cluster has not said in time that there is a snapshot of run %s; look at the condition HistoryKept "+
				"of its Delivery, and whether the manager there works", newest.RunID))
	case !facts.Seen && facts.Again == 0:
		d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, time.Millisecond)
		return
	default:
		again := max(facts.Again, nextSnapshotLook(newest, d.facts.Now, false))
		d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, again)
		return
	}
	d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, time.Millisecond) // a run may wait for that
}

// HistoryPause is the least time between two questions about the snapshots at a peer.
func HistoryPause(transfer *v1alpha1.Transfer, now time.Time) time.Duration {
	newest := &transfer.Status.Snapshots[0]
	if newest.StartTime == nil {
		return stagingFirst
	}
	return nextSnapshotLook(newest, now, false)
}
