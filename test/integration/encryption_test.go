// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package integration_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestEncryptionAtAdmission accepts recipients of either kind for archives in a store or a claim, and rejects what
// would not be encrypted or cannot be read.
func TestEncryptionAtAdmission(t *testing.T) {
	classic := v1alpha1.AgeRecipient("age1" + strings.Repeat("q", 58))
	hybrid := v1alpha1.AgeRecipient("age1pq1" + strings.Repeat("z", 1952))
	vault := &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}
	to := func(form v1alpha1.RestingForm, all ...v1alpha1.AgeRecipient) func(*v1alpha1.Transfer) {
		return func(t *v1alpha1.Transfer) {
			t.Spec.Destination = v1alpha1.TransferDestination{
				ObjectStore: vault, Form: form, Encryption: &v1alpha1.ArchiveEncryption{Recipients: all},
			}
		}
	}
	from := func(scrub v1alpha1.ScrubMode, secret string) func(*v1alpha1.Transfer) {
		return func(t *v1alpha1.Transfer) {
			t.Spec.Source = v1alpha1.TransferSource{
				ObjectStore: vault, Encryption: &v1alpha1.ArchiveDecryption{IdentitySecretName: secret},
			}
			t.Spec.Destination.Peer = ""
			if scrub != "" {
				t.Spec.Destination = v1alpha1.TransferDestination{Scrub: scrub}
			}
		}
	}
	many := make([]v1alpha1.AgeRecipient, 17)
	for i := range many {
		many[i] = classic[:61] + v1alpha1.AgeRecipient("qpzry9x8gf2tvdw0s"[i])
	}
	ssh := "ssh-ed25519 " + v1alpha1.AgeRecipient(strings.Repeat("A", 60))
	archive := to(v1alpha1.RestingArchive, classic)
	for name, c := range map[string]struct {
		change func(*v1alpha1.Transfer)
		says   string
	}{
		"classic":        {to(v1alpha1.RestingArchive, classic), ""},
		"hybrid":         {to(v1alpha1.RestingArchive, hybrid), ""},
		"sixteen":        {to(v1alpha1.RestingArchive, many[:16]...), ""},
		"seventeen":      {to(v1alpha1.RestingArchive, many...), "at most 16"},
		"mixed":          {to(v1alpha1.RestingArchive, classic, hybrid), "as safe as its weakest recipient"},
		"none":           {to(v1alpha1.RestingArchive), "encryption.recipients"},
		"twice":          {to(v1alpha1.RestingArchive, classic, classic), "uplicate"},
		"an SSH key":     {to(v1alpha1.RestingArchive, ssh), "age-keygen -y"},
		"too short":      {to(v1alpha1.RestingArchive, hybrid[:70]), "age-keygen -y"},
		"files":          {to(v1alpha1.RestingFiles, classic), "set form: Archive"},
		"without a form": {to("", classic), "set form: Archive"},
		"an identity":    {from("", "identity"), ""},
		"no name":        {from("", ""), "identitySecretName"},
		"scrub":          {from(v1alpha1.ScrubInflate, "identity"), ""},
		"scrub of sums":  {from(v1alpha1.ScrubChecksums, "identity"), "needs no identity"},
		"claim as source": {func(t *v1alpha1.Transfer) {
			from("", "identity")(t)
			t.Spec.Source.ObjectStore = nil
			t.Spec.Source.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}
		}, "set form: Archive beside a persistentVolumeClaim"},
		"archives of a claim": {func(t *v1alpha1.Transfer) {
			from("", "identity")(t)
			t.Spec.Source.ObjectStore, t.Spec.Source.Form = nil, v1alpha1.RestingArchive
			t.Spec.Source.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}
		}, ""},
		"scrub of a claim": {func(t *v1alpha1.Transfer) {
			from(v1alpha1.ScrubInflate, "identity")(t)
			t.Spec.Source.ObjectStore, t.Spec.Source.Form = nil, v1alpha1.RestingArchive
			t.Spec.Source.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}
		}, ""},
		"claim": {func(t *v1alpha1.Transfer) {
			archive(t)
			t.Spec.Destination.ObjectStore = nil
			t.Spec.Destination.PersistentVolumeClaim.ClaimName = "ledger-copy"
		}, ""},
		"files in a claim": {func(t *v1alpha1.Transfer) {
			to(v1alpha1.RestingGzip, classic)(t)
			t.Spec.Destination.ObjectStore = nil
			t.Spec.Destination.PersistentVolumeClaim.ClaimName = "ledger-copy"
		}, "set form: Archive, or remove encryption"},
		"with a receipt": {func(t *v1alpha1.Transfer) {
			archive(t)
			t.Spec.Receipt = true
		}, "the writer has no identity"},
		"a line end in it": {to(v1alpha1.RestingArchive, classic[:61]+"\n"), "age-keygen -y"},
	} {
		err := k8s.Create(context.Background(), transfer(c.change), client.DryRunAll)
		if c.says == "" && err != nil ||
			c.says != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
