// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

// patience is for a busy machine.
const patience = 2 * time.Minute

// west is the receiving cluster: a gateway on loopback over an API server in memory.
type west struct {
	t       *testing.T
	ca      *pki.CA
	address string
	api     client.Client
	gateway *gateway.Gateway
	// lookups counts those for a receiving agent.
	lookups atomic.Int32
	stop    context.CancelFunc
	served  chan error
}

func newCA(t *testing.T, cluster string) *pki.CA {
	t.Helper()
	ca, _, err := pki.NewCA(cluster, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// westCA is that of every receiving cluster, so that who issues a certificate for it need not know which one.
var westCA = sync.OnceValue(func() *pki.CA {
	ca, _, err := pki.NewCA("west", time.Now())
	if err != nil {
		panic(err)
	}
	return ca
})

// issue makes a certificate; that of a Transfer is for the run that ledger opens.
func issue(t *testing.T, ca *pki.CA, identity pki.Identity, at time.Time, names ...string) tls.Certificate {
	t.Helper()
	if _, _, isTransfer := identity.Transfer(); isTransfer {
		return issueFor(t, ca, identity, at, func(*pki.RunClaims) {})
	}
	return issueBy(t, ca, pki.Template{Identity: identity, DNSNames: names}, at)
}

// issueFor is issue for a Transfer with other claims.
func issueFor(t *testing.T, ca *pki.CA, identity pki.Identity, at time.Time, change func(*pki.RunClaims)) tls.Certificate {
	t.Helper()
	claims := &pki.RunClaims{
		Run: "7f3ca", Audience: []string{pki.Fingerprint(westCA().Certificate)}, Namespace: "vault", Claim: "ledger-copy", Path: "/",
		Delete: true, Privileged: true,
	}
	change(claims)
	return issueBy(t, ca, pki.Template{Identity: identity, Claims: claims}, at)
}

func issueBy(t *testing.T, ca *pki.CA, template pki.Template, at time.Time) tls.Certificate {
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

func peerOf(name string, ca *pki.CA) *v1alpha1.Peer {
	return &v1alpha1.Peer{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uuid.NewString())},
		Spec:       v1alpha1.PeerSpec{CABundle: ca.CertificatePEM},
	}
}

func grantOf(namespace, peer, from, claim string) *v1alpha1.PeerGrant {
	return &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peer + "-" + claim},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: peer, Namespaces: []string{from}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: claim}},
		},
	}
}

// newWest starts a gateway; adjust may be nil.
func newWest(t *testing.T, adjust func(*gateway.Options), objects ...client.Object) *west {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &west{t: t, ca: westCA()}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.Delivery{}).
		WithIndex(&v1alpha1.Delivery{}, gateway.ServerNameIndex, gateway.IndexServerName).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			o.SetUID(types.UID(uuid.NewString()))
			o.SetFinalizers([]string{v1alpha1.Finalizer}) // as the manager does
			return c.Create(ctx, o, options...)
		}, List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if applied := new(client.ListOptions).ApplyOptions(options); applied.FieldSelector != nil {
				w.lookups.Add(1)
			}
			return c.List(ctx, list, options...)
		}}).Build()
	serving := issue(t, w.ca, pki.Identity{Cluster: "west", Path: pki.GatewayPath}, time.Now(), pki.GatewayServerName)
	options := gateway.Options{
		Client: w.api, Reader: w.api, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
		Issuer:       func() (*x509.Certificate, error) { return w.ca.Certificate, nil },
		Certificate:  func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &serving, nil },
		PollInterval: 10 * time.Millisecond, LookupGrace: 200 * time.Millisecond,
		Limits: passthrough.Limits{HelloTimeout: patience, DrainTimeout: 100 * time.Millisecond},
	}
	if adjust != nil {
		adjust(&options)
	}
	var err error
	if w.gateway, err = gateway.New(options); err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	w.address = listener.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.served = stop, make(chan error, 1)
	go func() { w.served <- w.gateway.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-w.served; err != nil {
			t.Errorf("serving ended with %v", err)
		}
	})
	return w
}

// dial returns a client with a certificate.
func (w *west) dial(certificate tls.Certificate) wirev1.GatewayClient {
	w.t.Helper()
	roots, err := pki.ParseBundle(w.ca.CertificatePEM)
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(
		credentials.NewTLS(pki.ClientConfig(&certificate, pki.Pool(roots), pki.GatewayServerName))))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	return wirev1.NewGatewayClient(conn)
}

func (w *west) deliveries() []v1alpha1.Delivery {
	w.t.Helper()
	var list v1alpha1.DeliveryList
	if err := w.api.List(context.Background(), &list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// setStatus plays the manager.
func (w *west) setStatus(key client.ObjectKey, change func(*v1alpha1.Delivery)) {
	w.t.Helper()
	var delivery v1alpha1.Delivery
	if err := w.api.Get(context.Background(), key, &delivery); err != nil {
		w.t.Fatal(err)
	}
	change(&delivery)
	if err := w.api.Status().Update(context.Background(), &delivery); err != nil {
		w.t.Fatal(err)
	}
}

// ready plays the manager whose agent is up at an address.
func (w *west) ready(key client.ObjectKey, address string) string {
	w.t.Helper()
	var name string
	w.setStatus(key, func(d *v1alpha1.Delivery) {
		name = pki.ReceiveServerName(string(d.UID))
		d.Status.ServerName, d.Status.Endpoint, d.Status.Phase = name, address, v1alpha1.DeliveryWaiting
	})
	return name
}

func (w *west) say(key client.ObjectKey, wanted []metav1.Condition) {
	w.t.Helper()
	w.setStatus(key, func(d *v1alpha1.Delivery) {
		d.Status.Conditions = conditions.Merge(d.Status.Conditions, wanted, 1, time.Now())
	})
}

// release plays the manager that lets a Delivery go once its agent has ended.
func (w *west) release(key client.ObjectKey) {
	w.t.Helper()
	var delivery v1alpha1.Delivery
	if err := w.api.Get(context.Background(), key, &delivery); err != nil {
		w.t.Fatal(err)
	}
	if delivery.DeletionTimestamp.IsZero() {
		w.t.Fatalf("Delivery %s is not being deleted", key.Name)
	}
	delivery.Finalizers = nil
	if err := w.api.Update(context.Background(), &delivery); err != nil {
		w.t.Fatal(err)
	}
}

// stream is an Open whose messages are asked for one by one.
type stream struct {
	t *testing.T
	grpc.ServerStreamingClient[wirev1.OpenResponse]
}

func open(t *testing.T, c wirev1.GatewayClient, request *wirev1.OpenRequest) *stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	opened, err := c.Open(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	return &stream{t: t, ServerStreamingClient: opened}
}

func (s *stream) next() *wirev1.OpenResponse {
	s.t.Helper()
	response, err := s.Recv()
	if err != nil {
		s.t.Fatalf("in place of a message: %v", err)
	}
	return response
}

func (s *stream) pending() string {
	s.t.Helper()
	response := s.next()
	if response.GetPending() == nil {
		s.t.Fatalf("pending was expected, %v came", response)
	}
	return response.GetPending().GetMessage()
}

func (s *stream) refused(reason wirev1.FailureReason) string {
	s.t.Helper()
	response := s.next()
	if response.GetRefused().GetReason() != reason {
		s.t.Fatalf("a refusal with %v was expected, %v came", reason, response)
	}
	return response.GetRefused().GetMessage()
}

func ledger(run string, attempt uint32) *wirev1.OpenRequest {
	return &wirev1.OpenRequest{
		ProtocolVersion: wirev1.ProtocolVersion, RunId: run, Attempt: attempt,
		Destination: &wirev1.ClaimPath{Namespace: "vault", ClaimName: "ledger-copy", Path: "/"},
	}
}

func ledgerKey(run string, attempt int32) client.ObjectKey {
	return client.ObjectKey{Namespace: "vault", Name: plan.DeliveryName("east", v1alpha1.TransferReference{
		Namespace: "bank", Name: "ledger", Run: run, Attempt: attempt,
	})}
}

func sender(cluster string) pki.Identity { return pki.TransferIdentity(cluster, "bank", "ledger") }

func manager(cluster string) pki.Identity {
	return pki.Identity{Cluster: cluster, Path: pki.ManagerPath}
}
