// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/network"
)

// What the server is told, and clients tell it.
const (
	bucketName, region   = "cargo", "us-east-1"
	accessKey, secretKey = "AKIAEXAMPLE", "an-example-of-a-secret"
)

// server is a versitygw that keeps objects as files in a directory.
type server struct {
	process *harness.Process
	// dir has all that a cell needs. endpoint is an URL.
	dir, endpoint, caFile string
	ca                    []byte
	// space is the network namespace of clients; empty: that of this process.
	space string
	// link is between clients and server; nil: loopback.
	link *network.Pair
}

// startServer starts one on loopback, or beyond a link.
func startServer(ctx context.Context, path, dir string, link *network.Pair) (*server, error) {
	if err := os.MkdirAll(filepath.Join(dir, "objects", bucketName), 0o700); err != nil {
		return nil, fmt.Errorf("make a bucket: %w", err)
	}
	address := net.JoinHostPort("127.0.0.1", "7070")
	if link != nil {
		address = net.JoinHostPort(link.Address(), "7070")
	} else if free, err := harness.FreeAddress(); err == nil {
		address = free
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	s := &server{link: link, dir: dir, endpoint: "https://" + address, caFile: filepath.Join(dir, "ca.pem")}
	key := filepath.Join(dir, "key.pem")
	if s.ca, err = certify(host, s.caFile, key); err != nil {
		return nil, err
	}
	args := []string{
		"--port", address, "--cert", s.caFile, "--key", key, "--quiet", "--region", region, "--keep-alive", "posix",
		filepath.Join(dir, "objects"),
	}
	command := exec.CommandContext(ctx, path, args...)
	if link != nil {
		s.space = link.Sender()
		command = network.Command(ctx, link.Receiver(), path, args...)
	}
	command.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
	if link == nil {
		s.process, err = harness.StartListening(ctx, command, address)
		return s, err
	}
	if s.process, err = harness.Start(command); err != nil {
		return nil, err
	}
	return s, s.await(ctx, host)
}

// await waits until the server accepts connections beyond the link.
func (s *server) await(ctx context.Context, host string) error {
	var err error
	for range 100 {
		connect := s.inSpace(ctx, "bash", "-c", "exec 3<>/dev/tcp/"+host+"/7070")
		if err = connect.Run(); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.process.Stop(0)
	return fmt.Errorf("wait for the server: %w", err)
}

// inSpace is a command where clients run.
func (s *server) inSpace(ctx context.Context, name string, args ...string) *exec.Cmd {
	if s.space == "" {
		return exec.CommandContext(ctx, name, args...)
	}
	return network.Command(ctx, s.space, name, args...)
}

// certify writes a certificate that vouches for itself, and its key.
func certify(host, certFile, keyFile string) (ca []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.ParseIP(host)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{
		certFile: ca, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return nil, fmt.Errorf("write a certificate: %w", err)
		}
	}
	return ca, nil
}
