// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	corev1 "k8s.io/api/core/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Traffic is whom an attempt's agent talks to, the manager excepted.
type Traffic struct {
	// Gateway is the endpoint of the peer's that the agent dials, as host:port.
	Gateway string
	// ReceiverNamespace is that of this cluster in which the receiving agent is that it dials.
	ReceiverNamespace string
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

// Mode of the attempt's agent, which is the value of agentpod.ComponentLabel.
func (a *Attempt) Mode() string { return a.spec.Mode }

// Traffic of the attempt.
func (a *Attempt) Traffic() Traffic {
	switch config := a.spec.Config.(type) {
	case *wirev1.SendConfig:
		if config.GetGatewayEndpoint() != "" {
			return Traffic{Gateway: config.GetGatewayEndpoint()}
		}
		return Traffic{ReceiverNamespace: config.GetDestination().GetNamespace()}
	case *wirev1.ReceiveConfig:
		return Traffic{Receives: true, SenderNamespace: a.spec.SenderNamespace}
	case *wirev1.TrialConfig:
		return Traffic{AsksAgents: config.GetAgents() != nil}
	}
	return Traffic{Stores: a.spec.stores}
}
