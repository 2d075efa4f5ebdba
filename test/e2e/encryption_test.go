// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"testing"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestEncryptedArchive encrypts a claim of one cluster in a bucket, and restores it in the other one, which alone has
// the identity.
func TestEncryptedArchive(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	pair.ObjectStores(t, namespace, "vault", namespace)
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	east.claim(t, namespace, "source", "", "100Mi")
	west.claim(t, namespace, "restored", "", "100Mi")
	east.sh(t, namespace, "source", fill)
	to := newTransfer(namespace, "archive")
	to.Spec.Source.PersistentVolumeClaim.ClaimName = "source"
	to.Spec.Destination = v1alpha1.TransferDestination{
		ObjectStore: vault("/ledger"), Form: v1alpha1.RestingArchive,
		Encryption: &v1alpha1.ArchiveEncryption{
			Recipients: []v1alpha1.AgeRecipient{v1alpha1.AgeRecipient(identity.Recipient().String())},
		},
	}
	if err := east.Create(ctx, to); err != nil {
		t.Fatal(err)
	}
	east.WaitFor(t, to, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "identity"},
		StringData: map[string]string{"lighterage-age-identities": identity.String()},
	}
	from := newTransfer(namespace, "restore")
	from.Spec.Source = v1alpha1.TransferSource{
		ObjectStore: vault("/ledger"), Encryption: &v1alpha1.ArchiveDecryption{IdentitySecretName: secret.Name},
	}
	from.Spec.Destination.Peer, from.Spec.Destination.PersistentVolumeClaim.ClaimName = "", "restored"
	if err := west.Create(ctx, secret); err != nil {
		t.Fatal(err)
	}
	if err := west.Create(ctx, from); err != nil {
		t.Fatal(err)
	}
	west.WaitFor(t, from, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if want, got := east.sh(t, namespace, "source", listing), west.sh(t, namespace, "restored", listing); want != got {
		t.Errorf("the two sides differ:\neast:\n%s\nwest:\n%s", want, got)
	}
}
