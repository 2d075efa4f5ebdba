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
	"time"

	"github.com/lighterage/lighterage/agent/wire/chain"
)

const (
	// maxBundleCertificates and maxBundleBytes bound a bundle.
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
			return nil, fmt.Errorf(
				"%w: it holds a PEM block of type %q; only CERTIFICATE belongs there", ErrInvalidBundle, block.Type,
			)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: certificate %d cannot be read: %w", ErrInvalidBundle, len(certificates)+1, err)
		}
		if !certificate.IsCA {
			return nil, fmt.Errorf(
				"%w: certificate %d (%s) is not a CA's", ErrInvalidBundle, len(certificates)+1, certificate.Subject,
			)
		}
		if certificates = append(certificates, certificate); len(certificates) > maxBundleCertificates {
			return nil, fmt.Errorf("%w: more than %d certificates", ErrInvalidBundle, maxBundleCertificates)
		}
	}
	if len(certificates) == 0 {
		return nil, fmt.Errorf(
			"%w: no PEM certificate in it; take the value of ca.crt from the other cluster's ConfigMap lighterage-ca",
			ErrInvalidBundle,
		)
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

// VerifyAgainst returns the name of the one owner of a CA that verifies the chain, leaf first, and the identity that
// the leaf states. Only the chain's signatures, times and uses are checked, not names.
func VerifyAgainst(roots *chain.Roots, presented []*x509.Certificate, now time.Time) (string, Identity, error) {
	owners, err := roots.Owners(presented, now, x509.ExtKeyUsageAny)
	if err != nil {
		return "", Identity{}, fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	if len(owners) > 1 {
		return "", Identity{}, fmt.Errorf("%w: %q and %q", ErrAmbiguous, owners[0], owners[1])
	}
	identity, err := IdentityOf(presented[0])
	if err != nil {
		return "", Identity{}, err
	}
	return owners[0], identity, nil
}
