// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/pki"
)

// TestArchiveKeys are one for each Transfer, the same for each manager, and those of another cluster are others.
func TestArchiveKeys(t *testing.T) {
	o, _ := options()
	other, _ := options()
	key := func(o pki.Options, transfer types.UID) []byte {
		t.Helper()
		k, err := pki.NewAuthority(o).ArchiveKey(t.Context(), transfer)
		if err != nil || len(k) != 32 {
			t.Fatalf("%d bytes: %v", len(k), err)
		}
		return k
	}
	first := key(o, "one")
	if again := key(o, "one"); !bytes.Equal(again, first) {
		t.Error("another manager has another key")
	}
	if bytes.Equal(key(o, "two"), first) || bytes.Equal(key(other, "one"), first) {
		t.Error("two Transfers have one key")
	}
	secret := &corev1.Secret{}
	at := client.ObjectKey{Namespace: namespace, Name: pki.ArchiveSecret}
	if err := o.Client.Get(t.Context(), at, secret); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(first, secret.Data["archive.key"]) {
		t.Error("a Transfer has the key of all")
	}
	secret.Data = nil
	if err := o.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.NewAuthority(o).ArchiveKey(t.Context(), "one"); err == nil {
		t.Error("an empty Secret was used")
	}
}
