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
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/objectstore"
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
	for path, content := range map[string][]byte{
		certFile: ca, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile, ca
}

// process is a program that listens on an address of its own.
type process struct {
	address string
	ca      []byte
	command func() *exec.Cmd
	output  bytes.Buffer

	mu sync.Mutex
	// running is nil after kill.
	running *exec.Cmd
}

// serve starts a program that listens on the address that it is given, waits for an answer, and ends it with the test.
func serve(t testing.TB, ca []byte, command func(host, port string) *exec.Cmd) *process {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{address: free.Addr().String(), ca: ca}
	free.Close()
	host, port, err := net.SplitHostPort(p.address)
	if err != nil {
		t.Fatal(err)
	}
	p.command = func() *exec.Cmd { return command(host, port) }
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the server: %s", p.output.String())
		}
	})
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// start has the program run, and waits until it answers.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.command()
	c.Stdout, c.Stderr = &p.output, &p.output
	if err := StartWithTest(c); err != nil {
		return err
	}
	p.running = c
	client := clientOf(p.ca)
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		request, err := http.NewRequestWithContext(
			context.Background(), http.MethodGet, "https://"+p.address+"/", http.NoBody,
		)
		if err != nil {
			return fmt.Errorf("asking the server: %w", err)
		}
		answer, err := client.Do(request)
		if err == nil {
			return answer.Body.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server does not answer: %w", err)
		}
	}
}

// StartWithTest starts a process that the kernel kills when that of the test ends in any way. The kernel does so when
// the thread ends that started it, so that one which never does starts all.
func StartWithTest(c *exec.Cmd) error {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	result := make(chan error)
	starter() <- func() { result <- c.Start() }
	return <-result
}

var starter = sync.OnceValue(func() chan<- func() {
	starts := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
	return starts
})

// kill ends the program as a crash does.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return
	}
	_ = p.running.Process.Kill()
	_ = p.running.Wait()
	p.running = nil
}

// clientOf is a client that trusts a CA.
func clientOf(ca []byte) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, DisableCompression: true, MaxIdleConnsPerHost: 16,
	}}
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
	// Directory is where a server that keeps objects as files has the bucket; empty: it has none, or cannot be seen.
	Directory string

	process *process
}

// Options are those of a prefix of the server.
func (p Program) Options(prefix string) objectstore.Options {
	return objectstore.Options{
		Endpoint: p.Endpoint, CABundle: p.CA, CredentialsDirectory: p.Credentials, Bucket: Bucket, Prefix: prefix,
		Dial: Dial, Retry: Retry,
	}
}

// Kill ends the server as a crash does. A Proxy in front of it stays.
func (p Program) Kill() { p.process.kill() }

// Restart starts a server that was killed, at its address, and waits until it answers.
func (p Program) Restart() error { return p.process.start() }

// Programs are how to start the servers of hack/objectstores.sh.
var Programs = map[string]func(testing.TB) Program{"versitygw": versitygw, "moto": moto}

func newProgram(t testing.TB, p *process) Program {
	t.Helper()
	return Program{
		Endpoint: "https://" + p.address, CA: p.ca, Credentials: Credentials(t, AccessKey, SecretKey), process: p,
	}
}

func versitygw(t testing.TB) Program {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, Bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	p := versitygwIn(t, dir)
	p.Directory = filepath.Join(dir, Bucket)
	return p
}

// SmallVersitygw is one whose file system has a size in MiB. It needs root, or a kernel that lets users make
// namespaces.
func SmallVersitygw(t testing.TB, size int) Program {
	t.Helper()
	unshare := []string{"unshare", "--mount"}
	if os.Getuid() != 0 {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	// The kernel forgets whom to kill with the test when a process enters a user namespace.
	mount := fmt.Sprintf(`mount -t tmpfs -o size=%dm tmpfs "$0" && mkdir "$0/%s" && exec setpriv --pdeathsig KILL "$@"`,
		size, Bucket)
	dir := t.TempDir()
	return versitygwIn(t, dir, append(unshare, "sh", "-c", mount, dir)...)
}

// versitygwIn is a versitygw that serves a directory, and is started by a command if there is one.
func versitygwIn(t testing.TB, dir string, by ...string) Program {
	t.Helper()
	path := program(t, versitygwEnv)
	cert, key, ca := certificate(t)
	return newProgram(t, serve(t, ca, func(host, port string) *exec.Cmd {
		all := append(slices.Clone(by), path,
			"--port", net.JoinHostPort(host, port), "--cert", cert, "--key", key, "--quiet", "posix", dir)
		c := exec.CommandContext(context.Background(), all[0], all[1:]...)
		c.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
		return c
	}))
}

func moto(t testing.TB) Program {
	t.Helper()
	path := program(t, motoEnv)
	cert, key, ca := certificate(t)
	p := serve(t, ca, func(host, port string) *exec.Cmd {
		return exec.CommandContext(context.Background(), path, "-H", host, "-p", port, "-c", cert, "-k", key)
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://"+p.address+"/"+Bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+AccessKey+"/20260101/us-east-1/s3/aws4_request")
	answer, err := clientOf(ca).Do(request)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	return newProgram(t, p)
}
