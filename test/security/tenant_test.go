// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"crypto/tls"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/gateway/gatewaytest"
	"github.com/lighterage/lighterage/controllers/pki"
)

// TestTenantWithItsAgentsKey has a tenant take what it can of its peer's limits at a gateway, with the certificate of
// its own agent: connections, requests, and runs that wait. Another namespace of the same cluster, and the cluster's
// manager, are served.
//
// M6: limits were for each peer, so that one tenant starved all others of its cluster.
func TestTenantWithItsAgentsKey(t *testing.T) {
	const opens, connections = 40, 220
	east := gatewaytest.NewCA(t, "east")
	w := gatewaytest.New(t, func(o *gateway.Options) {
		o.RequestBurst, o.OpensPerPeer, o.PollInterval = 400, opens, 250*time.Millisecond
	}, gatewaytest.PeerOf("east", east),
		gatewaytest.GrantOf("vault", "east", "evil", v1alpha1.GrantedPersistentVolumeClaim, "evil-copy"),
		gatewaytest.GrantOf("vault", "east", "bank", v1alpha1.GrantedPersistentVolumeClaim, "ledger-copy"))
	certificate := func(identity pki.Identity) tls.Certificate { return gatewaytest.Issue(t, east, identity, time.Now()) }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	manager := w.Dial(certificate(pki.Identity{Cluster: "east", Path: pki.ManagerPath}))
	bank := w.Dial(certificate(pki.TransferIdentity("east", "bank", "ledger")))
	honest := func() {
		t.Helper()
		for _, client := range []wirev1.GatewayClient{manager, bank} {
			if _, err := client.Hello(ctx, &wirev1.HelloRequest{}); err != nil {
				t.Errorf("hello: %v", err)
			}
		}
		stream, err := bank.Open(ctx, openTo("ledger-copy", 1))
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := stream.Recv(); err != nil || answer.GetPending() == nil {
			t.Errorf("open: %v, %v", answer, err)
		}
	}
	honest()

	evil := gatewaytest.IssueFor(t, east, pki.TransferIdentity("east", "evil", "x"), time.Now(), func(c *pki.RunClaims) {
		c.Claim = "evil-copy"
	})
	var waiting, refused atomic.Int64
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			conn := w.Connect(evil)
			t.Cleanup(func() { _ = conn.Close() })
			if taken(ctx, conn) {
				waiting.Add(1)
			} else {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if waiting.Load() == 0 || waiting.Load() > opens/2 {
		t.Errorf("%d of the tenant's runs wait", waiting.Load())
	}
	client := w.Dial(evil)
	for requests := 0; ; requests++ {
		if _, err := client.Hello(ctx, &wirev1.HelloRequest{}); err != nil {
			break
		}
		if requests > 2000 {
			t.Fatal("the tenant's requests have no limit")
		}
	}
	honest()
	t.Logf("of the tenant's %d runs %d wait and %d were rejected", connections, waiting.Load(), refused.Load())
}

// taken reports whether a run waits. Its connection may be evicted for another one of the same tenant.
func taken(ctx context.Context, conn grpc.ClientConnInterface) bool {
	stream, err := wirev1.NewGatewayClient(conn).Open(ctx, openTo("evil-copy", 1))
	if err != nil {
		return false
	}
	answer, err := stream.Recv()
	return err == nil && answer.GetPending() != nil
}

func openTo(claim string, attempt uint32) *wirev1.OpenRequest {
	return &wirev1.OpenRequest{
		ProtocolVersion: wirev1.ProtocolVersion, RunId: "7f3ca", Attempt: attempt,
		Destination: &wirev1.ClaimPath{Namespace: "vault", ClaimName: claim, Path: "/"},
	}
}
