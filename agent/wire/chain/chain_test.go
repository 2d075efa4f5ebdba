// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/wire/chain"
)

// holder has a certificate and its key.
type holder struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// made is a certificate for a key, by an issuer, or by itself. change may be nil.
func made(t testing.TB, key crypto.Signer, issuer *holder, ca bool, change func(*x509.Certificate)) *holder {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "CA of local"}, IsCA: ca,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if !ca {
		template.Subject.CommonName = "leaf"
	}
	if change != nil {
		change(template)
	}
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.certificate, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &holder{certificate, key}
}

func p256(t testing.TB) crypto.Signer { return curve(t, elliptic.P256()) }

func curve(t testing.TB, c elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t *testing.T, bits int) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// H2: what is costly to verify is rejected before it is verified.
func TestCheck(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf, ca, large := made(t, p256(t), nil, false, nil), made(
		t, curve(t, elliptic.P521()), nil, true, nil,
	), made(t, p256(t), nil, false, func(c *x509.Certificate) {
		for range 1000 {
			c.DNSNames = append(c.DNSNames, "a-name-of-some-length.example")
		}
	})
	huge := *leaf.certificate
	huge.PublicKey = &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 8191), E: 65537}
	for name, test := range map[string]struct {
		chain []*x509.Certificate
		ok    bool
	}{
		"none":               {nil, true},
		"leaf":               {[]*x509.Certificate{leaf.certificate}, true},
		"two intermediates":  {[]*x509.Certificate{leaf.certificate, ca.certificate, ca.certificate}, true},
		"four":               {[]*x509.Certificate{leaf.certificate, ca.certificate, ca.certificate, ca.certificate}, false},
		"leaf with P-521":    {[]*x509.Certificate{ca.certificate}, false},
		"Ed25519":            {[]*x509.Certificate{made(t, edwards, nil, false, nil).certificate}, true},
		"RSA, 2048 bits":     {[]*x509.Certificate{made(t, rsaKey(t, 2048), nil, false, nil).certificate}, true},
		"RSA, 1024 bits":     {[]*x509.Certificate{made(t, rsaKey(t, 1024), nil, false, nil).certificate}, false},
		"RSA, 8192 bits":     {[]*x509.Certificate{&huge}, false},
		"RSA, in the chain":  {[]*x509.Certificate{leaf.certificate, &huge}, false},
		"P-224":              {[]*x509.Certificate{made(t, curve(t, elliptic.P224()), nil, false, nil).certificate}, false},
		"a long certificate": {[]*x509.Certificate{large.certificate}, false},
		"nil in it":          {make([]*x509.Certificate, 1), false},
	} {
		if err := chain.Check(test.chain); (err == nil) != test.ok || err != nil && !errors.Is(err, chain.ErrExcessive) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOwners(t *testing.T) {
	east, west, unkeyed := made(t, p256(t), nil, true, nil), made(t, p256(t), nil, true, nil),
		made(t, p256(t), nil, true, func(c *x509.Certificate) {
			c.Subject.CommonName, c.MaxPathLen = "made elsewhere", -1
		})
	unkeyed.certificate.SubjectKeyId = nil
	intermediate := made(t, p256(t), unkeyed, true, func(c *x509.Certificate) { c.Subject.CommonName = "intermediate" })
	roots := chain.NewRoots()
	roots.Add("east", []*x509.Certificate{east.certificate})
	roots.Add("west", []*x509.Certificate{west.certificate})
	roots.Add("far", []*x509.Certificate{unkeyed.certificate})
	twice := chain.NewRoots()
	for _, owner := range []string{"b", "a", "a"} {
		twice.Add(owner, []*x509.Certificate{east.certificate, west.certificate})
	}
	leaf := func(issuer *holder) *x509.Certificate { return made(t, p256(t), issuer, false, nil).certificate }
	// A stranger's CA says that it is the east's: its name, and the identifier of its key.
	forged := made(t, p256(t), nil, true, func(c *x509.Certificate) { c.SubjectKeyId = east.certificate.SubjectKeyId })
	nameless := made(t, p256(t), nil, false, func(c *x509.Certificate) { c.Subject = east.certificate.Subject })
	for name, test := range map[string]struct {
		roots *chain.Roots
		chain []*x509.Certificate
		want  []string
		err   error
	}{
		"one":                      {roots, []*x509.Certificate{leaf(east)}, []string{"east"}, nil},
		"another of the same name": {roots, []*x509.Certificate{leaf(west)}, []string{"west"}, nil},
		"with its root":            {roots, []*x509.Certificate{leaf(west), west.certificate}, []string{"west"}, nil},
		"with an intermediate": {
			roots, []*x509.Certificate{leaf(intermediate), intermediate.certificate}, []string{"far"}, nil,
		},
		"two owners":        {twice, []*x509.Certificate{leaf(east)}, []string{"a", "b"}, nil},
		"forged identifier": {roots, []*x509.Certificate{leaf(forged)}, nil, x509.UnknownAuthorityError{}},
		"forged name": {
			roots, []*x509.Certificate{leaf(made(t, p256(t), nil, true, nil))}, nil, chain.ErrUnknownIssuer,
		},
		"no identifier": {roots, []*x509.Certificate{nameless.certificate}, nil, chain.ErrUnknownIssuer},
		"self-signed": {
			roots, []*x509.Certificate{made(t, p256(t), nil, false, nil).certificate}, nil, chain.ErrUnknownIssuer,
		},
		"none":                      {roots, nil, nil, chain.ErrUnknownIssuer},
		"an intermediate is absent": {roots, []*x509.Certificate{leaf(intermediate)}, nil, chain.ErrUnknownIssuer},
	} {
		owners, err := test.roots.Owners(test.chain, time.Now(), x509.ExtKeyUsageAny)
		if !slices.Equal(owners, test.want) || (err == nil) != (test.err == nil) {
			t.Errorf("%s: %v, %v", name, owners, err)
		}
		if errors.Is(test.err, chain.ErrUnknownIssuer) && !errors.Is(err, chain.ErrUnknownIssuer) {
			t.Errorf("%s: signatures were looked at: %v", name, err)
		}
	}
	if _, err := roots.Owners(
		[]*x509.Certificate{leaf(east)}, time.Now().Add(2*time.Hour), x509.ExtKeyUsageAny,
	); err == nil {
		t.Error("an expired certificate was verified")
	}
}

// H2: roots of one name that key identifiers do not tell apart are not all tried.
func TestCandidatesAreBounded(t *testing.T) {
	roots, issuer := chain.NewRoots(), made(t, p256(t), nil, true, nil)
	for i := range 70 {
		ca := made(t, p256(t), nil, true, nil)
		ca.certificate.SubjectKeyId = nil
		roots.Add(fmt.Sprintf("peer-%d", i), []*x509.Certificate{ca.certificate})
	}
	if _, err := roots.Owners(
		[]*x509.Certificate{made(t, p256(t), issuer, false, nil).certificate}, time.Now(), x509.ExtKeyUsageAny,
	); !errors.Is(err, chain.ErrExcessive) {
		t.Errorf("%v", err)
	}
}

// An owner whose bundle is full of certificates that look like another owner's CA takes nothing from that one.
func TestBundleThatImitates(t *testing.T) {
	east := made(t, p256(t), nil, true, nil)
	roots := chain.NewRoots()
	for range 16 {
		alike := made(t, p256(t), nil, true, nil)
		alike.certificate.SubjectKeyId = east.certificate.SubjectKeyId
		alike.certificate.RawSubject = east.certificate.RawSubject
		roots.Add("evil", []*x509.Certificate{alike.certificate})
	}
	roots.Add("east", []*x509.Certificate{east.certificate})
	leaf := made(t, p256(t), east, false, nil).certificate
	owners, err := roots.Owners([]*x509.Certificate{leaf}, time.Now(), x509.ExtKeyUsageAny)
	if err != nil || !slices.Equal(owners, []string{"east"}) {
		t.Errorf("%v, %v", owners, err)
	}
}

// FuzzOwners has strangers present what they like.
func FuzzOwners(f *testing.F) {
	east := made(f, p256(f), nil, true, nil)
	roots := chain.NewRoots()
	roots.Add("east", []*x509.Certificate{east.certificate})
	f.Add(made(f, p256(f), made(f, p256(f), nil, true, nil), false, nil).certificate.Raw)
	f.Add(east.certificate.Raw)
	f.Fuzz(func(t *testing.T, der []byte) {
		certificates, err := x509.ParseCertificates(der)
		if err != nil {
			return
		}
		owners, err := roots.Owners(certificates, time.Now(), x509.ExtKeyUsageAny)
		if err == nil && (len(owners) == 0 || !certificates[0].Equal(east.certificate)) {
			t.Fatalf("owners %v", owners)
		}
	})
}
