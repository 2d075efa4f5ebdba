// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// SelfSigned returns a certificate for addresses, by default 127.0.0.1, that signed itself, good for an hour, and a
// pool with it alone.
func SelfSigned(t testing.TB, addresses ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	ips := []net.IP{net.IPv4(127, 0, 0, 1)}
	if len(addresses) > 0 {
		ips = nil
	}
	for _, address := range addresses {
		ips = append(ips, net.ParseIP(address))
	}
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: ips, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// WriteSelfSigned writes a certificate of SelfSigned as tls.crt, and its key as tls.key, into a directory.
func WriteSelfSigned(t testing.TB, directory string, addresses ...string) *x509.CertPool {
	t.Helper()
	certificate, pool := SelfSigned(t, addresses...)
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"tls.key": {Type: "PRIVATE KEY", Bytes: key}, "tls.crt": {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]},
	} {
		if err := os.WriteFile(filepath.Join(directory, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}
