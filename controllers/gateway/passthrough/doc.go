// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package passthrough listens on one port and sends each TLS connection where the server name in its ClientHello says: to a
// server in this process, or through to another address without ending TLS. It knows nothing of Kubernetes.
//
// Anybody may connect, so everything is bounded: the size of a ClientHello and the time it may take, the connections that have
// not finished theirs (in total and for each source), all connections, and the connections to each target.
package passthrough
