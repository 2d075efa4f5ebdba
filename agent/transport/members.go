// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// MembersConfig is for connections between agents that have the same identity, such as the members of a queue, in
// either direction: each believes who shows a certificate of the cluster's authority with the identity of its own.
func (f *Files) MembersConfig() *tls.Config {
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.Certificate() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.Certificate() },
		ClientAuth:           tls.RequireAnyClientCert,
		// What the standard library would verify, with an authority that may change, is verified below for both
		// directions.
		InsecureSkipVerify:     true, //nolint:gosec // VerifyConnection verifies.
		VerifyConnection:       f.verifyMember,
		SessionTicketsDisabled: true,
	}
}

// verifyMember accepts who is of the agent's own cluster and has its identity.
func (f *Files) verifyMember(cs tls.ConnectionState) error {
	if len(cs.PeerCertificates) == 0 {
		return errors.New("the peer has no certificate")
	}
	pool, err := f.Pool(ClusterCA)
	if err != nil {
		return err
	}
	intermediates := x509.NewCertPool()
	for _, c := range cs.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	if _, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: pool, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}); err != nil {
		return fmt.Errorf("the peer's certificate: %w", err)
	}
	own, err := f.Certificate()
	if err != nil {
		return err
	}
	path, err := peerPath(tls.ConnectionState{PeerCertificates: []*x509.Certificate{own.Leaf}})
	if err != nil {
		return fmt.Errorf("the agent's own certificate: %w", err)
	}
	return onlyPath(path)(cs)
}
