// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receiptkey_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lighterage/lighterage/controllers/receipt"
	"github.com/lighterage/lighterage/controllers/receiptkey"
)

const namespace = "lighterage-system"

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type fixture struct {
	*testing.T
	client client.Client
	clock  *clocktesting.FakeClock
	store  *receiptkey.Store
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{T: t, client: fake.NewClientBuilder().WithObjects(objects...).Build(),
		clock: clocktesting.NewFakeClock(begin)}
	f.store = receiptkey.New(receiptkey.Options{
		Client: f.client, Reader: f.client, Clock: f.clock, Namespace: namespace, Cluster: "east",
	})
	return f
}

func (f *fixture) signing() receipt.PrivateKey {
	f.Helper()
	key, err := f.store.Signing(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return key
}

func (f *fixture) public() *receipt.KeySet {
	f.Helper()
	set, err := f.store.Public(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return set
}

func (f *fixture) secret() *corev1.Secret {
	f.Helper()
	secret := &corev1.Secret{}
	if err := f.client.Get(f.Context(), client.ObjectKey{Namespace: namespace, Name: receiptkey.Name},
		secret); err != nil {
		f.Fatal(err)
	}
	return secret
}

// For five years: whatever is signed with is valid then and was published a while before, public keys stay, and
// private ones go when they may sign no more.
func TestRotation(t *testing.T) {
	f := newFixture(t)
	used := map[string]bool{}
	for day := range 5 * 365 {
		f.clock.SetTime(begin.AddDate(0, 0, day))
		if err := f.store.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		key := f.signing()
		published := f.public().Find(key.ID())
		if published == nil || !published.Valid(f.clock.Now()) || published.Cluster != "east" {
			t.Fatalf("day %d: signed with %+v", day, published)
		}
		if day > 0 && !used[key.ID()] && f.clock.Now().After(published.NotBefore.Add(24*time.Hour)) {
			t.Errorf("day %d: a key is used late", day)
		}
		used[key.ID()] = true
		if held := len(f.secret().Data); held > 3 {
			t.Fatalf("day %d: %d private keys", day, held)
		}
	}
	if len(used) != 5 {
		t.Errorf("%d keys were used in five years", len(used))
	}
	for id := range used {
		if f.public().Find(id) == nil {
			t.Errorf("key %s is not published any more", id)
		}
	}
	before := f.secret().ResourceVersion
	if err := f.store.Ensure(t.Context()); err != nil || f.secret().ResourceVersion != before {
		t.Errorf("it is written again: %v", err)
	}
}

func TestFirstKeyIsMadeWhenItIsWanted(t *testing.T) {
	f := newFixture(t)
	if first := f.signing(); first.ID() != f.signing().ID() {
		t.Error("another key each time")
	}
}

// A lost Secret costs nothing that was signed; a lost ConfigMap is written again from the Secret.
func TestLost(t *testing.T) {
	f := newFixture(t)
	first := f.signing()
	if err := f.client.Delete(t.Context(), f.secret()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.Private(t.Context(), first.ID()); !errors.Is(err, receiptkey.ErrNoKey) {
		t.Errorf("a key that is lost: %v", err)
	}
	second := f.signing()
	if second.ID() == first.ID() || f.public().Find(first.ID()) == nil || f.public().Find(second.ID()) == nil {
		t.Errorf("keys are %+v", f.public())
	}
	lost := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: receiptkey.Name}}
	if err := f.client.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	if again := f.signing(); again.ID() != second.ID() || f.public().Find(second.ID()) == nil {
		t.Errorf("keys are %+v", f.public())
	}
}

// What cannot be read may be all that is left of former keys.
func TestUnreadableConfigMapIsKept(t *testing.T) {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: receiptkey.Name},
		Data:       map[string]string{receiptkey.PublicKey: "{"},
	}
	f := newFixture(t, object)
	if err := f.store.Ensure(t.Context()); err == nil {
		t.Error("no error")
	}
	if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil ||
		object.Data[receiptkey.PublicKey] != "{" {
		t.Errorf("%v, %v", object.Data, err)
	}
}

func TestForeignKeysAreNotUsed(t *testing.T) {
	f := newFixture(t)
	first := f.signing()
	secret := f.secret()
	secret.Data[first.ID()] = []byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n")
	if err := f.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.Signing(t.Context()); !errors.Is(err, receiptkey.ErrNoKey) {
		t.Errorf("%v", err)
	}
}
