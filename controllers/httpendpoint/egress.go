// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"context"
	"net"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentsecret"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/egress"
)

// permitted is content with what replicas may dial. That is looked up for the backend in the content, which may be one
// of an earlier spec, and is no part of what the revision names: it changes with the nodes of the cluster.
func (r *Reconciler) permitted(
	ctx context.Context, namespace string, content agentsecret.Content,
) (agentsecret.Content, error) {
	config, ok := content.Config.(*wirev1.HTTPConfig)
	if !ok {
		return content, nil
	}
	host, _, err := net.SplitHostPort(config.GetBackend().GetAddress())
	if err != nil {
		return content, nil //nolint:nilerr // The agent says what is wrong with it.
	}
	permission, err := r.Egress.Permission(ctx, namespace, []egress.Use{{Host: host}})
	if err != nil {
		return content, err
	}
	return agentsecret.Permit(content, config, permission.Policy)
}

// backendUse is the backend as a spec names it.
func backendUse(endpoint *v1alpha1.HTTPEndpoint) egress.Use {
	if service := endpoint.Spec.Backend.Service; service != nil {
		return egress.Use{
			Field: "spec.backend.service.name", Written: service.Name, Host: service.Name + "." + endpoint.Namespace + ".svc",
		}
	}
	name := endpoint.Spec.Backend.Host.Name
	return egress.Use{Field: "spec.backend.host.name", Written: name, Host: name}
}

// checkEgress: a backend that replicas may not dial.
func checkEgress(_ *v1alpha1.HTTPEndpoint, _ *Wanted, facts Facts) []metav1.Condition {
	if facts.NotAllowed == nil {
		return nil
	}
	return conditions.Stalled(facts.NotAllowed.Reason, facts.NotAllowed.Message+"; until then requests get 503")
}
