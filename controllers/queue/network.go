// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"net"
	"net/url"
	"strconv"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/lighterage/lighterage/controllers/networkpolicy"
	"github.com/lighterage/lighterage/controllers/plan"
)

// ensureNetwork writes the NetworkPolicy of the members.
func (r *Reconciler) ensureNetwork(ctx context.Context, wanted Wanted) (*plan.Problem, error) {
	queue := wanted.Queue
	return r.Networks.Ensure(ctx, kind, queue, labels(queue.UID), func(operatorNamespace string) networkingv1.NetworkPolicySpec {
		return networkpolicy.Queue(operatorNamespace, queue.UID, len(wanted.Config.GetMembers()) > 1, wanted.dialled()...)
	})
}

// dialled are the endpoints that members connect to, as host:port: the peer's gateway, and external servers.
func (w Wanted) dialled() []string {
	var endpoints []string
	if channel := w.Config.GetChannel(); channel != nil {
		endpoints = append(endpoints, channel.GetGatewayEndpoint())
	}
	for _, server := range w.Config.GetExternal().GetServers() {
		address, err := url.Parse(server)
		if err != nil || address.Hostname() == "" {
			continue // the agent says so
		}
		port := address.Port()
		if port == "" {
			port = strconv.Itoa(clientPort)
		}
		endpoints = append(endpoints, net.JoinHostPort(address.Hostname(), port))
	}
	return endpoints
}
