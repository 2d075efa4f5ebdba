// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"

	"github.com/lighterage/lighterage/agent/agefile"
	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// decrypted returns a store that is read with the identities in a directory; empty: as it is.
func decrypted(store bucket.Store, directory string) (bucket.Store, error) {
	if directory == "" {
		return store, nil
	}
	identities, err := agefile.ReadIdentities(filepath.Join(directory, wirev1.AgeIdentitiesKey))
	if err != nil {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_ENCRYPTION_MISMATCH,
			"the Secret that spec.source.encryption names has no identity that can be used (%w): put what age-keygen writes "+
				"into its key %s", err, wirev1.AgeIdentitiesKey)
	}
	return bucket.Decrypted(store, identities), nil
}

// identitiesFit is an error if there are identities for what is no archive in a volume.
func identitiesFit(c *wirev1.SendConfig) error {
	if c.GetIdentitiesDirectory() != "" && (c.GetSourceForm() != wirev1.Form_FORM_ARCHIVE || c.GetVolume() == "") {
		return badConfig("identities_directory: archives in a volume alone are decrypted")
	}
	return nil
}

// encryption is how archives are encrypted; nil: they are not.
func (a *agent) encryption(c *wirev1.Encryption) (*bucket.Encryption, error) {
	if c == nil {
		return nil, nil
	}
	recipients, err := agefile.ParseRecipients(c.GetRecipients())
	if err != nil {
		return nil, badConfig("encryption.recipients: %w", err)
	}
	content, err := os.ReadFile(filepath.Join(a.configDir, wirev1.ArchiveKey))
	if err != nil {
		return nil, badConfig("encryption: %w", err)
	}
	key, err := agefile.ParseKey(content)
	if err != nil {
		return nil, badConfig("encryption: %s: %w", wirev1.ArchiveKey, err)
	}
	return &bucket.Encryption{Recipients: recipients, Key: key}, nil
}
