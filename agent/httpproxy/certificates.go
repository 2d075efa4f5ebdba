// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// CertificateState is what is in the files of a certificate.
type CertificateState uint8

// The states.
const (
	// CertificateMissing means: one of the files does not exist.
	CertificateMissing CertificateState = iota
	// CertificateInvalid means: the files hold no pair that can be used.
	CertificateInvalid
	// CertificateLoaded means: the files are good, and served.
	CertificateLoaded
)

// CertificateStatus is what is known of a certificate.
type CertificateStatus struct {
	State CertificateState
	// Message says what is wrong with the files. It never holds what is in them.
	Message string
	// NotAfter is when the pair that is served expires; zero when none is.
	NotAfter time.Time
}

// maxPEM is the largest file in bytes that is read.
const maxPEM = 1 << 20

// Certificates serve the pair of tls.crt and tls.key in a directory, and go on with
// the last that was good while the files are missing or broken. It is safe for
// concurrent use.
type Certificates struct {
	directory string
	serving   atomic.Pointer[tls.Certificate] // nil before the first good pair

	mu     sync.Mutex
	status CertificateStatus
	read   [2][]byte // what was looked at last, so that it is parsed once
}

// NewCertificates reads the pair in a directory. That it is not there, or broken, is
// in the Status.
func NewCertificates(directory string) *Certificates {
	c := &Certificates{directory: directory}
	c.Refresh()
	return c
}

// Watch reads the files again whenever they have changed, until the context ends.
// Changed is called, if it is not nil, after each change.
func (c *Certificates) Watch(ctx context.Context, interval time.Duration, changed func(CertificateStatus)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if c.Refresh() && changed != nil {
			changed(c.Status())
		}
	}
}

// Refresh reads the files again and reports whether the status is another. Connections
// that are open keep theirs.
func (c *Certificates) Refresh() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.status
	c.refresh()
	return c.status != before
}

func (c *Certificates) refresh() {
	var content [2][]byte
	for i, name := range []string{"tls.crt", "tls.key"} {
		b, err := readBounded(filepath.Join(c.directory, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.reject(CertificateMissing, fmt.Sprintf("%s is missing: put the certificate and its key into the Secret as tls.crt and tls.key", name))
			return
		case err != nil:
			c.reject(CertificateInvalid, fmt.Sprintf("%s cannot be read: %v", name, err))
			return
		}
		content[i] = b
	}
	if c.status.State != CertificateMissing && bytes.Equal(content[0], c.read[0]) && bytes.Equal(content[1], c.read[1]) {
		return
	}
	c.read = content
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		c.reject(CertificateInvalid, fmt.Sprintf("tls.crt and tls.key are no usable pair: %v", err))
		return
	}
	c.status = CertificateStatus{State: CertificateLoaded, NotAfter: pair.Leaf.NotAfter}
	c.serving.Store(&pair)
}

// reject notes what is wrong and keeps what is served.
func (c *Certificates) reject(state CertificateState, message string) {
	c.status.State, c.status.Message = state, message
}

// readBounded reads a file that is not too large.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxPEM {
		return nil, fmt.Errorf("it has %d bytes; the limit is %d", info.Size(), maxPEM)
	}
	return os.ReadFile(path)
}

// Status returns what is known.
func (c *Certificates) Status() CertificateStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// Ready reports whether there is a pair to serve.
func (c *Certificates) Ready() bool { return c.serving.Load() != nil }

// Get returns the pair that is served, for tls.Config.GetCertificate.
func (c *Certificates) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if pair := c.serving.Load(); pair != nil {
		return pair, nil
	}
	return nil, errNoCertificate
}

var errNoCertificate = errors.New("there is no certificate yet")

// config returns what a server needs of TLS.
func (c *Certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Records are written whole from the start: that costs less CPU, and what is sent
		// here is mostly complete.
		DynamicRecordSizingDisabled: true,
		GetCertificate:              c.Get,
	}
}
