// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Files serves the key pair in a directory (tls.crt, tls.key), and reads it again when it has changed there. A pair
// that cannot be read any more is not used; the last good one is. It is safe for concurrent use.
type Files struct {
	certificate, key string

	mu       sync.Mutex
	pair     *tls.Certificate
	modified [2]time.Time
}

// NewFiles reads the key pair in a directory.
func NewFiles(directory string) (*Files, error) {
	f := &Files{certificate: filepath.Join(directory, "tls.crt"), key: filepath.Join(directory, "tls.key")}
	if _, err := f.current(); err != nil {
		return nil, err
	}
	return f, nil
}

// GetCertificate is for tls.Config.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := f.current()
	if pair != nil {
		return pair, nil
	}
	return nil, err
}

// Expires is when the certificate expires that is served now.
func (f *Files) Expires() (time.Time, error) {
	pair, err := f.GetCertificate(nil)
	if err != nil {
		return time.Time{}, err
	}
	return pair.Leaf.NotAfter, nil
}

// current returns the newest pair that could be read, and an error when the files hold no such pair now.
func (f *Files) current() (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var modified [2]time.Time
	for i, name := range []string{f.certificate, f.key} {
		info, err := os.Stat(name)
		if err != nil {
			return f.pair, fmt.Errorf("looking at a key pair: %w", err)
		}
		modified[i] = info.ModTime()
	}
	if f.pair != nil && modified == f.modified {
		return f.pair, nil
	}
	pair, err := tls.LoadX509KeyPair(f.certificate, f.key)
	if err != nil {
		return f.pair, fmt.Errorf("reading the key pair %s: %w", f.certificate, err)
	}
	f.pair, f.modified = &pair, modified
	return f.pair, nil
}
