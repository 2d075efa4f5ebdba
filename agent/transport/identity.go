// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transport makes the authenticated connections of agents: TLS 1.3 on both sides, trust by certificate
// authority, identity by the certificate's URI.
package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
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

// Sender is whom a receiving agent serves.
type Sender struct {
	// Namespace and Name of the Transfer.
	Namespace, Name string
	// Run that the certificate must be of; empty: any, for measurements.
	Run string
	// RevokedBefore: certificates that were issued before it are rejected; zero: none is.
	RevokedBefore time.Time
}

// check is for tls.Config.
func (s Sender) check(cs tls.ConnectionState) error {
	if err := onlyPath(TransferPath(s.Namespace, s.Name))(cs); err != nil {
		return err
	}
	certificate := cs.PeerCertificates[0]
	if issued := wirev1.CertificateIssued(certificate); issued.Before(s.RevokedBefore) {
		return fmt.Errorf("the sender's certificate was issued at %s and those from before %s are revoked",
			issued.UTC().Format(time.RFC3339), s.RevokedBefore.UTC().Format(time.RFC3339))
	}
	if s.Run == "" {
		return nil
	}
	claims, err := wirev1.RunClaimsOf(certificate)
	if err != nil {
		return fmt.Errorf("the sender's %w", err)
	}
	if claims.Run != s.Run {
		return fmt.Errorf("the sender's certificate is of run %s; only run %s is allowed", claims.Run, s.Run)
	}
	return nil
}

// peerPath returns the path of the URI in the peer's certificate that says who it is. The cluster's name in it is
// information only: whom to believe was decided by the certificate authority.
func peerPath(cs tls.ConnectionState) (string, error) {
	if len(cs.PeerCertificates) == 0 {
		return "", errors.New("the peer has no certificate")
	}
	uri, err := wirev1.IdentityURI(cs.PeerCertificates[0])
	if err != nil {
		return "", fmt.Errorf("the peer's %w", err)
	}
	if uri.Scheme != identityScheme {
		return "", fmt.Errorf("the peer's certificate names its holder by scheme %q in place of %s", uri.Scheme,
			identityScheme)
	}
	return uri.Path, nil
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
