// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentsecret"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/owned"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/plan"
)

// memory is what the manager remembers of an HTTPEndpoint.
type memory struct {
	secret agentsecret.State
	// statistics is when they were last written.
	statistics time.Time
}

// ensureSecret writes the Secret with the replicas' configuration and identity when either has changed.
func (r *Reconciler) ensureSecret(ctx context.Context, wanted Wanted, content agentsecret.Content) (*plan.Problem, error) {
	endpoint := wanted.Endpoint
	content, err := r.permitted(ctx, endpoint.Namespace, content)
	if err != nil {
		return nil, err
	}
	m := r.memories.Of(client.ObjectKeyFromObject(endpoint), endpoint.UID)
	content.Identity = pki.HTTPEndpointIdentity(r.Cluster, endpoint.Namespace, endpoint.Name)
	content.ServerNames = []string{pki.HTTPServerName(string(endpoint.UID))}
	return r.secrets.Ensure(ctx, &m.secret, wanted.meta(objectName(endpoint)), content)
}

// goOn looks after replicas that run while the spec cannot be followed for the problem. They go on with what it said before, and with
// certificates that are renewed in time. It returns the problem with what else there is to say.
func (r *Reconciler) goOn(ctx context.Context, endpoint *v1alpha1.HTTPEndpoint, deployment *appsv1.Deployment, problem plan.Problem) (*plan.Problem, error) {
	if deployment == nil {
		return &problem, nil
	}
	budget := &policyv1.PodDisruptionBudget{}
	found, err := lookup.Get(ctx, r.Client, client.ObjectKeyFromObject(deployment), budget)
	if err != nil {
		return nil, err
	}
	content, known := agentsecret.Recorded(budget, &wirev1.HTTPConfig{})
	if !found || !known || !metav1.IsControlledBy(budget, endpoint) {
		problem.Message += "; certificates of its replicas are not renewed until then"
		return &problem, nil
	}
	refused, err := r.ensureSecret(ctx, Wanted{Endpoint: endpoint}, content)
	if refused != nil {
		problem.Message += "; besides, " + refused.Message
	}
	return &problem, err
}

// placeable reports whether all that is wanted can be made to be while no node can take a replica: those that run stay, and what they
// are made from does not change.
func (r *Reconciler) placeable(wanted Wanted, present *appsv1.Deployment, where placement.Plan) (bool, error) {
	if where.Blocked == nil {
		return true, nil
	}
	if present == nil {
		return false, nil
	}
	return owned.Current(wanted.deployment(present, where.Affinity, r.Image), present)
}
