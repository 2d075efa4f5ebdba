// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pkitest makes CAs as companies have them, for tests.
package pkitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// Company is a root CA whose key no cluster has.
type Company struct {
	Root *x509.Certificate
	key  *ecdsa.PrivateKey
	now  time.Time
}

// NewCompany returns a company whose certificates are valid for some weeks from a day before now.
func NewCompany(t testing.TB, now time.Time) *Company {
	t.Helper()
	c := &Company{now: now}
	c.Root, c.key = c.sign(t, "Company root", false)
	return c
}

// Intermediate makes a CA that may issue no CAs, and returns its certificate and its key in PEM.
func (c *Company) Intermediate(t testing.TB, name string) (certificate *x509.Certificate, keyPEM []byte) {
	t.Helper()
	certificate, key := c.sign(t, name, true)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func (c *Company) sign(t testing.TB, name string, byRoot bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: c.now.Add(-24 * time.Hour), NotAfter: c.now.Add(1000 * time.Hour),
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: byRoot,
	}
	parent, signer := template, key
	if byRoot {
		parent, signer = c.Root, c.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

// PEM encodes certificates.
func PEM(certificates ...*x509.Certificate) []byte {
	var text []byte
	for _, certificate := range certificates {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})...)
	}
	return text
}
