// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/route"
)

// checkTransfer looks for what would make an attempt fail before it costs a pod, the cheapest to fix first. The policy
// is resolved on the way, unless the run has begun with one, kept, that it goes on with.
func checkTransfer(
	transfer *v1alpha1.Transfer, kept *v1alpha1.PolicyStatus, facts TransferFacts,
) (policy.Resolved, *agentpod.Problem) {
	if problem := agentpod.SpecProblem(ValidateTransfer(transfer.Spec)); problem != nil {
		return policy.Resolved{}, problem
	}
	resolved, err := policy.Kept(kept), error(nil)
	if kept == nil {
		whole := cmp.Or(facts.Whole, transfer)
		resolved, err = policy.Resolve(whole.UID, transfer.Spec.Compression, facts.Policies, facts.Tariffs)
	}
	for _, problem := range []*agentpod.Problem{
		agentpod.SpecProblem(err),
		checkDestination(transfer, facts, kept == nil),
		checkOrigin(transfer, facts),
		checkVolumeModes(transfer, facts),
		agentpod.CheckPrivilege(transfer.Spec.PodTemplate, transfer.Namespace, facts.PrivilegeAllowed),
		checkConflict(transfer, facts),
		checkCycle(facts),
		checkQueue(transfer),
	} {
		if problem != nil {
			return resolved, problem
		}
	}
	return resolved, nil
}

// checkQueue: hooks around a whole run would keep the application quiesced for as long as Kueue queues its Job.
func checkQueue(transfer *v1alpha1.Transfer) *agentpod.Problem {
	if transfer.Spec.Source.Hooks == nil || Stages(transfer) || transfer.Labels[v1alpha1.KueueQueueLabel] == "" {
		return nil
	}
	return &agentpod.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(
		"spec.source.hooks would keep the application quiesced while Kueue queues the Job; use copyMethod: Snapshot or Clone, "+
			"or remove the label %s", v1alpha1.KueueQueueLabel)}
}

func checkOrigin(transfer *v1alpha1.Transfer, facts TransferFacts) *agentpod.Problem {
	if at := transfer.Spec.Source.ObjectStore; at != nil {
		return checkStore(v1alpha1.ReasonSourceNotFound, at.Name, facts.Stores.Source, facts.Stores.Problem)
	}
	if !stagedSourceNeeded(cmp.Or(facts.Whole, transfer)) {
		return nil
	}
	return attempt.CheckSource(transfer.Namespace, transfer.Spec.Source.PersistentVolumeClaim.ClaimName, facts.Claim)
}

func checkDestination(transfer *v1alpha1.Transfer, facts TransferFacts, first bool) *agentpod.Problem {
	if HasLegs(transfer) {
		return checkLegs(transfer, facts)
	}
	if at := transfer.Spec.Destination.ObjectStore; at != nil {
		return checkStore(v1alpha1.ReasonDestinationNotFound, at.Name, facts.Stores.Destination, facts.Stores.Problem)
	}
	if transfer.Spec.Destination.Ephemeral != nil || Scrubs(transfer) {
		return nil // It is made with the pod, or there is none.
	}
	if IsLocal(transfer) {
		return checkLocal(transfer, facts.Local, mayCreate(transfer, first))
	}
	if transfer.Spec.Destination.Via != nil {
		return checkVia(transfer, facts)
	}
	return CheckPeer(transfer.Spec.Destination.Peer, facts.Peer)
}

// CheckPeer says why nothing can be sent to a Peer, nil if it does not exist; nil as far as is known that it can.
func CheckPeer(name string, peer *v1alpha1.Peer) *agentpod.Problem {
	if peer == nil {
		return peerNotFound(name)
	}
	if !route.Reaches(peer) {
		return &agentpod.Problem{Reason: v1alpha1.ReasonPeerHasNoEndpoint,
			Message: fmt.Sprintf("Peer %q has no endpoint, so nothing can be sent to it; set spec.endpoint of the Peer", name)}
	}
	ready := meta.FindStatusCondition(peer.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse || ready.ObservedGeneration != peer.Generation {
		return nil
	}
	reason := ready.Reason
	switch reason {
	case v1alpha1.ReasonPeerUnreachable, v1alpha1.ReasonPeerUntrusted, v1alpha1.ReasonPeerIncompatible:
	case v1alpha1.ReasonNotConnected, v1alpha1.ReasonProxyAuthenticationFailed, v1alpha1.ReasonProxyRefused,
		v1alpha1.ReasonProxyUnreachable:
		reason = v1alpha1.ReasonPeerUnreachable
	case v1alpha1.ReasonInvalidCABundle:
		reason = v1alpha1.ReasonPeerUntrusted
	default:
		return nil
	}
	return &agentpod.Problem{Reason: reason, Message: fmt.Sprintf("Peer %q is not ready: %s", name, ready.Message)}
}

func peerNotFound(name string) *agentpod.Problem {
	return &agentpod.Problem{Reason: v1alpha1.ReasonPeerNotFound,
		Message: fmt.Sprintf(
			"Peer %q does not exist; create it with the other cluster's endpoint and CA, or delete this Transfer and create "+
				"one that names another",
			name,
		)}
}
