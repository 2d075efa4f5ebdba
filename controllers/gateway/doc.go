// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gateway is the door of a cluster. It admits runs of Transfers of other clusters (the gRPC service Gateway of
// package wirev1) and passes their data through to the receiving agents without ending TLS (package passthrough). To
// peers that agents do not dial themselves it makes the connections (package reverse).
//
// Who calls is decided by the one Peer whose caBundle verifies the certificate; what it may do by the PeerGrants of
// the namespace that it wants to write to. A gateway keeps nothing but connections: any number of them work side by
// side, and a caller may come back to another.
package gateway
