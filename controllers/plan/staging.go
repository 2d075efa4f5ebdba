// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
)

const (
	defaultStagingDeadline = 10 * time.Minute
	// stagingFirst and stagingLast bound the waits between two looks at a copy that is being made, which grow with its
	// age: nothing tells of a VolumeSnapshot.
	stagingFirst = time.Second
	stagingLast  = 15 * time.Second
	// selectedNode is set of a claim when the scheduler has found a node for a pod that mounts it.
	selectedNode = "volume.kubernetes.io/selected-node"
)

// Snapshot is what was seen of a VolumeSnapshot.
type Snapshot struct {
	Name string
	// Deleting: somebody has deleted it.
	Deleting bool
	Ready    bool
	// RunID is that of its labels, and Made when it was made in the API server.
	RunID string
	Made  metav1.Time
	// Completed is when the annotations say that the run was Complete; zero when they do not.
	Completed metav1.Time
	// Created is when the driver took it; zero when that is not known.
	Created time.Time
	// RestoreSize is nil when the driver tells none.
	RestoreSize *resource.Quantity
	// Failure has the driver's words; empty if there is none.
	Failure string
}

// SnapshotClass is a VolumeSnapshotClass.
type SnapshotClass struct {
	Name, Driver string
	// Retains: what is deleted stays in the driver.
	Retains bool
}

// StagingFacts are what was seen of what a copy of the source needs, and of the copies that exist.
type StagingFacts struct {
	// Seen is false when nobody looked: see NeedsStaging.
	Seen bool
	// Problem is what keeps the manager from looking or making; nil if nothing is known to.
	Problem *agentpod.Problem
	// Source is the claim; nil when it does not exist. That of TransferFacts is without what nobody else looks at.
	Source *corev1.PersistentVolumeClaim
	// Driver of its volume; empty if it is of no CSI driver, or there is none yet.
	Driver string
	// SnapshotClass that applies; nil when it does not exist.
	SnapshotClass *SnapshotClass
	// StorageClass of the staged claim; nil when it does not exist.
	StorageClass *storagev1.StorageClass
	// Grouped is the VolumeSnapshot of the source in the group that the run reads; nil if there is none. It is not the
	// Transfer's to remove.
	Grouped *Snapshot
	// Snapshots and Claims are all copies that the Transfer has.
	Snapshots []Snapshot
	Claims    []corev1.PersistentVolumeClaim
}

// snapshot is that of a copy: of the group that it is made from, or the Transfer's own.
func (f *StagingFacts) snapshot(of *v1alpha1.StagedStatus) *Snapshot {
	if of.VolumeGroupSnapshotName != "" {
		return f.Grouped
	}
	if i := slices.IndexFunc(f.Snapshots, func(s Snapshot) bool { return s.Name == of.Name }); i >= 0 {
		return &f.Snapshots[i]
	}
	return nil
}

func (f *StagingFacts) claim(name string) *corev1.PersistentVolumeClaim {
	i := slices.IndexFunc(f.Claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Claims[i]
}

// others reports whether there are copies with another name.
func (f *StagingFacts) others(name string) bool {
	return slices.ContainsFunc(f.Snapshots, func(s Snapshot) bool { return s.Name != name }) ||
		slices.ContainsFunc(f.Claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name != name })
}

// Stage is what is to be made of a copy.
type Stage struct {
	// Try is a claim that the API server is to be asked for without making it; nil: none. It comes first, so that no
	// snapshot is taken for a claim that a quota forbids.
	Try *corev1.PersistentVolumeClaim
	// Snapshot is the name of the VolumeSnapshot to be taken, by the class; empty: none.
	Snapshot, SnapshotClass string
	// Claim is the one to be made; nil: none.
	Claim *corev1.PersistentVolumeClaim
}

// Stages reports whether runs of a Transfer read a copy of the source.
func Stages(transfer *v1alpha1.Transfer) bool { return copies(transfer.Spec.Source) }

func copies(source v1alpha1.TransferSource) bool {
	switch source.CopyMethod {
	case v1alpha1.CopySnapshot, v1alpha1.CopyClone:
		return true
	}
	return false
}

// NeedsStaging reports whether a decision about a Transfer needs StagingFacts: while it has a copy that is not known to
// be mounted. What a pod mounts is kept from being removed.
func NeedsStaging(transfer *v1alpha1.Transfer) bool {
	s := transfer.Status.Staged
	switch transfer.Status.Phase {
	case v1alpha1.TransferOpening, v1alpha1.TransferTransferring:
		// While legs are gathered, its own pod is yet to come.
		return s != nil && (s.State == v1alpha1.StagedRemoving || transfer.Status.GatheringTime != nil)
	}
	return s != nil
}

// StagedClaim is the claim that the agent of a Transfer mounts to read, also before it exists; empty if it mounts none.
func StagedClaim(transfer *v1alpha1.Transfer) string {
	if kept := KeptCopy(transfer); kept != "" {
		return kept
	}
	return transfer.Spec.Source.PersistentVolumeClaim.ClaimName
}

// KeptCopy is the name of the copy that is not to be removed; empty if there is none.
func KeptCopy(transfer *v1alpha1.Transfer) string {
	if s := transfer.Status.Staged; s != nil && s.State != v1alpha1.StagedRemoving {
		return s.Name
	}
	return ""
}

// stagedSourceNeeded is false when the point in time of the run has been taken, so that the source may go.
func stagedSourceNeeded(transfer *v1alpha1.Transfer) bool {
	s, run := transfer.Status.Staged, transfer.Status.Run
	return s == nil || run == nil || run.CompletionTime != nil || s.RunID != run.ID || s.PointInTime == nil ||
		s.State == v1alpha1.StagedRemoving || s.Method == v1alpha1.CopyClone && s.State != v1alpha1.StagedReady
}

// stage reports whether an agent may mount what the run reads. If not, it has made what lacks, or says what is in the
// way.
func (d *transferDecision) stage() bool {
	status, facts := &d.transfer.Status, &d.facts.Staging
	s := status.Staged
	if s == nil && !Stages(d.transfer) {
		return true
	}
	if s != nil && (s.RunID != status.Run.ID || s.State == v1alpha1.StagedRemoving) {
		s.State = v1alpha1.StagedRemoving
		if !Stages(d.transfer) {
			return true // the source itself is read, whatever becomes of that copy
		}
		if facts.Seen && facts.Problem != nil {
			d.out.RequeueAfter = attempt.StallLast
			d.set(v1alpha1.TransferStarting, conditions.Stalled(facts.Problem.Reason, facts.Problem.Message))
			return false
		}
		d.staging(stagingFirst, "the copy of the source that was made before is being removed")
		return false
	}
	if s == nil {
		status.Staged = &v1alpha1.StagedStatus{
			Method: d.transfer.Spec.Source.CopyMethod, RunID: status.Run.ID, State: v1alpha1.StagedPreparing,
			Name: attempt.StagedName(status.Run.ID, d.transfer), StartTime: metav1.NewTime(d.facts.Now),
			VolumeGroupSnapshotName: d.transfer.Spec.Source.VolumeGroupSnapshotName,
		}
		// The status is written before anything is made, so that what is made is never forgotten.
		d.staging(time.Millisecond, "a copy of the source is being prepared")
		return false
	}
	if !facts.Seen {
		return s.State == v1alpha1.StagedReady
	}
	if facts.others(s.Name) {
		d.out.Unstage = true
		d.staging(stagingFirst, "copies of earlier runs are being removed")
		return false
	}
	return d.advance(s)
}

// advance brings a copy on its way.
func (d *transferDecision) advance(s *v1alpha1.StagedStatus) bool {
	facts := &d.facts.Staging
	if s.State == v1alpha1.StagedReady && d.copyServed() {
		return true
	}
	claim, snapshot := facts.claim(s.Name), facts.snapshot(s)
	if problem := d.stagedProblem(s, snapshot, claim); problem != nil {
		d.failStaging(*problem)
		return false
	}
	if claim != nil {
		if s.State == v1alpha1.StagedReady || d.waitsForConsumer() {
			return true
		}
		d.staging(d.nextLook(s), fmt.Sprintf("claim %q is being provisioned from the copy", s.Name))
		return false
	}
	if problem := checkStaging(d.transfer, *facts, snapshot != nil && snapshot.Ready); problem != nil {
		d.failStaging(*problem)
		return false
	}
	if snapshot == nil && !(d.quiesceForCopy(s) && d.triggerForCopy(s)) {
		return false
	}
	if s.Method == v1alpha1.CopyClone {
		s.State = v1alpha1.StagedProvisioning
		d.out.Stage = &Stage{Claim: stagedClaim(d.transfer, *facts, nil)}
		d.staging(stagingFirst, fmt.Sprintf("claim %q is being cloned from the source", s.Name))
		return false
	}
	switch {
	case snapshot == nil:
		s.State = v1alpha1.StagedSnapshotting
		d.out.Stage = &Stage{
			Try: stagedClaim(d.transfer, *facts, nil), Snapshot: s.Name, SnapshotClass: facts.SnapshotClass.Name,
		}
		d.staging(stagingFirst, fmt.Sprintf("VolumeSnapshot %q is being taken", s.Name))
	case !snapshot.Ready && snapshot.Failure != "":
		d.out.RequeueAfter = d.nextLook(s)
		d.set(v1alpha1.TransferStarting, conditions.Stalled(v1alpha1.ReasonSnapshotFailed, fmt.Sprintf(
			"the driver cannot take VolumeSnapshot %q, and tries again until %s (spec.source.stagingDeadline); free space in "+
				"its pool if that is full: %s", snapshot.Name, d.deadline(s).UTC().Format(time.RFC3339),
			conditions.Shorten(snapshot.Failure))))
	case !snapshot.Ready:
		d.staging(d.nextLook(s), fmt.Sprintf("VolumeSnapshot %q is being taken", snapshot.Name))
	default:
		if problem := checkRestoreSize(facts.Source, snapshot); problem != nil {
			d.failStaging(*problem)
			return false
		}
		taken := metav1.NewTime(snapshot.Created)
		if grouped := s.VolumeGroupSnapshotName != ""; !grouped && taken.Before(&s.StartTime) || taken.After(d.facts.Now) {
			taken = s.StartTime // it cannot be older, whatever the driver's clock says, and should not seem younger
		}
		s.PointInTime, s.State = &taken, v1alpha1.StagedProvisioning
		d.out.Stage = &Stage{Claim: stagedClaim(d.transfer, *facts, snapshot)}
		d.staging(stagingFirst, fmt.Sprintf("claim %q is being provisioned from the copy", s.Name))
	}
	return false
}

// observeClaim shows how far the staged claim is.
func (d *transferDecision) observeClaim(s *v1alpha1.StagedStatus, claim *corev1.PersistentVolumeClaim) {
	s.State = v1alpha1.StagedProvisioning
	if size, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		s.Size = &size
	}
	if s.PointInTime == nil {
		// A clone is made after its claim. Of a snapshot the claim cannot be without its time.
		s.PointInTime = claim.CreationTimestamp.DeepCopy()
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return
	}
	s.State = v1alpha1.StagedReady
	if size, ok := claim.Status.Capacity[corev1.ResourceStorage]; ok {
		s.Size = &size
	}
}

// stagedProblem is why a copy cannot be used, or not any more; nil if it can.
func (d *transferDecision) stagedProblem(
	s *v1alpha1.StagedStatus, snapshot *Snapshot, claim *corev1.PersistentVolumeClaim,
) *agentpod.Problem {
	bound := claim != nil && claim.Status.Phase == corev1.ClaimBound
	lost := func(what string) *agentpod.Problem {
		return &agentpod.Problem{Reason: v1alpha1.ReasonStagedCopyLost, Message: fmt.Sprintf(
			"%s %q of the copy was deleted or lost; the next attempt makes another copy, of a later time", what, s.Name)}
	}
	switch {
	case d.facts.Staging.Problem != nil:
		return d.facts.Staging.Problem
	case claim != nil && (claim.DeletionTimestamp != nil || claim.Status.Phase == corev1.ClaimLost),
		claim == nil && s.State == v1alpha1.StagedReady:
		return lost("claim")
	case s.VolumeGroupSnapshotName != "" && !bound && (snapshot == nil || snapshot.Deleting):
		return new(groupedNotFound(d.transfer))
	case s.Method == v1alpha1.CopySnapshot && !bound && s.PointInTime != nil && snapshot == nil,
		!bound && snapshot != nil && snapshot.Deleting:
		return lost("VolumeSnapshot")
	}
	begun := s.State != v1alpha1.StagedPreparing ||
		s.VolumeGroupSnapshotName != "" && !snapshot.Ready // the driver's turn, although nothing is made here
	if !bound && begun && !d.facts.Now.Before(d.deadline(s)) && d.driversTurn(claim) {
		return d.late(s, snapshot, claim)
	}
	return nil
}

// groupedNotFound is why nothing can be read of a VolumeGroupSnapshot.
func groupedNotFound(transfer *v1alpha1.Transfer) agentpod.Problem {
	return agentpod.Problem{Reason: v1alpha1.ReasonGroupSnapshotNotFound, Message: fmt.Sprintf(
		"VolumeGroupSnapshot %q has no VolumeSnapshot of claim %q: it does not exist any more, or was taken before the "+
			"claim could be in it; give the TransferSet's annotation %s another value, or correct "+
			"spec.source.volumeGroupSnapshotName", transfer.Status.Staged.VolumeGroupSnapshotName,
		transfer.Spec.Source.PersistentVolumeClaim.ClaimName, v1alpha1.RunAnnotation)}
}

// late is what became of a copy that is not ready in time.
func (d *transferDecision) late(
	s *v1alpha1.StagedStatus, snapshot *Snapshot, claim *corev1.PersistentVolumeClaim,
) *agentpod.Problem {
	what, removed := fmt.Sprintf("VolumeSnapshot %q", s.Name), " and was removed"
	switch {
	case claim != nil || s.Method == v1alpha1.CopyClone:
		what = fmt.Sprintf("claim %q", s.Name)
	case s.VolumeGroupSnapshotName != "":
		what, removed = fmt.Sprintf("VolumeSnapshot %q", snapshot.Name), "" // it is the group's
	}
	deadline := d.deadline(s).Sub(s.StartTime.Time)
	if snapshot != nil && !snapshot.Ready && snapshot.Failure != "" {
		return &agentpod.Problem{Reason: v1alpha1.ReasonSnapshotFailed, Message: fmt.Sprintf(
			"the driver could not take %s within %s%s; free space in its pool if that is full: %s", what, deadline, removed,
			conditions.Shorten(snapshot.Failure))}
	}
	return &agentpod.Problem{Reason: v1alpha1.ReasonStagingTimedOut, Message: fmt.Sprintf(
		"%s was not ready within %s (spec.source.stagingDeadline)%s; look at the events of the namespace and at the log of "+
			"the CSI driver, or raise the deadline: kubectl -n %s get events", what, deadline, removed,
		d.transfer.Namespace)}
}

func (d *transferDecision) deadline(s *v1alpha1.StagedStatus) time.Time {
	allowed := defaultStagingDeadline
	if set := d.transfer.Spec.Source.StagingDeadline; set != nil {
		allowed = set.Duration
	}
	return s.StartTime.Add(allowed)
}

// driversTurn is false while a claim waits for a pod that has a node.
func (d *transferDecision) driversTurn(claim *corev1.PersistentVolumeClaim) bool {
	return claim == nil || !d.waitsForConsumer() || claim.Annotations[selectedNode] != ""
}

func (d *transferDecision) waitsForConsumer() bool {
	class := d.facts.Staging.StorageClass
	return class != nil && class.VolumeBindingMode != nil &&
		*class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// nextLook is how long to wait until the next look at a copy.
func (d *transferDecision) nextLook(s *v1alpha1.StagedStatus) time.Duration {
	age := d.facts.Now.Sub(s.StartTime.Time)
	wait := min(max(age/8, stagingFirst), stagingLast)
	if left := d.deadline(s).Sub(d.facts.Now); left > 0 {
		wait = min(wait, left)
	}
	return wait
}

func (d *transferDecision) staging(again time.Duration, message string) {
	d.out.RequeueAfter = again
	d.set(v1alpha1.TransferStarting, conditions.Reconciling(v1alpha1.ReasonStaging, message))
}

// followStaged looks after the copy that an agent's pod waits for. It reports whether the attempt has ended with it.
func (d *transferDecision) followStaged() bool {
	s, facts := d.transfer.Status.Staged, &d.facts.Staging
	if s == nil || !facts.Seen || s.State == v1alpha1.StagedRemoving || s.State == v1alpha1.StagedReady && d.copyServed() {
		return false
	}
	claim := facts.claim(s.Name)
	if problem := d.stagedProblem(s, facts.snapshot(s), claim); problem != nil {
		d.failStaging(*problem)
		return true
	}
	return false
}

// failStaging ends an attempt that has nothing to read. The next one makes a copy again, after a wait in which the
// attempt holds nothing of any quota.
func (d *transferDecision) failStaging(problem agentpod.Problem) {
	d.failTrigger()
	if s := d.transfer.Status.Staged; s == nil || s.State == v1alpha1.StagedPreparing {
		d.transfer.Status.Staged = nil // nothing was made
	} else {
		s.State = v1alpha1.StagedRemoving
	}
	d.out.Stage, d.out.Start, d.out.Clear = nil, nil, true
	report := &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED}
	d.record(report, problem.Reason, problem.Message)
	d.out.Finished = &Finished{Reason: problem.Reason, Report: report}
	d.waitForSomebody(problem.Reason, problem.Message)
}

// observeStaged shows how far the copy of the run is, whatever becomes of its attempt: what was made before that ended
// was made while the application rested.
func (d *transferDecision) observeStaged() {
	s, facts := d.transfer.Status.Staged, &d.facts.Staging
	if s == nil || !facts.Seen || s.State == v1alpha1.StagedRemoving {
		return
	}
	if claim := facts.claim(s.Name); claim != nil && claim.DeletionTimestamp == nil {
		d.observeClaim(s, claim)
	}
}

// unquiesced reports whether a copy that was asked for has no point in time yet though its attempt has ended: the
// application was told that it need not rest any more, so that what is made later would be of any moment.
func (d *transferDecision) unquiesced(s *v1alpha1.StagedStatus) bool {
	status := &d.transfer.Status
	asked := d.transfer.Spec.Source.Hooks != nil ||
		status.CopyTrigger != nil && status.Run != nil && status.CopyTrigger.RunID == status.Run.ID
	return asked && s.State != v1alpha1.StagedPreparing && d.facts.Staging.Seen && d.facts.Staging.Problem == nil &&
		!d.copied()
}

// RefuseStaging decides what follows when the API server does not accept what a decision has of a copy.
func RefuseStaging(transfer *v1alpha1.Transfer, problem agentpod.Problem, now time.Time) TransferDecision {
	d := &transferDecision{transfer: transfer.DeepCopy(), facts: TransferFacts{Now: now}}
	d.failStaging(problem)
	d.out.Status, d.out.RequeueAfter = d.transfer.Status, stagingFirst
	return d.out
}

// unstage has the copy of a run removed that has ended, and forgets it when it is gone.
func (d *transferDecision) unstage() {
	status, facts := &d.transfer.Status, &d.facts.Staging
	s := status.Staged
	if s == nil {
		return
	}
	if !d.running() || d.waiting() && d.unquiesced(s) {
		s.State = v1alpha1.StagedRemoving
	}
	if s.State != v1alpha1.StagedRemoving {
		return
	}
	wait := stagingFirst
	switch {
	case !facts.Seen:
	case facts.Problem != nil && facts.Problem.Reason != v1alpha1.ReasonSnapshotsNotInstalled:
		wait = attempt.StallLast
	case len(facts.Claims)+len(facts.Snapshots) == 0:
		status.Staged = nil
		if d.running() && !d.waiting() {
			d.out.RequeueAfter = time.Millisecond
		}
		return
	default:
		wait = d.nextLook(s)
	}
	d.out.Unstage = true
	d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, wait)
}
