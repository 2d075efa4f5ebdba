// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/policy"
)

// A Transfer with several destinations has a Transfer for each, its legs, which it makes and owns. A leg is planned as
// any other one: it is checked and admitted, has attempts, a Delivery, a history and a receipt. What one to a claim has
// not is a pod: the whole makes one that sends to all those that are ready. One to an object store has its own, which
// reads what the whole reads: a Job has the credentials of two stores at most, and one that sends of none.

const (
	// maxDestinations is what the API allows, maxDestinationName the length of a name.
	maxDestinations    = 64
	maxDestinationName = 40
	// maxName is how long the name of an object may be.
	maxName = 253
)

// LegFacts are what was seen of one of several destinations.
type LegFacts struct {
	// Transfer is the leg; nil if there is none.
	Transfer *v1alpha1.Transfer
	// Foreign: there is a Transfer of that name which is none of this one's.
	Foreign bool
	// Peer of the leg; nil if it does not exist, or the destination is in this cluster. Delivery is then that of its
	// attempt; nil if it does not exist.
	Peer     *v1alpha1.Peer
	Delivery *v1alpha1.Delivery
}

// HasLegs reports whether a Transfer has several destinations.
func HasLegs(transfer *v1alpha1.Transfer) bool { return len(transfer.Spec.Destinations) > 0 }

// LegName is the name of the leg for a destination.
func LegName(whole, destination string) string { return whole + "-" + destination }

// WholeOf is the Transfer that a leg is of; nil if the Transfer is no leg.
func WholeOf(transfer *v1alpha1.Transfer) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(transfer)
	if owner == nil || owner.Kind != "Transfer" {
		return nil
	}
	if group, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || group.Group != v1alpha1.GroupVersion.Group {
		return nil
	}
	return owner
}

// IsLeg reports whether a Transfer is a leg of another one.
func IsLeg(transfer *v1alpha1.Transfer) bool { return WholeOf(transfer) != nil }

// HasPod reports whether attempts of a Transfer have pods of their own. Those of legs to claims have none.
func HasPod(transfer *v1alpha1.Transfer) bool {
	return !IsLeg(transfer) || transfer.Spec.Destination.ObjectStore != nil
}

// IsLegOf reports whether a Transfer is a leg of that one.
func IsLegOf(transfer, whole *v1alpha1.Transfer) bool {
	owner := WholeOf(transfer)
	return owner != nil && owner.UID == whole.UID
}

// Destinations are the names of those that a Transfer has, or had.
func Destinations(whole *v1alpha1.Transfer) []string {
	var names []string
	for i := range whole.Spec.Destinations {
		names = append(names, whole.Spec.Destinations[i].Name)
	}
	for i := range whole.Status.Destinations {
		if name := whole.Status.Destinations[i].Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// destinationOf is the destination whose leg has that name; empty if there is none.
func destinationOf(whole *v1alpha1.Transfer, leg string) string {
	if whole == nil {
		return ""
	}
	for i := range whole.Spec.Destinations {
		if name := whole.Spec.Destinations[i].Name; LegName(whole.Name, name) == leg {
			return name
		}
	}
	return ""
}

// Sends reports whether the present pod of a Transfer is that of the present attempt of a leg.
func Sends(whole, leg *v1alpha1.Transfer) bool {
	if whole == nil || whole.Status.Run == nil || leg.Status.Run == nil {
		return false
	}
	name := destinationOf(whole, leg.Name)
	return slices.ContainsFunc(whole.Status.Destinations, func(d v1alpha1.DestinationStatus) bool {
		return d.Name == name && d.Sent > 0 && d.Sent == leg.Status.Run.Attempt && d.RunID == leg.Status.Run.ID
	})
}

// Receivers are the legs to which the present pod of a Transfer sends, with the names of their destinations.
func Receivers(whole *v1alpha1.Transfer, legs map[string]LegFacts) map[string]LegFacts {
	all := map[string]LegFacts{}
	for name, leg := range legs {
		if leg.Transfer != nil && Sends(whole, leg.Transfer) {
			all[name] = leg
		}
	}
	return all
}

// PodOver reports whether the pod of a Transfer with several destinations is needed no more by the next status: its run has
// ended, or another pod follows.
func PodOver(before *v1alpha1.Transfer, after v1alpha1.TransferStatus) bool {
	was, is := before.Status.Run, after.Run
	return HasLegs(before) && was != nil && was.CompletionTime == nil && is != nil &&
		(is.CompletionTime != nil || is.ID != was.ID || is.Attempt != was.Attempt)
}

// FamilyChanged reports whether a change of a Transfer concerns its legs, or the Transfer that it is a leg of. Progress
// does not.
func FamilyChanged(before, after *v1alpha1.Transfer) bool {
	switch {
	case IsLeg(after):
		a, b := before.Status.DeepCopy(), after.Status.DeepCopy()
		return before.Generation != after.Generation ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!equality.Semantic.DeepEqual(transferState(*a), transferState(*b))
	case HasLegs(after):
		return !equality.Semantic.DeepEqual(before.Status.GatheringTime, after.Status.GatheringTime) ||
			UnderWay(before) != UnderWay(after) || attemptOf(before) != attemptOf(after) ||
			!slices.EqualFunc(before.Status.Destinations, after.Status.Destinations, func(a, b v1alpha1.DestinationStatus) bool {
				return a.Name == b.Name && a.Sent == b.Sent
			})
	}
	return false
}

func attemptOf(transfer *v1alpha1.Transfer) string {
	if transfer.Status.Run == nil {
		return ""
	}
	return attempt.Name(transfer.Name, transfer.Status.Run.ID, transfer.Status.Run.Attempt)
}

// legSpec is what a Transfer wants of the leg for a destination.
func legSpec(whole v1alpha1.TransferSpec, to v1alpha1.NamedDestination) v1alpha1.TransferSpec {
	spec := *whole.DeepCopy()
	spec.Destinations, spec.Schedule, spec.Objective, spec.Deadline = nil, nil, nil, nil
	// The whole makes the copy, and runs the hooks.
	spec.Source.SourceCopy = v1alpha1.SourceCopy{CopyMethod: v1alpha1.CopyDirect}
	spec.Source.VolumeGroupSnapshotName = ""
	spec.Destination = v1alpha1.TransferDestination{
		Peer: to.Peer, Namespace: to.Namespace, ObjectStore: to.ObjectStore.DeepCopy(),
		PersistentVolumeClaim: v1alpha1.DestinationClaim{PersistentVolumeClaimPath: to.PersistentVolumeClaim},
		Form:                  to.Form, Encryption: to.Encryption.DeepCopy(),
	}
	return spec
}

// ofDestinations has a pod of several destinations, or of one of them, read what the whole reads, where the others are
// that do so. Its Job is queued as those of the whole.
func ofDestinations(a *attempt.Spec, whole *v1alpha1.Transfer) {
	a.Mounts[0].Claim = StagedClaim(whole)
	a.JobLabels = queueLabels(whole)
	a.Beside = map[string]string{v1alpha1.DestinationsLabel: string(whole.UID)}
	a.Labels[v1alpha1.DestinationsLabel] = string(whole.UID)
}

// legOf is the leg that there should be for a destination in the present run.
func legOf(whole *v1alpha1.Transfer, to v1alpha1.NamedDestination) v1alpha1.Transfer {
	return v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: whole.Namespace, Name: LegName(whole.Name, to.Name),
			Annotations:     map[string]string{v1alpha1.RunAnnotation: whole.Status.Run.ID},
			OwnerReferences: []metav1.OwnerReference{agentpod.OwnerReference("Transfer", whole)},
		},
		Spec: legSpec(whole.Spec, to),
	}
}

// validateDestinations checks again what the API server checks.
func validateDestinations(spec v1alpha1.TransferSpec) error {
	if len(spec.Destinations) == 0 {
		return nil
	}
	const field = "spec.destinations"
	single := spec.Destination
	switch {
	case single.Peer != "" || single.ObjectStore != nil || single.PersistentVolumeClaim.ClaimName != "":
		return &policy.InvalidError{Field: field, Fix: "must not be set beside spec.destination; remove one of them"}
	case len(spec.Destinations) > maxDestinations:
		return &policy.InvalidError{Field: field, Fix: fmt.Sprintf("must have at most %d items", maxDestinations)}
	case spec.Source.ObjectStore != nil:
		return &policy.InvalidError{Field: field, Fix: "need a persistentVolumeClaim as source"}
	case spec.Source.Hooks != nil && !copies(spec.Source):
		return &policy.InvalidError{Field: "spec.source.copyMethod", Fix: "must be Snapshot or Clone for hooks with several " +
			"destinations: they would last until the slowest of these has everything; set it, or remove hooks"}
	}
	seen := map[string]bool{}
	type place struct{ peer, namespace, claim, store, path string }
	places := map[place]bool{}
	for _, to := range spec.Destinations {
		if to.Name == "" || len(to.Name) > maxDestinationName || seen[to.Name] {
			return &policy.InvalidError{Field: field, Fix: "must each have a name of its own of at most 40 characters"}
		}
		seen[to.Name] = true
		// Comparing each with each costs more than the API server allows a rule. Directories in each other are told apart by
		// checkConflict.
		at := place{to.Peer, to.Namespace, to.PersistentVolumeClaim.ClaimName, "", to.PersistentVolumeClaim.Path}
		if to.ObjectStore != nil {
			at.store, at.path = to.ObjectStore.Name, to.ObjectStore.Path
		}
		if places[at] {
			return &policy.InvalidError{Field: field, Fix: fmt.Sprintf(
				"must not name a directory twice, as %q does; remove one of the two", to.Name)}
		}
		places[at] = true
		if to.Form.Archived() && to.ObjectStore == nil { // A leg to a claim has no pod of its own to archive with.
			return &policy.InvalidError{
				Field: field + "." + to.Name + ".form", Fix: "must be Files, Gzip, Zstd or absent without objectStore",
			}
		}
		if err := ValidateTransfer(legSpec(spec, to)); err != nil {
			return ofDestination(to.Name, err)
		}
	}
	return nil
}

// ofDestination names the destination in what is wrong with the spec of its leg.
func ofDestination(name string, err error) error {
	var invalid *policy.InvalidError
	if errors.As(err, &invalid) {
		if field, found := strings.CutPrefix(invalid.Field, "spec.destination"); found {
			return &policy.InvalidError{Field: "spec.destinations." + name + field, Fix: invalid.Fix}
		}
	}
	return err
}

// checkLegs looks for what keeps legs from being made.
func checkLegs(whole *v1alpha1.Transfer, facts TransferFacts) *agentpod.Problem {
	for _, to := range whole.Spec.Destinations {
		name := LegName(whole.Name, to.Name)
		switch {
		case len(name) > maxName:
			return &agentpod.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(
				"the Transfer for destination %q would have a name of %d characters, and %d is the limit; use a shorter name",
				to.Name, len(name), maxName)}
		case facts.Legs[to.Name].Foreign:
			return &agentpod.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(
				"there is a Transfer %q already, which is not the one for destination %q; delete it, or use another name for "+
					"the destination", name, to.Name)}
		}
	}
	return nil
}

// routeOfLegs is that of the legs which go furthest.
func routeOfLegs(whole *v1alpha1.Transfer) v1alpha1.Route {
	any := func(is func(v1alpha1.NamedDestination) bool) bool {
		return slices.ContainsFunc(whole.Spec.Destinations, is)
	}
	switch {
	case any(func(d v1alpha1.NamedDestination) bool { return d.Peer != "" }):
		return v1alpha1.RouteGateway
	case any(func(d v1alpha1.NamedDestination) bool { return d.ObjectStore == nil }):
		return v1alpha1.RouteDirect
	}
	return v1alpha1.RouteObjectStore
}

// leg reports whether the decision is about a leg.
func (d *transferDecision) leg() bool { return IsLeg(d.transfer) }

// shares reports whether the decision is about a leg to which the pod of its whole sends.
func (d *transferDecision) shares() bool { return !HasPod(d.transfer) }

// mayBegin reports whether an attempt of a leg may begin: its whole gathers those for its next pod. One with a pod of
// its own may while that pod sends, too: what is read is there.
func (d *transferDecision) mayBegin() bool {
	whole := d.facts.Whole
	if whole == nil || whole.DeletionTimestamp != nil || !UnderWay(whole) || destinationOf(whole, d.transfer.Name) == "" {
		return false
	}
	sends := slices.ContainsFunc(whole.Status.Destinations, func(d v1alpha1.DestinationStatus) bool { return d.Sent > 0 })
	return whole.Status.GatheringTime != nil || sends && HasPod(d.transfer)
}

// mayRead reports whether a pod of a leg may be made: what its run is to read is there. Until then its whole may be
// between two copies, and the source itself is never read in their place.
func (d *transferDecision) mayRead() bool {
	if !d.mayBegin() {
		return false
	}
	whole, run := d.facts.Whole, d.facts.Whole.Status.Run.ID
	return !Stages(whole) ||
		KeptCopy(whole) != "" && whole.Status.Staged.RunID == run && d.transfer.Status.LastRunRequest == run
}

// copyServed reports whether what becomes of the copy that is there need not end an attempt: the pod of a leg has
// mounted it, so that it lasts until that has ended, or all legs have.
func (d *transferDecision) copyServed() bool {
	if !HasLegs(d.transfer) {
		return false
	}
	ended := true
	for _, to := range d.transfer.Spec.Destinations {
		leg, state := d.facts.Legs[to.Name].Transfer, d.legState(to)
		ended = ended && (state == legComplete || state == legFailed)
		if leg == nil || !HasPod(leg) || !UnderWay(leg) || leg.Status.LastRunRequest != d.transfer.Status.Run.ID {
			continue
		}
		switch leg.Status.Phase {
		case v1alpha1.TransferOpening, v1alpha1.TransferTransferring:
			return true
		}
	}
	return ended
}

// copyGone reports whether the copy is gone that legs of the run have begun with. Another one is of a later time, so
// that it is of another run: all destinations of one get the same.
func (d *transferDecision) copyGone() bool {
	if !HasLegs(d.transfer) || !Stages(d.transfer) || KeptCopy(d.transfer) != "" {
		return false
	}
	for _, leg := range d.facts.Legs {
		if leg.Transfer != nil && leg.Transfer.Status.LastRunRequest == d.transfer.Status.Run.ID {
			return true
		}
	}
	return false
}

// legWantsRun: its whole has begun a run. Of the run before a leg gives up an attempt that has no pod.
func (d *transferDecision) legWantsRun() bool {
	status := &d.transfer.Status
	stuck := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled)
	sent := d.facts.Job != nil || status.Phase == v1alpha1.TransferOpening || status.Phase == v1alpha1.TransferTransferring
	if !d.mayBegin() || d.running() && !stuck && !d.waiting() && sent {
		return false
	}
	asked := d.transfer.Annotations[v1alpha1.RunAnnotation]
	return asked == d.facts.Whole.Status.Run.ID && asked != d.transfer.Status.LastRunRequest
}

// awaitWhole: a leg has nothing to do.
func (d *transferDecision) awaitWhole() {
	status := &d.transfer.Status
	if status.Run != nil || d.pending() && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled) {
		return
	}
	d.set(v1alpha1.TransferPending, conditions.Reconciling(v1alpha1.ReasonGathering, fmt.Sprintf(
		"the pod of Transfer %q sends to others now, or has not begun its run", WholeOf(d.transfer).Name)))
}

// ready has a leg that could start its agent wait for the pod of its whole instead.
func (d *transferDecision) ready() {
	if d.out.Start == nil {
		return
	}
	d.out.Start, d.out.RequeueAfter = nil, attempt.StallLast
	d.set(v1alpha1.TransferStarting, conditions.Reconciling(v1alpha1.ReasonGathering, fmt.Sprintf(
		"attempt %d of run %s is ready for the pod that sends to all destinations", d.transfer.Status.Run.Attempt,
		d.transfer.Status.Run.ID)))
}

// isReady reports whether a leg waits for the pod of its whole.
func isReady(leg *v1alpha1.Transfer) bool {
	ready := meta.FindStatusCondition(leg.Status.Conditions, v1alpha1.ConditionReady)
	return leg.Status.Phase == v1alpha1.TransferStarting && ready != nil && ready.Reason == v1alpha1.ReasonGathering
}
