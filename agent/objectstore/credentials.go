// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7/pkg/credentials"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// maxCredential is the longest file with a credential in bytes.
const maxCredential = 16 << 10

// ErrCredentials says that credentials are missing or make no sense.
var ErrCredentials = errors.New("the credentials cannot be used")

// directory provides the credentials that its files have at the moment: a rotated Secret counts with the next request.
type directory string

func (d directory) Retrieve() (credentials.Value, error) { return d.read() }

func (d directory) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return d.read()
}

// IsExpired makes the client ask each time.
func (directory) IsExpired() bool { return true }

// read returns the credentials. Errors are ErrCredentials and quote nothing that was read.
func (d directory) read() (credentials.Value, error) {
	values := make(map[string]string)
	for _, key := range wirev1.ObjectStoreKeys() {
		text, err := readCredential(filepath.Join(string(d), key))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return credentials.Value{}, fmt.Errorf("%w: key %s: %w", ErrCredentials, key, err)
		}
		values[key] = text
	}
	v := credentials.Value{
		AccessKeyID:     values[wirev1.ObjectStoreAccessKeyIDKey],
		SecretAccessKey: values[wirev1.ObjectStoreSecretAccessKeyKey],
		SessionToken:    values[wirev1.ObjectStoreSessionTokenKey],
		SignerType:      credentials.SignatureV4,
	}
	if v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return credentials.Value{}, fmt.Errorf("%w: the Secret is missing, or lacks %s or %s", ErrCredentials,
			wirev1.ObjectStoreAccessKeyIDKey, wirev1.ObjectStoreSecretAccessKeyKey)
	}
	return v, nil
}

// readCredential returns a short file without white space around it. It goes into headers, so that it must be
// printable ASCII.
func readCredential(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // It was only read.
	b, err := io.ReadAll(io.LimitReader(file, maxCredential+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxCredential {
		return "", fmt.Errorf("it has more than %d bytes", maxCredential)
	}
	text := strings.TrimSpace(string(b))
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("it contains characters that are not printable ASCII")
	}
	return text, nil
}
