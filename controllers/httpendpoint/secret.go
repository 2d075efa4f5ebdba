// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/agentsecret"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

// memory is what the manager remembers of an HTTPEndpoint.
type memory struct {
	secret agentsecret.State
	// statistics is when they were last written.
	statistics time.Time
}

// ensureSecret writes the Secret with the replicas' configuration and identity when either has changed.
func (r *Reconciler) ensureSecret(ctx context.Context, wanted Wanted) (*plan.Problem, error) {
	endpoint := wanted.Endpoint
	m := r.memories.Of(client.ObjectKeyFromObject(endpoint), endpoint.UID)
	return r.secrets.Ensure(ctx, &m.secret, wanted.meta(objectName(endpoint)), agentsecret.Content{
		Identity:    pki.HTTPEndpointIdentity(r.Cluster, endpoint.Namespace, endpoint.Name),
		ServerNames: []string{pki.HTTPServerName(string(endpoint.UID))},
		Config:      wanted.Config,
		Revision:    wanted.Config.GetRevision(),
	})
}
