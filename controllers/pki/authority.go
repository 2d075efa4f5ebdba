// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"time"

	"github.com/lighterage/lighterage/agent/wire/chain"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// CALifetime of a CA that the manager makes.
	CALifetime = 10 * 365 * 24 * time.Hour
	// ClockSkew is how far certificates reach back, so that a peer whose clock is behind by a day accepts them. One
	// whose clock is ahead takes as much of their lifetime away.
	ClockSkew = wirev1.CertificateBackdating
	// maxAhead is how far in the future a certificate may have been issued, and what of ClockSkew is more than a day.
	maxAhead = time.Hour
)

// CA issues certificates.
type CA struct {
	// Certificate of the CA.
	Certificate *x509.Certificate
	// CertificatePEM is the same, encoded; it is public.
	CertificatePEM []byte

	keyPair tls.Certificate
	// keyPEM is secret.
	keyPEM []byte
}

// KeyPair is a certificate and its private key, encoded.
type KeyPair struct {
	// CertificatePEM is the chain, leaf first.
	CertificatePEM []byte
	// KeyPEM is secret.
	KeyPEM []byte
	// Leaf is the parsed certificate.
	Leaf *x509.Certificate
}

// TLS returns the pair as crypto/tls wants it.
func (k KeyPair) TLS() (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(k.CertificatePEM, k.KeyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading a key pair: %w", err)
	}
	return pair, nil
}

// Template says what to issue. Every certificate serves clients and servers.
type Template struct {
	Identity Identity
	// Claims of a run, which a Transfer's certificate needs; nil: none.
	Claims *RunClaims
	// DNSNames are the server names under which the holder serves.
	DNSNames []string
	// Lifetime from now on; it must be positive, and is cut where the CA's ends.
	Lifetime time.Duration
}

// NewCA makes a CA whose certificate is valid for CALifetime, and returns it with its encoded key pair.
func NewCA(cluster string, now time.Time) (*CA, KeyPair, error) {
	if err := ValidateClusterName(cluster); err != nil {
		return nil, KeyPair{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, KeyPair{}, fmt.Errorf("making the CA's key: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, KeyPair{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: fmt.Sprintf("%.64s", "Lighterage CA of "+cluster)},
		NotBefore:             now.Add(-ClockSkew),
		NotAfter:              now.Add(CALifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, KeyPair{}, fmt.Errorf("making the CA's certificate: %w", err)
	}
	pair, err := encode(der, key, nil)
	if err != nil {
		return nil, KeyPair{}, err
	}
	ca, err := ParseCA(pair.CertificatePEM, pair.KeyPEM)
	return ca, pair, err
}

// ParseCA reads a CA from its encoded certificate (the first one is the issuer) and key.
func ParseCA(certificatePEM, keyPEM []byte) (*CA, error) {
	pair, err := tls.X509KeyPair(certificatePEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading the CA: %w", err)
	}
	if pair.Leaf == nil || !pair.Leaf.IsCA {
		return nil, errors.New("reading the CA: the first certificate in tls.crt is not a CA's; put the issuing CA first")
	}
	ca := &CA{Certificate: pair.Leaf, CertificatePEM: certificatePEM, keyPair: pair, keyPEM: keyPEM}
	if certificates := 1 + len(ca.intermediates()); certificates > chain.MaxCertificates {
		return nil, fmt.Errorf("reading the CA: what it issues would be presented in a chain of %d certificates, and peers "+
			"accept at most %d; leave at most %d CAs in tls.crt besides the root", certificates, chain.MaxCertificates,
			chain.MaxCertificates-1)
	}
	return ca, nil
}

// Issue makes a key and a certificate for it.
func (c *CA) Issue(template Template, now time.Time) (KeyPair, error) {
	if template.Lifetime <= 0 {
		return KeyPair{}, fmt.Errorf(
			"issuing a certificate for %s: lifetime %s must be positive", template.Identity, template.Lifetime,
		)
	}
	if _, err := ParseIdentity(template.Identity.String()); err != nil {
		return KeyPair{}, fmt.Errorf("issuing a certificate: %w", err)
	}
	notAfter := now.Add(template.Lifetime)
	if notAfter.After(c.Certificate.NotAfter) {
		notAfter = c.Certificate.NotAfter
	}
	if !notAfter.After(now) {
		return KeyPair{}, fmt.Errorf(
			"issuing a certificate for %s: the CA expired on %s; replace it", template.Identity, notAfter.Format(time.RFC3339),
		)
	}
	uris := []*url.URL{template.Identity.uri()}
	if template.Claims != nil {
		claims, err := template.Claims.URI()
		if err != nil {
			return KeyPair{}, fmt.Errorf("issuing a certificate for %s: %w", template.Identity, err)
		}
		uris = append(uris, claims)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, fmt.Errorf("making a key for %s: %w", template.Identity, err)
	}
	serial, err := serialNumber()
	if err != nil {
		return KeyPair{}, err
	}
	leaf := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{"Lighterage"}},
		NotBefore:             now.Add(-ClockSkew),
		NotAfter:              notAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		URIs:                  uris,
		DNSNames:              template.DNSNames,
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, c.Certificate, key.Public(), c.keyPair.PrivateKey)
	if err != nil {
		return KeyPair{}, fmt.Errorf("issuing a certificate for %s: %w", template.Identity, err)
	}
	return encode(der, key, c.intermediates())
}

// intermediates are what a verifier that trusts the root alone needs: everything given with a CA that is not
// self-signed. Roots among it are left out, since who trusts one has it.
func (c *CA) intermediates() [][]byte {
	if selfIssued(c.Certificate) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.keyPair.Certificate), func(der []byte) bool {
		certificate, err := x509.ParseCertificate(der)
		return err == nil && selfIssued(certificate)
	})
}

func selfIssued(certificate *x509.Certificate) bool {
	return bytes.Equal(certificate.RawIssuer, certificate.RawSubject)
}

func encode(der []byte, key *ecdsa.PrivateKey, intermediates [][]byte) (KeyPair, error) {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return KeyPair{}, fmt.Errorf("reading back a certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("encoding a key: %w", err)
	}
	certificates := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for _, intermediate := range intermediates {
		certificates = append(certificates, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: intermediate})...)
	}
	return KeyPair{
		CertificatePEM: certificates,
		KeyPEM:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		Leaf:           leaf,
	}, nil
}

func serialNumber() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}
