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
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// maxCredential is the longest file with a credential in bytes.
	maxCredential = 16 << 10
	// lookInterval is how often files with credentials are looked at.
	lookInterval = 100 * time.Millisecond
)

// ErrCredentials says that credentials are missing or make no sense.
var ErrCredentials = errors.New("the credentials cannot be used")

// directory provides the credentials that its files have: a rotated Secret counts for requests after lookInterval. The
// client library calls it for one request at a time.
type directory struct {
	path string
	// seen is what the files were when they were read; nil: they were not, or not with success.
	seen   []os.FileInfo
	looked time.Time
}

// Retrieve implements credentials.Provider.
func (d *directory) Retrieve() (credentials.Value, error) {
	// A file that is replaced meanwhile is looked at again with the next request.
	seen := d.look()
	value, err := d.read()
	if d.seen = seen; err != nil {
		d.seen = nil
	}
	return value, err
}

// RetrieveWithCredContext implements credentials.Provider.
func (d *directory) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return d.Retrieve()
}

// IsExpired implements credentials.Provider. It is asked twice for each request.
func (d *directory) IsExpired() bool {
	if d.seen != nil && time.Since(d.looked) >= lookInterval && !slices.EqualFunc(d.seen, d.look(), sameFile) {
		d.seen = nil
	}
	return d.seen == nil
}

// look returns what the files are; nil in the place of one that there is not.
func (d *directory) look() []os.FileInfo {
	d.looked = time.Now()
	keys := wirev1.ObjectStoreKeys()
	files := make([]os.FileInfo, len(keys))
	for i, key := range keys {
		// One that cannot be looked at cannot be read, which says why.
		files[i], _ = os.Stat(filepath.Join(d.path, key))
	}
	return files
}

// sameFile reports whether nothing was written to a file, nor another put in its place.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// read returns the credentials. Errors are ErrCredentials and quote nothing that was read.
func (d *directory) read() (credentials.Value, error) {
	values := make(map[string]string)
	for _, key := range wirev1.ObjectStoreKeys() {
		text, err := readCredential(filepath.Join(d.path, key))
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
