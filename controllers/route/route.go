// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package route says how this cluster reaches the gateway of a Peer. It is pure.
package route

import (
	"net"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	// service is the Service, as the chart names it, of this cluster's gateways for its own pods.
	service = "lighterage-gateway-tunnels"
	// Port of it.
	Port = "8445"
)

// Own is the endpoint at which this cluster's gateways take requests for tunnels.
func Own(operatorNamespace string) string {
	return net.JoinHostPort(service+"."+operatorNamespace+".svc", Port)
}

// Route to a gateway.
type Route struct {
	// Endpoint to dial: the peer's, or that of this cluster's own gateways.
	Endpoint string
	// Tunnel is what the own gateways are asked for; empty: Endpoint is the peer's.
	Tunnel string
}

// To returns the route to a Peer; own is what Own returns. ok is false if this cluster does not reach it.
func To(peer *v1alpha1.Peer, own string) (r Route, ok bool) {
	switch {
	case !Reaches(peer):
		return Route{}, false
	case peer.Spec.Connection == v1alpha1.PeerListen || peer.Spec.Proxy != nil:
		return Route{Endpoint: own, Tunnel: tunnel.Target(peer.Name)}, true
	default:
		return Route{Endpoint: peer.Spec.Endpoint}, true
	}
}

// Reaches reports whether this cluster can send to a Peer.
func Reaches(peer *v1alpha1.Peer) bool {
	return peer.Spec.Connection == v1alpha1.PeerListen || peer.Spec.Endpoint != ""
}

// Controlled reports whether the gateways have control connections with a Peer.
func Controlled(peer *v1alpha1.Peer) bool {
	return peer.Spec.Connection == v1alpha1.PeerListen || peer.Spec.Connection == v1alpha1.PeerDial
}
