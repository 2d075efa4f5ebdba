// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"errors"
	"slices"
	"testing"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/policy"
)

func recipients(t *testing.T) (classic, hybrid v1alpha1.AgeRecipient) {
	t.Helper()
	x, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	pq, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return v1alpha1.AgeRecipient(x.Recipient().String()), v1alpha1.AgeRecipient(pq.Recipient().String())
}

func localConfig(t *testing.T, start *attempt.Attempt) *wirev1.LocalConfig {
	t.Helper()
	if start == nil {
		t.Fatal("no attempt begins")
	}
	b, err := start.Config()
	if err != nil {
		t.Fatal(err)
	}
	config := &wirev1.LocalConfig{}
	if err := wirev1.UnmarshalConfig(b, config); err != nil {
		t.Fatal(err)
	}
	return config
}

// TestRecipientsOfADestination reach the agent, which gets the key of its Transfer and no Secret of the tenant.
func TestRecipientsOfADestination(t *testing.T) {
	classic, _ := recipients(t)
	transfer, facts := storeTransfer(nil, storePath("vault", "/a"))
	transfer.Spec.Destination.Form = v1alpha1.RestingArchive
	plain := plan.DecideTransfer(transfer.DeepCopy(), facts, image).Start
	if plain == nil || plain.NeedsArchiveKey() || localConfig(t, plain).GetEncryption() != nil {
		t.Error("an agent encrypts unasked")
	}
	transfer.Spec.Destination.Encryption = &v1alpha1.ArchiveEncryption{Recipients: []v1alpha1.AgeRecipient{classic}}
	start := plan.DecideTransfer(transfer, facts, image).Start
	config := localConfig(t, start)
	if got := config.GetEncryption().GetRecipients(); !slices.Equal(got, []string{string(classic)}) ||
		config.GetIdentitiesDirectory() != "" {
		t.Errorf("%v", config)
	}
	if !start.NeedsArchiveKey() {
		t.Error("the agent gets no key")
	}
	secret := start.Secret(attempt.Secret{ArchiveKey: []byte("key")})
	if string(secret.Data[wirev1.ArchiveKey]) != "key" {
		t.Errorf("%v", secret.Data)
	}
}

// TestRecipientsOfAClaim reach the pod that has both claims, which gets the key of its Transfer.
func TestRecipientsOfAClaim(t *testing.T) {
	classic, _ := recipients(t)
	transfer, facts := localTransfer("")
	transfer.Spec.Destination.Form = v1alpha1.RestingArchive
	transfer.Spec.Destination.Encryption = &v1alpha1.ArchiveEncryption{Recipients: []v1alpha1.AgeRecipient{classic}}
	start := plan.DecideTransfer(transfer, facts, image).Start
	config := localConfig(t, start)
	if got := config.GetEncryption().GetRecipients(); !slices.Equal(got, []string{string(classic)}) ||
		config.GetTransfer() == "" || !start.NeedsArchiveKey() {
		t.Errorf("%v", config)
	}
}

// TestIdentitiesOfAClaim are mounted in the pod that reads its archives: the one with both claims, or the sender.
func TestIdentitiesOfAClaim(t *testing.T) {
	local, here := localTransfer("")
	for mode, c := range map[string]struct {
		transfer *v1alpha1.Transfer
		facts    plan.TransferFacts
	}{"local": {local, here}, "send": {newTransfer("ledger", 0), goodFacts()}} {
		c.transfer.Spec.Source.Form = v1alpha1.RestingArchive
		c.transfer.Spec.Source.Encryption = &v1alpha1.ArchiveDecryption{IdentitySecretName: "identity"}
		start := plan.DecideTransfer(c.transfer, c.facts, image).Start
		if start == nil {
			t.Fatalf("%s: nothing begins", mode)
		}
		b, err := start.Config()
		if err != nil {
			t.Fatal(err)
		}
		send := &wirev1.SendConfig{}
		if mode == "local" {
			send = localConfig(t, start).GetSend()
		} else if err := wirev1.UnmarshalConfig(b, send); err != nil {
			t.Fatal(err)
		}
		pod := start.Job().Spec.Template.Spec
		mounted := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.Secret != nil && v.Secret.SecretName == "identity" && slices.ContainsFunc(pod.Containers[0].VolumeMounts,
				func(m corev1.VolumeMount) bool {
					return m.Name == v.Name && m.MountPath == send.GetIdentitiesDirectory()
				})
		})
		if pod.Containers[0].Args[0] != mode || !mounted || start.NeedsArchiveKey() {
			t.Errorf("%s: %q, %s", mode, send.GetIdentitiesDirectory(), b)
		}
	}
}

// TestIdentitiesOfASource are mounted in the pod that reads, one key of the Secret and no other, and nothing else has
// them.
func TestIdentitiesOfASource(t *testing.T) {
	transfer, facts := storeTransfer(storePath("vault", "/a"), nil)
	transfer.Spec.Source.Encryption = &v1alpha1.ArchiveDecryption{IdentitySecretName: "identity"}
	start := plan.DecideTransfer(transfer, facts, image).Start
	directory := localConfig(t, start).GetIdentitiesDirectory()
	pod := start.Job().Spec.Template.Spec
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == "identity"
	})
	if i < 0 {
		t.Fatalf("%+v", pod.Volumes)
	}
	volume := pod.Volumes[i]
	if s := volume.Secret; s.Optional == nil || !*s.Optional || len(s.Items) != 1 ||
		s.Items[0].Key != wirev1.AgeIdentitiesKey {
		t.Errorf("%+v", s)
	}
	mounted := func(m corev1.VolumeMount) bool {
		return m.Name == volume.Name && m.MountPath == directory && m.ReadOnly
	}
	if !slices.ContainsFunc(pod.Containers[0].VolumeMounts, mounted) || start.NeedsArchiveKey() {
		t.Errorf("%q: %+v", directory, pod.Containers[0].VolumeMounts)
	}
}

// TestEncryptionThatIsNotSupported is rejected again, and recipients with a mistyped character at first.
func TestEncryptionThatIsNotSupported(t *testing.T) {
	classic, hybrid := recipients(t)
	last := len(classic) - 1
	mistyped := classic[:last] + "q"
	if mistyped == classic {
		mistyped = classic[:last] + "p"
	}
	to := func(all ...v1alpha1.AgeRecipient) *v1alpha1.ArchiveEncryption {
		return &v1alpha1.ArchiveEncryption{Recipients: all}
	}
	const ofRecipients = "spec.destination.encryption.recipients"
	for name, c := range map[string]struct {
		change func(*v1alpha1.TransferSpec)
		field  string
	}{
		"classic": {func(s *v1alpha1.TransferSpec) { s.Destination.Encryption = to(classic) }, ""},
		"hybrid":  {func(s *v1alpha1.TransferSpec) { s.Destination.Encryption = to(hybrid, hybrid) }, ""},
		"mixed":   {func(s *v1alpha1.TransferSpec) { s.Destination.Encryption = to(classic, hybrid) }, ofRecipients},
		"none":    {func(s *v1alpha1.TransferSpec) { s.Destination.Encryption = to() }, ofRecipients},
		"mistyped": {
			func(s *v1alpha1.TransferSpec) { s.Destination.Encryption = to(mistyped) },
			ofRecipients,
		},
		"form": {func(s *v1alpha1.TransferSpec) {
			s.Destination.Encryption, s.Destination.Form = to(classic), v1alpha1.RestingFiles
		}, "spec.destination.encryption"},
		"receipt": {func(s *v1alpha1.TransferSpec) {
			s.Destination.Encryption, s.Receipt = to(classic), true
		}, "spec.destination.encryption"},
		"source": {func(s *v1alpha1.TransferSpec) {
			s.Source.Encryption = &v1alpha1.ArchiveDecryption{IdentitySecretName: "identity"}
		}, "spec.source.encryption"},
	} {
		transfer, _ := storeTransfer(nil, storePath("vault", "/a"))
		transfer.Spec.Destination.Form = v1alpha1.RestingArchive
		c.change(&transfer.Spec)
		err := plan.ValidateTransfer(transfer.Spec)
		var invalid *policy.InvalidError
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &invalid) || invalid.Field != c.field) {
			t.Errorf("%s: %v", name, err)
		}
	}
	claim := v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger", Path: "/"}
	into := v1alpha1.TransferSpec{
		Source: v1alpha1.TransferSource{PersistentVolumeClaim: claim},
		Destination: v1alpha1.TransferDestination{
			PersistentVolumeClaim: v1alpha1.DestinationClaim{
				PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "archives", Path: "/"},
			},
			Form: v1alpha1.RestingArchive, Encryption: to(classic),
		},
	}
	if err := plan.ValidateTransfer(into); err != nil {
		t.Errorf("archives in a claim: %v", err)
	}
	into.Source.Encryption = &v1alpha1.ArchiveDecryption{IdentitySecretName: "identity"}
	if err := plan.ValidateTransfer(into); err == nil {
		t.Error("plain files of a claim are decrypted")
	}
	into.Destination.Encryption, into.Destination.Form, into.Source.Form = nil, "", v1alpha1.RestingArchive
	if err := plan.ValidateTransfer(into); err != nil {
		t.Errorf("archives of a claim: %v", err)
	}
	scrub := v1alpha1.TransferSpec{
		Source: v1alpha1.TransferSource{
			ObjectStore: storePath("vault", "/a"), Encryption: &v1alpha1.ArchiveDecryption{IdentitySecretName: "identity"},
		},
		Destination: v1alpha1.TransferDestination{Scrub: v1alpha1.ScrubChecksums},
	}
	if err := plan.ValidateTransfer(scrub); err == nil {
		t.Error("a scrub by checksums has an identity")
	}
	scrub.Destination.Scrub = v1alpha1.ScrubInflate
	if err := plan.ValidateTransfer(scrub); err != nil {
		t.Error(err)
	}
}
