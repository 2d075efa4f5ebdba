// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chain bounds what it costs to find out who presents a chain of certificates. Whoever listens for other
// clusters has to find out, of clients that may be anybody and before it knows which CA to believe.
package chain

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
)

const (
	// MaxCertificates of a chain: a leaf and two intermediate CAs.
	MaxCertificates = 3
	// maxBytes of one certificate. The claims of a run hold a path of up to 4096 bytes, each of which takes three when
	// it is encoded.
	maxBytes = 20 << 10
	// RSA keys, in bits.
	minRSA, maxRSA = 2048, 4096
)

// ErrExcessive is returned for a chain that is longer, or has other keys, than anybody needs.
var ErrExcessive = errors.New("the certificate chain is not acceptable")

// Check looks at the form of a chain, leaf first, and not at its signatures.
func Check(chain []*x509.Certificate) error {
	if len(chain) > MaxCertificates {
		return fmt.Errorf("%w: it has %d certificates and at most %d are allowed; present the leaf and up to %d "+
			"intermediate CAs",
			ErrExcessive, len(chain), MaxCertificates, MaxCertificates-1)
	}
	for i, certificate := range chain {
		if certificate == nil || len(certificate.Raw) > maxBytes {
			return fmt.Errorf("%w: certificate %d is longer than %d bytes", ErrExcessive, i+1, maxBytes)
		}
		if !acceptable(certificate.PublicKey, i == 0) {
			return fmt.Errorf("%w: certificate %d has a key of another kind or size; use ECDSA with P-256 or P-384, Ed25519, "+
				"or RSA with %d to %d bits",
				ErrExcessive, i+1, minRSA, maxRSA)
		}
	}
	return nil
}

// acceptable keys are cheap to verify signatures with. CAs may have P-521 as well: one signature of theirs is looked
// at where that of a leaf comes with every handshake.
func acceptable(key any, leaf bool) bool {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		return key.Curve == elliptic.P256() || key.Curve == elliptic.P384() || key.Curve == elliptic.P521() && !leaf
	case ed25519.PublicKey:
		return true
	case *rsa.PublicKey:
		return key.N.BitLen() >= minRSA && key.N.BitLen() <= maxRSA
	default:
		return false
	}
}
