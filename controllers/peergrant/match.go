// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peergrant

import (
	"fmt"
	"slices"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Request is what a peer, or another namespace of this cluster, wants to do in a namespace of this cluster.
type Request struct {
	// Peer is the name of the Peer that vouches for who asks, empty for this cluster, and Namespace theirs in that cluster.
	Peer, Namespace string
	// Kind and Name are of the object to write, and ToNamespace the namespace that it is in.
	Kind        v1alpha1.GrantedKind
	ToNamespace string
	Name        string
}

// Allowed reports whether one of the grants allows the request. Grants of other namespaces and grants that are being deleted
// allow nothing. What stays within a namespace takes no grant: whoever may make a Transfer there may mount its claims.
func Allowed(grants []v1alpha1.PeerGrant, request Request) bool {
	if request.Peer == "" && request.Namespace == request.ToNamespace {
		return true
	}
	return slices.ContainsFunc(grants, func(grant v1alpha1.PeerGrant) bool { return allows(&grant, request) })
}

func allows(grant *v1alpha1.PeerGrant, request Request) bool {
	if grant.Namespace != request.ToNamespace || !grant.DeletionTimestamp.IsZero() {
		return false
	}
	from := slices.ContainsFunc(grant.Spec.From, func(from v1alpha1.PeerGrantFrom) bool {
		return from.Peer == request.Peer && slices.Contains(from.Namespaces, request.Namespace)
	})
	return from && slices.ContainsFunc(grant.Spec.To, func(to v1alpha1.PeerGrantTo) bool {
		return to.Kind == request.Kind && (to.Name == "" || to.Name == request.Name)
	})
}

// Refusal says in a sentence that the request is not granted and which PeerGrant would grant it. It says nothing of what exists.
func Refusal(request Request) string {
	if request.Peer == "" {
		return fmt.Sprintf("no PeerGrant in namespace %s lets namespace %s of this cluster write %s %s; create one there with "+
			"spec: {from: [{namespaces: [%s]}], to: [{kind: %s, name: %s}]}",
			request.ToNamespace, request.Namespace, request.Kind, request.Name, request.Namespace, request.Kind, request.Name)
	}
	return fmt.Sprintf("no PeerGrant in namespace %s of the receiving cluster lets namespace %s of peer %s write %s %s; create one there with "+
		"spec: {from: [{peer: %s, namespaces: [%s]}], to: [{kind: %s, name: %s}]}",
		request.ToNamespace, request.Namespace, request.Peer, request.Kind, request.Name,
		request.Peer, request.Namespace, request.Kind, request.Name)
}
