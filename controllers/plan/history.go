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
	"k8s.io/apimachinery/pkg/types"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
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

// hopeless are reasons that people rarely end within takeDeadline, so that no run of a peer waits for that.
var hopeless = []string{
	v1alpha1.ReasonNotGranted, v1alpha1.ReasonSnapshotsNotInstalled, v1alpha1.ReasonSnapshotsUnsupported,
}

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
	// Snapshots are those that were taken for the Transfer, by their labels. They are looked at always.
	Snapshots []Snapshot
	// Held is how many VolumeSnapshots of the claim were taken for peers and are not being deleted, Limit how many a
	// PeerGrant lets them have, and Refusal why none does. They are looked at for Deliveries where DeliveryTakes.
	Held, Limit int
	Refusal     string
	// Answer is what the receiving cluster says; nil where the claim is in this one, or it was not asked. Then Again is
	// when it may be asked.
	Answer *wirev1.HistoryResponse
	Again  time.Duration
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

// HistoryTarget is a claim of which snapshots are kept, and who they are of.
type HistoryTarget struct {
	Namespace, Claim string
	// Of is the value of v1alpha1.TransferLabel on its snapshots, which nobody else's have.
	Of string
	// About is the value of v1alpha1.HistoryTransferAnnotation.
	About string
	// Peer of the Transfer, and Sender the value of SenderLabel; empty for one of this cluster.
	Peer, Sender string
	// Wanted is nil when none are to be taken any more.
	Wanted *v1alpha1.DestinationSnapshot
	// Taking: the snapshot of a run is not taken yet, so that claim and class are to be looked at.
	Taking bool
}

// Labels of the snapshot after a run.
func (t HistoryTarget) Labels(run string) map[string]string {
	labels := agentpod.Labels(HistoryComponent, v1alpha1.TransferLabel, types.UID(t.Of))
	labels[v1alpha1.RunLabel] = run
	if t.Peer != "" {
		labels[PeerLabel], labels[SenderLabel] = t.Peer, t.Sender
	}
	return labels
}

func expired(wanted *v1alpha1.DestinationSnapshot, snapshots []v1alpha1.SnapshotStatus) []string {
	if wanted == nil {
		return nil
	}
	return Expired(wanted.Retention, snapshots)
}

func untaken(s v1alpha1.SnapshotStatus) bool {
	return s.State == v1alpha1.SnapshotPending || s.State == v1alpha1.SnapshotTaking
}

// unsettled: something is to be done about it, or awaited.
func unsettled(s v1alpha1.SnapshotStatus) bool { return !decided(s) }

// keeper decides about the snapshots of a claim: of the destination of a Transfer, or of what a Delivery has received.
type keeper struct {
	target HistoryTarget
	facts  *HistoryFacts
	now    time.Time
	// snapshots and conditions are those of status, and become the result.
	snapshots  []v1alpha1.SnapshotStatus
	conditions []metav1.Condition
	generation int64
}

// observe shows how far the snapshots are.
func (k *keeper) observe() {
	if !k.facts.Seen || k.facts.Problem != nil {
		return
	}
	before := k.snapshots
	k.snapshots = slices.DeleteFunc(slices.Clone(before), func(s v1alpha1.SnapshotStatus) bool {
		if untaken(s) || k.facts.snapshot(s.Name) != nil {
			return false
		}
		if s.Name == before[0].Name {
			k.lost(s)
		}
		return true
	})
	for i := range k.snapshots {
		s := &k.snapshots[i]
		if seen := k.facts.snapshot(s.Name); seen != nil {
			if i == 0 && seen.Deleting && !untaken(*s) {
				k.lost(*s)
			}
			k.observeSnapshot(s, seen, slices.ContainsFunc(k.snapshots[:i], decided))
		}
	}
}

// lost says of the newest snapshot that it is gone or going, if nothing here deletes it.
func (k *keeper) lost(s v1alpha1.SnapshotStatus) {
	if s.State != v1alpha1.SnapshotRemoving {
		k.none(v1alpha1.ReasonSnapshotLost, fmt.Sprintf(
			"VolumeSnapshot %q of run %s was deleted by somebody else; the next run makes another", s.Name, s.RunID))
	}
}

// decided: it is known whether there is a snapshot of that run.
func decided(s v1alpha1.SnapshotStatus) bool {
	return s.State == v1alpha1.SnapshotReady || s.State == v1alpha1.SnapshotFailed
}

// observeSnapshot shows how far one is; surpassed: a newer one is decided.
func (k *keeper) observeSnapshot(s *v1alpha1.SnapshotStatus, seen *Snapshot, surpassed bool) {
	if seen.RestoreSize != nil {
		s.Size = seen.RestoreSize
	}
	switch {
	case seen.Deleting:
		if !untaken(*s) {
			s.State = v1alpha1.SnapshotRemoving
		}
	case s.State == v1alpha1.SnapshotTaking && k.overdue(s, seen):
	case s.State == v1alpha1.SnapshotTaking && (seen.Ready || !seen.Created.IsZero()):
		s.State = v1alpha1.SnapshotTaken
	case s.State == v1alpha1.SnapshotTaking && seen.Failure != "":
		k.none(v1alpha1.ReasonSnapshotFailed, fmt.Sprintf(
			"the driver cannot take VolumeSnapshot %q of run %s, and tries again until %s; free space in its pool if that is "+
				"full: %s", s.Name, s.RunID, text(s.StartTime.Add(takeDeadline)), conditions.Shorten(seen.Failure)))
	}
	if s.State == v1alpha1.SnapshotTaken && seen.Ready {
		s.State = v1alpha1.SnapshotReady
		if surpassed {
			return
		}
		k.say(conditions.New(v1alpha1.ConditionHistoryKept, true, v1alpha1.ReasonSnapshotReady, fmt.Sprintf(
			"VolumeSnapshot %q of run %s can be restored", s.Name, s.RunID)))
	}
}

// overdue: the driver took it when others may have written already. By its clock alone, which may be wrong, none is: one
// that is seen in time was taken in time.
func (k *keeper) overdue(s *v1alpha1.SnapshotStatus, seen *Snapshot) bool {
	if s.StartTime == nil {
		return false
	}
	deadline := s.StartTime.Add(takeDeadline)
	return !k.now.Before(deadline) && seen.Created.After(deadline)
}

// keep brings snapshots on their way, and has those removed that the retention does not keep. It returns what is to be
// done and when to look again.
func (k *keeper) keep() (step *HistoryStep, again time.Duration) {
	waits := slices.ContainsFunc(k.snapshots, untaken)
	step = &HistoryStep{}
	for i := range k.snapshots {
		k.advance(&k.snapshots[i], i == 0, step)
	}
	k.snapshots = slices.DeleteFunc(k.snapshots, func(s v1alpha1.SnapshotStatus) bool { return s.State == "" })
	removing := expired(k.target.Wanted, k.snapshots)
	for i := range k.snapshots {
		s := &k.snapshots[i]
		if slices.Contains(removing, s.Name) {
			s.State = v1alpha1.SnapshotRemoving
		}
		if s.State == v1alpha1.SnapshotRemoving {
			step.Remove = append(step.Remove, s.Name)
		}
		again = attempt.Sooner(again, nextSnapshotLook(s, k.now, k.facts.Problem != nil))
	}
	if waits && !slices.ContainsFunc(k.snapshots, untaken) {
		again = time.Millisecond // a run may wait for that
	}
	return step, again
}

// advance begins a snapshot, or gives it up when it is late: a state that is empty then says that there is
// nothing of it. What is said is of the newest.
func (k *keeper) advance(s *v1alpha1.SnapshotStatus, newest bool, step *HistoryStep) {
	facts, wanted := k.facts, k.target.Wanted != nil
	seen := facts.snapshot(s.Name)
	// One that may have been made is looked for as long as nobody can look.
	none := s.State == v1alpha1.SnapshotPending || seen == nil && facts.Problem == nil
	if s.StartTime == nil {
		now := metav1.NewTime(k.now)
		s.StartTime = &now
	}
	switch waited := k.now.Sub(s.StartTime.Time); {
	case untaken(*s) && none && !wanted:
		s.State = ""
	case untaken(*s) && waited >= takeDeadline:
		k.tooLate(s, seen, none)
	case untaken(*s) && seen == nil && wanted:
		if problem := k.check(*s); problem != nil {
			k.none(problem.Reason, problem.Message)
			if k.target.Peer != "" && s.State == v1alpha1.SnapshotPending && slices.Contains(hopeless, problem.Reason) {
				s.State = ""
			}
			return
		}
		s.State = v1alpha1.SnapshotTaking
		step.Take, step.Class = s.DeepCopy(), facts.Class.Name
	case s.State == v1alpha1.SnapshotTaken && waited >= readyDeadline:
		s.State = v1alpha1.SnapshotFailed
		if !newest {
			return
		}
		k.none(v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf(
			"VolumeSnapshot %q of run %s was not ready within %s and goes when a later one is; look at the log of the CSI driver "+
				"and at the object: kubectl -n %s describe volumesnapshot %s", s.Name, s.RunID, readyDeadline,
			k.target.Namespace, s.Name))
	case s.State == v1alpha1.SnapshotTaken && waited >= takeDeadline && newest:
		k.none(v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf(
			"VolumeSnapshot %q of run %s was taken and cannot be restored yet; if the driver uploads it, wait, else look at its "+
				"log; it is given up at %s", s.Name, s.RunID, text(s.StartTime.Add(readyDeadline))))
	}
}

// tooLate gives up a snapshot that is not taken: the next run may write now, so that whatever would be taken later is
// of no run. What is said of one that could not be made stays.
func (k *keeper) tooLate(s *v1alpha1.SnapshotStatus, seen *Snapshot, none bool) {
	s.State = v1alpha1.SnapshotRemoving
	if none {
		s.State = ""
	}
	switch {
	case seen != nil && seen.Failure != "":
		k.none(v1alpha1.ReasonSnapshotFailed, fmt.Sprintf(
			"there is no snapshot of run %s, because the driver could not take it within %s; free space in its pool if that is "+
				"full: %s", s.RunID, takeDeadline, conditions.Shorten(seen.Failure)))
	case seen != nil:
		k.none(v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf(
			"there is no snapshot of run %s, because the driver did not take it within %s; look at the events of the namespace "+
				"and at the logs of the CSI driver and of the snapshot-controller: kubectl -n %s get events", s.RunID,
			takeDeadline, k.target.Namespace))
	case !meta.IsStatusConditionFalse(k.conditions, v1alpha1.ConditionHistoryKept):
		k.none(v1alpha1.ReasonSnapshotLost, fmt.Sprintf(
			"there is no snapshot of run %s: VolumeSnapshot %q was deleted by somebody else before it was taken", s.RunID,
			s.Name))
	}
}

// nextSnapshotLook is how long to wait until the next look at a snapshot; 0: none is needed. blind: nobody can look.
func nextSnapshotLook(s *v1alpha1.SnapshotStatus, now time.Time, blind bool) time.Duration {
	wait := max(now.Sub(s.StartTime.Time)/8, stagingFirst)
	switch s.State {
	case v1alpha1.SnapshotPending, v1alpha1.SnapshotTaking:
		return min(wait, stagingLast)
	case v1alpha1.SnapshotTaken:
		return min(wait, historyLast)
	case v1alpha1.SnapshotRemoving:
		if blind {
			return attempt.StallLast
		}
		return stagingLast
	}
	return 0
}

// check is what keeps a snapshot from being made; nil if nothing is known to.
func (k *keeper) check(s v1alpha1.SnapshotStatus) *agentpod.Problem {
	facts, name, class := k.facts, k.target.Claim, k.target.Wanted.VolumeSnapshotClassName
	unready := 0
	for i := range k.snapshots {
		if k.snapshots[i].State == v1alpha1.SnapshotTaken {
			unready++
		}
	}
	switch {
	case facts.Problem != nil:
		return facts.Problem
	case k.target.Peer != "" && facts.Refusal != "":
		return &agentpod.Problem{Reason: v1alpha1.ReasonNotGranted, Message: facts.Refusal}
	case k.target.Peer != "" && facts.Held > facts.Limit+unready: // none goes for one that is not ready
		return &agentpod.Problem{Reason: v1alpha1.ReasonTooManySnapshots, Message: fmt.Sprintf(
			"%d VolumeSnapshots of PersistentVolumeClaim %q are kept for peers, and the PeerGrant allows %d; raise maxSnapshots "+
				"there, or delete those of Transfers that are gone, or keep less by spec.destination.snapshot.retention",
			facts.Held, name, facts.Limit)}
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

// none says that there is no snapshot, and why.
func (k *keeper) none(reason, message string) {
	k.say(conditions.New(v1alpha1.ConditionHistoryKept, false, reason, message))
}

func (k *keeper) say(condition metav1.Condition) {
	k.conditions = conditions.Merge(k.conditions, []metav1.Condition{condition}, k.generation, k.now)
}
