// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/roles"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
)

// tokens of clients that are called as theirs.
func tokens(texts ...string) []roles.Token {
	var all []roles.Token
	for _, text := range texts {
		all = append(all, roles.Token{Name: text, Text: text})
	}
	return all
}

// TestRevoked: clients whose token or CA may not come in any more are sent away, those that show something else that
// may stay, and for want of what cannot be read now nobody goes.
func TestRevoked(t *testing.T) {
	own, ownPool := transporttest.SelfSigned(t)
	first, firstPool := transporttest.SelfSigned(t)
	s := settings(t, nil)
	s.Open, s.Tokens, s.ClientCAs = false, tokens("one", "two"), firstPool
	q := start(t, s, func(o *front.Options) {
		o.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &own, nil }
	})
	connect := func(token string, certificates ...tls.Certificate) (*nats.Conn, chan struct{}) {
		gone := make(chan struct{})
		options := []nats.Option{
			nats.Secure(&tls.Config{RootCAs: ownPool, Certificates: certificates, MinVersion: tls.VersionTLS13}),
			nats.NoReconnect(),
			nats.ClosedHandler(func(*nats.Conn) { close(gone) }),
		}
		if token != "" {
			options = append(options, nats.Token(token))
		}
		conn, _ := q.client(options...)
		return conn, gone
	}
	wait := func(what string, gone chan struct{}) {
		t.Helper()
		select {
		case <-gone:
		case <-time.After(patience):
			t.Fatalf("%s stays", what)
		}
	}
	stays := func(what string, conn *nats.Conn) {
		t.Helper()
		if err := conn.FlushTimeout(patience); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	one, oneGone := connect("one")
	two, twoGone := connect("two")
	certified, certifiedGone := connect("", first)
	both, bothGone := connect("two", first)
	reload := func(list []string, cas bool, unsure bool) {
		t.Helper()
		s.Tokens, s.Unsure, s.ClientCAs = tokens(list...), unsure, nil
		if cas {
			s.ClientCAs = firstPool
		}
		if err := q.front.Reload(s); err != nil {
			t.Fatal(err)
		}
	}
	reload([]string{"two"}, true, false)
	wait("a client with a token of before", oneGone)
	if one.LastError() == nil {
		t.Error("it is not told why")
	}
	stays("another token", two)
	stays("a certificate", certified)
	reload([]string{"two"}, false, false)
	wait("a client with a certificate of a CA of before", certifiedGone)
	stays("a token beside a certificate", both)
	reload(nil, false, true)
	stays("a token that cannot be read now", two)
	reload(nil, false, false)
	wait("a client with a token, and none is admitted", twoGone)
	wait("a client with a token and a certificate", bothGone)
}

// TestRevokedAtOnce: a client may be revoked at the moment when it authenticates. The race detector looks at it.
func TestRevokedAtOnce(t *testing.T) {
	t.Parallel()
	s := settings(t, nil)
	s.Open, s.Tokens = false, tokens("one")
	q := start(t, s, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			if conn, err := q.connect(nats.Token("one"), nats.NoReconnect()); err == nil {
				conn.Close()
			}
		}
	}()
	for odd := true; ; odd = !odd {
		if s.Tokens = nil; odd {
			s.Tokens = tokens("one")
		}
		if err := q.front.Reload(s); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}
