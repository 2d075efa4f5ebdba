// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/certificates"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const patience = time.Minute

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, content)
}

// served is the certificate that a client would get; nil if none.
func served(t *testing.T, c *certificates.Serving) []byte {
	t.Helper()
	pair, err := c.Get(nil)
	if err != nil {
		return nil
	}
	return pair.Certificate[0]
}

func issue(t *testing.T, directory string) []byte {
	t.Helper()
	authority := transporttest.NewAuthority(t, "x")
	authority.Write(t, directory, authority, "/x", "localhost")
	pair, err := tls.LoadX509KeyPair(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x509.ParseCertificate(pair.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	return pair.Certificate[0]
}

func TestServing(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	c := certificates.Read(dir)
	if s := c.Status(); s.State != certificates.Missing || c.Ready() || served(t, c) != nil || s.Message == "" ||
		!s.NotAfter.IsZero() {
		t.Errorf("empty: %+v", s)
	}
	write(t, filepath.Join(dir, "tls.crt"), []byte("no PEM"))
	write(t, filepath.Join(dir, "tls.key"), []byte("secret no PEM"))
	if c.Refresh(); c.Status().State != certificates.Invalid || c.Ready() ||
		strings.Contains(c.Status().Message, "secret") {
		t.Errorf("broken: %+v", c.Status())
	}
	first := issue(t, dir)
	if !c.Refresh() || c.Status().State != certificates.Loaded || !c.Ready() || c.Status().NotAfter.IsZero() ||
		c.Status().Message != "" {
		t.Errorf("good: %+v", c.Status())
	}
	if c.Refresh() {
		t.Error("nothing changed")
	}
	second := issue(t, other)
	// A pair that does not match, one that is gone and one that is too large leave the old one in place.
	for name, spoil := range map[string]func(){
		"other key": func() { copyFile(t, filepath.Join(other, "tls.key"), filepath.Join(dir, "tls.key")) },
		"no key":    func() { _ = os.Remove(filepath.Join(dir, "tls.key")) },
		"too large": func() { write(t, filepath.Join(dir, "tls.key"), make([]byte, 2<<20)) },
	} {
		spoil()
		if c.Refresh(); c.Status().State == certificates.Loaded || c.Status().Message == "" || c.Status().NotAfter.IsZero() {
			t.Errorf("%s: %+v", name, c.Status())
		}
		if !bytes.Equal(served(t, c), first) {
			t.Errorf("%s: another certificate is served", name)
		}
	}
	go c.Run(t.Context(), time.Millisecond, slog.New(slog.DiscardHandler))
	copyFile(t, filepath.Join(other, "tls.crt"), filepath.Join(dir, "tls.crt"))
	copyFile(t, filepath.Join(other, "tls.key"), filepath.Join(dir, "tls.key"))
	for deadline := time.Now().Add(patience); !bytes.Equal(served(t, c), second); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the new pair is not served")
		}
	}
}

func TestAwait(t *testing.T) {
	dir := t.TempDir()
	c := certificates.Read(dir)
	log := slog.New(slog.DiscardHandler)
	ended, end := context.WithCancel(t.Context())
	end()
	if c.Await(ended, time.Millisecond, log) {
		t.Error("there is a certificate")
	}
	go c.Run(t.Context(), time.Millisecond, log)
	arrived := make(chan bool)
	go func() { arrived <- c.Await(t.Context(), time.Millisecond, log) }()
	issue(t, dir)
	select {
	case ready := <-arrived:
		if !ready {
			t.Error("it gave up")
		}
	case <-time.After(patience):
		t.Fatal("it still waits")
	}
}

func TestReport(t *testing.T) {
	var none *certificates.Serving
	dir := t.TempDir()
	c := certificates.Read(dir)
	missing := c.Report()
	write(t, filepath.Join(dir, "tls.crt"), []byte("no PEM"))
	write(t, filepath.Join(dir, "tls.key"), []byte("no PEM"))
	c.Refresh()
	invalid := c.Report()
	issue(t, dir)
	c.Refresh()
	loaded := c.Report()
	for want, got := range map[wirev1.CertificateState]*wirev1.HTTPCertificate{
		wirev1.CertificateState_CERTIFICATE_STATE_NONE:    none.Report(),
		wirev1.CertificateState_CERTIFICATE_STATE_MISSING: missing,
		wirev1.CertificateState_CERTIFICATE_STATE_INVALID: invalid,
		wirev1.CertificateState_CERTIFICATE_STATE_LOADED:  loaded,
	} {
		if got.GetState() != want || (got.GetNotAfter() != nil) != (want == wirev1.CertificateState_CERTIFICATE_STATE_LOADED) {
			t.Errorf("%v: %v", want, got)
		}
	}
}
