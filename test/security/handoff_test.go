// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/lighterage/lighterage/agent/handoff"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway/gatewaytest"
	"github.com/lighterage/lighterage/controllers/pki"
)

// bucketOptions are those of one more client of a bucket.
func bucketOptions(t *testing.T, server *objectstoretest.Server) handoff.Options {
	t.Helper()
	store, err := objectstore.New(objectstore.Options{
		Endpoint: server.URL, CABundle: server.CA, Bucket: objectstoretest.Bucket, Prefix: "east-to-west",
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return handoff.Options{
		Store: store, First: time.Millisecond, Longest: 10 * time.Millisecond, Patience: time.Second,
	}
}

// throughBucket returns a client of a gateway whose connections go through a bucket and a relay.
func throughBucket(
	t *testing.T, server *objectstoretest.Server, west *gatewaytest.Cluster, certificate tls.Certificate,
) wirev1.GatewayClient {
	t.Helper()
	offer, err := handoff.NewOffer(t.Context(), bucketOptions(t, server))
	if err != nil {
		t.Fatal(err)
	}
	roots, err := pki.ParseBundle(west.CA.CertificatePEM)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///bucket",
		grpc.WithTransportCredentials(
			credentials.NewTLS(pki.ClientConfig(&certificate, pki.Pool(roots), pki.GatewayServerName))),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return offer.DialContext(ctx, "", "")
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = offer.Close(context.Background())
	})
	return wirev1.NewGatewayClient(conn)
}

// TestHandOffAdmits: what comes through a bucket is authenticated and authorised by the gateway as what comes over the
// network: by Peer and by PeerGrant.
func TestHandOffAdmits(t *testing.T) {
	east, stranger := gatewaytest.NewCA(t, "east"), gatewaytest.NewCA(t, "stranger")
	west := gatewaytest.New(t, nil, gatewaytest.PeerOf("east", east),
		gatewaytest.GrantOf("vault", "east", "bank", v1alpha1.GrantedPersistentVolumeClaim, "ledger-copy"))
	server := objectstoretest.New(t, "")
	relaying, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = handoff.Relay(relaying, handoff.RelayOptions{
			Options: bucketOptions(t, server),
			Dial: func(ctx context.Context) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", west.Address)
			},
			Log: slog.New(slog.DiscardHandler), Interval: 5 * time.Millisecond,
		})
	}()
	t.Cleanup(func() { stop(); <-ended })
	request := &wirev1.OpenRequest{
		ProtocolVersion: wirev1.ProtocolVersion, RunId: "7f3ca", Attempt: 1,
		Destination: &wirev1.ClaimPath{Namespace: "vault", ClaimName: "ledger-copy", Path: "."},
	}
	of := func(ca *pki.CA, namespace string) wirev1.GatewayClient {
		identity := pki.TransferIdentity("east", namespace, "ledger")
		return throughBucket(t, server, west, gatewaytest.Issue(t, ca, identity, time.Now()))
	}
	if failure := openRun(t, of(east, "bank"), request); failure != nil {
		t.Errorf("with a PeerGrant: %v", failure)
	}
	var deliveries v1alpha1.DeliveryList
	if err := west.API.List(t.Context(), &deliveries); err != nil || len(deliveries.Items) != 1 ||
		deliveries.Items[0].Spec.Peer != "east" || deliveries.Items[0].Spec.Transfer.Namespace != "bank" {
		t.Fatalf("%+v, %v", deliveries.Items, err)
	}
	if failure := openRun(t, of(east, "treasury"), request); failure.GetReason() !=
		wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED {
		t.Errorf("without a PeerGrant: %v", failure)
	}
	if failure := openRun(t, of(stranger, "bank"), request); failure.GetReason() !=
		wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED {
		t.Errorf("a stranger: %v", failure)
	}
	if err := west.API.List(t.Context(), &deliveries); err != nil || len(deliveries.Items) != 1 {
		t.Errorf("%+v, %v", deliveries.Items, err)
	}
}
