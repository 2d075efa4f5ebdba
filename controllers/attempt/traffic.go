// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Traffic is whom an attempt's agent talks to, the manager excepted.
type Traffic struct {
	// Gateways are the endpoints of the peers' that the agent dials, as host:port.
	Gateways []string
	// ReceiverNamespaces are those of this cluster in which the receiving agents are that it dials.
	ReceiverNamespaces []string
	// Receives data, from senders in SenderNamespace of this cluster, or, when that is empty, through the gateway.
	Receives        bool
	SenderNamespace string
	// Stores are the object stores that the agent dials, and the gateway of a relay.
	Stores []StoreTraffic
	// AsksAgents: it asks other agents of its namespace for samples.
	AsksAgents bool
}

// StoreTraffic is the server of an object store, as host:port, and the Service that it names; nil if it names none, or
// none that may be used.
type StoreTraffic struct {
	Address string
	Service *corev1.Service
}

// sendsTo adds a receiver, which is in that namespace of this cluster if no gateway leads to it.
func (t *Traffic) sendsTo(gateway, namespace string) {
	switch {
	case gateway != "" && !slices.Contains(t.Gateways, gateway):
		t.Gateways = append(t.Gateways, gateway)
	case gateway == "" && !slices.Contains(t.ReceiverNamespaces, namespace):
		t.ReceiverNamespaces = append(t.ReceiverNamespaces, namespace)
	}
}

// Mode of the attempt's agent, which is the value of agentpod.ComponentLabel.
func (a *Attempt) Mode() string { return a.spec.Mode }

// Traffic of the attempt.
func (a *Attempt) Traffic() Traffic {
	switch config := a.spec.Config.(type) {
	case *wirev1.SendConfig:
		var all Traffic
		for _, r := range config.GetReceivers() {
			all.sendsTo(r.GetGatewayEndpoint(), r.GetDestination().GetNamespace())
		}
		if len(config.GetReceivers()) == 0 {
			all.sendsTo(config.GetGatewayEndpoint(), config.GetDestination().GetNamespace())
		}
		return all
	case *wirev1.ReceiveConfig:
		return Traffic{Receives: true, SenderNamespace: a.spec.SenderNamespace}
	case *wirev1.TrialConfig:
		return Traffic{AsksAgents: config.GetAgents() != nil}
	}
	return Traffic{Stores: a.spec.stores}
}
