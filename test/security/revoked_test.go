// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security_test

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/pki"
)

// M1: one link is revoked alone. Certificates of that Peer from before are rejected on connections that are open, too,
// and what was opened with them ends during the run; certificates that are issued later and other Peers' are accepted.
func TestOneLinkIsRevokedAlone(t *testing.T) {
	log.SetLogger(logr.Discard())
	east, south := authority(t, "east"), authority(t, "south")
	west := newTarget(t, "west", east)
	other := &v1alpha1.Peer{
		ObjectMeta: metav1.ObjectMeta{Name: "south"}, Spec: v1alpha1.PeerSpec{CABundle: south.CertificatePEM},
	}
	if err := west.api.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	hello := func(c wirev1.GatewayClient) error {
		_, err := c.Hello(t.Context(), &wirev1.HelloRequest{ProtocolVersion: wirev1.ProtocolVersion})
		return err
	}
	key := stolen(t, east, west, func(*pki.RunClaims) {})
	connected, neighbour := west.with(t, key), west.with(t, managerOf(t, south))
	if refused := openRun(t, connected, ledgerRun()); refused != nil {
		t.Fatal(refused)
	}
	revoker := peergrant.NewRevoker(west.api, west.api, events.NewFakeRecorder(10), peergrant.Options{})
	judge := func() int {
		t.Helper()
		for _, delivery := range west.deliveries(t) {
			if _, err := revoker.Reconcile(
				t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&delivery)},
			); err != nil {
				t.Fatal(err)
			}
		}
		return len(west.deliveries(t))
	}
	if judge() != 1 {
		t.Fatal("the Delivery of a Peer that revokes nothing was deleted")
	}

	peer := &v1alpha1.Peer{}
	if err := west.api.Get(t.Context(), client.ObjectKey{Name: "east"}, peer); err != nil {
		t.Fatal(err)
	}
	peer.Spec.RevokedBefore = &metav1.Time{Time: time.Now().Add(time.Minute)}
	if err := west.api.Update(t.Context(), peer); err != nil {
		t.Fatal(err)
	}
	if err := hello(connected); err == nil {
		t.Error("a connection that was open goes on")
	}
	if refused := openRun(
		t, west.with(t, key), ledgerRun(),
	); refused.GetReason() != wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED {
		t.Errorf("in place of a refusal: %v", refused)
	}
	if judge() != 0 {
		t.Error("what was opened with a revoked certificate goes on")
	}
	if err := hello(neighbour); err != nil {
		t.Errorf("another Peer is rejected: %v", err)
	}

	// The next certificate is issued after the time.
	peer.Spec.RevokedBefore = &metav1.Time{Time: time.Now().Add(-time.Minute)}
	if err := west.api.Update(t.Context(), peer); err != nil {
		t.Fatal(err)
	}
	if refused := openRun(t, west.with(t, stolen(t, east, west, func(*pki.RunClaims) {})), ledgerRun()); refused != nil {
		t.Errorf("a certificate that was issued later is rejected: %v", refused)
	}
	if judge() != 1 {
		t.Error("what was opened with a certificate that was issued later is ended")
	}
	if err := west.api.Delete(t.Context(), peer); err != nil {
		t.Fatal(err)
	}
	if judge() != 0 {
		t.Error("what a Peer that was deleted has open goes on")
	}
	if err := hello(connected); err == nil {
		t.Error("a connection of a Peer that was deleted goes on")
	}
}
