// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build objectstores

package objectstoretest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// The programs of hack/objectstores.sh.
const motoEnv, versitygwEnv = "LIGHTERAGE_MOTO", "LIGHTERAGE_VERSITYGW"

// certificate returns files with a certificate for 127.0.0.1 and its key, and the certificate.
func certificate(t testing.TB) (certFile, keyFile string, ca []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	writeFiles(t, dir, map[string]string{
		"cert.pem": string(ca), "key.pem": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})),
	})
	return certFile, keyFile, ca
}

// serve starts a program that listens on the address that it is given, waits for an answer, and ends it with the test.
func serve(t testing.TB, ca []byte, command func(host, port string) *exec.Cmd) (address string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	free.Close()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	c := command(host, port)
	c.Stdout, c.Stderr = &output, &output
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("the server: %s", output.String())
		}
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err == nil {
			answer.Body.Close()
			return address
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not answer: %v", err)
		}
	}
}

func program(t testing.TB, env string) string {
	t.Helper()
	path := os.Getenv(env)
	if path == "" {
		t.Fatalf("%s is not set; run make test-objectstores", env)
	}
	return path
}

// The credentials that the programs take, moto any.
const (
	AccessKey = "AKIAEXAMPLE"
	SecretKey = "an-example-of-a-secret" //nolint:gosec // It is that of a program that ends with the test.
)

// Program is a real server, over TLS, that ends with the test.
type Program struct {
	Endpoint string
	CA       []byte
	// Credentials are a directory as the kubelet mounts it.
	Credentials string
}

// Programs are how to start the servers of hack/objectstores.sh.
var Programs = map[string]func(testing.TB) Program{"versitygw": versitygw, "moto": moto}

func newProgram(t testing.TB, address string, ca []byte) Program {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		wirev1.ObjectStoreAccessKeyIDKey: AccessKey, wirev1.ObjectStoreSecretAccessKeyKey: SecretKey,
	})
	return Program{Endpoint: "https://" + address, CA: ca, Credentials: dir}
}

func writeFiles(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func versitygw(t testing.TB) Program {
	t.Helper()
	path := program(t, versitygwEnv)
	cert, key, ca := certificate(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, Bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	return newProgram(t, serve(t, ca, func(host, port string) *exec.Cmd {
		c := exec.CommandContext(context.Background(), path,
			"--port", net.JoinHostPort(host, port), "--cert", cert, "--key", key, "--quiet", "posix", dir)
		c.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
		return c
	}), ca)
}

func moto(t testing.TB) Program {
	t.Helper()
	path := program(t, motoEnv)
	cert, key, ca := certificate(t)
	address := serve(t, ca, func(host, port string) *exec.Cmd {
		return exec.CommandContext(context.Background(), path, "-H", host, "-p", port, "-c", cert, "-k", key)
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://"+address+"/"+Bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+AccessKey+"/20260101/us-east-1/s3/aws4_request")
	answer, err := client.Do(request)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	return newProgram(t, address, ca)
}
