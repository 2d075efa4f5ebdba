// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificates reads the certificate that an agent serves from files that change while it runs, which is how
// Kubernetes mounts a Secret.
package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// State is what is in the files of a certificate.
type State uint8

// The states.
const (
	// Missing means: one of the files does not exist.
	Missing State = iota
	// Invalid means: the files hold no pair that can be used.
	Invalid
	// Loaded means: the files are good, and served.
	Loaded
)

// Status is what is known of a certificate.
type Status struct {
	State State
	// Message says what is wrong with the files. It never holds what is in them.
	Message string
	// NotAfter is when the pair that is served expires; zero when none is.
	NotAfter time.Time
}

// maxPEM is the largest file in bytes that is read.
const maxPEM = 1 << 20

// Serving serves the pair of tls.crt and tls.key in a directory, and the last that was good while the files are missing
// or broken. It is safe for concurrent use.
type Serving struct {
	directory string
	serving   atomic.Pointer[tls.Certificate] // nil before the first good pair

	mu     sync.Mutex
	status Status
	read   [2][]byte // what was looked at last, so that it is parsed once
}

// Read reads the pair in a directory. That it is not there, or broken, is
// in the Status.
func Read(directory string) *Serving {
	c := &Serving{directory: directory}
	c.Refresh()
	return c
}

// Run reads the files again whenever they have changed, until the context ends, and logs what changed.
func (c *Serving) Run(ctx context.Context, interval time.Duration, log *slog.Logger) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if c.Refresh() {
			c.Status().log(log)
		}
	}
}

// Await waits until there is a pair to serve, and reports false when the context ends before. It logs what is waited
// for.
func (c *Serving) Await(ctx context.Context, interval time.Duration, log *slog.Logger) bool {
	if !c.Ready() {
		c.Status().log(log)
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for !c.Ready() {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

// Refresh reads the files again and reports whether the status is another. Connections
// that are open keep theirs.
func (c *Serving) Refresh() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.status
	c.refresh()
	return c.status != before
}

func (c *Serving) refresh() {
	var content [2][]byte
	for i, name := range []string{"tls.crt", "tls.key"} {
		b, err := readBounded(filepath.Join(c.directory, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.reject(
				Missing, fmt.Sprintf("%s is missing: put the certificate and its key into the Secret as tls.crt and tls.key", name),
			)
			return
		case err != nil:
			c.reject(Invalid, fmt.Sprintf("%s cannot be read: %v", name, err))
			return
		}
		content[i] = b
	}
	if c.status.State != Missing && bytes.Equal(content[0], c.read[0]) && bytes.Equal(content[1], c.read[1]) {
		return
	}
	c.read = content
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		c.reject(Invalid, fmt.Sprintf("tls.crt and tls.key are no usable pair: %v", err))
		return
	}
	c.status = Status{State: Loaded, NotAfter: pair.Leaf.NotAfter}
	c.serving.Store(&pair)
}

// reject notes what is wrong and keeps what is served.
func (c *Serving) reject(state State, message string) {
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
func (c *Serving) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// Ready reports whether there is a pair to serve.
func (c *Serving) Ready() bool { return c.serving.Load() != nil }

// Get returns the pair that is served, for tls.Config.GetCertificate.
func (c *Serving) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if pair := c.serving.Load(); pair != nil {
		return pair, nil
	}
	return nil, errNone
}

var errNone = errors.New("there is no certificate yet")

func (s Status) log(log *slog.Logger) {
	if s.State == Loaded {
		log.Info("Certificate was loaded", "notAfter", s.NotAfter)
		return
	}
	log.Warn("Certificate cannot be used", "problem", s.Message, "another serves until", s.NotAfter)
}

// Report is what the manager is told; c may be nil, for an agent that serves without TLS or has not begun.
func (c *Serving) Report() *wirev1.HTTPCertificate {
	if c == nil {
		return &wirev1.HTTPCertificate{State: wirev1.CertificateState_CERTIFICATE_STATE_NONE}
	}
	s := c.Status()
	out := &wirev1.HTTPCertificate{Message: s.Message, State: map[State]wirev1.CertificateState{
		Missing: wirev1.CertificateState_CERTIFICATE_STATE_MISSING,
		Invalid: wirev1.CertificateState_CERTIFICATE_STATE_INVALID,
		Loaded:  wirev1.CertificateState_CERTIFICATE_STATE_LOADED,
	}[s.State]}
	if !s.NotAfter.IsZero() {
		out.NotAfter = timestamppb.New(s.NotAfter)
	}
	return out
}
