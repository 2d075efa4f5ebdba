// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agefile

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"filippo.io/age"
)

const (
	// KeySize is the length of a Key in bytes.
	KeySize = 32
	// keyStanza names the stanzas of Keys in headers. Other programs ignore them.
	keyStanza = "lighterage.dev/writer"
	saltSize  = 16
	// fileKeySize is that of age.
	fileKeySize = 16
)

// Key is a recipient and its identity at once: who has it reads what is encrypted to it. A writer's is a recipient of
// what the writer has to read again, beside those that others are.
type Key [KeySize]byte

// ParseKey returns the key of so many bytes.
func ParseKey(b []byte) (k Key, err error) {
	if len(b) != KeySize {
		return k, fmt.Errorf("a key has %d bytes and not %d", KeySize, len(b))
	}
	return Key(b), nil
}

// aead seals one file key: the salt is another one each time.
func (k Key) aead(salt []byte) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, k[:], salt, keyStanza, KeySize)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	return cipher.NewGCM(block)
}

// Beside returns the key as a recipient beside others: of age, recipients that a quantum computer would not help to
// read for are beside no others, and this one is as strong as they are.
func (k Key) Beside(others []age.Recipient) age.Recipient {
	if len(others) > 0 {
		if _, ok := others[0].(*age.HybridRecipient); ok {
			return hybridKey{k}
		}
	}
	return k
}

// hybridKey is a Key beside recipients of ML-KEM.
type hybridKey struct{ Key }

// WrapWithLabels implements age.RecipientWithLabels.
func (k hybridKey) WrapWithLabels(fileKey []byte) ([]*age.Stanza, []string, error) {
	stanzas, err := k.Wrap(fileKey)
	return stanzas, []string{"postquantum"}, err
}

// Wrap implements age.Recipient.
func (k Key) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails
	aead, err := k.aead(salt)
	if err != nil {
		return nil, err
	}
	return []*age.Stanza{{
		Type: keyStanza, Args: []string{base64.RawStdEncoding.EncodeToString(salt)},
		//nolint:gosec // The key is used once: its salt is random.
		Body: aead.Seal(nil, make([]byte, aead.NonceSize()), fileKey, nil),
	}}, nil
}

// Unwrap implements age.Identity.
func (k Key) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, s := range stanzas {
		if s.Type != keyStanza || len(s.Args) != 1 {
			continue
		}
		salt, err := base64.RawStdEncoding.DecodeString(s.Args[0])
		if err != nil || len(salt) != saltSize {
			continue
		}
		aead, err := k.aead(salt)
		if err != nil {
			return nil, err
		}
		if fileKey, err := aead.Open(nil, make([]byte, aead.NonceSize()), s.Body, nil); err == nil &&
			len(fileKey) == fileKeySize {
			return fileKey, nil
		}
	}
	return nil, age.ErrIncorrectIdentity
}
