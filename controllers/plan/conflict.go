// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// checkConflict keeps two Transfers from writing into one place. Within a namespace the older one has it; of a
// Transfer of another namespace only an attempt under way counts, and only where a PeerGrant allows it. Into another
// cluster those are told apart by the Deliveries there. Nobody is told the name or the path of what is in a namespace
// that is not theirs.
func checkConflict(transfer *v1alpha1.Transfer, facts TransferFacts) *agentpod.Problem {
	if HasLegs(transfer) {
		return nil // each leg is looked at
	}
	for i := range facts.Others {
		other := &facts.Others[i]
		if other.Namespace != transfer.Namespace || !sharePlace(transfer, other) {
			continue
		}
		path, place := destinationPlace(other)
		switch {
		case goesFirst(other, transfer):
			return &agentpod.Problem{Reason: v1alpha1.ReasonDestinationInUse, Message: fmt.Sprintf(
				"Transfer %q writes into %q of the same %s now; wait until its attempt has ended, or delete this Transfer and "+
					"create one into a path outside of it", other.Name, path, place)}
		case !UnderWay(transfer) && olderTransfer(other, transfer) && holdsPlace(other):
			return &agentpod.Problem{Reason: v1alpha1.ReasonDestinationInUse, Message: fmt.Sprintf(
				"Transfer %q, which is older, writes into %q of the same %s; suspend or delete it, or delete this Transfer "+
					"and create one into a path outside of it", other.Name, path, place)}
		case !UnderWay(transfer) && awaited(other, facts.Now):
			return &agentpod.Problem{Reason: v1alpha1.ReasonTakingSnapshot, Message: fmt.Sprintf(
				"the VolumeSnapshot of the same %s after the last run of Transfer %q is to be taken first, which is awaited for "+
					"%s at most", place, other.Name, takeDeadline)}
		}
	}
	for i := range facts.Local.Deliveries {
		other := &facts.Local.Deliveries[i]
		claim, mine := other.Spec.Destination.PersistentVolumeClaim, transfer.Spec.Destination.PersistentVolumeClaim
		if !UnderWay(transfer) && IntoClaim(transfer) && claim.ClaimName == mine.ClaimName && Overlap(claim.Path, mine.Path) &&
			DeliveryAwaited(other, facts.Now) {
			return &agentpod.Problem{Reason: v1alpha1.ReasonTakingSnapshot, Message: awaitedElsewhere}
		}
	}
	for i := range facts.Local.Rivals {
		other := &facts.Local.Rivals[i]
		switch {
		case !sharePlace(transfer, other):
		case goesFirst(other, transfer):
			return &agentpod.Problem{Reason: v1alpha1.ReasonDestinationInUse,
				Message: "a Transfer of another namespace writes into the same place of this claim now; wait until its attempt " +
					"has ended, or delete this Transfer and create one into a path outside of it"}
		case !UnderWay(transfer) && awaited(other, facts.Now):
			return &agentpod.Problem{Reason: v1alpha1.ReasonTakingSnapshot, Message: awaitedElsewhere}
		}
	}
	return nil
}

// awaitedElsewhere is what those are told who may not know whose snapshot it is.
var awaitedElsewhere = fmt.Sprintf(
	"a VolumeSnapshot of this claim is to be taken first, which is awaited for %s at most", takeDeadline)

// OccupiesClaim reports whether nobody else may begin to write into the claim of a Transfer's namespace although no
// Delivery says so: it writes there itself, or its history is to have what its run has written. A run that keeps
// history occupies the claim until its snapshot is taken, also after its Delivery has ended. For how long others wait
// for that, this does not know.
func OccupiesClaim(transfer *v1alpha1.Transfer) bool {
	history := mayTake(transfer) || UnderWay(transfer) && transfer.Spec.Destination.Snapshot != nil
	return WritesHere(transfer) || history && IntoClaim(transfer) && IsLocal(transfer)
}

// sharePlace reports whether two Transfers write into the same directory, or one into a directory of the other's.
func sharePlace(a, b *v1alpha1.Transfer) bool {
	mine, _ := destinationPlace(a)
	theirs, _ := destinationPlace(b)
	return a.UID != b.UID && DestinationKey(a) == DestinationKey(b) && Overlap(mine, theirs)
}

// UnderWay reports whether a Transfer's agent may write now, or is about to.
func UnderWay(transfer *v1alpha1.Transfer) bool {
	run := transfer.Status.Run
	return run != nil && run.CompletionTime == nil && run.NextAttemptTime == nil &&
		(!Pulls(transfer) || pullUnderWay(transfer))
}

// goesFirst: the other one's attempt is under way. Where both are, because each began before it saw the other, the
// older one goes first.
func goesFirst(other, transfer *v1alpha1.Transfer) bool {
	return UnderWay(other) && (!UnderWay(transfer) || olderTransfer(other, transfer))
}

// holdsPlace reports whether a Transfer without an attempt under way keeps its place from younger ones, because it may
// run again by itself, or when its user asks. One that is suspended, or that waits for somebody to change what keeps
// it from running, does not.
func holdsPlace(transfer *v1alpha1.Transfer) bool {
	stalled := meta.FindStatusCondition(transfer.Status.Conditions, v1alpha1.ConditionStalled)
	stuck := stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason != v1alpha1.ReasonDestinationInUse
	return !transfer.Spec.Suspend && !stuck
}

// LeftPlace reports whether a change of a Transfer may let another one begin that waits for the same place.
func LeftPlace(before, after *v1alpha1.Transfer) bool {
	return UnderWay(before) && !UnderWay(after) || holdsPlace(before) && !holdsPlace(after) ||
		mayTake(before) && !mayTake(after)
}

func olderTransfer(a, b *v1alpha1.Transfer) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.UID < b.UID
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}
