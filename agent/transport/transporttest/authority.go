// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transporttest makes throwaway certificates for tests.
package transporttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Authority is the certificate authority of a cluster.
type Authority struct {
	name        string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	run         string
}

// ForRun returns the authority whose certificates claim to be of a run.
func (a *Authority) ForRun(run string) *Authority {
	b := *a
	b.run = run
	return &b
}

// NewAuthority returns the authority of a cluster with a name.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{name: name, certificate: certificate, key: key}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// Directory makes a configuration directory for who has the identity path and the TLS server name; peer is the other
// cluster's authority.
func (a *Authority) Directory(t testing.TB, peer *Authority, path, serverName string) string {
	t.Helper()
	directory := t.TempDir()
	a.Write(t, directory, peer, path, serverName)
	return directory
}

// Write writes certificates into a directory.
func (a *Authority) Write(t testing.TB, directory string, peer *Authority, path, serverName string) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		URIs:         []*url.URL{{Scheme: "spiffe", Host: a.name, Path: path}},
	}
	if a.run != "" {
		sum := sha256.Sum256(peer.certificate.Raw)
		claims, err := wirev1.RunClaims{
			Run: a.run, Audience: []string{hex.EncodeToString(sum[:])}, Namespace: "vault", Claim: "ledger-copy", Path: "/",
		}.URI()
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, claims)
	}
	if serverName != "" {
		template.DNSNames = []string{serverName}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, directory, "tls.crt", "CERTIFICATE", der)
	write(t, directory, "tls.key", "PRIVATE KEY", pkcs8)
	write(t, directory, transport.ClusterCA, "CERTIFICATE", a.certificate.Raw)
	write(t, directory, transport.PeerCA, "CERTIFICATE", peer.certificate.Raw)
}

func write(t testing.TB, directory, name, kind string, der []byte) {
	t.Helper()
	b := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(filepath.Join(directory, name), b, 0o600); err != nil {
		t.Fatal(err)
	}
}
