// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/test/render"
)

const (
	// gatewayPort of other clusters' gateways.
	gatewayPort = 8443
	// lifetime of certificates of other clusters.
	lifetime = 4 * time.Hour
	// opensAtOnce is how many runs other clusters open at the same time.
	opensAtOnce = 8
)

// peers are the other clusters.
type peers struct {
	wirev1.UnimplementedGatewayServer
	server    *grpc.Server
	all       []*remote
	byAddress map[string]*remote

	mu      sync.Mutex
	clients *x509.CertPool
}

// remote is another cluster.
type remote struct {
	name, endpoint string
	ca             *pki.CA
	pair           tls.Certificate
}

func peerName(i int) string { return fmt.Sprintf("peer-%02d", i) }

// startPeers starts the gateways of all other clusters.
func startPeers(f *Fleet) (*peers, error) {
	p := &peers{byAddress: map[string]*remote{}}
	p.server = grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, GetConfigForClient: p.config,
	})))
	wirev1.RegisterGatewayServer(p.server, p)
	for i := range f.World.Peers {
		name := peerName(i)
		ca, _, err := pki.NewCA(name, time.Now())
		if err != nil {
			return p, err
		}
		pair, err := issue(ca, pki.Template{
			Identity: pki.Identity{Cluster: name, Path: pki.GatewayPath}, DNSNames: []string{pki.GatewayServerName},
		})
		if err != nil {
			return p, err
		}
		to := &remote{name: name, endpoint: fmt.Sprintf("127.2.0.%d:%d", i+1, gatewayPort), ca: ca, pair: pair}
		listener, err := net.Listen("tcp", to.endpoint)
		if err != nil {
			return p, fmt.Errorf("listen as the gateway of %s: %w", name, err)
		}
		p.all, p.byAddress[to.endpoint] = append(p.all, to), to
		f.serving.Go(func() { _ = p.server.Serve(listener) })
	}
	return p, nil
}

func (p *peers) close() { p.server.Stop() }

// config is that of the gateway that a client has dialled.
func (p *peers) config(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := p.byAddress[hello.Conn.LocalAddr().String()]
	if to == nil || p.clients == nil {
		return nil, errors.New("nobody is served yet")
	}
	return serving(to.pair, p.clients), nil
}

func issue(ca *pki.CA, template pki.Template) (tls.Certificate, error) {
	template.Lifetime = lifetime
	pair, err := ca.Issue(template, time.Now())
	if err != nil {
		return tls.Certificate{}, err
	}
	return pair.TLS()
}

// Hello implements wirev1.GatewayServer.
func (p *peers) Hello(ctx context.Context, _ *wirev1.HelloRequest) (*wirev1.HelloResponse, error) {
	from, _ := peer.FromContext(ctx)
	known := ""
	if to := p.byAddress[from.LocalAddr.String()]; to != nil {
		known = "as-" + to.name + "-knows-it"
	}
	return &wirev1.HelloResponse{ProtocolVersion: wirev1.ProtocolVersion, Version: version, KnownAs: known}, nil
}

// clusterCA reads the CA that the manager has published, and has other clusters know it.
func (f *Fleet) clusterCA(ctx context.Context) ([]*x509.Certificate, error) {
	published := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: render.Namespace, Name: pki.CAName}
	if err := f.Client.Get(ctx, key, published); err != nil {
		return nil, fmt.Errorf("read the cluster's CA: %w", err)
	}
	roots, err := pki.ParseBundle([]byte(published.Data[pki.CAKey]))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's CA: %w", err)
	}
	f.peers.mu.Lock()
	defer f.peers.mu.Unlock()
	f.peers.clients = pki.Pool(roots)
	return roots, nil
}

// Open has agents of other clusters open so many runs at the gateway, and waits until a receiving agent is ready for
// each.
func (f *Fleet) Open(ctx context.Context, gateway string, runs int, patience time.Duration) error {
	roots, err := f.clusterCA(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return each(ctx, runs, opensAtOnce, func(ctx context.Context, i int) error {
		return f.open(ctx, gateway, roots, f.World.Transfers+i)
	})
}

func (f *Fleet) open(ctx context.Context, gateway string, roots []*x509.Certificate, i int) error {
	from := f.peers.all[i%len(f.peers.all)]
	spec := f.deliverySpec(i)
	to := spec.Destination.PersistentVolumeClaim
	pair, err := issue(from.ca, pki.Template{
		Identity: pki.TransferIdentity(from.name, spec.Transfer.Namespace, spec.Transfer.Name),
		Claims: &pki.RunClaims{
			Run: spec.Transfer.Run, Audience: []string{pki.Fingerprint(roots[0])}, Namespace: f.namespaceOf(i),
			Claim: to.ClaimName, Path: to.Path,
		},
	})
	if err != nil {
		return err
	}
	config := pki.ClientConfig(&pair, pki.Pool(roots), pki.GatewayServerName)
	conn, err := grpc.NewClient("passthrough:///"+gateway, grpc.WithAuthority(pki.GatewayServerName),
		grpc.WithNoProxy(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return fmt.Errorf("connect to the gateway: %w", err)
	}
	defer conn.Close()
	for {
		err := f.await(ctx, conn, &wirev1.OpenRequest{
			ProtocolVersion: wirev1.ProtocolVersion, RunId: spec.Transfer.Run, Attempt: uint32(spec.Transfer.Attempt),
			Destination: &wirev1.ClaimPath{Namespace: f.namespaceOf(i), ClaimName: to.ClaimName, Path: to.Path},
		})
		var refused *refusedError
		if err == nil || errors.As(err, &refused) || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Second) // as agents do when a stream has broken
	}
}

// refusedError is the gateway's word that a run will not be.
type refusedError struct{ failure *wirev1.Failure }

func (e *refusedError) Error() string {
	return fmt.Sprintf("the gateway refuses a run: %s: %s", e.failure.GetReason(), e.failure.GetMessage())
}

func (f *Fleet) await(ctx context.Context, conn *grpc.ClientConn, request *wirev1.OpenRequest) error {
	stream, err := wirev1.NewGatewayClient(conn).Open(ctx, request)
	if err != nil {
		return fmt.Errorf("open run %s: %w", request.GetRunId(), err)
	}
	for {
		response, err := stream.Recv()
		switch {
		case err != nil:
			return fmt.Errorf("open run %s: %w", request.GetRunId(), err)
		case response.GetReady() != nil:
			return nil
		case response.GetRefused() != nil:
			return &refusedError{response.GetRefused()}
		}
	}
}
