// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datapath makes connections by TCP, MPTCP or SMC, and tells what they are.
package datapath

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Path is the protocol of a connection below TLS.
type Path string

// Paths that can be tried. Whatever is tried, a connection that cannot have it is TCP.
const (
	TCP   Path = "TCP"
	MPTCP Path = "MPTCP"
	SMC   Path = "SMC"
)

// Reasons of a path.
const (
	// Configured: nothing else was tried.
	Configured = "Configured"
	// Negotiated: it was tried, and the other end has it.
	Negotiated = "Negotiated"
	// Unavailable: the kernel does not have what was tried, or does not let the process use it.
	Unavailable = "Unavailable"
	// FellBack: the other end, or something in between, does not have what was tried.
	FellBack = "FellBack"
)

// Parse returns the path of a configuration; empty is TCP.
func Parse(text string) (Path, error) {
	switch p := Path(text); p {
	case "":
		return TCP, nil
	case TCP, MPTCP, SMC:
		return p, nil
	default:
		return "", fmt.Errorf("path %q is not TCP, MPTCP or SMC", text)
	}
}

// Paths makes connections on a path, and notes on which they are. The zero value notes nothing before its first
// connection. A copy made before that is another one.
type Paths struct {
	// Try is set before the first connection.
	Try Path

	mu   sync.Mutex
	seen *wirev1.DataPath
}

// Seen returns the path of the connections made so far: that of one which is not on the path that was tried, if there
// is one. It is nil before the first connection.
func (p *Paths) Seen() *wirev1.DataPath {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		return nil
	}
	return &wirev1.DataPath{Type: p.seen.GetType(), Reason: p.seen.GetReason()}
}

func (p *Paths) note(path Path, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil || p.seen.GetReason() == Negotiated {
		p.seen = &wirev1.DataPath{Type: string(path), Reason: reason}
	}
}

// DialContext connects by the path that is tried, or by TCP.
func (p *Paths) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	var smc smcSockets
	dialer.SetMultipathTCP(p.Try == MPTCP)
	if p.Try == SMC {
		smc.open = openSMC
		dialer.Control = smc.control
	}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn, nil
	}
	c := &pathConn{TCPConn: tcp, paths: p, unavailable: smc.missing()}
	c.look()
	return c, nil
}

// pathConn is looked at again when it is closed: MPTCP may fall back with the first data.
type pathConn struct {
	*net.TCPConn
	paths       *Paths
	unavailable bool
}

func (c *pathConn) look() {
	if path, reason, err := pathOf(c.TCPConn, c.paths.Try, c.unavailable); err == nil {
		c.paths.note(path, reason)
	}
}

func (c *pathConn) Close() error {
	c.look()
	return c.TCPConn.Close()
}

// pathOf returns what a connection is on after try was tried. The kernel falls back without a word. The socket of SMC
// is one of TCP then; that of MPTCP still is one of MPTCP.
func pathOf(conn *net.TCPConn, try Path, unavailable bool) (path Path, reason string, err error) {
	switch {
	case try != MPTCP && try != SMC:
		return TCP, Configured, nil
	case unavailable:
		return TCP, Unavailable, nil
	}
	protocol, err := protocolOf(conn)
	if err != nil {
		return "", "", err
	}
	switch {
	case try == MPTCP && protocol == unix.IPPROTO_TCP:
		return TCP, Unavailable, nil // package net has replaced the socket
	case try == MPTCP:
		on, err := conn.MultipathTCP()
		if err != nil {
			return "", "", fmt.Errorf("ask for the path of a connection: %w", err)
		}
		if !on {
			return TCP, FellBack, nil
		}
	case protocol == unix.IPPROTO_TCP:
		return TCP, FellBack, nil
	}
	return try, Negotiated, nil
}

func protocolOf(conn syscall.Conn) (protocol int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("ask for the protocol of a connection: %w", err)
	}
	var asked error
	err = raw.Control(func(fd uintptr) {
		protocol, asked = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL)
	})
	if err = errors.Join(err, asked); err != nil {
		return 0, fmt.Errorf("ask for the protocol of a connection: %w", err)
	}
	return protocol, nil
}

// Listen returns a listener for connections by a path and by TCP. That of TCP takes those by MPTCP as well, where the
// kernel has it. One for SMC is one for TCP where the kernel does not have SMC.
func Listen(ctx context.Context, path Path, network, address string) (net.Listener, error) {
	var config net.ListenConfig
	if path == SMC {
		config.SetMultipathTCP(false)
		config.Control = (&smcSockets{open: openSMC}).control
	}
	return config.Listen(ctx, network, address)
}

const (
	afSMC          = 43
	protocolSMC    = 0
	protocolSMCv6  = 1
	nonblockStream = unix.SOCK_STREAM | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
)

// openSMC opens a socket of SMC for addresses of a family.
func openSMC(family int) (int, error) {
	protocol := protocolSMC
	if family == unix.AF_INET6 {
		protocol = protocolSMCv6
	}
	return unix.Socket(afSMC, nonblockStream, protocol)
}

// smcSockets replaces sockets of TCP before they are used.
type smcSockets struct {
	open func(family int) (fd int, err error)

	mu          sync.Mutex // Control is called for several addresses at once
	unavailable bool
}

func (s *smcSockets) missing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unavailable
}

// control is for Control of net.Dialer and net.ListenConfig. The socket stays as it is where there is no SMC.
func (s *smcSockets) control(_, _ string, c syscall.RawConn) error {
	var replaced error
	err := c.Control(func(fd uintptr) { replaced = s.replace(int(fd)) })
	return errors.Join(err, replaced)
}

func (s *smcSockets) replace(fd int) error {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return os.NewSyscallError("getsockopt SO_DOMAIN", err)
	}
	other, err := s.open(family)
	switch {
	case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOBUFS) ||
		errors.Is(err, unix.ENOMEM):
		return os.NewSyscallError("socket", err)
	case err != nil:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unavailable = true
		return nil
	}
	defer unix.Close(other)
	// What package net has set by now, and cannot set again.
	options := [][2]int{{unix.SOL_SOCKET, unix.SO_REUSEADDR}}
	if family == unix.AF_INET6 {
		options = append(options, [2]int{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY})
	}
	for _, o := range options {
		value, err := unix.GetsockoptInt(fd, o[0], o[1])
		if err == nil {
			err = unix.SetsockoptInt(other, o[0], o[1], value)
		}
		if err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return os.NewSyscallError("dup3", unix.Dup3(other, fd, unix.O_CLOEXEC))
}
