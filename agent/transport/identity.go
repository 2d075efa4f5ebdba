// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transport makes the authenticated connections of agents: TLS 1.3 on both sides, trust by certificate authority, identity
// by the certificate's URI.
package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
)

const (
	// GatewayServerName is the TLS server name of every gateway.
	GatewayServerName = "gateway.lighterage.internal"
	// NodeServerName is the TLS server name of every node agent.
	NodeServerName = "node.lighterage.internal"

	// ManagerPath is the identity of a cluster's manager.
	ManagerPath = "/manager"

	identityScheme = "spiffe"
)

// TransferPath is the identity of the sender of a Transfer.
func TransferPath(namespace, name string) string {
	return "/ns/" + namespace + "/transfer/" + name
}

// peerPath returns the path of the one URI in the peer's certificate, which says who it is. The cluster's name in it is
// information only: whom to believe was decided by the certificate authority.
func peerPath(cs tls.ConnectionState) (string, error) {
	if len(cs.PeerCertificates) == 0 {
		return "", errors.New("the peer has no certificate")
	}
	uris := cs.PeerCertificates[0].URIs
	if len(uris) != 1 || uris[0].Scheme != identityScheme {
		return "", fmt.Errorf("the peer's certificate has %d URIs; it needs one, of scheme %s", len(uris), identityScheme)
	}
	return uris[0].Path, nil
}

// onlyPath returns a check that accepts one identity.
func onlyPath(path string) func(tls.ConnectionState) error {
	return func(cs tls.ConnectionState) error {
		got, err := peerPath(cs)
		if err != nil {
			return err
		}
		if got != path {
			return fmt.Errorf("the peer is %q; only %q is allowed", got, path)
		}
		return nil
	}
}
