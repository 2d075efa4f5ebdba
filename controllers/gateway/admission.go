// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/plan"
)

// view is what matters to a request.
type view struct {
	// grants of the namespace that is to be written to.
	grants []v1alpha1.PeerGrant
	// now is the gateway's time.
	now time.Time
	// attempts are the Deliveries of the same Transfer of the same Peer, in any namespace.
	attempts []v1alpha1.Delivery
	// neighbours are the Deliveries of the same Peer in the namespace that is to be written to.
	neighbours []v1alpha1.Delivery
	// limit of neighbours.
	limit int
	// seen is true when the attempt's Delivery was there before, in this stream.
	seen bool
}

// step is what to do next. At most one of refuse, ready and create is set.
type step struct {
	refuse *refusal
	// ready is the server name of the receiving agent.
	ready string
	// pending says what is waited for.
	pending string
	// remove these Deliveries.
	remove []v1alpha1.Delivery
	// create the Delivery of the attempt.
	create bool
	// present is true when the Delivery of the attempt is there.
	present bool
	// gone is true when refuse rests on the Delivery's not being there any more.
	gone bool
}

// acts is true for a step that changes something, or that gives up because something is not there. Neither may rest on
// a cache.
func (s step) acts() bool {
	return s.create || s.gone || len(s.remove) > 0
}

// decide says what to do about a request.
func decide(r request, v view) step {
	if verdict := peergrant.Decide(v.grants, r.grant(), v.now); !verdict.Allowed {
		return step{refuse: refuse(codes.PermissionDenied, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED, "%s",
			verdict.Refusal)}
	}
	var s step
	// after is the newest attempt after the requested one, at work or ended: of its run if there is one.
	var own, waiting, after *v1alpha1.Delivery
	taking := false // the snapshot of an earlier run
	for i := range v.attempts {
		attempt := &v.attempts[i]
		switch {
		case !plan.IsGenuine(attempt):
		case attempt.Namespace != r.namespace:
			// It writes elsewhere. Whoever may make Deliveries there must not be able to keep this one waiting, or
			// have it refused.
			if attempt.DeletionTimestamp.IsZero() && !newer(attempt, r, v.now) {
				s.remove = append(s.remove, *attempt)
			}
		case isOf(r, attempt):
			own = attempt
		case supersedes(attempt, r, v.now):
			if after == nil || compareAttempts(r, attempt, after) > 0 {
				after = attempt
			}
		case !attempt.DeletionTimestamp.IsZero():
			waiting = attempt
		case plan.DeliveryAwaited(attempt, v.now):
			waiting, taking = attempt, true
		default:
			waiting = attempt
			s.remove = append(s.remove, *attempt)
		}
	}
	switch {
	case after != nil:
		return step{refuse: superseded(r, after)}
	case own != nil:
		return ownStep(r, own, s, v.now)
	case v.seen:
		return step{gone: true, refuse: aborted("the Delivery of this attempt was deleted in the receiving cluster")}
	case taking:
		s.pending = "Waiting for the VolumeSnapshot after the last run to be taken in the receiving cluster"
		return s
	case waiting != nil:
		s.pending = fmt.Sprintf("Waiting for attempt %d of run %s to end in the receiving cluster",
			waiting.Spec.Transfer.Attempt, waiting.Spec.Transfer.Run)
		return s
	case len(v.neighbours) >= v.limit:
		return crowdedStep(r, v)
	default:
		s.create, s.pending = true, "Waiting for the receiving cluster to start its agent"
		return s
	}
}

// ownStep is about an attempt that has a Delivery.
func ownStep(r request, own *v1alpha1.Delivery, s step, now time.Time) step {
	stalled := meta.FindStatusCondition(own.Status.Conditions, v1alpha1.ConditionStalled)
	failed := stalled != nil && stalled.Status == "True"
	again := issuedOf(own, now).Before(r.issued) // by a new agent with a new certificate
	s.present = true
	switch {
	case again && (failed || !own.DeletionTimestamp.IsZero()):
		if own.DeletionTimestamp.IsZero() {
			s.remove = append(s.remove, *own)
		}
		s.present = false
		s.pending = "Waiting for an earlier try of this attempt to end in the receiving cluster"
	case own.Spec.Destination.PersistentVolumeClaim != r.claim:
		return step{
			refuse: invalid(
				"attempt %d of run %s was opened before for another destination", r.transfer.Attempt, r.transfer.Run,
			),
		}
	case own.Spec.Delete != r.mirror || own.Spec.Privilege != r.privilege:
		return step{refuse: invalid("attempt %d of run %s was opened before with another mirror or privileged",
			r.transfer.Attempt, r.transfer.Run)}
	case !equality.Semantic.DeepEqual(own.Spec.Destination.Template, r.template):
		return step{
			refuse: invalid("attempt %d of run %s was opened before with another template", r.transfer.Attempt, r.transfer.Run),
		}
	case !own.DeletionTimestamp.IsZero():
		return step{refuse: aborted("the Delivery of this attempt is being deleted in the receiving cluster")}
	case failed:
		return step{refuse: refuse(codes.FailedPrecondition, agentreport.WireReason(stalled.Reason), "%s", relayed(stalled))}
	case endedSuperseded(own):
		return step{refuse: refuse(codes.Aborted, wirev1.FailureReason_FAILURE_REASON_SUPERSEDED,
			"a newer attempt of run %s than %d has been at the destination", r.transfer.Run, r.transfer.Attempt)}
	case plan.DeliveryEnded(own):
		return step{refuse: aborted("attempt %d of run %s has already ended", r.transfer.Attempt, r.transfer.Run)}
	case own.Status.ServerName != "" && own.Status.Endpoint != "":
		s.ready = own.Status.ServerName
	default:
		s.pending = "Waiting for the receiving cluster to start its agent"
		if ready := meta.FindStatusCondition(own.Status.Conditions, v1alpha1.ConditionReady); ready != nil &&
			ready.Message != "" {
			s.pending = relayed(ready)
		}
	}
	return s
}

// endedSuperseded says whether the receiving agent ended because it found traces of a newer attempt, whose Delivery is
// not there any more.
func endedSuperseded(own *v1alpha1.Delivery) bool {
	ready := meta.FindStatusCondition(own.Status.Conditions, v1alpha1.ConditionReady)
	return plan.DeliveryEnded(own) && ready != nil && ready.Reason == v1alpha1.ReasonSuperseded
}

// ofOthers are the reasons whose messages quote scheduler, kubelet and container runtime, and what a peer reads in
// place of such a message. All other messages of Deliveries are made for it.
var ofOthers = map[string]string{
	v1alpha1.ReasonUnschedulable:   "the receiving agent's pod cannot be placed on a node",
	v1alpha1.ReasonAgentNotStarted: "the receiving agent's container does not start",
	v1alpha1.ReasonAgentLost:       "the receiving agent's pod ended without a report",
	v1alpha1.ReasonEvicted:         "the receiving agent's pod was evicted",
}

// relayed is what a peer may read of a Delivery's condition: nothing of nodes, their taints and numbers, volumes and
// registries.
func relayed(condition *metav1.Condition) string {
	if fixed, ok := ofOthers[condition.Reason]; ok {
		return condition.Reason + ": " + fixed + "; the Delivery's conditions in the receiving cluster say why"
	}
	return condition.Message
}

// crowdedStep makes space by removing the oldest Delivery that has ended, or waits when all are at work.
func crowdedStep(r request, v view) step {
	var oldest *v1alpha1.Delivery
	for i := range v.neighbours {
		neighbour := &v.neighbours[i]
		if !neighbour.DeletionTimestamp.IsZero() {
			oldest = nil // a place is being freed
			break
		}
		if plan.DeliveryEnded(neighbour) && !plan.DeliveryAwaited(neighbour, v.now) && (oldest == nil || neighbour.CreationTimestamp.Before(&oldest.CreationTimestamp)) {
			oldest = neighbour
		}
	}
	s := step{pending: fmt.Sprintf("Waiting for one of %d Deliveries of peer %s in namespace %s to end; that is as many "+
		"as the receiving cluster's gateway allows", len(v.neighbours), r.peer, r.namespace)}
	if oldest != nil {
		s.remove = []v1alpha1.Delivery{*oldest}
	}
	return s
}

// superseded refuses an attempt that is older than one that is known. A sending cluster that was restored from a backup
// goes on after it.
func superseded(r request, by *v1alpha1.Delivery) *refusal {
	refused := refuse(codes.Aborted, wirev1.FailureReason_FAILURE_REASON_SUPERSEDED, "attempt %d of run %s has been "+
		"replaced by attempt %d of run %s",
		r.transfer.Attempt, r.transfer.Run, by.Spec.Transfer.Attempt, by.Spec.Transfer.Run)
	if by.Spec.Transfer.Run == r.transfer.Run {
		refused.failure.NewestAttempt = uint32(max(0, by.Spec.Transfer.Attempt)) //nolint:gosec // not negative
	}
	return refused
}

func aborted(format string, arguments ...any) *refusal {
	return refuse(codes.Aborted, wirev1.FailureReason_FAILURE_REASON_ABORTED, format, arguments...)
}

// isOf says whether the Delivery is that of the very attempt.
func isOf(r request, delivery *v1alpha1.Delivery) bool {
	return delivery.Spec.Peer == r.peer && delivery.Spec.Transfer == r.transfer
}

// newer says whether the attempt that a Delivery is of was made after the requested one.
func newer(delivery *v1alpha1.Delivery, r request, now time.Time) bool {
	if delivery.Spec.Transfer.Run == r.transfer.Run {
		return delivery.Spec.Transfer.Attempt > r.transfer.Attempt
	}
	return issuedOf(delivery, now).After(r.issued)
}

// supersedes says whether the request came too late for a Delivery. A newer attempt of the same run counts though it
// has ended: the sending cluster has forgotten it, so it was restored from a backup, and what the newer attempt left at
// the destination refuses older ones. A newer run that has ended, or that is going, leaves nothing that does.
func supersedes(delivery *v1alpha1.Delivery, r request, now time.Time) bool {
	if !newer(delivery, r, now) {
		return false
	}
	return delivery.Spec.Transfer.Run == r.transfer.Run ||
		delivery.DeletionTimestamp.IsZero() && !plan.DeliveryEnded(delivery)
}

// compareAttempts orders two Deliveries that supersede the request: those of its own run, whose numbers it can go on
// after, come last.
func compareAttempts(r request, a, b *v1alpha1.Delivery) int {
	ofRun := func(d *v1alpha1.Delivery) int32 {
		if d.Spec.Transfer.Run != r.transfer.Run {
			return 0
		}
		return d.Spec.Transfer.Attempt
	}
	return cmp.Compare(ofRun(a), ofRun(b))
}

// ofTransfer keeps the Deliveries of one Transfer. The label that they were found by is a hash.
func ofTransfer(deliveries []v1alpha1.Delivery, peer, namespace, name string) []v1alpha1.Delivery {
	return slices.DeleteFunc(deliveries, func(d v1alpha1.Delivery) bool {
		return d.Spec.Peer != peer || d.Spec.Transfer.Namespace != namespace || d.Spec.Transfer.Name != name
	})
}
