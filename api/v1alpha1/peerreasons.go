// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reasons of control connections and proxies of Peers.
const (
	// ReasonControlConnected (Peer): the gateways have control connections.
	ReasonControlConnected = "ControlConnected"
	// ReasonNotConnected (Peer): the gateways have no control connection, and the other cluster is to make it. Set
	// connection: Dial on its Peer for this cluster, and read that Peer's condition Connected.
	ReasonNotConnected = "NotConnected"
	// ReasonConnecting (Peer): this cluster's gateway has not told yet of its control connections.
	ReasonConnecting = "Connecting"
	// ReasonProxyAuthenticationFailed (Peer): the proxy of spec.proxy wants other credentials (HTTP status 407). Correct
	// Secret lighterage-proxies of the operator's namespace.
	ReasonProxyAuthenticationFailed = "ProxyAuthenticationFailed"
	// ReasonProxyRefused (Peer): the proxy of spec.proxy makes no connection to spec.endpoint; the message has its HTTP
	// status.
	ReasonProxyRefused = "ProxyRefused"
	// ReasonProxyUnreachable (Peer): the proxy of spec.proxy does not accept connections, or does not answer in time.
	ReasonProxyUnreachable = "ProxyUnreachable"
)
