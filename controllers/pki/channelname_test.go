// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/pki"
)

// M2: server names of channels cannot be guessed without the cluster's key.
func TestChannelServerName(t *testing.T) {
	key, other := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	name := pki.ChannelServerName(key, "east", "bank", "vault", "orders")
	if len(name) > 253 {
		t.Errorf("%s is longer than a server name", name)
	}
	label, namespace, queue, ok := pki.ParseChannelServerName(name)
	if !ok || namespace != "vault" || queue != "orders" ||
		label != pki.ChannelLabel(key, "east", "bank", "vault", "orders") || len(label) != 32 {
		t.Errorf("%s was parsed into %s, %s and %s: %t", name, label, namespace, queue, ok)
	}
	for what, label2 := range map[string]string{
		"key":            pki.ChannelLabel(other, "east", "bank", "vault", "orders"),
		"peer":           pki.ChannelLabel(key, "west", "bank", "vault", "orders"),
		"peer namespace": pki.ChannelLabel(key, "east", "shop", "vault", "orders"),
		"namespace":      pki.ChannelLabel(key, "east", "bank", "other", "orders"),
		"queue":          pki.ChannelLabel(key, "east", "bank", "vault", "other"),
	} {
		if label2 == label {
			t.Errorf("the label does not depend on the %s", what)
		}
	}
	for _, other := range []string{
		"", "queue.lighterage.internal", "x.queue.lighterage.internal", "a.b.c.d.queue.lighterage.internal",
		"a.b.c.queue.example",
	} {
		if _, _, _, ok := pki.ParseChannelServerName(other); ok {
			t.Errorf("%q was parsed", other)
		}
	}
}

// The key stays when the certificate is renewed, and when the Secret is lost while a manager knows it.
func TestChannelKeyIsKept(t *testing.T) {
	o, clock := options()
	ctx, authority := context.Background(), pki.NewAuthority(o)
	renewer := &pki.Renewer{Authority: authority, Clock: clock, Lifetime: 24 * time.Hour}
	if _, err := authority.ChannelKey(ctx); !errors.Is(err, pki.ErrNoChannelKey) {
		t.Fatalf("before there is a Secret: %v", err)
	}
	ensure := func() *corev1.Secret {
		t.Helper()
		if err := renewer.Ensure(ctx); err != nil {
			t.Fatal(err)
		}
		secret := &corev1.Secret{}
		if err := o.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pki.GatewaySecret}, secret); err != nil {
			t.Fatal(err)
		}
		return secret
	}
	first := ensure()
	key, err := authority.ChannelKey(ctx)
	if err != nil || len(key) != 32 || !bytes.Equal(key, first.Data[pki.ChannelKeyName]) {
		t.Fatalf("key of %d bytes: %v", len(key), err)
	}
	clock.Step(13 * time.Hour)
	renewed := ensure()
	if bytes.Equal(renewed.Data[corev1.TLSCertKey], first.Data[corev1.TLSCertKey]) ||
		!bytes.Equal(renewed.Data[pki.ChannelKeyName], key) {
		t.Error("the key changed with the certificate, or that was not renewed")
	}
	delete(renewed.Data, pki.ChannelKeyName)
	if err := o.Client.Update(ctx, renewed); err != nil {
		t.Fatal(err)
	}
	if kept := ensure(); !bytes.Equal(kept.Data[pki.ChannelKeyName], key) {
		t.Error("a key that was taken out is replaced")
	}
	if err := o.Client.Delete(
		ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pki.GatewaySecret}},
	); err != nil {
		t.Fatal(err)
	}
	if kept := ensure(); !bytes.Equal(kept.Data[pki.ChannelKeyName], key) {
		t.Error("a Secret that was deleted comes back with another key")
	}
	if node := (&corev1.Secret{}); o.Client.Get(
		ctx, client.ObjectKey{Namespace: namespace, Name: pki.NodeAgentSecret}, node,
	) != nil || node.Data[pki.ChannelKeyName] != nil {
		t.Error("node agents have the key")
	}
}

func TestChannelKeyFile(t *testing.T) {
	directory := t.TempDir()
	file, path := pki.NewChannelKeyFile(directory), filepath.Join(directory, pki.ChannelKeyName)
	if _, err := file.Key(); !errors.Is(err, pki.ErrNoChannelKey) {
		t.Fatalf("without a file: %v", err)
	}
	at := time.Now()
	write := func(key []byte) {
		t.Helper()
		if err := os.WriteFile(path, key, 0o600); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Minute)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	is := func(want []byte) {
		t.Helper()
		if key, err := file.Key(); err != nil || !bytes.Equal(key, want) {
			t.Errorf("key %x, want %x: %v", key, want, err)
		}
	}
	write([]byte("short"))
	if _, err := file.Key(); !errors.Is(err, pki.ErrNoChannelKey) {
		t.Errorf("a short key: %v", err)
	}
	first, second := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	write(first)
	is(first)
	write(second)
	is(second)
	write(nil)
	is(second)
}

func FuzzParseChannelServerName(f *testing.F) {
	f.Add(pki.ChannelServerName(nil, "east", "bank", "vault", "orders"))
	f.Add("..queue.lighterage.internal")
	f.Fuzz(func(t *testing.T, name string) {
		label, namespace, queue, ok := pki.ParseChannelServerName(name)
		if ok && label+"."+pki.ChannelDomain(namespace, queue) != name {
			t.Fatalf("%q was parsed into %q, %q and %q", name, label, namespace, queue)
		}
	})
}
