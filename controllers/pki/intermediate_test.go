// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/agent/wire/chain"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/pki/pkitest"
)

// given is a Secret with an intermediate CA, followed by others or not, as cert-manager writes it.
func given(t *testing.T, by *pkitest.Company, following ...*x509.Certificate) *corev1.Secret {
	t.Helper()
	certificate, key := by.Intermediate(t, "Company CA of east")
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "given"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey:       pkitest.PEM(append([]*x509.Certificate{certificate}, following...)...),
			corev1.TLSPrivateKeyKey: key,
		},
	}
}

func givenAuthority(t *testing.T, secret *corev1.Secret) (*pki.Authority, pki.Options, *clocktesting.FakeClock) {
	t.Helper()
	o, clock := options(secret)
	o.SecretName = secret.Name
	return pki.NewAuthority(o), o, clock
}

// chainOf is what the holder of a key pair presents.
func chainOf(t *testing.T, pair pki.KeyPair) []*x509.Certificate {
	t.Helper()
	parsed, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	var presented []*x509.Certificate
	for _, der := range parsed.Certificate {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		presented = append(presented, certificate)
	}
	return presented
}

// peersOf are Peers with bundles, as the gateway reads them.
func peersOf(t *testing.T, bundles map[string][]byte) *chain.Roots {
	t.Helper()
	roots := chain.NewRoots()
	for name, bundle := range bundles {
		certificates, err := pki.ParseBundle(bundle)
		if err != nil {
			t.Fatal(err)
		}
		roots.Add(name, certificates)
	}
	return roots
}

// An intermediate CA that may issue no CAs issues what peers verify by it or by its root.
func TestIntermediateCA(t *testing.T) {
	root := pkitest.NewCompany(t, now)
	authority, o, _ := givenAuthority(t, given(t, root, root.Root))
	identity := pki.TransferIdentity("east", "bank", "ledger")
	pair, ca, err := authority.Issue(t.Context(), pki.Template{Identity: identity, Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	presented := chainOf(t, pair)
	if err := chain.Check(presented); err != nil || len(presented) != 2 {
		t.Fatalf("%d certificates: %v", len(presented), err)
	}
	published := &corev1.ConfigMap{}
	if err := o.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: pki.CAName}, published); err != nil {
		t.Fatal(err)
	}
	whole := []byte(published.Data[pki.CAKey])
	// The first that is published is what claims of runs are compared with.
	audience, err := pki.Audience(whole)
	if err != nil || audience[0] != pki.Fingerprint(ca.Certificate) {
		t.Errorf("audience %v: %v", audience, err)
	}
	sibling, _ := root.Intermediate(t, "Company CA of north")
	intermediate, rooted := pkitest.PEM(ca.Certificate), pkitest.PEM(root.Root)
	for name, test := range map[string]struct {
		bundles map[string][]byte
		leaf    bool // alone is presented
		err     error
	}{
		"the intermediate":                   {map[string][]byte{"east": intermediate}, false, nil},
		"the intermediate, for a leaf alone": {map[string][]byte{"east": intermediate}, true, nil},
		"the root":                           {map[string][]byte{"east": rooted}, false, nil},
		"the root, for a leaf alone":         {map[string][]byte{"east": rooted}, true, pki.ErrUntrusted},
		"what is published":                  {map[string][]byte{"east": whole}, false, nil},
		"another intermediate of the root":   {map[string][]byte{"north": pkitest.PEM(sibling)}, false, pki.ErrUntrusted},
		"intermediates of one root": {
			map[string][]byte{"east": intermediate, "north": pkitest.PEM(sibling)}, false, nil,
		},
		"one root for two peers": {map[string][]byte{"east": rooted, "north": rooted}, false, pki.ErrAmbiguous},
		"what two clusters of a root publish": {
			map[string][]byte{"east": whole, "north": pkitest.PEM(sibling, root.Root)}, false, pki.ErrAmbiguous,
		},
	} {
		t.Run(name, func(t *testing.T) {
			shown := presented
			if test.leaf {
				shown = shown[:1]
			}
			peer, got, err := pki.VerifyAgainst(peersOf(t, test.bundles), shown, now)
			if !errors.Is(err, test.err) || test.err == nil && (err != nil || peer != "east" || got != identity) {
				t.Errorf("%q, %v, %v", peer, got, err)
			}
		})
	}
}

// Peers take chains of three certificates. A root in tls.crt is not sent along; more than two other CAs are an error
// when the CA is read.
func TestLongestGivenChain(t *testing.T) {
	root := pkitest.NewCompany(t, now)
	other, _ := root.Intermediate(t, "Company CA of nobody")
	for following := range 4 {
		others := []*x509.Certificate{other, root.Root, other}[:following]
		authority, _, _ := givenAuthority(t, given(t, root, others...))
		pair, _, err := authority.Issue(
			t.Context(), pki.Template{Identity: pki.Identity{Cluster: "east", Path: pki.ManagerPath}, Lifetime: time.Hour},
		)
		if allowed := following < 3; (err == nil) != allowed {
			t.Errorf("%d certificates in tls.crt: %v", following+1, err)
		} else if err == nil && chain.Check(chainOf(t, pair)) != nil {
			t.Errorf("%d certificates in tls.crt: peers reject what is issued", following+1)
		}
	}
}

// A manager that runs takes an intermediate CA that was renewed, and issues all that it serves with it.
func TestIntermediateCAIsRotated(t *testing.T) {
	root := pkitest.NewCompany(t, now)
	secret := given(t, root, root.Root)
	authority, o, clock := givenAuthority(t, secret)
	renewer := &pki.Renewer{Authority: authority, Clock: clock, Lifetime: 24 * time.Hour}
	holder := pki.NewHolder(authority, pki.ManagerPath, 24*time.Hour)
	// serving is what the gateway and the manager present, by the CA of that moment.
	serving := func() (ca *pki.CA, chains [][]*x509.Certificate) {
		t.Helper()
		if err := renewer.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		served := &corev1.Secret{}
		if err := o.Client.Get(
			t.Context(), client.ObjectKey{Namespace: namespace, Name: pki.GatewaySecret}, served,
		); err != nil {
			t.Fatal(err)
		}
		own, ca, err := holder.Certificate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if string(served.Data[pki.ClusterCAKey]) != string(ca.CertificatePEM) {
			t.Error("the gateway has another CA than the manager")
		}
		chains = append(chains, chainOf(
			t, pki.KeyPair{CertificatePEM: served.Data[corev1.TLSCertKey], KeyPEM: served.Data[corev1.TLSPrivateKeyKey]},
		),
			certificatesOf(t, own))
		return ca, chains
	}
	first, before := serving()
	next := given(t, root, root.Root)
	if err := o.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	secret.Data = next.Data
	if err := o.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	clock.Step(time.Minute)
	second, after := serving()
	if second.Certificate.Equal(first.Certificate) {
		t.Fatal("the manager issues by the former CA")
	}
	published := &corev1.ConfigMap{}
	if err := o.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: pki.CAName}, published); err != nil {
		t.Fatal(err)
	}
	if published.Data[pki.CAKey] != string(next.Data[corev1.TLSCertKey]) {
		t.Error("the former CA is published still")
	}
	old, both := pkitest.PEM(first.Certificate), pkitest.PEM(first.Certificate, second.Certificate)
	for i := range before {
		for name, test := range map[string]struct {
			bundle    []byte
			presented []*x509.Certificate
			err       error
		}{
			"both in the Peer, former certificate": {both, before[i], nil},
			"both in the Peer, new certificate":    {both, after[i], nil},
			"only the former CA in the Peer":       {old, after[i], pki.ErrUntrusted},
			"only the new CA in the Peer":          {pkitest.PEM(second.Certificate), before[i], pki.ErrUntrusted},
			"the root in the Peer":                 {pkitest.PEM(root.Root), after[i], nil},
		} {
			_, _, err := pki.VerifyAgainst(peersOf(t, map[string][]byte{"east": test.bundle}), test.presented, clock.Now())
			if !errors.Is(err, test.err) || test.err == nil && err != nil {
				t.Errorf("holder %d, %s: %v", i, name, err)
			}
		}
	}
}

func certificatesOf(t *testing.T, pair *tls.Certificate) (presented []*x509.Certificate) {
	t.Helper()
	for _, der := range pair.Certificate {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		presented = append(presented, certificate)
	}
	return presented
}
