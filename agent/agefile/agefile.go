// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agefile reads and writes files that are encrypted in the format of age (age-encryption.org/v1), which the
// program age reads. Files are read in ranges: of one that rests somewhere else no more chunks of 64 KiB are fetched
// than have what is asked for.
package agefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/age"
)

const (
	// Suffix is what the names of encrypted files end with.
	Suffix = ".age"
	// Magic is what encrypted files begin with.
	Magic = "age-encryption.org/v1\n"
	// MaxRecipients bounds the recipients of a file, which are in its header.
	MaxRecipients = 16
	// maxIdentities bounds a file of identities in bytes.
	maxIdentities = 64 << 10
)

var (
	// ErrIdentity says that no identity is that of a recipient of the file, or that there is none.
	ErrIdentity = errors.New("no identity fits")
	// ErrPlain says that a file is not encrypted.
	ErrPlain = errors.New("it is not encrypted")
	// ErrCorrupt says that an encrypted file is damaged, truncated or longer than what was written.
	ErrCorrupt = errors.New("the encrypted file is damaged")
)

// ParseRecipients returns public keys, age1... for X25519, or age1pq1... for ML-KEM-768 with X25519. All are of one
// kind, since a file is as safe as the weaker one.
func ParseRecipients(texts []string) ([]age.Recipient, error) {
	if len(texts) == 0 || len(texts) > MaxRecipients {
		return nil, fmt.Errorf("there are %d age recipients: there must be 1 to %d", len(texts), MaxRecipients)
	}
	var all []age.Recipient
	hybrid := 0
	for i, text := range texts {
		// One a text: a line end would begin another one, or a comment.
		parsed, err := age.ParseRecipients(bytes.NewReader([]byte(text)))
		if err == nil && len(parsed) != 1 {
			err = errors.New("it has more than one line")
		}
		if err != nil {
			return nil, fmt.Errorf("age recipient %d cannot be used: %w", i+1, err)
		}
		if _, ok := parsed[0].(*age.HybridRecipient); ok {
			hybrid++
		}
		all = append(all, parsed[0])
	}
	if hybrid > 0 && hybrid < len(all) {
		return nil, errors.New("age recipients of the kinds age1pq1... and age1... cannot be mixed")
	}
	return all, nil
}

// ReadIdentities reads a file of identities, as age-keygen writes it. Errors quote nothing of it. That of a file which
// is missing, or has none, matches ErrIdentity.
func ReadIdentities(path string) ([]age.Identity, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIdentity, err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxIdentities+1))
	if err != nil {
		return nil, fmt.Errorf("read age identities: %w", err)
	}
	return ParseIdentities(content)
}

// ParseIdentities is ReadIdentities for what was read. At most 64 KiB are allowed.
func ParseIdentities(content []byte) ([]age.Identity, error) {
	if len(content) > maxIdentities {
		return nil, fmt.Errorf("%w: there are more than %d bytes", ErrIdentity, maxIdentities)
	}
	// The error of the library could have what was read in it.
	all, err := age.ParseIdentities(bytes.NewReader(bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))))
	if err != nil {
		return nil, fmt.Errorf("%w: there is no line AGE-SECRET-KEY-1..., or one that cannot be used", ErrIdentity)
	}
	return all, nil
}

// Seal encrypts what is in memory.
func Seal(plain []byte, to ...age.Recipient) ([]byte, error) {
	var b bytes.Buffer
	w, err := age.Encrypt(&b, to...)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	if _, err := w.Write(plain); err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return b.Bytes(), nil
}
