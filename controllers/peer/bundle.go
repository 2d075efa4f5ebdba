// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
)

// expiryNotice is how long before the last CA certificate expires the Ready message says so.
const expiryNotice = 30 * 24 * time.Hour

// bundle is what a Peer's caBundle holds.
type bundle struct {
	// fingerprints are sorted.
	fingerprints []string
	// expires is when the last certificate does.
	expires time.Time
}

// readBundle returns an error that says what to fix if nothing in the bundle can be used.
func readBundle(peer *v1alpha1.Peer, now time.Time) (bundle, error) {
	certificates, err := pki.ParseBundle(peer.Spec.CABundle)
	if err != nil {
		return bundle{}, fmt.Errorf("spec.caBundle cannot be used: %w", err)
	}
	b := bundle{fingerprints: fingerprints(certificates)}
	for _, certificate := range certificates {
		if certificate.NotAfter.After(b.expires) {
			b.expires = certificate.NotAfter
		}
	}
	if now.After(b.expires) {
		return b, fmt.Errorf("every certificate in spec.caBundle has expired, the last on %s; copy ca.crt from the "+
			"ConfigMap lighterage-ca of that cluster",
			b.expires.UTC().Format(time.RFC3339))
	}
	return b, nil
}

func fingerprints(certificates []*x509.Certificate) []string {
	prints := make([]string, 0, len(certificates))
	for _, certificate := range certificates {
		prints = append(prints, pki.Fingerprint(certificate))
	}
	slices.Sort(prints)
	return slices.Compact(prints)
}

// sharers returns the names of the other Peers that hold one of the certificates, sorted.
func sharers(peer *v1alpha1.Peer, prints []string, peers []v1alpha1.Peer) []string {
	var names []string
	for i := range peers {
		other := &peers[i]
		if other.Name == peer.Name {
			continue
		}
		certificates, err := pki.ParseBundle(other.Spec.CABundle)
		if err != nil {
			continue // that Peer says so itself, and vouches for nobody
		}
		if slices.ContainsFunc(fingerprints(certificates), func(print string) bool {
			return slices.Contains(prints, print)
		}) {
			names = append(names, other.Name)
		}
	}
	slices.Sort(names)
	return names
}

// duplicateMessage says how to tell Peers apart again.
func duplicateMessage(names []string) string {
	return fmt.Sprintf("Peer %s holds the same CA, so that runs from these clusters are refused: neither can be told "+
		"from the other; remove the CA from all but one of the Peers, or give each cluster a CA of its own",
		strings.Join(names, ", "))
}
