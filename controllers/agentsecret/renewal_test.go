// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentsecret_test

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentsecret"
	"github.com/lighterage/lighterage/controllers/pki"
)

// M1: whenever a manager stops and stays away for a day, the certificate of a Queue is valid until it is back.
func TestManagerThatIsDownForADayStopsNoQueue(t *testing.T) {
	const lifetime, down = 7 * 24 * time.Hour, 24 * time.Hour
	ctx := context.Background()
	store := fake.NewClientBuilder().Build()
	clock := clocktesting.NewFakeClock(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))
	keeper := &agentsecret.Keeper{
		Client: store, Lifetime: lifetime, Clock: clock,
		Authority: pki.NewAuthority(
			pki.Options{Client: store, Reader: store, Clock: clock, Namespace: "operator", Cluster: "east"},
		),
	}
	state, meta := &agentsecret.State{}, metav1.ObjectMeta{Namespace: "bank", Name: "orders"}
	content := agentsecret.Content{
		Identity: pki.QueueIdentity("east", "bank", "orders"), ServerNames: []string{pki.QueueServerName("uid")},
		Config: &wirev1.QueueConfig{Queue: "orders"}, Revision: "r1",
	}
	shortest, issued := lifetime, map[string]bool{}
	for range 30 * 24 {
		problem, err := keeper.Ensure(ctx, state, meta, content, nil)
		if err != nil || problem != nil {
			t.Fatal(problem, err)
		}
		state.Settled = true
		secret := &corev1.Secret{}
		if err := store.Get(ctx, client.ObjectKey{Namespace: "bank", Name: "orders"}, secret); err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		if err != nil {
			t.Fatal(err)
		}
		issued[pair.Leaf.SerialNumber.String()] = true
		// A manager that stops now comes back in a day.
		shortest = min(shortest, pair.Leaf.NotAfter.Sub(clock.Now().Add(down)))
		clock.Step(time.Hour)
	}
	if shortest < 2*24*time.Hour {
		t.Errorf("after a day without a manager %s of a certificate are left", shortest)
	}
	if len(issued) > 9 { // 30 days by three and a half
		t.Errorf("%d certificates in 30 days", len(issued))
	}
}
