// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport_test

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
)

// TestMembers: who has the same identity by the same authority is a member, in both directions, and nobody else is.
func TestMembers(t *testing.T) {
	own, other := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west")
	const path = "/ns/bank/queue/orders"
	config := func(a *transporttest.Authority, path string) *tls.Config {
		return transport.NewFiles(a.Directory(t, a, path, "")).MembersConfig()
	}
	member := config(own, path)
	for name, test := range map[string]struct {
		peer *tls.Config
		ok   bool
	}{
		"member":            {config(own, path), true},
		"another queue":     {config(own, "/ns/bank/queue/other"), false},
		"another namespace": {config(own, "/ns/shop/queue/orders"), false},
		"another cluster":   {config(other, path), false},
		"no certificate":    {&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}, false},
	} {
		for _, asServer := range []bool{true, false} {
			if test.peer.GetCertificate == nil && asServer {
				continue
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			dialer, server := member, test.peer
			if !asServer {
				dialer, server = test.peer, member
			}
			verdict := make(chan error, 1)
			go func() {
				conn, err := listener.Accept()
				if err == nil {
					err = tls.Server(conn, server).Handshake()
					conn.Close()
				}
				verdict <- err
			}()
			conn, err := tls.Dial("tcp", listener.Addr().String(), dialer)
			served := <-verdict
			if err == nil {
				conn.Close()
			}
			listener.Close()
			if asServer && (err == nil) != test.ok || !asServer && (served == nil) != test.ok {
				t.Errorf("%s, as a server %v: %v, %v", name, asServer, err, served)
			}
		}
	}
}
