// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/networkpolicy"
)

// ensureNetwork writes the NetworkPolicy of the members. services are those that external servers and object stores
// name and that may be used, by host.
func (r *Reconciler) ensureNetwork(
	ctx context.Context, wanted Wanted, services map[string]*corev1.Service,
) (*agentpod.Problem, error) {
	queue := wanted.Queue
	return r.Networks.Ensure(ctx, kind, queue, labels(
		queue.UID,
	), func(operatorNamespace string) networkingv1.NetworkPolicySpec {
		return networkpolicy.Queue(operatorNamespace, queue.UID, wanted.traffic(services))
	})
}

// traffic is whom members talk to.
func (w Wanted) traffic(services map[string]*corev1.Service) networkpolicy.QueueTraffic {
	return networkpolicy.QueueTraffic{
		Clustered: len(w.Config.GetMembers()) > 1,
		SendsHere: slices.ContainsFunc(w.channels(), func(c *wirev1.ChannelConfig) bool { return c.GetAddress() != "" }),
		ReceivesHere: slices.ContainsFunc(w.Config.GetAcceptance().GetPeers(), func(p *wirev1.ChannelPeer) bool {
			return p.GetName() == ""
		}),
		Dialled: w.dialled(services),
	}
}

// channels are those that members are told.
func (w Wanted) channels() []*wirev1.ChannelConfig {
	if channel := w.Config.GetChannel(); channel != nil {
		return []*wirev1.ChannelConfig{channel}
	}
	return w.Config.GetChannels()
}

// dialled is what members connect to: peers' gateways, external servers, and object stores.
func (w Wanted) dialled(services map[string]*corev1.Service) []networkpolicy.Dialled {
	var all []networkpolicy.Dialled
	for _, channel := range w.channels() {
		if channel.GetGatewayEndpoint() != "" {
			all = append(all, networkpolicy.Dialled{Endpoint: channel.GetGatewayEndpoint()})
		}
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
		all = append(all, networkpolicy.Dialled{
			Endpoint: net.JoinHostPort(address.Hostname(), port), Service: services[address.Hostname()],
		})
	}
	for _, store := range toldStores(w.Config) {
		host, _ := attempt.WireStoreHost(store)
		all = append(all, networkpolicy.Dialled{Endpoint: attempt.StoreAddress(store), Service: services[host]})
	}
	return all
}
