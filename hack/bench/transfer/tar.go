// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/lighterage/lighterage/controllers/pki"
)

// tarPipeline sends an archive, compressed by igzip on two threads, through TLS 1.3 between two socats (OpenSSL).
func tarPipeline(name string) contender {
	return contender{name: name, setUp: func(
		ctx context.Context, source, destination string,
	) (func(context.Context) (moved, error), func(), error) {
		dir, err := os.MkdirTemp("", "bench-tar-")
		if err != nil {
			return nil, nil, fmt.Errorf("make a directory for the certificate: %w", err)
		}
		tearDown := func() { _ = os.RemoveAll(dir) }
		port, err := freePort()
		if err == nil {
			err = serverCertificate(filepath.Join(dir, "server.pem"))
		}
		if err != nil {
			tearDown()
			return nil, nil, err
		}
		// The receiver ends by itself when the sender has ended.
		receive := shell(ctx, fmt.Sprintf("socat -u -b 1048576 "+
			"OPENSSL-LISTEN:%d,bind=127.0.0.1,cert=%s/server.pem,verify=0,openssl-min-proto-version=TLS1.3 - | igzip -d -c | "+
			"tar -C %s -xf -",
			port, dir, destination))
		if err := receive.Start(); err != nil {
			tearDown()
			return nil, nil, fmt.Errorf("start the receiving pipeline: %w", err)
		}
		move := func(ctx context.Context) (moved, error) {
			send := shell(
				ctx,
				fmt.Sprintf(
					"tar -C %s -cf - . | igzip -1 -T2 -c | socat -u -b 1048576 - "+
						"OPENSSL:127.0.0.1:%d,verify=0,openssl-min-proto-version=TLS1.3",
					source, port,
				),
			)
			if err := send.Run(); err != nil {
				return moved{}, fmt.Errorf("send an archive: %w\n%s%s", err, send.Stderr, receive.Stderr)
			}
			if err := receive.Wait(); err != nil {
				return moved{}, fmt.Errorf("receive an archive: %w\n%s", err, receive.Stderr)
			}
			return moved{}, nil
		}
		if err := waitForListener(port); err != nil {
			_ = receive.Process.Kill()
			_ = receive.Wait()
			tearDown()
			return nil, nil, fmt.Errorf("%w: %s", err, receive.Stderr)
		}
		return move, tearDown, nil
	}}
}

func shell(ctx context.Context, script string) *exec.Cmd {
	c := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", script) //nolint:gosec // a benchmark's own arguments
	c.Stderr = &bytes.Buffer{}
	return c
}

func serverCertificate(path string) error {
	ca, _, err := pki.NewCA("bench", time.Now())
	if err != nil {
		return fmt.Errorf("make a CA: %w", err)
	}
	pair, err := ca.Issue(pki.Template{
		Identity: pki.Identity{Cluster: "bench", Path: pki.GatewayPath}, DNSNames: []string{"localhost"}, Lifetime: time.Hour,
	}, time.Now())
	if err != nil {
		return fmt.Errorf("issue a certificate: %w", err)
	}
	if _, err := tls.X509KeyPair(pair.CertificatePEM, pair.KeyPEM); err != nil {
		return fmt.Errorf("issue a certificate: %w", err)
	}
	if err := os.WriteFile(path, append(pair.CertificatePEM, pair.KeyPEM...), 0o600); err != nil {
		return fmt.Errorf("write a certificate: %w", err)
	}
	return nil
}

// waitForListener waits without connecting, because the listener serves one connection only.
func waitForListener(port int) error {
	want := fmt.Appendf(nil, ":%04X 00000000:0000 0A", port)
	for range 200 {
		text, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			return fmt.Errorf("look for a listener: %w", err)
		}
		if bytes.Contains(text, want) {
			return nil
		}
		time.Sleep(25 * time.Millisecond)
	}
	return fmt.Errorf("nothing listens on port %d", port)
}
