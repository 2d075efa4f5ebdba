// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/pki/pkitest"
)

// M1: runs between clusters whose CAs are intermediate CAs of one root. The audience must hold the CA that issues in
// the receiving cluster; its root alone could be that of any other cluster of the company.
func TestIntermediateCAs(t *testing.T) {
	root := pkitest.NewCompany(t, time.Now())
	eastern, key := root.Intermediate(t, "Company CA of east")
	western, _ := root.Intermediate(t, "Company CA of west")
	renewed, _ := root.Intermediate(t, "Company CA of west")
	northern, _ := root.Intermediate(t, "Company CA of north")
	east, err := pki.ParseCA(pkitest.PEM(eastern, root.Root), key)
	if err != nil {
		t.Fatal(err)
	}
	// west mounts what its manager writes into the gateway's Secret.
	file := filepath.Join(t.TempDir(), pki.ClusterCAKey)
	mount := func(certificates ...*x509.Certificate) {
		t.Helper()
		if err := os.WriteFile(file, pkitest.PEM(certificates...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type bundle []*x509.Certificate
	for name, test := range map[string]struct {
		// peer is caBundle of the Peer in west, audience that of the Peer in east.
		peer, audience bundle
		issuer         bundle // tls.crt of west
		refused        string // what the message says; empty: accepted
	}{
		"both hold the intermediate": {bundle{eastern}, bundle{western}, bundle{western, root.Root}, ""},
		"both hold what is published": {
			bundle{eastern, root.Root}, bundle{western, root.Root}, bundle{western, root.Root}, "",
		},
		"the Peer in west holds the root": {bundle{root.Root}, bundle{western}, bundle{western, root.Root}, ""},
		"the Peer in east holds the root": {
			bundle{eastern}, bundle{root.Root}, bundle{western, root.Root}, "another CA",
		},
		"the Peer in east is of another cluster": {
			bundle{eastern}, bundle{northern, root.Root}, bundle{western, root.Root}, "another CA",
		},
		"the Peer in west is of another cluster": {bundle{northern}, bundle{western}, bundle{western, root.Root}, "caBundle"},
		"renewed, and east holds both":           {bundle{eastern}, bundle{western, renewed}, bundle{renewed, root.Root}, ""},
		"renewed, and east holds the former one": {
			bundle{eastern}, bundle{western, root.Root}, bundle{renewed, root.Root}, "another CA",
		},
	} {
		t.Run(name, func(t *testing.T) {
			mount(test.issuer...)
			peer := peerOf("east", east)
			peer.Spec = v1alpha1.PeerSpec{CABundle: pkitest.PEM(test.peer...)}
			w := newWest(t, func(o *gateway.Options) {
				o.Issuer = pki.NewCAFile(file).Issuer
			}, peer, grantOf("vault", "east", "bank", "ledger-copy"))
			audience, err := pki.Audience(pkitest.PEM(test.audience...))
			if err != nil {
				t.Fatal(err)
			}
			certificate := issueFor(t, east, sender("east"), time.Now(), func(c *pki.RunClaims) { c.Audience = audience })
			stream := open(t, w.dial(certificate), ledger("7f3ca", 1))
			if test.refused == "" {
				stream.pending()
				return
			}
			if message := stream.refused(
				wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED,
			); !strings.Contains(message, test.refused) {
				t.Error(message)
			}
			if len(w.deliveries()) > 0 {
				t.Error("a Delivery was made")
			}
		})
	}
}
