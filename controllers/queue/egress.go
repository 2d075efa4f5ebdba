// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentsecret"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/egress"
)

// permitted is content with what members may dial, if they have external servers or object stores. That is looked up
// for those in the content, which may be those of an earlier spec, and is no part of what the revision names: it
// changes with the nodes of the cluster.
func (r *Reconciler) permitted(
	ctx context.Context, namespace string, content agentsecret.Content,
) (agentsecret.Content, error) {
	config, ok := content.Config.(*wirev1.QueueConfig)
	dialled := append(uses(config.GetExternal().GetServers()), toldUses(config)...)
	if !ok || config.GetExternal() == nil && len(dialled) == 0 {
		return content, nil
	}
	permission, err := r.Egress.Permission(ctx, namespace, dialled)
	if err != nil {
		return content, err
	}
	return agentsecret.Permit(content, config, permission.Policy)
}

// serverUses are the external servers as a spec names them; none without.
func serverUses(external *v1alpha1.QueueExternal) []egress.Use {
	if external == nil {
		return nil
	}
	return uses(external.Servers)
}

func uses(servers []string) []egress.Use {
	var list []egress.Use
	for _, server := range servers {
		// What is no URL, members do not accept.
		if u, err := url.Parse(server); err == nil {
			list = append(list, egress.Use{Field: "spec.engine.external.servers", Written: server, Host: u.Hostname()})
		}
	}
	return list
}

// checkEgress: external servers or object stores that members may not dial.
func checkEgress(_ *v1alpha1.Queue, _ *Wanted, facts Facts) []metav1.Condition {
	if facts.NotAllowed == nil {
		return nil
	}
	return conditions.Stalled(facts.NotAllowed.Reason, facts.NotAllowed.Message)
}
