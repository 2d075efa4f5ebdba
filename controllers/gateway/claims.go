// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/x509"
	"slices"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/pki"
)

// bind reads the claims in the certificate of a Transfer, and rejects one that was issued for another cluster.
func (t *trust) bind(from caller, certificate *x509.Certificate) (caller, error) {
	if _, _, isTransfer := from.identity.Transfer(); !isTransfer {
		return from, nil
	}
	claims, err := wirev1.RunClaimsOf(certificate)
	if err != nil {
		return caller{}, untrusted(
			"the certificate of a Transfer must say of which run it is: %v; are both clusters of one version?", err,
		)
	}
	own, err := t.issuer()
	if err != nil {
		return caller{}, unavailable("the gateway cannot read its own CA now")
	}
	// Only the CA that issues counts: what may follow it in the file may be the root of several clusters.
	if !slices.Contains(claims.Audience, pki.Fingerprint(own)) {
		return caller{}, untrusted("the certificate was issued for a cluster with another CA than the receiving one; put " +
			"the CA that issues there, the first certificate in ca.crt of its ConfigMap lighterage-ca, into caBundle of the " +
			"sending cluster's Peer; a root alone is not enough")
	}
	from.claims = claims
	return from, nil
}

// permits rejects a request that the claims in the certificate do not name.
func permits(claims pki.RunClaims, r request) error {
	const mismatch = "the certificate is of run %s into %s of claim %s/%s, and the request is about %s; only the run's " +
		"own agent may open it"
	wanted := pki.RunClaims{Run: r.transfer.Run, Namespace: r.namespace, Claim: r.claim.ClaimName, Path: r.claim.Path}
	switch {
	case claims.Run != wanted.Run:
		return untrusted(mismatch, claims.Run, claims.Path, claims.Namespace, claims.Claim, "run "+wanted.Run)
	case claims.Namespace != wanted.Namespace || claims.Claim != wanted.Claim || claims.Path != wanted.Path:
		return untrusted(mismatch, claims.Run, claims.Path, claims.Namespace, claims.Claim,
			wanted.Path+" of claim "+wanted.Namespace+"/"+wanted.Claim)
	case r.mirror && !claims.Delete:
		return untrusted(mismatch, claims.Run, claims.Path, claims.Namespace, claims.Claim,
			"removing what the source does not have")
	case r.privileged() && !claims.Privileged:
		return untrusted(mismatch, claims.Run, claims.Path, claims.Namespace, claims.Claim, "a privileged agent")
	}
	return nil
}
