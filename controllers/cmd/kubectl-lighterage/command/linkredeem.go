// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/table"
)

const (
	// redeemTimeout bounds a question to the gateway, connecting included.
	redeemTimeout = 30 * time.Second
	// maxGatewayAnswer bounds what it answers.
	maxGatewayAnswer = 64 << 10
)

func (l *linking) redeem(ctx context.Context) error {
	if err := l.open(ctx, false, true); err != nil {
		return err
	}
	if err := l.readToken(ctx); err != nil {
		return err
	}
	endpoint, err := l.ownEndpoint(ctx)
	if err != nil {
		return fmt.Errorf("%w, or write --endpoint none if nothing is to be sent to cluster %s", err, l.side.context)
	}
	offer := &link.Offer{Name: l.ownName(), Endpoint: endpoint, CABundle: l.side.bundle}
	l.token.Seal(offer)
	if err := offer.Check(); err != nil {
		return fmt.Errorf("cluster %s: %w", l.side.context, err)
	}
	called := &calledGateway{address: cmp.Or(l.dial, l.token.Endpoint)}
	l.plugin.say("Calling the gateway at %s", called.address)
	bundle, err := called.authority(ctx, l.token.CAFingerprint)
	if err != nil {
		return err
	}
	// Everything that can be wrong here is found before the token is used up.
	step, err := l.plan(link.Wanted{
		Name: l.peerName, Fallback: l.token.Name, Found: l.token.Endpoint, CABundle: bundle,
	})
	if err != nil {
		return err
	}
	if err := called.redeem(ctx, bundle, &wirev1.RedeemRequest{
		TokenId: l.token.ID(), Key: l.token.Key(), Name: offer.Name, Endpoint: offer.Endpoint, CaBundle: offer.CABundle,
		Seal: offer.Seal,
	}); err != nil {
		return err
	}
	if err := l.apply(ctx, step); err != nil {
		return fmt.Errorf("%w; the token is used up: create Peer %s by hand, or ask for another token", err, step.Peer.Name)
	}
	return l.prove(ctx, step)
}

// calledGateway is the gateway of another cluster, which does not know this one yet.
type calledGateway struct{ address string }

// authority asks for the CA, and returns it if it has the fingerprint. Nothing that is secret has been sent then.
func (g *calledGateway) authority(ctx context.Context, want [sha256.Size]byte) ([]byte, error) {
	var answer *wirev1.AuthorityResponse
	err := g.call(ctx, nil, func(ctx context.Context, gateway wirev1.GatewayClient) (err error) {
		answer, err = gateway.Authority(ctx, &wirev1.AuthorityRequest{})
		return err //nolint:wrapcheck // call says of which gateway
	})
	if err != nil {
		return nil, err
	}
	certificates, err := pki.ParseBundle(answer.GetCaBundle())
	if err != nil {
		return nil, fmt.Errorf("the gateway at %s: its CA cannot be read: %w", g.address, err)
	}
	if len(certificates) != 1 || sha256.Sum256(certificates[0].Raw) != want {
		return nil, fmt.Errorf("who answers at %s is not the cluster that made the token: its CA has another fingerprint; "+
			"nothing was handed in. Check the address, and who is in between", g.address)
	}
	return answer.GetCaBundle(), nil
}

// redeem hands in the token to a gateway that the CA vouches for.
func (g *calledGateway) redeem(ctx context.Context, bundle []byte, request *wirev1.RedeemRequest) error {
	certificates, err := pki.ParseBundle(bundle)
	if err != nil {
		return fmt.Errorf("reading the CA: %w", err)
	}
	return g.call(ctx, pki.Pool(certificates), func(ctx context.Context, gateway wirev1.GatewayClient) error {
		_, err := gateway.Redeem(ctx, request)
		return err //nolint:wrapcheck // call says of which gateway
	})
}

// authenticated remembers why a server was not accepted.
type authenticated struct {
	mu    sync.Mutex
	roots *x509.CertPool
	err   error
}

// verify is for tls.Config. Without roots it accepts everybody, who is told nothing then.
func (a *authenticated) verify(state tls.ConnectionState) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.roots == nil {
		return nil
	}
	options := x509.VerifyOptions{
		Roots: a.roots, DNSName: pki.GatewayServerName, Intermediates: pki.Pool(state.PeerCertificates[1:]),
	}
	_, a.err = state.PeerCertificates[0].Verify(options)
	return a.err
}

func (a *authenticated) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// call makes a connection for a question. roots are who vouches for the gateway; nil: that is not known yet.
func (g *calledGateway) call(
	ctx context.Context, roots *x509.CertPool, question func(context.Context, wirev1.GatewayClient) error,
) error {
	// Gateways ask for a certificate, and look at who issued it: nobody whom this one knows.
	_, pair, err := pki.NewCA("link", time.Now())
	if err != nil {
		return fmt.Errorf("making a certificate: %w", err)
	}
	own, err := pair.TLS()
	if err != nil {
		return fmt.Errorf("making a certificate: %w", err)
	}
	server := &authenticated{roots: roots}
	config := pki.ClientConfig(&own, roots, pki.GatewayServerName)
	config.InsecureSkipVerify = true //nolint:gosec // VerifyConnection verifies, and says what was wrong
	config.VerifyConnection = server.verify
	ctx, cancel := context.WithTimeout(ctx, redeemTimeout)
	defer cancel()
	conn, err := grpc.NewClient(
		g.address, grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithAuthority(pki.GatewayServerName),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxGatewayAnswer)),
	)
	if err != nil {
		return fmt.Errorf("the address %s cannot be used: %w", g.address, err)
	}
	defer conn.Close()
	err = question(ctx, wirev1.NewGatewayClient(conn))
	if err == nil {
		return nil
	}
	if failed := server.failure(); failed != nil {
		return fmt.Errorf("who answers at %s is not the gateway of the cluster that made the token; nothing was handed "+
			"in: %w", g.address, failed)
	}
	return g.explain(err, roots != nil)
}

// errPerhapsUsed: the gateway was sent the token, and did not answer.
var errPerhapsUsed = errors.New("the token may be used up: redeem it again, and ask for another one if it is not valid")

// explain says why a question failed, and what to do. A token is handed in to a gateway that is authenticated only.
func (g *calledGateway) explain(err error, handedIn bool) error {
	failed := status.Convert(err)
	words := table.Printable(failed.Message())
	switch failed.Code() {
	case codes.Unimplemented:
		return fmt.Errorf("the gateway at %s is of a release without link tokens; upgrade the operator of that cluster, "+
			"or exchange the CAs by hand (docs/how-to/connect-clusters.md)", g.address)
	case codes.PermissionDenied, codes.InvalidArgument, codes.ResourceExhausted:
		return fmt.Errorf("the gateway at %s: %s", g.address, words)
	case codes.Canceled:
		if handedIn {
			return fmt.Errorf("interrupted; %w: %w", errPerhapsUsed, err)
		}
		return fmt.Errorf("interrupted; nothing was handed in: %w", err)
	}
	if handedIn {
		return fmt.Errorf("the gateway at %s does not answer any more (%s); %w", g.address, words, errPerhapsUsed)
	}
	return errors.New("the gateway at " + g.address + " does not answer this machine (" + words + "); try again, or " +
		"name with --dial an address at which this machine reaches it, such as a port that is forwarded")
}
