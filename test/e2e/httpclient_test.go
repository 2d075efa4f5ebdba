// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// authority signs the certificates that clients of an HTTPEndpoint see.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	serial      int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.certificate = a.sign(t, template, template, a.key)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(t *testing.T, template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// issue returns the data of a Secret of type kubernetes.io/tls for a name, and the serial number of the certificate.
func (a *authority) issue(t *testing.T, name string) (map[string][]byte, string) {
	t.Helper()
	a.serial++
	key := newKey(t)
	certificate := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(1000 + a.serial), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(12 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.certificate, key)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	}, certificate.SerialNumber.String()
}

// front is an HTTPEndpoint as clients outside of the cluster reach it.
type front struct {
	address, serverName string
	roots               *x509.CertPool
	path                string
	body                []byte
}

// transport makes connections of its own; http2 false keeps to HTTP/1.1.
func (f *front) transport(http2 bool) *http.Transport {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, "tcp", f.address)
		},
		TLSClientConfig:    &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: f.roots, ServerName: f.serverName},
		DisableCompression: true,
		ForceAttemptHTTP2:  http2,
	}
	if !http2 {
		t.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	return t
}

// get asks for the body with an Accept-Encoding, none if it is empty, checks what comes, and returns the coding and the
// serial number of the certificate.
func (f *front) get(transport http.RoundTripper, accept string) (coding, serial string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+f.serverName+f.path, nil)
	if err != nil {
		return "", "", err
	}
	if accept != "" {
		request.Header.Set("Accept-Encoding", accept)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", "", err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return "", "", fmt.Errorf("read the body: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("status %s: %.200s", response.Status, raw)
	}
	coding = response.Header.Get("Content-Encoding")
	plain, err := decode(coding, raw)
	if err != nil {
		return "", "", err
	}
	if !bytes.Equal(plain, f.body) {
		return "", "", fmt.Errorf(
			"coding %q: %d bytes that differ from the %d of the backend", coding, len(plain), len(f.body),
		)
	}
	return coding, response.TLS.PeerCertificates[0].SerialNumber.String(), nil
}

func decode(coding string, raw []byte) ([]byte, error) {
	switch coding {
	case "":
		return raw, nil
	case "gzip":
		reader, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(reader)
	case "zstd":
		reader, err := zstd.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		defer reader.Close()
		return io.ReadAll(reader)
	}
	return nil, fmt.Errorf("unknown coding %q", coding)
}

// load asks without a pause worth the name until it is stopped.
type load struct {
	stop chan struct{}
	wait sync.WaitGroup

	mu       sync.Mutex
	requests int
	failures []string
}

// start begins with clients that keep HTTP/2 and HTTP/1.1 connections, and one that connects again each time.
func (f *front) start() *load {
	l := &load{stop: make(chan struct{})}
	for _, kind := range []struct{ http2, again bool }{{true, false}, {false, false}, {false, true}} {
		transport := f.transport(kind.http2)
		transport.DisableKeepAlives = kind.again
		l.wait.Go(func() {
			defer transport.CloseIdleConnections()
			pace := time.NewTicker(50 * time.Millisecond)
			defer pace.Stop()
			for {
				select {
				case <-l.stop:
					return
				case <-pace.C:
				}
				_, _, err := f.get(transport, "gzip, zstd")
				l.mu.Lock()
				l.requests++
				if err != nil {
					l.failures = append(
						l.failures,
						fmt.Sprintf("%s http2=%t again=%t: %v", time.Now().Format(time.TimeOnly), kind.http2, kind.again, err),
					)
				}
				l.mu.Unlock()
			}
		})
	}
	return l
}

// count is how many requests were answered.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests - len(l.failures)
}

// end stops and returns how many requests were made, and what failed of them.
func (l *load) end() (int, []string) {
	close(l.stop)
	l.wait.Wait()
	return l.requests, l.failures
}

// nodePort is where a Service of type NodePort is reached from here.
func (c *cluster) nodePort(t *testing.T, service *corev1.Service) string {
	t.Helper()
	var nodes corev1.NodeList
	if err := c.List(context.Background(), &nodes); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(service), service); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for _, address := range nodes.Items[0].Status.Addresses {
			if address.Type == kind {
				return net.JoinHostPort(address.Address, strconv.Itoa(int(service.Spec.Ports[0].NodePort)))
			}
		}
	}
	t.Fatalf("%s: node %s has no address", c.name, nodes.Items[0].Name)
	return ""
}
