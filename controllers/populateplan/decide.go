// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package populateplan decides how a claim is filled whose dataSourceRef names a Transfer. Like plan it is pure.
//
// A claim of its own, the prime, is filled by a Transfer or made of a VolumeSnapshot. Then its volume is bound to the
// claim that waits. Kubernetes
// calls what does so a volume populator.
package populateplan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// Reasons of events of claims.
const (
	// EventPopulating: the Transfer that fills the prime exists.
	EventPopulating = "Populating"
	// EventPopulated: the claim has got the volume.
	EventPopulated = "Populated"
	// EventNotPopulated: somebody has to do something.
	EventNotPopulated = "NotPopulated"
	// SelectedNode is the annotation by which the scheduler says where the first consumer of a claim is to run.
	SelectedNode = "volume.kubernetes.io/selected-node"
	// again is how soon to look for what no event tells of.
	again = time.Minute
	// soon is how soon to look for what a cache may not have yet.
	soon = 5 * time.Second
)

// Facts are what was seen. What does not exist is nil.
type Facts struct {
	// Claim that waits for its data.
	Claim *corev1.PersistentVolumeClaim
	// Class is its StorageClass.
	Class *storagev1.StorageClass
	// Source is the Transfer that the claim names.
	Source *v1alpha1.Transfer
	// History is what there is of the VolumeSnapshots of Source's destination. It is looked at where NeedsHistory.
	History plan.HistoryFacts
	// SnapshotGone: the VolumeSnapshot that the prime is to be made of does not exist. It is asked for by its name where
	// ReadsSnapshot: one that another Transfer of Source's name has taken is not in History.
	SnapshotGone bool
	// Prime is the claim that is filled in its place, and Fill the Transfer that does so.
	Prime *corev1.PersistentVolumeClaim
	Fill  *v1alpha1.Transfer
	// Volume that the prime is bound to.
	Volume *corev1.PersistentVolume
}

// Event is to be shown with the claim.
type Event struct {
	Type, Reason, Message string
}

// Decision is what to do, in the order of its fields.
type Decision struct {
	CreatePrime *corev1.PersistentVolumeClaim
	CreateFill  *v1alpha1.Transfer
	// Bind has Facts.Volume bound to the claim in place of the prime.
	Bind bool
	// Remove has Fill and Prime deleted.
	Remove bool
	Event  *Event
	// RequeueAfter is when to look again if nothing happens before; 0 for never.
	RequeueAfter time.Duration
}

// States of claims that are to be filled, as the metric has them.
const (
	// StateWaiting: nothing is made yet, for example because the claim's consumer has no node.
	StateWaiting = "Waiting"
	// StatePopulating: a prime is made or filled.
	StatePopulating = "Populating"
	// StateFailing: somebody has to do something.
	StateFailing = "Failing"
)

// StateOf is the state of a claim of which this was decided; empty if it needs nothing more.
func StateOf(f Facts, d Decision) string {
	switch {
	case f.Claim.DeletionTimestamp != nil, f.Claim.Status.Phase == corev1.ClaimBound:
		return ""
	case d.Event != nil && d.Event.Type == corev1.EventTypeWarning:
		return StateFailing
	case f.Prime != nil, d.CreatePrime != nil:
		return StatePopulating
	}
	return StateWaiting
}

// Wanted reports whether a claim is to be filled by this cluster's manager.
func Wanted(claim *corev1.PersistentVolumeClaim) bool {
	ref := claim.Spec.DataSourceRef
	return ref != nil && ref.APIGroup != nil && *ref.APIGroup == v1alpha1.GroupVersion.Group
}

// Decide is the heart of the controller. It does not change its arguments.
func Decide(f Facts) Decision {
	claim := f.Claim
	switch {
	case claim.DeletionTimestamp != nil:
		return Decision{} // what it owns goes with it
	case claim.Status.Phase == corev1.ClaimBound:
		return clean(f)
	case f.Fill != nil && !metav1.IsControlledBy(f.Fill, claim):
		return fails("Transfer %q is not of this claim; delete it", f.Fill.Name)
	case f.Prime != nil && !metav1.IsControlledBy(f.Prime, claim):
		return fails("claim %q is not of this claim; delete it", f.Prime.Name)
	case f.Fill != nil && f.Prime == nil, f.Prime != nil && f.Prime.DeletionTimestamp != nil:
		// What was filled is gone: another prime would be bound empty.
		return Decision{Remove: true, RequeueAfter: soon}
	case f.Prime != nil && f.Prime.Status.Phase == corev1.ClaimLost && f.Volume == nil:
		return fails("the volume of claim %q is gone; delete that claim", f.Prime.Name)
	case f.Prime != nil && f.Prime.Spec.DataSource != nil && f.Volume == nil:
		return unmade(f)
	case f.Prime != nil && f.Prime.Spec.DataSource != nil:
		return bind(f)
	case f.Prime != nil && f.Fill != nil && done(f.Fill):
		return bind(f)
	case f.Prime != nil && f.Fill != nil:
		return follow(f.Fill)
	}
	return begin(f)
}

// clean removes what has populated a claim. Objects of these names that the claim does not own are somebody else's.
func clean(f Facts) Decision {
	mine := func(o metav1.Object) bool {
		return metav1.IsControlledBy(o, f.Claim) && o.GetDeletionTimestamp() == nil
	}
	if f.Fill != nil && mine(f.Fill) || f.Prime != nil && mine(f.Prime) {
		return Decision{Remove: true, RequeueAfter: again}
	}
	return Decision{}
}

// unmade is about a prime that the driver has not made of its snapshot yet. Where its volume cannot be on the node that it
// was made for, the scheduler chooses another one for the claim that waits, after a while. The provisioner may have taken
// the node from the prime by then. Where its snapshot is gone, the next one is tried.
func unmade(f Facts) Decision {
	waiting := f.ReadsSnapshot() != ""
	moved := waits(f.Class) && f.Prime.Annotations[madeForNode] != f.Claim.Annotations[SelectedNode]
	if waiting && (moved || f.SnapshotGone) {
		return Decision{Remove: true, RequeueAfter: soon}
	}
	return Decision{RequeueAfter: again}
}

// waits reports whether volumes of a class are made for a consumer that has a node.
func waits(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil &&
		*class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

func fails(format string, args ...any) Decision {
	return Decision{
		Event:        &Event{corev1.EventTypeWarning, EventNotPopulated, fmt.Sprintf(format, args...)},
		RequeueAfter: again,
	}
}

// Rejected is what follows when the API server does not let the manager populate a claim.
func Rejected(words string) Decision {
	return fails("the API server rejects what populates the claim; ask the platform team whether the chart is installed "+
		"with populator.enabled, and whether a ResourceQuota is exhausted: %s", words)
}

// begin makes what fills the volume, when there is something to fill it with, and, if the class waits for a first
// consumer, that has a node.
func begin(f Facts) Decision {
	claim, ref := f.Claim, f.Claim.Spec.DataSourceRef
	switch {
	case ref.Kind != "Transfer":
		return fails("dataSourceRef names a %s; name a Transfer with destination.objectStore or destination.snapshot", ref.Kind)
	case ref.Namespace != nil && *ref.Namespace != claim.Namespace:
		return fails("dataSourceRef names namespace %q; only Transfers of the claim's own namespace are read", *ref.Namespace)
	case f.Source == nil || f.Source.DeletionTimestamp != nil:
		return fails("there is no Transfer %q in this namespace; create the one that wrote the data", ref.Name)
	case f.Source.Spec.Destination.ObjectStore == nil && f.Source.Spec.Destination.Snapshot == nil:
		return fails("the destination of Transfer %q is no objectStore and has no snapshot; name one with "+
			"destination.objectStore or destination.snapshot", ref.Name)
	case f.Source.Spec.Destination.Snapshot != nil && !plan.IsLocal(f.Source):
		return fails("Transfer %q keeps its history in the cluster of Peer %q; make a claim there whose dataSource names one "+
			"of its VolumeSnapshots", ref.Name, f.Source.Spec.Destination.Peer)
	case f.Class == nil:
		return fails("StorageClass %q does not exist; a claim is populated in a volume of its class", className(claim))
	case claim.Spec.Selector != nil || claim.Spec.VolumeName != "":
		return fails("the claim has a selector or a volumeName; a claim is populated in a new volume, remove both")
	}
	if waits(f.Class) && claim.Annotations[SelectedNode] == "" {
		return Decision{} // the scheduler annotates the claim
	}
	if f.Source.Spec.Destination.Snapshot != nil {
		return restore(f)
	}
	d := Decision{Event: &Event{corev1.EventTypeNormal, EventPopulating, fmt.Sprintf(
		"Transfer %q reads what Transfer %q wrote: kubectl -n %s get transfer %[1]s", Name(claim), ref.Name,
		claim.Namespace)}}
	if f.Fill == nil {
		d.CreateFill = fill(claim, f.Source)
	}
	if f.Prime == nil {
		d.CreatePrime = prime(claim)
	}
	return d
}

// NeedsHistory reports whether a decision needs to know which VolumeSnapshots there are: status may list some that
// somebody has deleted since.
func (f *Facts) NeedsHistory() bool {
	return f.Source != nil && f.Source.Spec.Destination.Snapshot != nil && plan.IsLocal(f.Source) && f.Prime == nil &&
		f.Claim.Status.Phase != corev1.ClaimBound
}

// ReadsSnapshot is the name of the VolumeSnapshot that the prime's volume is still to be made of; empty if there is
// none.
func (f *Facts) ReadsSnapshot() string {
	if f.Prime == nil || f.Prime.Spec.DataSource == nil || f.Prime.Spec.VolumeName != "" {
		return ""
	}
	return f.Prime.Spec.DataSource.Name
}

func (f *Facts) snapshot(name string) *plan.Snapshot {
	i := slices.IndexFunc(f.History.Snapshots, func(s plan.Snapshot) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &f.History.Snapshots[i]
}

// restore has the driver make the volume of the newest snapshot that exists and is ready.
func restore(f Facts) Decision {
	if f.History.Problem != nil {
		return fails("the VolumeSnapshots of Transfer %q cannot be seen: %s", f.Source.Name, f.History.Problem.Message)
	}
	var newest *plan.Snapshot
	for _, s := range f.Source.Status.Snapshots { // the newest first
		seen := f.snapshot(s.Name)
		if s.State == v1alpha1.SnapshotReady && seen != nil && seen.Ready && !seen.Deleting {
			newest = seen
			break
		}
	}
	if newest == nil {
		return fails("Transfer %q has no snapshot that is Ready; look at its condition HistoryKept", f.Source.Name)
	}
	needs := newest.RestoreSize
	if size := f.Claim.Spec.Resources.Requests.Storage(); needs != nil && size.Cmp(*needs) < 0 {
		return fails("VolumeSnapshot %q needs %s, and the claim asks for %s; create the claim larger", newest.Name,
			needs, size)
	}
	p := prime(f.Claim)
	p.Spec.DataSource = &corev1.TypedLocalObjectReference{
		APIGroup: ptr.To("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: newest.Name,
	}
	return Decision{CreatePrime: p, Event: &Event{corev1.EventTypeNormal, EventPopulating, fmt.Sprintf(
		"claim %q is made of VolumeSnapshot %q: kubectl -n %s describe pvc %[1]s", p.Name, newest.Name, p.Namespace)}}
}

// done reports whether a Transfer has filled its claim.
func done(t *v1alpha1.Transfer) bool {
	return meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionComplete)
}

// follow shows why a Transfer does not go on.
func follow(t *v1alpha1.Transfer) Decision {
	ready := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionReady)
	for _, condition := range []string{v1alpha1.ConditionStalled, v1alpha1.ConditionFailed} {
		if ready != nil && meta.IsStatusConditionTrue(t.Status.Conditions, condition) {
			return fails("Transfer %q: %s: %s", t.Name, ready.Reason, ready.Message)
		}
	}
	return Decision{}
}

// bind gives the claim the volume of its prime.
func bind(f Facts) Decision {
	if f.Volume == nil || f.Volume.Spec.ClaimRef == nil {
		return Decision{RequeueAfter: soon} // the cache is late
	}
	switch f.Volume.Spec.ClaimRef.UID {
	case f.Prime.UID:
		return Decision{Bind: true, Event: &Event{corev1.EventTypeNormal, EventPopulated, fmt.Sprintf(
			"has volume %q with what Transfer %q wrote", f.Volume.Name, f.Claim.Spec.DataSourceRef.Name)}}
	case f.Claim.UID:
		return Decision{} // the claim becomes Bound
	}
	return fails("volume %q of claim %q was given to another claim; delete both claims", f.Volume.Name, f.Prime.Name)
}

func className(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}
