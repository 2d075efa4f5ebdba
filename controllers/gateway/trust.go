// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"maps"
	"sync"
	"time"

	"google.golang.org/grpc/peer"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/agent/wire/chain"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
)

// caller is who has proved to be of which peer.
type caller struct {
	// peer is the name of the Peer whose CA vouches.
	peer     string
	identity pki.Identity
	// claims of a Transfer's run; those of others are empty.
	claims pki.RunClaims
	// issued is when the certificate was, by the clock of that cluster. It orders the runs of a Transfer.
	issued time.Time
}

// trust knows which Peer vouches for a certificate.
type trust struct {
	reader client.Reader
	clock  clock.PassiveClock
	// issuer is this cluster's CA.
	issuer func() (*x509.Certificate, error)

	mu sync.Mutex
	// versions of the Peers whose CAs are the roots.
	versions map[string]string
	known    *chain.Roots
	// revoked is, by Peer, before when its certificates must not have been issued.
	revoked map[string]time.Time
}

func newTrust(reader client.Reader, c clock.PassiveClock, issuer func() (*x509.Certificate, error)) *trust {
	return &trust{reader: reader, clock: c, issuer: issuer, known: chain.NewRoots()}
}

// identify returns who presents the chain, or a refusal that says how to correct it.
func (t *trust) identify(ctx context.Context, presented []*x509.Certificate) (caller, error) {
	if len(presented) == 0 {
		return caller{}, untrusted("the sending cluster presented no certificate")
	}
	roots, err := t.roots(ctx)
	if err != nil {
		return caller{}, unavailable("the gateway cannot read its Peers now")
	}
	now := t.clock.Now()
	name, identity, err := pki.VerifyAgainst(roots, presented, now)
	switch {
	case err == nil:
		if before := t.revokedBefore(name); pki.Issued(presented[0]).Before(before) {
			return caller{}, untrusted("the certificate was issued at %s, and the receiving cluster's Peer %s revokes those "+
				"from before %s; the sending cluster's manager issues another one with the next attempt",
				pki.Issued(presented[0]).UTC().Format(time.RFC3339),
				name, before.UTC().Format(time.RFC3339))
		}
		return t.bind(caller{peer: name, identity: identity, issued: pki.Issued(presented[0])}, presented[0])
	case errors.Is(err, pki.ErrAmbiguous):
		return caller{}, untrusted(
			"the receiving cluster cannot tell two of its Peers apart: the %v; remove the CA from all but one of them there",
			err,
		)
	case errors.Is(err, pki.ErrNoIdentity):
		return caller{}, untrusted("the certificate is of a known CA but was not issued by Lighterage: %v", err)
	case now.After(presented[0].NotAfter) || now.Before(presented[0].NotBefore):
		return caller{}, untrusted("the certificate is valid from %s to %s and it is %s at the receiving cluster; check "+
			"the clocks of both clusters",
			presented[0].NotBefore.UTC().Format(time.RFC3339), presented[0].NotAfter.UTC().Format(time.RFC3339),
			now.UTC().Format(time.RFC3339))
	default:
		return caller{}, untrusted("no Peer of the receiving cluster holds the CA of the sending cluster in its caBundle "+
			"(the certificate's issuer is %.128q); create or correct a Peer there with ca.crt of the sending cluster's "+
			"ConfigMap lighterage-ca", presented[0].Issuer)
	}
}

// roots returns the usable CAs of the Peers. They are read again when a Peer has changed.
func (t *trust) roots(ctx context.Context) (*chain.Roots, error) {
	var peers v1alpha1.PeerList
	if err := t.reader.List(ctx, &peers); err != nil {
		return nil, err
	}
	versions := make(map[string]string, len(peers.Items))
	for i := range peers.Items {
		versions[peers.Items[i].Name] = string(peers.Items[i].UID) + "/" + peers.Items[i].ResourceVersion
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if maps.Equal(versions, t.versions) {
		return t.known, nil
	}
	roots, revoked := chain.NewRoots(), map[string]time.Time{}
	for i := range peers.Items {
		if before := peers.Items[i].Spec.RevokedBefore; before != nil {
			revoked[peers.Items[i].Name] = before.Time
		}
		// A bundle that cannot be used vouches for nobody; the Peer's own conditions say so.
		if certificates, err := pki.ParseBundle(peers.Items[i].Spec.CABundle); err == nil {
			roots.Add(peers.Items[i].Name, certificates)
		}
	}
	t.versions, t.known, t.revoked = versions, roots, revoked
	return roots, nil
}

// revokedBefore returns before when a Peer's certificates are revoked, as of the last look at the Peers; zero for
// never.
func (t *trust) revokedBefore(peer string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.revoked[peer]
}

// connectionOf returns what is known of the connection of a gRPC request.
func connectionOf(ctx context.Context) connectionInfo {
	if connection, ok := peer.FromContext(ctx); ok {
		if info, ok := connection.AuthInfo.(connectionInfo); ok {
			return info
		}
	}
	return connectionInfo{}
}
