// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program that runs beside this one.
type process struct {
	command *exec.Cmd
	errors  *bytes.Buffer
	ended   chan error
}

// spawn starts a program and waits until it accepts connections.
func (b *bench) spawn(address, name string, args ...string) (*process, error) {
	p := &process{command: exec.Command(name, args...), errors: new(bytes.Buffer), ended: make(chan error, 1)}
	p.command.Stderr, p.command.Stdout = p.errors, p.errors
	// What it starts itself ends with it.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	b.processes = append(b.processes, p)
	go func() { p.ended <- p.command.Wait() }()
	for deadline := time.Now().Add(20 * time.Second); ; {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			conn.Close()
			return p, nil
		}
		select {
		case err := <-p.ended:
			p.ended <- err
			return nil, fmt.Errorf("it ended: %w: %s", err, strings.TrimSpace(p.errors.String()))
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, errors.New("nobody listens on " + address)
		}
	}
}

// stop ends it and what it started.
func (p *process) stop() {
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGTERM)
	select {
	case err := <-p.ended:
		p.ended <- err
	case <-time.After(200 * time.Millisecond):
		_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
		p.ended <- <-p.ended
	}
}

// memory returns the resident memory of its process group in bytes, shared pages
// divided among those who share them.
func (p *process) memory() (int64, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	var total int64
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if group, err := syscall.Getpgid(pid); err != nil || group != p.command.Process.Pid {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "smaps_rollup"))
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Pss:" {
				n, err := strconv.ParseInt(fields[1], 10, 64)
				if err != nil {
					return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
				}
				total += n << 10
			}
		}
	}
	return total, nil
}

// busyTime returns how long all processors together have worked since the system began.
func busyTime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read the system's CPU time: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("read the system's CPU time: /proc/stat begins with %q", line)
	}
	var ticks int64
	for i, field := range fields[1:9] {
		if i == 3 || i == 4 { // idle, iowait
			continue
		}
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the system's CPU time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// loadNow is what else the machine was doing, as its load.
func loadNow() float64 {
	var load float64
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &load)
	}
	return load
}

// makeCertificates writes a key pair for the contenders: the same for all.
func makeCertificates(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o644),
		os.WriteFile(filepath.Join(dir, "tls.key"), private, 0o644), // nginx's workers are another user
		os.WriteFile(filepath.Join(dir, "both.pem"), append(certificate, private...), 0o644),
	)
}

func firstLine(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil && line == "" {
		return filepath.Base(name) + " of an unknown version"
	}
	return strings.Join(strings.Fields(line), " ")
}

// multiline writes the blocks of a Caddyfile as it wants them: one setting a line.
func multiline(config string) string {
	return strings.NewReplacer("{ ", "{\n", " }", "\n}").Replace(config)
}
