// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// maxBundleCertificates bounds a bundle, and what a peer may present as its chain.
	maxBundleCertificates = 16
	maxBundleBytes        = 64 << 10
)

var (
	// ErrInvalidBundle is returned for a bundle that holds no usable CA certificate; the message says why.
	ErrInvalidBundle = errors.New("invalid CA bundle")
	// ErrUntrusted is returned for a certificate that no bundle verifies.
	ErrUntrusted = errors.New("certificate is not trusted")
	// ErrAmbiguous is returned for a certificate that more than one bundle verifies.
	ErrAmbiguous = errors.New("certificate is vouched for by more than one CA bundle")
)

// ParseBundle reads PEM that must hold CA certificates and nothing else, at most 16 of them.
func ParseBundle(bundle []byte) ([]*x509.Certificate, error) {
	if len(bundle) > maxBundleBytes {
		return nil, fmt.Errorf("%w: %d bytes where at most %d are allowed", ErrInvalidBundle, len(bundle), maxBundleBytes)
	}
	var certificates []*x509.Certificate
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%w: it holds a PEM block of type %q; only CERTIFICATE belongs there", ErrInvalidBundle, block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: certificate %d cannot be read: %w", ErrInvalidBundle, len(certificates)+1, err)
		}
		if !certificate.IsCA {
			return nil, fmt.Errorf("%w: certificate %d (%s) is not a CA's", ErrInvalidBundle, len(certificates)+1, certificate.Subject)
		}
		if certificates = append(certificates, certificate); len(certificates) > maxBundleCertificates {
			return nil, fmt.Errorf("%w: more than %d certificates", ErrInvalidBundle, maxBundleCertificates)
		}
	}
	if len(certificates) == 0 {
		return nil, fmt.Errorf("%w: no PEM certificate in it; take the value of ca.crt from the other cluster's ConfigMap lighterage-ca", ErrInvalidBundle)
	}
	return certificates, nil
}

// Pool makes a pool of what ParseBundle returns.
func Pool(certificates []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, certificate := range certificates {
		pool.AddCert(certificate)
	}
	return pool
}

// Fingerprint is the SHA-256 of a certificate, in lower-case hexadecimal.
func Fingerprint(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.Raw)
	return hex.EncodeToString(sum[:])
}

// Verify checks a chain, leaf first, against the roots. Only the chain's signatures, times and uses are checked, not names.
func Verify(roots *x509.CertPool, chain []*x509.Certificate, now time.Time) error {
	if len(chain) == 0 {
		return fmt.Errorf("%w: none was presented", ErrUntrusted)
	}
	if len(chain) > maxBundleCertificates {
		return fmt.Errorf("%w: a chain of %d certificates was presented", ErrUntrusted, len(chain))
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: Pool(chain[1:]),
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	return nil
}

// VerifyAgainst returns the name of the one bundle that verifies the chain, and the identity that the leaf states.
func VerifyAgainst(bundles map[string]*x509.CertPool, chain []*x509.Certificate, now time.Time) (string, Identity, error) {
	var name string
	last := fmt.Errorf("%w: no bundle to verify it against", ErrUntrusted)
	for _, candidate := range slices.Sorted(maps.Keys(bundles)) {
		if err := Verify(bundles[candidate], chain, now); err != nil {
			last = err
			continue
		}
		if name != "" {
			return "", Identity{}, fmt.Errorf("%w: %q and %q", ErrAmbiguous, name, candidate)
		}
		name = candidate
	}
	if name == "" {
		return "", Identity{}, last
	}
	identity, err := IdentityOf(chain[0])
	if err != nil {
		return "", Identity{}, err
	}
	return name, identity, nil
}
