// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package passthrough listens on one port and sends each TLS connection where the server name in its ClientHello says:
// to a server in this process, or through to another address without ending TLS. It knows nothing of Kubernetes.
//
// Anybody may connect, so everything is bounded: the size of a ClientHello and the time it may take, what a client may
// send before it is authenticated, and connections by their state. A connection is unknown at first. One to the server
// in this process becomes its owner's when that server says whose it is (LocalConn.Authenticated); one to a target
// becomes proven when the target shows by what it sends, or by not ending the connection, that it has authenticated
// the client. Unknown connections are bounded in all and for each source, and one more evicts the oldest; known ones
// are bounded for each owner, and one more evicts the one that was idle longest; proven ones are bounded for each
// target. So strangers take nothing from owners, nor one owner from another: strangers who come so fast that they
// evict an honest client within its handshake, 1000 in the time of a round trip, need more than connections to do so.
package passthrough
