// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/wire/chain"
	"github.com/lighterage/lighterage/controllers/pki"
)

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func newCA(t *testing.T, cluster string) *pki.CA {
	t.Helper()
	ca, _, err := pki.NewCA(cluster, now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t *testing.T, ca *pki.CA, identity pki.Identity, names ...string) pki.KeyPair {
	t.Helper()
	pair, err := ca.Issue(pki.Template{Identity: identity, DNSNames: names, Lifetime: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func TestParseIdentity(t *testing.T) {
	for name, test := range map[string]struct {
		uri  string
		want pki.Identity
		ok   bool
	}{
		"manager": {"spiffe://east/manager", pki.Identity{Cluster: "east", Path: "/manager"}, true},
		"transfer": {
			"spiffe://east.example/ns/bank/transfer/ledger", pki.TransferIdentity("east.example", "bank", "ledger"), true,
		},
		"another scheme":  {"https://east/manager", pki.Identity{}, false},
		"no cluster":      {"spiffe:///manager", pki.Identity{}, false},
		"no path":         {"spiffe://east", pki.Identity{}, false},
		"trailing slash":  {"spiffe://east/manager/", pki.Identity{}, false},
		"empty element":   {"spiffe://east/ns//transfer/x", pki.Identity{}, false},
		"dots":            {"spiffe://east/ns/../manager", pki.Identity{}, false},
		"percent":         {"spiffe://east/ns/a%2Fb/transfer/x", pki.Identity{}, false},
		"user":            {"spiffe://user@east/manager", pki.Identity{}, false},
		"query":           {"spiffe://east/manager?x=y", pki.Identity{}, false},
		"upper case":      {"spiffe://East/manager", pki.Identity{}, false},
		"longer than any": {"spiffe://east/" + strings.Repeat("a/", 600) + "a", pki.Identity{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pki.ParseIdentity(test.uri)
			if (err == nil) != test.ok || got != test.want {
				t.Fatalf("got %v, %v", got, err)
			}
			if err != nil && !errors.Is(err, pki.ErrNoIdentity) {
				t.Fatalf("error of another kind: %v", err)
			}
			if err == nil && got.String() != test.uri {
				t.Fatalf("%q came back as %q", test.uri, got)
			}
		})
	}
}

func FuzzParseIdentity(f *testing.F) {
	f.Add("spiffe://east/ns/bank/transfer/ledger")
	f.Add("spiffe://east/manager")
	f.Fuzz(func(t *testing.T, uri string) {
		identity, err := pki.ParseIdentity(uri)
		if err == nil && identity.String() != uri {
			t.Fatalf("%q came back as %q", uri, identity)
		}
	})
}

func FuzzParseBundle(f *testing.F) {
	ca, _, err := pki.NewCA("east", now)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(ca.CertificatePEM)
	f.Fuzz(func(t *testing.T, bundle []byte) {
		certificates, err := pki.ParseBundle(bundle)
		if err == nil && (len(certificates) == 0 || len(certificates) > 16) {
			t.Fatalf("%d certificates", len(certificates))
		}
	})
}

func TestIdentityTransfer(t *testing.T) {
	namespace, name, ok := pki.TransferIdentity("east", "bank", "ledger").Transfer()
	if namespace != "bank" || name != "ledger" || !ok {
		t.Fatal(namespace, name, ok)
	}
	for _, identity := range []pki.Identity{
		{Cluster: "east", Path: pki.ManagerPath}, pki.DeliveryIdentity("east", "bank", "ledger"), {},
	} {
		if _, _, ok := identity.Transfer(); ok {
			t.Errorf("%v passes for a Transfer", identity)
		}
	}
}

func TestVerifyAgainst(t *testing.T) {
	east, west, other := newCA(t, "east"), newCA(t, "west"), newCA(t, "east")
	rootsOf := func(owners map[string][]*pki.CA) *chain.Roots {
		roots := chain.NewRoots()
		for owner, cas := range owners {
			for _, ca := range cas {
				roots.Add(owner, []*x509.Certificate{ca.Certificate})
			}
		}
		return roots
	}
	identity := pki.TransferIdentity("east", "bank", "ledger")
	leaf := issue(t, east, identity).Leaf
	bundles := rootsOf(map[string][]*pki.CA{"the-east": {east}, "the-west": {west}})

	for name, test := range map[string]struct {
		bundles *chain.Roots
		chain   []*x509.Certificate
		at      time.Time
		err     error
	}{
		"the one that issued it": {bundles, []*x509.Certificate{leaf}, now, nil},
		"same name, another CA":  {bundles, []*x509.Certificate{issue(t, other, identity).Leaf}, now, pki.ErrUntrusted},
		"expired":                {bundles, []*x509.Certificate{leaf}, now.Add(2 * time.Hour), pki.ErrUntrusted},
		"clock behind":           {bundles, []*x509.Certificate{leaf}, now.Add(-59 * time.Minute), nil},
		"nothing presented":      {bundles, nil, now, pki.ErrUntrusted},
		"no peers":               {chain.NewRoots(), []*x509.Certificate{leaf}, now, pki.ErrUntrusted},
		"endless chain": {
			bundles, append([]*x509.Certificate{leaf}, make([]*x509.Certificate, 40)...), now, pki.ErrUntrusted,
		},
		"two peers with the same CA": {
			rootsOf(map[string][]*pki.CA{"a": {east}, "b": {east, west}}), []*x509.Certificate{leaf}, now, pki.ErrAmbiguous,
		},
		"a CA does not name a holder": {bundles, []*x509.Certificate{east.Certificate}, now, pki.ErrNoIdentity},
	} {
		t.Run(name, func(t *testing.T) {
			peer, got, err := pki.VerifyAgainst(test.bundles, test.chain, test.at)
			if !errors.Is(err, test.err) || (test.err == nil && err != nil) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if err == nil && (peer != "the-east" || got != identity) {
				t.Fatalf("got %q, %v", peer, got)
			}
		})
	}
}

func TestParseBundle(t *testing.T) {
	east := newCA(t, "east")
	leaf := issue(t, east, pki.Identity{Cluster: "east", Path: pki.ManagerPath})
	for name, test := range map[string]struct {
		bundle string
		want   int
	}{
		"one":             {string(east.CertificatePEM), 1},
		"two":             {string(east.CertificatePEM) + string(newCA(t, "west").CertificatePEM), 2},
		"text between":    {"# east\n" + string(east.CertificatePEM) + "\n", 1},
		"empty":           {"", 0},
		"not PEM":         {"hello", 0},
		"a key":           {string(east.CertificatePEM) + string(leaf.KeyPEM), 0},
		"a leaf":          {string(leaf.CertificatePEM), 0},
		"garbage in PEM":  {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), 0},
		"too many":        {strings.Repeat(string(east.CertificatePEM), 17), 0},
		"too many bytes":  {strings.Repeat("#", 65<<10), 0},
		"truncated block": {string(east.CertificatePEM)[:100], 0},
	} {
		t.Run(name, func(t *testing.T) {
			certificates, err := pki.ParseBundle([]byte(test.bundle))
			if len(certificates) != test.want || (test.want == 0) != errors.Is(err, pki.ErrInvalidBundle) {
				t.Fatalf("%d certificates, %v", len(certificates), err)
			}
		})
	}
}

func TestIssueRefuses(t *testing.T) {
	ca := newCA(t, "east")
	manager := pki.Identity{Cluster: "east", Path: pki.ManagerPath}
	for name, test := range map[string]struct {
		template pki.Template
		at       time.Time
	}{
		"no lifetime":  {pki.Template{Identity: manager}, now},
		"CA expired":   {pki.Template{Identity: manager, Lifetime: time.Hour}, now.Add(pki.CALifetime + time.Second)},
		"no cluster":   {pki.Template{Identity: pki.Identity{Path: "/manager"}, Lifetime: time.Hour}, now},
		"spaces in it": {pki.Template{Identity: pki.Identity{Cluster: "east", Path: "/ns/a b"}, Lifetime: time.Hour}, now},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ca.Issue(test.template, test.at); err == nil {
				t.Fatal("issued")
			}
		})
	}
	pair, err := ca.Issue(pki.Template{Identity: manager, Lifetime: 20 * pki.CALifetime}, now)
	if err != nil || pair.Leaf.NotAfter.After(ca.Certificate.NotAfter) {
		t.Fatalf("outlives its CA: %v, %v", pair.Leaf.NotAfter, err)
	}
}

// TestHandshake has a client and a server believe each other, and neither believe another CA or another name.
func TestHandshake(t *testing.T) {
	at := time.Now()
	ca, _, err := pki.NewCA("east", at)
	if err != nil {
		t.Fatal(err)
	}
	stranger, _, err := pki.NewCA("east", at)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	write := func(ca *pki.CA) {
		pair, err := ca.Issue(pki.Template{
			Identity: pki.Identity{Cluster: "east", Path: pki.GatewayPath}, DNSNames: []string{pki.GatewayServerName},
			Lifetime: time.Hour,
		}, at)
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{"tls.crt": pair.CertificatePEM, "tls.key": pair.KeyPEM} {
			if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(ca)
	files, err := pki.NewFiles(directory)
	if err != nil {
		t.Fatal(err)
	}
	client, err := ca.Issue(
		pki.Template{Identity: pki.Identity{Cluster: "east", Path: pki.ManagerPath}, Lifetime: time.Hour}, at,
	)
	if err != nil {
		t.Fatal(err)
	}
	clientPair, err := client.TLS()
	if err != nil {
		t.Fatal(err)
	}
	handshake := func(serverName string) error {
		near, far := net.Pipe()
		defer near.Close()
		go func() {
			defer far.Close()
			_ = tls.Server(far, &tls.Config{
				MinVersion: tls.VersionTLS13, GetCertificate: files.GetCertificate,
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pki.Pool([]*x509.Certificate{ca.Certificate}),
				NextProtos: []string{"h2"},
			}).Handshake()
		}()
		return tls.Client(
			near, pki.ClientConfig(&clientPair, pki.Pool([]*x509.Certificate{ca.Certificate}), serverName),
		).Handshake()
	}
	if err := handshake(pki.GatewayServerName); err != nil {
		t.Fatal(err)
	}
	var hostname x509.HostnameError
	if err := handshake(pki.NodeAgentServerName); !errors.As(err, &hostname) {
		t.Fatalf("another server name: %v", err)
	}
	write(stranger)
	later := time.Now().Add(time.Minute)
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Chtimes(filepath.Join(directory, name), later, later); err != nil {
			t.Fatal(err)
		}
	}
	var unknown x509.UnknownAuthorityError
	if err := handshake(pki.GatewayServerName); !errors.As(err, &unknown) {
		t.Fatalf("another CA: %v", err)
	}
}

// TestClockSkew: a peer whose clock is off by a day, either way, accepts what a cluster has just issued.
func TestClockSkew(t *testing.T) {
	ca, _, err := pki.NewCA("east", now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(
		pki.Template{Identity: pki.TransferIdentity("east", "bank", "ledger"), Lifetime: 48 * time.Hour}, now,
	)
	if err != nil {
		t.Fatal(err)
	}
	roots := chain.NewRoots()
	roots.Add("east", []*x509.Certificate{ca.Certificate})
	for off, accepted := range map[time.Duration]bool{
		0: true, -24 * time.Hour: true, 24 * time.Hour: true, -26 * time.Hour: false, 49 * time.Hour: false,
	} {
		if _, _, err := pki.VerifyAgainst(roots, []*x509.Certificate{pair.Leaf}, now.Add(off)); (err == nil) != accepted {
			t.Errorf("with a clock that is off by %s: %v", off, err)
		}
	}
}
