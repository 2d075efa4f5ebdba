// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build objectstores

package objectstore_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/objectstore"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// The programs of hack/objectstores.sh.
const motoEnv, versitygwEnv = "LIGHTERAGE_MOTO", "LIGHTERAGE_VERSITYGW"

// certificate returns files with a certificate for 127.0.0.1 and its key, and the certificate.
func certificate(t *testing.T) (certFile, keyFile string, ca []byte) {
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
	writeCredentials(t, dir, map[string]string{
		"cert.pem": string(ca), "key.pem": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})),
	})
	return certFile, keyFile, ca
}

// serve starts a program that listens on the address that it is given, waits for an answer, and ends it with the test.
func serve(t *testing.T, ca []byte, command func(host, port string) *exec.Cmd) (address string) {
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
		answer, err := client.Get("https://" + address + "/")
		if err == nil {
			answer.Body.Close()
			return address
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not answer: %v", err)
		}
	}
}

func program(t *testing.T, env string) string {
	t.Helper()
	path := os.Getenv(env)
	if path == "" {
		t.Fatalf("%s is not set; run make test-objectstores", env)
	}
	return path
}

const accessKey, secretKey = "AKIAEXAMPLE", "an-example-of-a-secret"

func serverOptions(t *testing.T, address string, ca []byte) objectstore.Options {
	t.Helper()
	dir := t.TempDir()
	writeCredentials(t, dir, map[string]string{
		wirev1.ObjectStoreAccessKeyIDKey: accessKey, wirev1.ObjectStoreSecretAccessKeyKey: secretKey,
	})
	return objectstore.Options{
		Endpoint: "https://" + address, CABundle: ca, Bucket: "cargo", Prefix: "east/bank", CredentialsDirectory: dir,
		Dial: dial, Retry: quick,
	}
}

func versitygw(t *testing.T) objectstore.Options {
	t.Helper()
	path := program(t, versitygwEnv)
	cert, key, ca := certificate(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "cargo"), 0o700); err != nil {
		t.Fatal(err)
	}
	return serverOptions(t, serve(t, ca, func(host, port string) *exec.Cmd {
		c := exec.Command(path, "--port", net.JoinHostPort(host, port), "--cert", cert, "--key", key, "--quiet", "posix", dir)
		c.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
		return c
	}), ca)
}

func moto(t *testing.T) objectstore.Options {
	t.Helper()
	path := program(t, motoEnv)
	cert, key, ca := certificate(t)
	address := serve(t, ca, func(host, port string) *exec.Cmd {
		return exec.Command(path, "-H", host, "-p", port, "-c", cert, "-k", key)
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://"+address+"/cargo", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+accessKey+"/20260101/us-east-1/s3/aws4_request")
	answer, err := client.Do(request)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	return serverOptions(t, address, ca)
}

// TestServers holds the client and the probe against real servers.
func TestServers(t *testing.T) {
	for name, server := range map[string]func(*testing.T) objectstore.Options{"versitygw": versitygw, "moto": moto} {
		t.Run(name, func(t *testing.T) {
			o := server(t)
			store := open(t, o)
			t.Run("Probe", func(t *testing.T) {
				verdicts, err := objectstore.Probe(t.Context(), store)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range verdicts {
					t.Logf("%s: %v", v.Promise, v.Problem)
				}
				if got := broken(verdicts); len(got) > 0 {
					t.Errorf("not kept: %v", got)
				}
				if left, err := list(t, store, ""); err != nil || len(left) > 0 {
					t.Errorf("it leaves %v, %v", left, err)
				}
			})
			t.Run("Names", func(t *testing.T) {
				names := []string{"a b/+&%=?#;", "a-b/c", "a/b", "ü/ß", "~'()*!@$,:", "a%2Fb", strings.Repeat("x", 200)}
				slices.Sort(names)
				for _, name := range names {
					put(t, store, "n/"+name, name)
				}
				var want []string
				for _, name := range names {
					want = append(want, "n/"+name)
					if got, err := get(t, store, "n/"+name, "", 0, int64(len(name))); err != nil || got != name {
						t.Errorf("%q: %q, %v", name, got, err)
					}
				}
				if got, err := list(t, store, "n/"); err != nil || !slices.Equal(got, want) {
					t.Errorf("listed %q, %v", got, err)
				}
			})
			t.Run("Errors", func(t *testing.T) {
				missing := o
				missing.Bucket = "missing"
				_, err := open(t, missing).Put(t.Context(), "a", strings.NewReader("x"), 1, objectstore.PutOptions{})
				if !errors.Is(err, objectstore.ErrNoBucket) {
					t.Error(err)
				}
				if _, err := store.Head(t.Context(), "nothing"); !errors.Is(err, objectstore.ErrNotFound) {
					t.Error(err)
				}
				etag := put(t, store, "e", "one")
				if _, err := get(t, store, "e", strings.Repeat("0", len(etag)), 0, 1); !errors.Is(err, objectstore.ErrChanged) {
					t.Error(err)
				}
				u, err := store.Create(t.Context(), "u", nil)
				if err != nil {
					t.Fatal(err)
				}
				_, err = store.Complete(t.Context(), u, []objectstore.Part{{Number: 1, ETag: etag}}, false)
				if !errors.Is(err, objectstore.ErrInvalid) {
					t.Error(err)
				}
				if err := store.Abort(t.Context(), u); err != nil {
					t.Error(err)
				}
			})
			if name == "moto" {
				return // it checks no signatures
			}
			t.Run("Rotation", func(t *testing.T) {
				writeCredentials(t, o.CredentialsDirectory, map[string]string{wirev1.ObjectStoreSecretAccessKeyKey: "another"})
				if _, err := list(t, store, ""); !errors.Is(err, objectstore.ErrAccessDenied) {
					t.Error(err)
				}
				writeCredentials(t, o.CredentialsDirectory, map[string]string{wirev1.ObjectStoreSecretAccessKeyKey: secretKey})
				if _, err := list(t, store, ""); err != nil {
					t.Error(err)
				}
			})
			t.Run("Pages", func(t *testing.T) {
				for i := range 1100 {
					put(t, store, "p/"+strings.Repeat("0", i%7)+string(rune('a'+i%26))+time.Duration(i).String(), "x")
				}
				if got, err := list(t, store, "p/"); err != nil || len(got) != 1100 {
					t.Errorf("%d, %v", len(got), err)
				}
			})
		})
	}
}
