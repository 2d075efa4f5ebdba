// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// GatewaySecret holds the gateway's serving certificate, in the operator's namespace.
	GatewaySecret = "lighterage-gateway-tls"
	// NodeAgentSecret holds that of the node agents.
	NodeAgentSecret = "lighterage-node-agent-tls"

	// renewerPause bounds how long a CA that was replaced, or a Secret that was deleted, goes unnoticed. The CA is
	// published when it is noticed by anything; that the gateway still serves a certificate of the former one must not
	// last much longer.
	renewerPause = caMaxAge
	// renewerRetry is the pause after an error.
	renewerRetry = 5 * time.Second
)

// Renewer makes the CA and the serving certificates when the manager begins to lead, and keeps them fresh. It is a
// controller-runtime Runnable that needs leader election.
type Renewer struct {
	Authority *Authority
	Clock     clock.Clock
	// Lifetime of serving certificates.
	Lifetime time.Duration
}

// Start runs until the context ends.
func (r *Renewer) Start(ctx context.Context) error {
	for {
		pause := renewerPause
		if err := r.Ensure(ctx); err != nil {
			log.FromContext(ctx).Error(err, "Serving certificates cannot be renewed, trying again soon")
			pause = renewerRetry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.Clock.After(pause):
		}
	}
}

// Ensure is one round. It is idempotent.
func (r *Renewer) Ensure(ctx context.Context) error {
	for _, serving := range []struct{ secret, path, serverName string }{
		{GatewaySecret, GatewayPath, GatewayServerName},
		{NodeAgentSecret, NodeAgentPath, NodeAgentServerName},
	} {
		identity := Identity{Cluster: r.Authority.Cluster(), Path: serving.path}
		if err := r.Authority.EnsureServingSecret(ctx, serving.secret, identity, r.Lifetime, serving.serverName); err != nil {
			return err
		}
	}
	return nil
}

// caPatience bounds how long a scrape of metrics waits for the CA.
const caPatience = 5 * time.Second

// CAExpires is when the CA's certificate expires.
func (r *Renewer) CAExpires() (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), caPatience)
	defer cancel()
	ca, err := r.Authority.CA(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return ca.Certificate.NotAfter, nil
}

// NeedLeaderElection keeps managers that do not lead from writing.
func (r *Renewer) NeedLeaderElection() bool {
	return true
}
