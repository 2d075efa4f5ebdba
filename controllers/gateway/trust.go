// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/peer"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
)

// maxIssuerLength bounds what is repeated of a stranger's certificate.
const maxIssuerLength = 128

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

	mu      sync.Mutex
	bundles map[string]bundle
}

// bundle is a Peer's caBundle once read; pool is nil when it cannot be used.
type bundle struct {
	version string
	pool    *x509.CertPool
}

func newTrust(reader client.Reader, c clock.PassiveClock, issuer func() (*x509.Certificate, error)) *trust {
	return &trust{reader: reader, clock: c, issuer: issuer, bundles: map[string]bundle{}}
}

// identify returns who presents the chain, or a refusal that says what to mend.
func (t *trust) identify(ctx context.Context, chain []*x509.Certificate) (caller, error) {
	if len(chain) == 0 {
		return caller{}, untrusted("the sending cluster presented no certificate")
	}
	pools, err := t.pools(ctx)
	if err != nil {
		return caller{}, unavailable("the gateway cannot read its Peers now")
	}
	now := t.clock.Now()
	name, identity, err := pki.VerifyAgainst(pools, chain, now)
	switch {
	case err == nil:
		return t.bind(caller{peer: name, identity: identity, issued: pki.Issued(chain[0])}, chain[0])
	case errors.Is(err, pki.ErrAmbiguous):
		return caller{}, untrusted("the receiving cluster cannot tell two of its Peers apart: the %v; remove the CA from all but one of them there", err)
	case errors.Is(err, pki.ErrNoIdentity):
		return caller{}, untrusted("the certificate is of a known CA but was not issued by Lighterage: %v", err)
	case now.After(chain[0].NotAfter) || now.Before(chain[0].NotBefore):
		return caller{}, untrusted("the certificate is valid from %s to %s and it is %s at the receiving cluster; check the clocks of both clusters",
			chain[0].NotBefore.UTC().Format(time.RFC3339), chain[0].NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	default:
		return caller{}, untrusted("no Peer of the receiving cluster holds the CA of the sending cluster in its caBundle (the certificate's issuer is %q); "+
			"create or mend a Peer there with ca.crt of the sending cluster's ConfigMap lighterage-ca", shorten(chain[0].Issuer.String(), maxIssuerLength))
	}
}

// pools returns the usable bundles by the names of their Peers. Bundles are read again when their Peer has changed.
func (t *trust) pools(ctx context.Context) (map[string]*x509.CertPool, error) {
	var peers v1alpha1.PeerList
	if err := t.reader.List(ctx, &peers); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known := make(map[string]bundle, len(peers.Items))
	pools := make(map[string]*x509.CertPool, len(peers.Items))
	for i := range peers.Items {
		item := &peers.Items[i]
		version := string(item.UID) + "/" + item.ResourceVersion
		read, ok := t.bundles[item.Name]
		if !ok || read.version != version {
			read = bundle{version: version}
			// A bundle that cannot be used vouches for nobody; the Peer's own conditions say so.
			if certificates, err := pki.ParseBundle(item.Spec.CABundle); err == nil {
				read.pool = pki.Pool(certificates)
			}
		}
		known[item.Name] = read
		if read.pool != nil {
			pools[item.Name] = read.pool
		}
	}
	t.bundles = known
	return pools, nil
}

// connectionOf returns what is known of the connection of a gRPC request.
func connectionOf(ctx context.Context) connectionInfo {
	connection, ok := peer.FromContext(ctx)
	if !ok {
		return connectionInfo{stranger: true}
	}
	info, ok := connection.AuthInfo.(connectionInfo)
	if !ok {
		return connectionInfo{stranger: true}
	}
	return info
}

func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:limit] + "…"
}
