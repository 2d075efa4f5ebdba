// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPaths connects by what is tried to listeners that have it and to those that have not.
func TestPaths(t *testing.T) {
	mptcp := hasMPTCP(t)
	smc := hasSMC(t)
	for _, test := range []struct {
		name   string
		try    Path
		listen func(*testing.T, string) net.Listener
		path   Path
		reason string
		skip   bool
	}{
		{"nothing said", "", listenTCP, TCP, Configured, false},
		{"TCP", TCP, listenTCP, TCP, Configured, false},
		{"TCP to MPTCP", TCP, listenBy(MPTCP), TCP, Configured, false},
		{"MPTCP", MPTCP, listenBy(MPTCP), MPTCP, Negotiated, !mptcp},
		{"MPTCP to TCP", MPTCP, listenTCP, TCP, FellBack, !mptcp},
		{"MPTCP without a kernel for it", MPTCP, listenBy(MPTCP), TCP, Unavailable, mptcp},
		{"SMC without a kernel for it", SMC, listenBy(SMC), TCP, Unavailable, smc},
		{"SMC to TCP", SMC, listenTCP, TCP, FellBack, !smc},
	} {
		for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
			t.Run(test.name+" "+address, func(t *testing.T) {
				if test.skip {
					t.Skip("this kernel is another")
				}
				p := &Paths{Try: test.try}
				if p.Seen() != nil {
					t.Error("there was no connection yet")
				}
				exchange(t, p, test.listen(t, address))
				if got := p.Seen(); got.GetType() != string(test.path) || got.GetReason() != test.reason {
					t.Errorf("the path is %v", got)
				}
			})
		}
	}
}

// TestFallbackStays: of several connections, that which is not on the path that was tried is told of.
func TestFallbackStays(t *testing.T) {
	if !hasMPTCP(t) {
		t.Skip("this kernel has no MPTCP")
	}
	p := &Paths{Try: MPTCP}
	for _, listen := range []func(*testing.T, string) net.Listener{listenBy(MPTCP), listenTCP, listenBy(MPTCP)} {
		exchange(t, p, listen(t, "127.0.0.1:0"))
	}
	if got := p.Seen(); got.GetType() != string(TCP) || got.GetReason() != FellBack {
		t.Errorf("the path is %v", got)
	}
}

// TestReplacedSockets has sockets replaced by those of kernels with SMC: TCP's is what is left after a fallback, and
// MPTCP's stands for one that is not TCP's.
func TestReplacedSockets(t *testing.T) {
	mptcp := hasMPTCP(t)
	for _, test := range []struct {
		protocol int
		path     Path
		reason   string
	}{{unix.IPPROTO_TCP, TCP, FellBack}, {unix.IPPROTO_MPTCP, SMC, Negotiated}} {
		if test.protocol == unix.IPPROTO_MPTCP && !mptcp {
			continue
		}
		opened := 0
		sockets := &smcSockets{open: func(family int) (int, error) {
			opened++
			return unix.Socket(family, nonblockStream, test.protocol)
		}}
		for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
			config := net.ListenConfig{Control: sockets.control}
			listener, err := config.Listen(t.Context(), "tcp", address)
			if err != nil && strings.HasPrefix(address, "[") {
				continue // there is no IPv6
			}
			if err != nil {
				t.Fatal(err)
			}
			serve(t, listener)
			again := listener.Addr().String()
			dialer := net.Dialer{Control: sockets.control}
			conn, err := dialer.DialContext(t.Context(), "tcp", again)
			if err != nil {
				t.Fatal(err)
			}
			path, reason, err := pathOf(conn.(*net.TCPConn), SMC, sockets.missing())
			if err != nil || path != test.path || reason != test.reason {
				t.Errorf("protocol %d to %s: %s, %s, %v", test.protocol, again, path, reason, err)
			}
			echo(t, conn)
			_ = listener.Close()
			// The address has connections in TIME_WAIT: SO_REUSEADDR must have come along. Others may take the port meanwhile.
			reused := 0
			config.Control = func(network, address string, c syscall.RawConn) error {
				err := sockets.control(network, address, c)
				return errors.Join(err, c.Control(func(fd uintptr) {
					reused, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR)
				}))
			}
			if listener, err = config.Listen(t.Context(), "tcp", again); err == nil {
				_ = listener.Close()
			}
			if reused == 0 {
				t.Errorf("protocol %d: the address cannot be used again", test.protocol)
			}
		}
		if opened == 0 {
			t.Error("no socket was replaced")
		}
	}
}

// TestNoSocket: without descriptors a connection fails. It does not go on as TCP for a reason that would be wrong.
func TestNoSocket(t *testing.T) {
	sockets := &smcSockets{open: func(int) (int, error) { return 0, unix.EMFILE }}
	listener := listenTCP(t, "127.0.0.1:0")
	dialer := net.Dialer{Control: sockets.control}
	conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err == nil {
		_ = conn.Close()
		t.Error("the connection was made")
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Path{"": TCP, "TCP": TCP, "MPTCP": MPTCP, "SMC": SMC} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"tcp", "RDMA", "TCP,SMC"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is %q", text, got)
		}
	}
}

func listenTCP(t *testing.T, address string) net.Listener {
	t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	listener, err := config.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Skipf("no listener at %s: %v", address, err)
	}
	serve(t, listener)
	return listener
}

func listenBy(path Path) func(*testing.T, string) net.Listener {
	return func(t *testing.T, address string) net.Listener {
		t.Helper()
		listener, err := Listen(t.Context(), path, "tcp", address)
		if err != nil {
			t.Skipf("no listener at %s: %v", address, err)
		}
		serve(t, listener)
		return listener
	}
}

// serve sends back what comes.
func serve(t *testing.T, listener net.Listener) {
	t.Helper()
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
}

func exchange(t *testing.T, p *Paths, listener net.Listener) {
	t.Helper()
	conn, err := p.DialContext(context.WithoutCancel(t.Context()), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	echo(t, conn)
}

func echo(t *testing.T, conn net.Conn) {
	t.Helper()
	const sent = "as it was"
	if _, err := io.WriteString(conn, sent); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != sent {
		t.Fatalf("%q came back, %v", got, err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

func hasMPTCP(t *testing.T) bool {
	t.Helper()
	enabled, err := os.ReadFile("/proc/sys/net/mptcp/enabled")
	if err != nil || strings.TrimSpace(string(enabled)) != "1" {
		return false
	}
	fd, err := unix.Socket(unix.AF_INET, nonblockStream, unix.IPPROTO_MPTCP)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

func hasSMC(t *testing.T) bool {
	t.Helper()
	fd, err := openSMC(unix.AF_INET)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}
