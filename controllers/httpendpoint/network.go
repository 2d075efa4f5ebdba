// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/networkpolicy"
)

// ensureNetwork writes the NetworkPolicy of the replicas. service is the one that the backend names; nil if it
// names none, or none that it may use.
func (r *Reconciler) ensureNetwork(
	ctx context.Context, wanted Wanted, service *corev1.Service,
) (*agentpod.Problem, error) {
	endpoint := wanted.Endpoint
	var port int32
	switch backend := endpoint.Spec.Backend; {
	case backend.Service != nil:
		port = backend.Service.Port
	case backend.Host != nil:
		port = backend.Host.Port
	}
	return r.Networks.Ensure(ctx, kind, endpoint, labels(
		endpoint.UID,
	), func(operatorNamespace string) networkingv1.NetworkPolicySpec {
		return networkpolicy.HTTPEndpoint(operatorNamespace, endpoint.UID, port, service)
	})
}
