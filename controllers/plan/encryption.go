// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"

	"filippo.io/age"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/policy"
)

// validateEncryption checks again what the API server checks of encryption, and the checksums of recipients, which it
// cannot.
func validateEncryption(spec v1alpha1.TransferSpec) error {
	from, to := spec.Source, spec.Destination
	archives := from.ObjectStore != nil || from.Form.Archived()
	if from.Encryption != nil && (!archives || to.Scrub == v1alpha1.ScrubChecksums) {
		return &policy.InvalidError{
			Field: "spec.source.encryption", Fix: "is for archives that are decrypted; set source.form: Archive beside a " +
				"claim, or remove it, as with scrub: Checksums, which needs no identity",
		}
	}
	if from.Encryption != nil && from.Encryption.IdentitySecretName == "" {
		return &policy.InvalidError{
			Field: "spec.source.encryption.identitySecretName", Fix: "must name a Secret",
		}
	}
	if to.Encryption == nil {
		return nil
	}
	if !to.Form.Archived() || spec.Receipt {
		return &policy.InvalidError{
			Field: "spec.destination.encryption",
			Fix:   "is for form: Archive, without receipt, for which the archives would have to be decrypted",
		}
	}
	hybrid := 0
	for _, recipient := range to.Encryption.Recipients {
		parsed, err := age.ParseRecipients(strings.NewReader(string(recipient)))
		if err != nil || len(parsed) != 1 {
			return &policy.InvalidError{
				Field: "spec.destination.encryption.recipients", Fix: "must be public keys as age-keygen prints them; one is " +
					"mistyped: copy it again",
			}
		}
		if _, ok := parsed[0].(*age.HybridRecipient); ok {
			hybrid++
		}
	}
	if n := len(to.Encryption.Recipients); n == 0 || n > 16 || hybrid > 0 && hybrid < n {
		return &policy.InvalidError{
			Field: "spec.destination.encryption.recipients", Fix: "must be 1 to 16, which all begin with age1pq1 or none does",
		}
	}
	return nil
}

// wireEncryption is what agents are told of a destination's encryption; nil: there is none.
func wireEncryption(of *v1alpha1.ArchiveEncryption) *wirev1.Encryption {
	if of == nil {
		return nil
	}
	e := &wirev1.Encryption{}
	for _, recipient := range of.Recipients {
		e.Recipients = append(e.Recipients, string(recipient))
	}
	return e
}
