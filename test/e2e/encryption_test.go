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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestEncryptedArchiveInAClaim encrypts a claim of the cluster of one node in another claim, restores it with the
// identity, and verifies it without.
func TestEncryptedArchiveInAClaim(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"source", "sealed", "restored"} {
		west.claim(t, namespace, name, "", "100Mi")
	}
	west.sh(t, namespace, "source", fill)
	seal := newLocalTransfer(namespace, "seal")
	seal.Spec.Destination.PersistentVolumeClaim.ClaimName = "sealed"
	seal.Spec.Destination.Form = v1alpha1.RestingArchive
	seal.Spec.Destination.Encryption = &v1alpha1.ArchiveEncryption{
		Recipients: []v1alpha1.AgeRecipient{v1alpha1.AgeRecipient(identity.Recipient().String())},
	}
	if err := west.Create(ctx, seal); err != nil {
		t.Fatal(err)
	}
	west.WaitFor(t, seal, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	west.sh(t, namespace, "sealed", "cd /data/.lighterage && sha256sum -c SHA256SUMS && ls archives/*.tar.gz.age")
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "identity"},
		StringData: map[string]string{"lighterage-age-identities": identity.String()},
	}
	unseal := newLocalTransfer(namespace, "unseal")
	unseal.Spec.Source.PersistentVolumeClaim.ClaimName = "sealed"
	unseal.Spec.Source.Form = v1alpha1.RestingArchive
	unseal.Spec.Source.Encryption = &v1alpha1.ArchiveDecryption{IdentitySecretName: secret.Name}
	unseal.Spec.Destination.PersistentVolumeClaim.ClaimName = "restored"
	scrub := &v1alpha1.Drill{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "scrub"},
		Spec: v1alpha1.DrillSpec{
			Source: v1alpha1.DrillSource{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "sealed"},
				Form:                  v1alpha1.RestingArchive,
			},
			Scrub: v1alpha1.ScrubChecksums,
		},
	}
	for _, object := range []client.Object{secret, unseal, scrub} {
		if err := west.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	west.WaitFor(t, unseal, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if want, got := west.sh(t, namespace, "source", listing), west.sh(t, namespace, "restored", listing); want != got {
		t.Errorf("what was restored differs:\n%s", got)
	}
	drilled(t, scrub, metav1.ConditionTrue, v1alpha1.ReasonVerified)
}

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
