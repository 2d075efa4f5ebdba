// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/policy"
)

// Problem is why an attempt cannot begin. It costs no attempt.
type Problem struct {
	Reason  string
	Message string
}

// SpecProblem is what an error of reading a spec, or of resolving its policy, means; nil if there is none.
func SpecProblem(err error) *Problem {
	var notFound *policy.NotFoundError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &notFound):
		return &Problem{v1alpha1.ReasonPolicyNotFound, err.Error()}
	}
	return &Problem{v1alpha1.ReasonInvalidSpec, err.Error()}
}

// checkTransfer looks for what would make an attempt fail before it costs a pod, the cheapest to fix first. The policy
// is resolved on the way, unless the run has begun with one, kept, that it goes on with.
func checkTransfer(
	transfer *v1alpha1.Transfer, kept *v1alpha1.PolicyStatus, facts TransferFacts,
) (policy.Resolved, *Problem) {
	if problem := SpecProblem(ValidateTransfer(transfer.Spec)); problem != nil {
		return policy.Resolved{}, problem
	}
	resolved, err := policy.Kept(kept), error(nil)
	if kept == nil {
		resolved, err = policy.Resolve(transfer.Spec.Compression, facts.Policies, facts.Tariffs)
	}
	for _, problem := range []*Problem{
		SpecProblem(err),
		checkDestination(transfer, facts),
		checkSource(transfer.Namespace, transfer.Spec.Source.PersistentVolumeClaim.ClaimName, facts.Claim),
		CheckPrivilege(transfer.Spec.PodTemplate, transfer.Namespace, facts.PrivilegeAllowed),
		checkConflict(transfer, facts),
	} {
		if problem != nil {
			return resolved, problem
		}
	}
	return resolved, nil
}

func checkDestination(transfer *v1alpha1.Transfer, facts TransferFacts) *Problem {
	if IsLocal(transfer) {
		return checkLocal(transfer, facts.Local)
	}
	return checkPeer(transfer.Spec.Destination.Peer, facts.Peer)
}

func checkPeer(name string, peer *v1alpha1.Peer) *Problem {
	if peer == nil {
		return &Problem{v1alpha1.ReasonPeerNotFound,
			fmt.Sprintf(
				"Peer %q does not exist; create it with the other cluster's endpoint and CA, or delete this Transfer and create "+
					"one that names another",
				name,
			)}
	}
	if peer.Spec.Endpoint == "" {
		return &Problem{v1alpha1.ReasonPeerHasNoEndpoint,
			fmt.Sprintf("Peer %q has no endpoint, so nothing can be sent to it; set spec.endpoint of the Peer", name)}
	}
	ready := meta.FindStatusCondition(peer.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse || ready.ObservedGeneration != peer.Generation {
		return nil
	}
	reason := ready.Reason
	switch reason {
	case v1alpha1.ReasonPeerUnreachable, v1alpha1.ReasonPeerUntrusted, v1alpha1.ReasonPeerIncompatible:
	case v1alpha1.ReasonInvalidCABundle:
		reason = v1alpha1.ReasonPeerUntrusted
	default:
		return nil
	}
	return &Problem{reason, fmt.Sprintf("Peer %q is not ready: %s", name, ready.Message)}
}

func checkSource(namespace, name string, claim *corev1.PersistentVolumeClaim) *Problem {
	if claim == nil {
		return &Problem{v1alpha1.ReasonSourceNotFound, fmt.Sprintf(
			"there is no PersistentVolumeClaim %q in namespace %q; create it there (claims of the own namespace are read, and "+
				"no others)",
			name, namespace)}
	}
	if claim.DeletionTimestamp != nil {
		return &Problem{v1alpha1.ReasonSourceNotFound, fmt.Sprintf("PersistentVolumeClaim %q is being deleted", name)}
	}
	return nil
}
