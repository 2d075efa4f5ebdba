// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reverse makes connections to clusters that cannot be dialled. It knows nothing of Kubernetes.
//
// The gateway of such a cluster keeps control connections to the other's gateway (Dialler), which asks for a data
// connection by each of them (Registry): a connection of TCP of its own, that begins with a ClientHello whose server
// name was told over the control connection (Names). Whoever has it then speaks TLS through it from end to end.
//
// Pods of the cluster that waits ask their own gateway for such a connection by HTTP CONNECT (Server), and for
// connections to peers that are dialled through a proxy.
//
// A gateway may have several replicas. A server name says which of them waits for its data connection, and the others
// pass it on. One without a control connection of a peer asks the others (Siblings).
package reverse
