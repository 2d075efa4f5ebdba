// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

// natsServer is a server of an attacker: it speaks enough of the NATS protocol for clients to show their credentials,
// and keeps every CONNECT.
type natsServer struct {
	listener net.Listener
	// info is the JSON of INFO.
	info string
	// tls is offered after INFO; nil: none.
	tls *tls.Config
	// hangUp ends each connection after the first PING.
	hangUp bool

	mu          sync.Mutex
	connections int
	connects    []string
	served      sync.WaitGroup
}

// startNATSServer starts one. Port is free to choose; it ends with the test.
func startNATSServer(t *testing.T, config *tls.Config, change func(*natsServer)) *natsServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &natsServer{listener: listener, tls: config}
	s.info = fmt.Sprintf(
		`{"server_id":"X","version":"2.12.1","headers":true,"auth_required":true,"max_payload":8388608,"jetstream":true,"nonce":"bm9uY2U","tls_required":%v}`,
		config != nil,
	)
	if change != nil {
		change(s)
	}
	s.served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.served.Go(func() { s.serve(conn) })
			t.Cleanup(func() { _ = conn.Close() })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
	})
	return s
}

func (s *natsServer) address() string { return s.listener.Addr().String() }

func (s *natsServer) serve(conn net.Conn) {
	defer conn.Close()
	s.mu.Lock()
	s.connections++
	s.mu.Unlock()
	if _, err := fmt.Fprintf(conn, "INFO %s\r\n", s.info); err != nil {
		return
	}
	if s.tls != nil {
		conn = tls.Server(conn, s.tls)
	}
	from := bufio.NewReader(conn)
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			return
		}
		switch {
		case strings.HasPrefix(line, "CONNECT "):
			s.mu.Lock()
			s.connects = append(s.connects, strings.TrimSpace(strings.TrimPrefix(line, "CONNECT ")))
			s.mu.Unlock()
		case strings.HasPrefix(line, "PING"):
			if _, err := fmt.Fprintf(conn, "PONG\r\nINFO %s\r\n", s.info); err != nil || s.hangUp {
				return
			}
		}
	}
}

// said is every CONNECT so far.
func (s *natsServer) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.connects...)
}

// reached is how many connections there were.
func (s *natsServer) reached() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}
