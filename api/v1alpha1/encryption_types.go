// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// AgeRecipient is a public key of age.
//
// +kubebuilder:validation:MinLength=62
// +kubebuilder:validation:MaxLength=1959
// +kubebuilder:validation:XValidation:rule="self.matches('^age1(pq1)?[02-9ac-hj-np-z]+$') && size(self) == (self.startsWith('age1pq1') ? 1959 : 62)",message="a recipient is what age-keygen -y prints: age1 and 58 characters, or with a key from age-keygen -pq age1pq1 and 1952"
type AgeRecipient string

// ArchiveEncryption says for whom archives are encrypted.
type ArchiveEncryption struct {
	// recipients can decrypt what is written, each with its identity: public keys that age-keygen prints, age1..., or
	// post-quantum ones, age1pq1.... All are of one kind. No identity is needed to write.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.startsWith('age1pq1')) || !self.exists(r, r.startsWith('age1pq1'))",message="what is encrypted is as safe as its weakest recipient; use recipients that all begin with age1pq1, or none"
	Recipients []AgeRecipient `json:"recipients,omitempty"`
}

// ArchiveDecryption has the identities that decrypt archives.
type ArchiveDecryption struct {
	// identitySecretName is the name of a Secret in this namespace with the key lighterage-age-identities: identities as
	// age-keygen writes them, one on each line, of which one has to be that of a recipient. The agent's pod mounts this
	// key alone, and nothing else reads it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	IdentitySecretName string `json:"identitySecretName,omitempty"`
}
