// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
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
