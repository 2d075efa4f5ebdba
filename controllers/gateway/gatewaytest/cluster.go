// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gatewaytest runs a gateway on loopback over an API server in memory, for tests.
package gatewaytest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
	"github.com/lighterage/lighterage/controllers/pki"
)

// Patience is how long tests wait for what must happen. It is for a busy machine.
const Patience = 2 * time.Minute

// ChannelKey is the key for server names of channels.
var ChannelKey = []byte("a key of 32 bytes for the tests .")[:32]

// Cluster is the receiving cluster.
type Cluster struct {
	T       testing.TB
	CA      *pki.CA
	Address string
	// API is the API server.
	API      client.Client
	Gateway  *gateway.Gateway
	Registry *prometheus.Registry
	// Lookups counts those for a receiving agent.
	Lookups atomic.Int32
	// Stop ends the gateway, and returns what Serve returned. It may be called more than once.
	Stop func() error
}

// New starts a gateway that runs until the test ends; adjust may be nil.
func New(t testing.TB, adjust func(*gateway.Options), objects ...client.Object) *Cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{T: t, CA: WestCA(), Registry: prometheus.NewRegistry()}
	c.API = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.Delivery{}).
		WithIndex(&v1alpha1.Delivery{}, gateway.ServerNameIndex, gateway.IndexServerName).
		WithIndex(&v1alpha1.Delivery{}, gateway.SenderIndex, gateway.IndexSender).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(
			ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption,
		) error {
			o.SetUID(types.UID(uuid.NewString()))
			o.SetFinalizers([]string{v1alpha1.Finalizer}) // as the manager does
			return c.Create(ctx, o, options...)
		}, List: func(
			ctx context.Context, reader client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			if applied := new(client.ListOptions).ApplyOptions(options); applied.FieldSelector != nil {
				if _, byName := applied.FieldSelector.RequiresExactMatch(gateway.ServerNameIndex); byName {
					c.Lookups.Add(1)
				}
			}
			return reader.List(ctx, list, options...)
		}}).Build()
	serving := Issue(t, c.CA, pki.Identity{Cluster: "west", Path: pki.GatewayPath}, time.Now(), pki.GatewayServerName)
	options := gateway.Options{
		Client: c.API, Reader: c.API, Registerer: c.Registry, Log: logr.Discard(),
		Issuer:       func() (*x509.Certificate, error) { return c.CA.Certificate, nil },
		Certificate:  func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &serving, nil },
		ChannelKey:   func() ([]byte, error) { return ChannelKey, nil },
		PollInterval: 10 * time.Millisecond, LookupGrace: 200 * time.Millisecond,
		Limits: passthrough.Limits{HelloTimeout: Patience, DrainTimeout: 100 * time.Millisecond},
	}
	if adjust != nil {
		adjust(&options)
	}
	var err error
	if c.Gateway, err = gateway.New(options); err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	c.Address = listener.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- c.Gateway.Serve(ctx, listener) }()
	c.Stop = sync.OnceValue(func() error {
		stop()
		return <-served
	})
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("serving ended with %v", err)
		}
	})
	return c
}

// Dial returns a client with a certificate. It connects with its first call.
func (c *Cluster) Dial(certificate tls.Certificate) wirev1.GatewayClient {
	c.T.Helper()
	conn := c.Connect(certificate)
	c.T.Cleanup(func() { _ = conn.Close() })
	return wirev1.NewGatewayClient(conn)
}

// Connect is Dial for who closes the connection.
func (c *Cluster) Connect(certificate tls.Certificate) *grpc.ClientConn {
	c.T.Helper()
	roots, err := pki.ParseBundle(c.CA.CertificatePEM)
	if err != nil {
		c.T.Fatal(err)
	}
	conn, err := grpc.NewClient(c.Address, grpc.WithTransportCredentials(
		credentials.NewTLS(pki.ClientConfig(&certificate, pki.Pool(roots), pki.GatewayServerName))))
	if err != nil {
		c.T.Fatal(err)
	}
	return conn
}

// NewCA returns the CA of a cluster.
func NewCA(t testing.TB, cluster string) *pki.CA {
	t.Helper()
	ca, _, err := pki.NewCA(cluster, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// WestCA is that of every receiving cluster, so that who issues a certificate for it need not know which one.
var WestCA = sync.OnceValue(func() *pki.CA {
	ca, _, err := pki.NewCA("west", time.Now())
	if err != nil {
		panic(err)
	}
	return ca
})

// Issue returns a certificate that was issued at a time, for an hour. That of a Transfer is for run 7f3ca into claim
// ledger-copy of namespace vault.
func Issue(t testing.TB, ca *pki.CA, identity pki.Identity, at time.Time, names ...string) tls.Certificate {
	t.Helper()
	if _, _, isTransfer := identity.Transfer(); isTransfer {
		return IssueFor(t, ca, identity, at, func(*pki.RunClaims) {})
	}
	return issue(t, ca, pki.Template{Identity: identity, DNSNames: names}, at)
}

// IssueFor is Issue for a Transfer with other claims.
func IssueFor(
	t testing.TB, ca *pki.CA, identity pki.Identity, at time.Time, change func(*pki.RunClaims),
) tls.Certificate {
	t.Helper()
	claims := &pki.RunClaims{
		Run: "7f3ca", Audience: []string{pki.Fingerprint(WestCA().Certificate)}, Namespace: "vault", Claim: "ledger-copy",
		Path:   "/",
		Delete: true, Privileged: true,
	}
	change(claims)
	return issue(t, ca, pki.Template{Identity: identity, Claims: claims}, at)
}

func issue(t testing.TB, ca *pki.CA, template pki.Template, at time.Time) tls.Certificate {
	t.Helper()
	template.Lifetime = time.Hour
	pair, err := ca.Issue(template, at)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// PeerOf returns a Peer that trusts a CA.
func PeerOf(name string, ca *pki.CA) *v1alpha1.Peer {
	return &v1alpha1.Peer{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uuid.NewString())},
		Spec:       v1alpha1.PeerSpec{CABundle: ca.CertificatePEM},
	}
}

// GrantOf returns a PeerGrant that opens one object to a namespace of a Peer.
func GrantOf(namespace, peer, from string, kind v1alpha1.GrantedKind, name string) *v1alpha1.PeerGrant {
	return &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peer + "-" + name},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: peer, Namespaces: []string{from}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: kind, Name: name}},
		},
	}
}
