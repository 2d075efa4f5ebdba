// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentsecret"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/replicas"
)

// memory is what the manager remembers of an HTTPEndpoint.
type memory struct {
	secret agentsecret.State
	// rolloutWaits: replicas are to be replaced, and it is not this HTTPEndpoint's turn.
	rolloutWaits bool
}

// budget is the disruption budget of an HTTPEndpoint, nil if there is none. It holds what is to be known of the Secret.
func (r *Reconciler) budget(
	ctx context.Context, endpoint *v1alpha1.HTTPEndpoint,
) (*policyv1.PodDisruptionBudget, error) {
	budget := &policyv1.PodDisruptionBudget{}
	found, err := lookup.Get(
		ctx, r.Client, client.ObjectKey{Namespace: endpoint.Namespace, Name: objectName(endpoint)}, budget,
	)
	if err != nil || !found || !metav1.IsControlledBy(budget, endpoint) {
		return nil, err
	}
	return budget, nil
}

// ensureSecret writes the Secret with the replicas' configuration and identity when either has changed. Replicas that
// lack the configuration are sent it at once; the Secret is where they find it when they start again.
func (r *Reconciler) ensureSecret(
	ctx context.Context, wanted Wanted, content agentsecret.Content, budget *policyv1.PodDisruptionBudget,
	agents []Replica,
) (*agentpod.Problem, error) {
	endpoint := wanted.Endpoint
	content, err := r.permitted(ctx, endpoint.Namespace, content)
	if err != nil {
		return nil, err
	}
	m := r.memories.Of(client.ObjectKeyFromObject(endpoint), endpoint.UID)
	content.Identity = pki.HTTPEndpointIdentity(r.Cluster, endpoint.Namespace, endpoint.Name)
	content.ServerNames = []string{pki.HTTPServerName(string(endpoint.UID))}
	var holder client.Object
	if budget != nil {
		holder = budget
	}
	content.Newest = replicas.NewestGeneration(agents)
	problem, err := r.secrets.Ensure(ctx, &m.secret, wanted.meta(objectName(endpoint)), content, holder)
	if config, ok := content.Config.(*wirev1.HTTPConfig); ok && problem == nil && err == nil {
		r.Reports.Configure(client.ObjectKeyFromObject(endpoint), agentsecret.Numbered(&m.secret, config))
	}
	return problem, err
}

// keepServing looks after replicas that run while the spec cannot be followed for the problem. They go on with what it
// said before, and with certificates that are renewed in time. It returns the problem with what else there is to say.
func (r *Reconciler) keepServing(
	ctx context.Context, endpoint *v1alpha1.HTTPEndpoint, in inputs, problem agentpod.Problem,
) (*agentpod.Problem, error) {
	if in.deployment == nil {
		return &problem, nil
	}
	budget, err := r.budget(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	var content agentsecret.Content
	known := false
	if budget != nil {
		content, known = agentsecret.Recorded(budget, &wirev1.HTTPConfig{})
	}
	if !known {
		problem.Message += "; certificates of its replicas are not renewed until then"
		return &problem, nil
	}
	refused, err := r.ensureSecret(ctx, Wanted{Endpoint: endpoint}, content, budget, in.replicas.Agents)
	if refused != nil {
		problem.Message += "; besides, " + refused.Message
	}
	return &problem, err
}
