// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lighterage/lighterage/controllers/pki"
)

const namespace = "lighterage-system"

func options(objects ...client.Object) (pki.Options, *clocktesting.FakeClock) {
	c := fake.NewClientBuilder().WithObjects(objects...).Build()
	clock := clocktesting.NewFakeClock(now)
	return pki.Options{Client: c, Reader: c, Clock: clock, Namespace: namespace, Cluster: "east"}, clock
}

func TestLoadOrCreateCA(t *testing.T) {
	o, _ := options()
	first, err := pki.LoadOrCreateCA(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	second, err := pki.LoadOrCreateCA(context.Background(), o)
	if err != nil || !second.Certificate.Equal(first.Certificate) {
		t.Fatalf("another CA the second time: %v", err)
	}
	published := &corev1.ConfigMap{}
	if err := o.Client.Get(
		context.Background(), client.ObjectKey{Namespace: namespace, Name: pki.CAName}, published,
	); err != nil {
		t.Fatal(err)
	}
	if published.Data[pki.CAKey] != string(first.CertificatePEM) {
		t.Fatal("another certificate was published")
	}
}

func TestGivenCA(t *testing.T) {
	o, _ := options()
	o.SecretName = "given"
	if _, err := pki.LoadOrCreateCA(context.Background(), o); !errors.Is(err, pki.ErrCANotFound) {
		t.Fatalf("absent: %v", err)
	}
	_, pair, err := pki.NewCA("given", now)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "given"},
		Data:       map[string][]byte{"tls.crt": pair.CertificatePEM, "tls.key": pair.KeyPEM},
	}
	if err := o.Client.Create(context.Background(), secret); err != nil {
		t.Fatal(err)
	}
	ca, err := pki.LoadOrCreateCA(context.Background(), o)
	if err != nil || !ca.Certificate.Equal(pair.Leaf) {
		t.Fatalf("given CA not used: %v", err)
	}
	leaf := issue(t, ca, pki.Identity{Cluster: "east", Path: pki.ManagerPath})
	secret.Data = map[string][]byte{"tls.crt": leaf.CertificatePEM, "tls.key": leaf.KeyPEM}
	if err := o.Client.Update(context.Background(), secret); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.LoadOrCreateCA(context.Background(), o); err == nil {
		t.Fatal("a leaf passes for a CA")
	}
}

// TestReplacedCAIsServedWithinAMinute: nobody asks for it, the renewer's own rounds have to come to it.
func TestReplacedCAIsServedWithinAMinute(t *testing.T) {
	o, clock := options()
	renewer := &pki.Renewer{Authority: pki.NewAuthority(o), Clock: clock, Lifetime: 24 * time.Hour}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer close(done); _ = renewer.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	// A round is over when the renewer waits for the next one.
	round := func() *corev1.Secret {
		t.Helper()
		for !clock.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		secret := &corev1.Secret{}
		if err := o.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pki.GatewaySecret}, secret); err != nil {
			t.Fatal(err)
		}
		return secret
	}
	round()
	_, pair, err := pki.NewCA("east", clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	ca := &corev1.Secret{}
	if err := o.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pki.CAName}, ca); err != nil {
		t.Fatal(err)
	}
	ca.Data[corev1.TLSCertKey], ca.Data[corev1.TLSPrivateKeyKey] = pair.CertificatePEM, pair.KeyPEM
	if err := o.Client.Update(ctx, ca); err != nil {
		t.Fatal(err)
	}
	clock.Step(time.Minute)
	if served := round(); string(served.Data[pki.ClusterCAKey]) != string(pair.CertificatePEM) {
		t.Error("a minute after the CA was replaced the gateway has a certificate of the former one")
	}
}

func TestServingSecretIsRenewedAtHalfLife(t *testing.T) {
	o, clock := options()
	authority := pki.NewAuthority(o)
	renewer := &pki.Renewer{Authority: authority, Clock: clock, Lifetime: 24 * time.Hour}
	certificate := func() string {
		t.Helper()
		if err := renewer.Ensure(context.Background()); err != nil {
			t.Fatal(err)
		}
		secret := &corev1.Secret{}
		if err := o.Client.Get(
			context.Background(), client.ObjectKey{Namespace: namespace, Name: pki.GatewaySecret}, secret,
		); err != nil {
			t.Fatal(err)
		}
		return string(secret.Data["tls.crt"])
	}
	first := certificate()
	clock.Step(11 * time.Hour)
	if certificate() != first {
		t.Fatal("renewed in its first half")
	}
	clock.Step(2 * time.Hour)
	second := certificate()
	if second == first {
		t.Fatal("not renewed in its second half")
	}
	// A CA that is replaced takes its certificates along.
	_, pair, err := pki.NewCA("east", clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	ca := &corev1.Secret{}
	if err := o.Client.Get(
		context.Background(), client.ObjectKey{Namespace: namespace, Name: pki.CAName}, ca,
	); err != nil {
		t.Fatal(err)
	}
	ca.Data[corev1.TLSCertKey], ca.Data[corev1.TLSPrivateKeyKey] = pair.CertificatePEM, pair.KeyPEM
	if err := o.Client.Update(context.Background(), ca); err != nil {
		t.Fatal(err)
	}
	clock.Step(2 * time.Minute)
	if certificate() == second {
		t.Fatal("not renewed by the new CA")
	}
}

func TestHolderRenewsAtHalfLife(t *testing.T) {
	o, clock := options()
	holder := pki.NewHolder(pki.NewAuthority(o), pki.ManagerPath, 24*time.Hour)
	first, _, err := holder.Certificate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	identity, err := pki.IdentityOf(first.Leaf)
	if err != nil || identity != (pki.Identity{Cluster: "east", Path: pki.ManagerPath}) {
		t.Fatalf("%v, %v", identity, err)
	}
	clock.Step(11 * time.Hour)
	if again, _, _ := holder.Certificate(context.Background()); again != first {
		t.Fatal("renewed in its first half")
	}
	clock.Step(2 * time.Hour)
	if again, _, _ := holder.Certificate(context.Background()); again == first {
		t.Fatal("not renewed in its second half")
	}
}

// TestClockThatIsSetBack: what was issued by a clock that was ahead by a day is issued again, because a peer that is
// behind would not take it. A correction does not make anything again.
func TestClockThatIsSetBack(t *testing.T) {
	o, clock := options()
	authority := pki.NewAuthority(o)
	holder := pki.NewHolder(authority, pki.ManagerPath, 72*time.Hour)
	renewer := &pki.Renewer{Authority: authority, Clock: clock, Lifetime: 30 * 24 * time.Hour}
	certificates := func() (own, served *x509.Certificate) {
		t.Helper()
		pair, _, err := holder.Certificate(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if err := renewer.Ensure(context.Background()); err != nil {
			t.Fatal(err)
		}
		secret := &corev1.Secret{}
		if err := o.Client.Get(
			context.Background(), client.ObjectKey{Namespace: namespace, Name: pki.GatewaySecret}, secret,
		); err != nil {
			t.Fatal(err)
		}
		gateway, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf, gateway.Leaf
	}
	if _, err := authority.CA(context.Background()); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(now.Add(24 * time.Hour))
	own, served := certificates()
	clock.SetTime(now.Add(24*time.Hour - time.Minute))
	if again, still := certificates(); again != own || !still.Equal(served) {
		t.Error("renewed after a correction by a minute")
	}
	clock.SetTime(now)
	own, served = certificates()
	for name, leaf := range map[string]*x509.Certificate{"manager's": own, "gateway's": served} {
		if leaf.NotBefore.After(now.Add(-24 * time.Hour)) {
			t.Errorf("the %s certificate is for peers with %s or later", name, leaf.NotBefore)
		}
	}
}
