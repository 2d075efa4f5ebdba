// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/gateway/gatewaytest"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

const patience = gatewaytest.Patience

// west is the receiving cluster.
type west struct {
	*gatewaytest.Cluster
	t       *testing.T
	ca      *pki.CA
	address string
	api     client.Client
	gateway *gateway.Gateway
}

func newCA(t *testing.T, cluster string) *pki.CA { return gatewaytest.NewCA(t, cluster) }

func westCA() *pki.CA { return gatewaytest.WestCA() }

// issue makes a certificate; that of a Transfer is for the run that ledger opens.
func issue(t *testing.T, ca *pki.CA, identity pki.Identity, at time.Time, names ...string) tls.Certificate {
	t.Helper()
	return gatewaytest.Issue(t, ca, identity, at, names...)
}

func issueFor(
	t *testing.T, ca *pki.CA, identity pki.Identity, at time.Time, change func(*pki.RunClaims),
) tls.Certificate {
	t.Helper()
	return gatewaytest.IssueFor(t, ca, identity, at, change)
}

func peerOf(name string, ca *pki.CA) *v1alpha1.Peer { return gatewaytest.PeerOf(name, ca) }

func grantOf(namespace, peer, from, claim string) *v1alpha1.PeerGrant {
	return gatewaytest.GrantOf(namespace, peer, from, v1alpha1.GrantedPersistentVolumeClaim, claim)
}

// anyVerb lets the grant's holders mirror and keep owners, too.
func anyVerb(grant *v1alpha1.PeerGrant) *v1alpha1.PeerGrant {
	for i := range grant.Spec.To {
		grant.Spec.To[i].AllowDelete, grant.Spec.To[i].AllowPrivileged = true, true
	}
	return grant
}

// newWest starts a gateway; adjust may be nil.
func newWest(t *testing.T, adjust func(*gateway.Options), objects ...client.Object) *west {
	t.Helper()
	c := gatewaytest.New(t, adjust, objects...)
	return &west{Cluster: c, t: t, ca: c.CA, address: c.Address, api: c.API, gateway: c.Gateway}
}

// dial returns a client with a certificate.
func (w *west) dial(certificate tls.Certificate) wirev1.GatewayClient {
	w.t.Helper()
	return w.Dial(certificate)
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
