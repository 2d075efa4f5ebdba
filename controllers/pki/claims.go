// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// RunClaims say what the holder of a Transfer's certificate may ask for. Agents read them, too, so that they are
// defined with what both halves share.
type RunClaims = wirev1.RunClaims

// Audience returns the fingerprints of a bundle's certificates, for RunClaims: the cluster that issues by one of them
// may be asked.
func Audience(bundle []byte) ([]string, error) {
	certificates, err := ParseBundle(bundle)
	if err != nil {
		return nil, err
	}
	fingerprints := make([]string, len(certificates))
	for i, certificate := range certificates {
		fingerprints[i] = Fingerprint(certificate)
	}
	return fingerprints, nil
}

// Issued returns when a certificate of a cluster was issued, by the clock of that cluster.
func Issued(certificate *x509.Certificate) time.Time {
	return wirev1.CertificateIssued(certificate)
}

// CAFile is a file with the CA that issues in this cluster, first of what may follow. It is read again when it has
// changed; while it cannot be read the last certificate stays in use. It is safe for concurrent use.
type CAFile struct {
	path string

	mu       sync.Mutex
	issuer   *x509.Certificate
	modified time.Time
}

// NewCAFile returns the CA in a file. Nothing is read yet.
func NewCAFile(path string) *CAFile { return &CAFile{path: path} }

// Issuer returns the CA's certificate.
func (f *CAFile) Issuer() (*x509.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	issuer, err := f.read()
	if err != nil && f.issuer == nil {
		return nil, fmt.Errorf("reading the cluster's CA: %w", err)
	}
	if err == nil {
		f.issuer = issuer
	}
	return f.issuer, nil
}

func (f *CAFile) read() (*x509.Certificate, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	if f.issuer != nil && info.ModTime().Equal(f.modified) {
		return f.issuer, nil
	}
	content, err := os.ReadFile(f.path)
	if err != nil {
		return nil, err
	}
	certificates, err := ParseBundle(content)
	if err != nil {
		return nil, err
	}
	f.modified = info.ModTime()
	return certificates[0], nil
}
