// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/pki"
)

// target is a cluster with a gateway on loopback over an API server in memory. Its Peer east may write all of namespace
// bank into two claims.
type target struct {
	ca      *pki.CA
	api     client.Client
	clock   *clocktesting.FakePassiveClock
	address string
}

func newTarget(t *testing.T, name string, east *pki.CA) *target {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	to := make([]v1alpha1.PeerGrantTo, 2)
	for i, claim := range []string{"ledger-copy", "payroll-copy"} {
		to[i] = v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: claim}
	}
	grant := func(namespace string) *v1alpha1.PeerGrant {
		return &v1alpha1.PeerGrant{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "east",
		}, Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{"bank"}}}, To: to,
		}}
	}
	c := &target{ca: authority(t, name), clock: clocktesting.NewFakePassiveClock(time.Now())}
	c.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Delivery{}).
		WithIndex(&v1alpha1.Delivery{}, gateway.ServerNameIndex, gateway.IndexServerName).
		WithIndex(&v1alpha1.Delivery{}, gateway.SenderIndex, gateway.IndexSender).
		WithObjects(&v1alpha1.Peer{
			ObjectMeta: metav1.ObjectMeta{Name: "east"}, Spec: v1alpha1.PeerSpec{CABundle: east.CertificatePEM},
		},
			grant("vault"), grant("archive")).Build()
	serving := keyPair(t, c.ca, pki.Template{
		Identity: pki.Identity{Cluster: name, Path: pki.GatewayPath}, DNSNames: []string{pki.GatewayServerName},
		Lifetime: 24 * time.Hour,
	})
	g, err := gateway.New(gateway.Options{
		Client: c.api, Reader: c.api, Registerer: prometheus.NewRegistry(), Log: logr.Discard(), Clock: c.clock,
		PollInterval: 10 * time.Millisecond,
		Certificate:  func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &serving, nil },
		Issuer:       func() (*x509.Certificate, error) { return c.ca.Certificate, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	c.address = listener.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("serving ended with %v", err)
		}
	})
	return c
}

func authority(t *testing.T, name string) *pki.CA {
	t.Helper()
	ca, _, err := pki.NewCA(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func keyPair(t *testing.T, ca *pki.CA, template pki.Template) tls.Certificate {
	t.Helper()
	pair, err := ca.Issue(template, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// with returns a client of the gateway that shows the certificate.
func (c *target) with(t *testing.T, certificate tls.Certificate) wirev1.GatewayClient {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(c.ca.Certificate)
	conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(
		credentials.NewTLS(pki.ClientConfig(&certificate, roots, pki.GatewayServerName))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return wirev1.NewGatewayClient(conn)
}

// openRun returns why the request is refused; nil: it is admitted.
func openRun(t *testing.T, c wirev1.GatewayClient, request *wirev1.OpenRequest) *wirev1.Failure {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := c.Open(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	response, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return response.GetRefused()
}

func (c *target) deliveries(t *testing.T) []v1alpha1.Delivery {
	t.Helper()
	var found v1alpha1.DeliveryList
	if err := c.api.List(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	return found.Items
}

// ledgerRun is the request that the stolen certificate was issued for.
func ledgerRun() *wirev1.OpenRequest {
	return &wirev1.OpenRequest{
		ProtocolVersion: wirev1.ProtocolVersion, RunId: "7f3ca", Attempt: 1,
		Destination: &wirev1.ClaimPath{Namespace: "vault", ClaimName: "ledger-copy", Path: "books"},
	}
}

// stolen is the certificate of run 7f3ca of Transfer bank/ledger into the target, as the manager of east issues it.
func stolen(t *testing.T, east *pki.CA, to *target, change func(*pki.RunClaims)) tls.Certificate {
	t.Helper()
	audience, err := pki.Audience(to.ca.CertificatePEM)
	if err != nil {
		t.Fatal(err)
	}
	claims := &pki.RunClaims{Run: "7f3ca", Audience: audience, Namespace: "vault", Claim: "ledger-copy", Path: "/books"}
	change(claims)
	return keyPair(t, east, pki.Template{
		Identity: pki.TransferIdentity("east", "bank", "ledger"), Claims: claims, Lifetime: 4 * time.Hour,
	})
}

// M1: who holds the key of one run of a Transfer may open that run and nothing else of what is granted to its
// namespace.
func TestStolenKeyOfARun(t *testing.T) {
	east := authority(t, "east")
	west, north := newTarget(t, "west", east), newTarget(t, "north", east)
	key := stolen(t, east, west, func(*pki.RunClaims) {})
	for name, change := range map[string]func(*wirev1.OpenRequest){
		"another run":       func(r *wirev1.OpenRequest) { r.RunId = "aaaaa" },
		"another namespace": func(r *wirev1.OpenRequest) { r.Destination.Namespace = "archive" },
		"another claim":     func(r *wirev1.OpenRequest) { r.Destination.ClaimName = "payroll-copy" },
		"another path":      func(r *wirev1.OpenRequest) { r.Destination.Path = "books/old" },
		"the root":          func(r *wirev1.OpenRequest) { r.Destination.Path = "/" },
		"mirroring":         func(r *wirev1.OpenRequest) { r.Mirror = true },
		"privilege":         func(r *wirev1.OpenRequest) { r.Privileged = true },
	} {
		t.Run(name, func(t *testing.T) {
			request := ledgerRun()
			change(request)
			if refused := openRun(
				t, west.with(t, key), request,
			); refused.GetReason() != wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED {
				t.Errorf("in place of a refusal: %v", refused)
			}
		})
	}
	t.Run("another peer", func(t *testing.T) {
		if refused := openRun(
			t, north.with(t, key), ledgerRun(),
		); refused.GetReason() != wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED {
			t.Errorf("in place of a refusal: %v", refused)
		}
		if _, err := north.with(t, key).Withdraw(
			t.Context(), &wirev1.WithdrawRequest{Namespace: "bank", Name: "ledger"},
		); err == nil {
			t.Error("it may withdraw there")
		}
	})
	t.Run("without claims", func(t *testing.T) {
		bare := keyPair(
			t, east, pki.Template{Identity: pki.TransferIdentity("east", "bank", "ledger"), Lifetime: 4 * time.Hour},
		)
		if refused := openRun(
			t, west.with(t, bare), ledgerRun(),
		); refused.GetReason() != wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED {
			t.Errorf("in place of a refusal: %v", refused)
		}
	})
	for _, cluster := range []*target{west, north} {
		if made := cluster.deliveries(t); len(made) != 0 {
			t.Fatalf("Deliveries were made: %+v", made)
		}
	}
	t.Run("the run itself", func(t *testing.T) {
		if refused := openRun(t, west.with(t, key), ledgerRun()); refused != nil {
			t.Errorf("the run's own agent is refused: %v", refused)
		}
	})
	t.Run("after the Transfer was deleted", func(t *testing.T) {
		_, err := west.with(t, managerOf(t, east)).Withdraw(
			t.Context(), &wirev1.WithdrawRequest{Namespace: "bank", Name: "ledger"},
		)
		if err != nil {
			t.Fatal(err)
		}
		west.clock.SetTime(time.Now().Add(4*time.Hour + time.Minute))
		if refused := openRun(
			t, west.with(t, key), ledgerRun(),
		); refused.GetReason() != wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED {
			t.Errorf("in place of a refusal: %v", refused)
		}
		_, err = west.with(t, key).Hello(t.Context(), &wirev1.HelloRequest{ProtocolVersion: wirev1.ProtocolVersion})
		if err == nil {
			t.Errorf("the gateway still answers: %v", status.Convert(err))
		}
		if made := west.deliveries(t); len(made) != 0 {
			t.Errorf("Deliveries are there: %+v", made)
		}
	})
}

func managerOf(t *testing.T, ca *pki.CA) tls.Certificate {
	t.Helper()
	return keyPair(
		t, ca, pki.Template{Identity: pki.Identity{Cluster: "east", Path: pki.ManagerPath}, Lifetime: 72 * time.Hour},
	)
}
