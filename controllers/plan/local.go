// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
)

const (
	// apartDelay is the wait before an attempt with one agent is followed by one with two.
	apartDelay = 2 * time.Second
)

// LocalFacts are what was seen of a destination in this cluster.
type LocalFacts struct {
	// Refusal says that no PeerGrant allows the Transfer, and what to do; empty when it is allowed.
	Refusal string
	// Claim is the destination; nil when it does not exist.
	Claim *corev1.PersistentVolumeClaim
	// Volume says from which nodes the claim's volume can be reached; nil: from all, or it is not known.
	Volume *corev1.NodeSelector
	// Rivals are the Transfers of other namespaces into the same claim that a PeerGrant allows.
	Rivals []v1alpha1.Transfer
	// Deliveries into the destination that have not ended, and the Transfer's own.
	Deliveries []v1alpha1.Delivery
	// Writers are the names of the Transfer's Jobs whose pods may still write to the destination, the present attempt's
	// included.
	Writers []string
}

// IsLocal reports whether a Transfer's destination is in this cluster.
func IsLocal(transfer *v1alpha1.Transfer) bool { return transfer.Spec.Destination.Peer == "" }

// IntoClaim reports whether a Transfer writes into a claim. Of one with several destinations its legs do.
func IntoClaim(transfer *v1alpha1.Transfer) bool {
	return transfer.Spec.Destination.ObjectStore == nil && transfer.Spec.Destination.Ephemeral == nil &&
		!Scrubs(transfer) && !HasLegs(transfer)
}

// intoClaims reports whether a Transfer or one of its legs writes into a claim.
func intoClaims(transfer *v1alpha1.Transfer) bool {
	return IntoClaim(transfer) || slices.ContainsFunc(transfer.Spec.Destinations, func(to v1alpha1.NamedDestination) bool {
		return to.ObjectStore == nil
	})
}

// Scrubs reports whether a Transfer verifies its source where it rests, and writes nothing.
func Scrubs(transfer *v1alpha1.Transfer) bool { return transfer.Spec.Destination.Scrub != "" }

// firstRoute is how the data of a new run go.
func firstRoute(transfer *v1alpha1.Transfer, facts TransferFacts) v1alpha1.Route {
	switch {
	case HasLegs(transfer):
		return routeOfLegs(transfer)
	case UsesStore(transfer):
		return v1alpha1.RouteObjectStore
	case Scrubs(transfer):
		return v1alpha1.RoutePod
	case transfer.Spec.Destination.Via != nil:
		return v1alpha1.RouteStorage
	case !IsLocal(transfer):
		return v1alpha1.RouteGateway
	case DestinationNamespace(transfer) != transfer.Namespace:
		return v1alpha1.RouteDirect // a pod mounts claims of its own namespace only
	case transfer.Spec.Destination.Form.Archived():
		return v1alpha1.RoutePod // no receiving agent makes archives
	case IsLeg(transfer):
		return v1alpha1.RouteDirect // its pod sends to others, too
	case !placement.Together(facts.Placement.Nodes, facts.Placement.Volume, facts.Local.Volume):
		return v1alpha1.RouteDirect
	default:
		return v1alpha1.RoutePod
	}
}

// checkLocal is checkPeer for a destination in this cluster, whose claim may be created.
func checkLocal(transfer *v1alpha1.Transfer, facts LocalFacts, creates bool) *agentpod.Problem {
	source, destination := transfer.Spec.Source.PersistentVolumeClaim, transfer.Spec.Destination.PersistentVolumeClaim
	namespace := DestinationNamespace(transfer)
	switch {
	case namespace == transfer.Namespace && source.ClaimName == destination.ClaimName &&
		Overlap(source.Path, destination.Path):
		return &agentpod.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(
			"source %q and destination %q of claim %q are the same directory, or one is in the other; delete this Transfer "+
				"and create one into another claim, or into a path beside the source", source.Path, destination.Path,
			source.ClaimName)}
	case facts.Refusal != "": // before anything is said of what exists there
		return &agentpod.Problem{Reason: v1alpha1.ReasonNotGranted, Message: facts.Refusal}
	case facts.Claim == nil && templateOf(transfer) != nil && !creates:
		return &agentpod.Problem{Reason: v1alpha1.ReasonDestinationNotFound, Message: fmt.Sprintf(
			"PersistentVolumeClaim %q was deleted in namespace %q after this run had written into it; create it again there, "+
				"or give the annotation %s a new value: another run creates it", destination.ClaimName, namespace,
			v1alpha1.RunAnnotation)}
	case facts.Claim == nil && !creates || facts.Claim != nil && facts.Claim.DeletionTimestamp != nil:
		return &agentpod.Problem{Reason: v1alpha1.ReasonDestinationNotFound, Message: fmt.Sprintf(
			"there is no PersistentVolumeClaim %q in namespace %q; create it there", destination.ClaimName, namespace)}
	}
	for i := range facts.Deliveries {
		other := &facts.Deliveries[i]
		claim := other.Spec.Destination.PersistentVolumeClaim
		if DeliveryEnded(other) || isOwnDelivery(transfer, other) || claim.ClaimName != destination.ClaimName ||
			!Overlap(claim.Path, destination.Path) {
			continue
		}
		if namespace != transfer.Namespace {
			return &agentpod.Problem{Reason: v1alpha1.ReasonDestinationInUse,
				Message: fmt.Sprintf("a Delivery in namespace %q writes into the same "+
					"place of claim %q; wait until it has ended, or delete this Transfer and create one into a path outside of it",
					namespace, destination.ClaimName)}
		}
		return &agentpod.Problem{Reason: v1alpha1.ReasonDestinationInUse, Message: fmt.Sprintf(
			"Delivery %q from %s writes into %q of the same claim; wait until it has ended, or delete this Transfer and "+
				"create one into a path outside of it",
			other.Name, peerName(other.Spec.Peer), claim.Path)}
	}
	return nil
}

// isOwnDelivery reports whether a Delivery is of an attempt of the Transfer, which is of this cluster.
func isOwnDelivery(transfer *v1alpha1.Transfer, delivery *v1alpha1.Delivery) bool {
	of := delivery.Spec.Transfer
	return delivery.Spec.Peer == "" && of.Namespace == transfer.Namespace && of.Name == transfer.Name
}

// LocalDelivery is the Delivery of the attempt that the status of a Transfer within this cluster names.
func LocalDelivery(transfer *v1alpha1.Transfer) *v1alpha1.Delivery {
	run := transfer.Status.Run
	spec := v1alpha1.DeliverySpec{
		Transfer: v1alpha1.TransferReference{
			Namespace: transfer.Namespace, Name: transfer.Name, Run: run.ID, Attempt: run.Attempt,
		},
		Destination: v1alpha1.DeliveryDestination{
			PersistentVolumeClaim: transfer.Spec.Destination.PersistentVolumeClaim.PersistentVolumeClaimPath,
			Template:              ClaimRequestOf(transfer),
		},
		Privilege: PrivilegeAskedFor(transfer),
		Delete:    transfer.Spec.Delete,
	}
	return NewDelivery(DestinationNamespace(transfer), spec)
}

// ReceivingNode is where the receiving agent of the present attempt is; empty if that is not known.
func ReceivingNode(transfer *v1alpha1.Transfer, deliveries []v1alpha1.Delivery) string {
	run := transfer.Status.Run
	for _, delivery := range OwnDeliveries(transfer, deliveries) {
		of := delivery.Spec.Transfer
		if of.Run == run.ID && of.Attempt == run.Attempt && delivery.Status.Run != nil {
			return delivery.Status.Run.Node
		}
	}
	return ""
}

// PrivilegeAskedFor is what a Transfer wants its receiving agent to have.
func PrivilegeAskedFor(transfer *v1alpha1.Transfer) v1alpha1.AgentPrivilege {
	if agentpod.AsksToWrite(transfer.Spec.PodTemplate) {
		return v1alpha1.AgentPrivilegeKeepOwners
	}
	return v1alpha1.AgentPrivilegeNone
}

// OwnDeliveries are those of a Transfer within this cluster among the Deliveries of the destination's namespace.
func OwnDeliveries(transfer *v1alpha1.Transfer, deliveries []v1alpha1.Delivery) []v1alpha1.Delivery {
	var own []v1alpha1.Delivery
	for i := range deliveries {
		if isOwnDelivery(transfer, &deliveries[i]) {
			own = append(own, deliveries[i])
		}
	}
	return own
}

// WritesHere reports whether a Transfer has a pod of its own that writes into the claim of its namespace, or is about
// to.
func WritesHere(transfer *v1alpha1.Transfer) bool {
	return UnderWay(transfer) && IntoClaim(transfer) &&
		(transfer.Status.Run.Route == v1alpha1.RoutePod || transfer.Status.Run.Route == v1alpha1.RouteObjectStore)
}

// startLocal has the attempt in status made, as soon as nothing of an earlier one may write to the destination any
// more.
func (d *transferDecision) startLocal(resolved policy.Resolved, where placement.Plan) {
	run := d.transfer.Status.Run
	wanted := LocalDelivery(d.transfer)
	var present *v1alpha1.Delivery
	busy := ""
	for _, delivery := range OwnDeliveries(d.transfer, d.facts.Local.Deliveries) {
		if run.Route == v1alpha1.RouteDirect && delivery.Name == wanted.Name {
			present = &delivery
			continue
		}
		if delivery.DeletionTimestamp == nil {
			d.out.Withdraw = append(d.out.Withdraw, delivery)
		}
		if !DeliveryEnded(&delivery) {
			busy = fmt.Sprintf("Delivery %q", delivery.Name)
		}
	}
	for _, job := range d.facts.Local.Writers {
		if job != attempt.Name(d.transfer.Name, run.ID, run.Attempt) {
			busy = fmt.Sprintf("Job %q", job)
		}
	}
	switch {
	case busy != "":
		d.starting(v1alpha1.ReasonStarting, busy+" of an earlier attempt is being ended")
		d.out.RequeueAfter = endingInterval
	case run.Route == v1alpha1.RoutePod:
		d.out.Start = PodAttempt(d.transfer, resolved, where, d.image)
		d.starting(
			v1alpha1.ReasonStarting,
			fmt.Sprintf("attempt %d of run %s: the agent's pod, with its claims, is being started", run.Attempt, run.ID),
		)
	case run.Route == v1alpha1.RouteObjectStore:
		d.out.Start = storeAttempt(d.transfer, d.facts.Whole, resolved, where, d.facts.Stores, d.image)
		d.starting(v1alpha1.ReasonStarting, fmt.Sprintf(
			"attempt %d of run %s: the agent's pod, which talks to the object store, is being started", run.Attempt, run.ID))
	case present == nil:
		d.out.Deliver = wanted
		d.starting(v1alpha1.ReasonOpening, "the receiving agent is being started")
	default:
		d.startSender(resolved, where, present)
	}
}

// startSender starts the sending agent when the receiving one is ready for it.
func (d *transferDecision) startSender(resolved policy.Resolved, where placement.Plan, delivery *v1alpha1.Delivery) {
	run, status := d.transfer.Status.Run, delivery.Status
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	switch {
	case delivery.DeletionTimestamp != nil:
		d.finish(&wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: &wirev1.Failure{
			Reason:  wirev1.FailureReason_FAILURE_REASON_ABORTED,
			Message: fmt.Sprintf("Delivery %q of this attempt was deleted", delivery.Name),
		}})
	case DeliveryEnded(delivery):
		failure := &wirev1.Failure{
			Reason:  wirev1.FailureReason_FAILURE_REASON_ABORTED,
			Message: "the receiving agent ended before the sending one had begun",
		}
		if ready != nil && status.Phase == v1alpha1.DeliveryFailed {
			failure = &wirev1.Failure{Reason: agentreport.WireReason(ready.Reason), Message: ready.Message}
		}
		d.finish(&wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: failure})
	case status.ServerName != "" && status.Endpoint != "":
		d.out.Start = DirectAttempt(d.transfer, resolved, where, status, d.image)
		d.starting(
			v1alpha1.ReasonStarting,
			fmt.Sprintf(
				"attempt %d of run %s: the receiving agent is ready, the sending agent's pod is being started", run.Attempt, run.ID,
			),
		)
	case ready != nil && ready.Message != "":
		d.starting(
			v1alpha1.ReasonOpening, fmt.Sprintf("Delivery %s/%s: %s", delivery.Namespace, delivery.Name, ready.Message),
		)
	default:
		d.starting(v1alpha1.ReasonOpening, "the receiving agent is being started")
	}
}

func (d *transferDecision) starting(reason, message string) {
	d.out.RequeueAfter = attempt.StartGrace
	d.set(v1alpha1.TransferStarting, conditions.Reconciling(reason, message))
}

// takeApart gives up an attempt whose pod cannot mount both claims, which costs none of spec.maxAttempts. The next one
// has two agents.
func (d *transferDecision) takeApart(stuck agentpod.Problem) {
	run := d.transfer.Status.Run
	report := &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: &wirev1.Failure{
		Reason: agentreport.WireReason(stuck.Reason), Message: stuck.Message,
	}}
	d.record(report, stuck.Reason, stuck.Message)
	d.out.Finished = &Finished{Reason: stuck.Reason, Report: report}
	run.Route = v1alpha1.RouteDirect
	d.next(apartDelay)
	d.set(v1alpha1.TransferRetrying, conditions.Reconciling(v1alpha1.ReasonRetrying, fmt.Sprintf(
		"one pod cannot mount both claims, so two agents will: %s", stuck.Message)))
	if len(d.facts.Quota.Quotas)+len(d.facts.Quota.Shared) > 0 {
		// They need bandwidth, which the run has not been granted. It has waited for longer than any other.
		d.transfer.Status.Queued = &v1alpha1.QueuedStatus{Time: *run.StartTime, Route: run.Route}
	}
}
