// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package externaltest has servers of NATS that are not a queue's own, for tests.
package externaltest

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lighterage/lighterage/agent/transport/transporttest"
)

// patience bounds waiting for a server.
const patience = time.Minute

// Server is one. It ends with the test.
type Server struct {
	*server.Server
	// CABundle is who vouches for a server with TLS, as PEM; nil without.
	CABundle []byte

	t       *testing.T
	options *server.Options
}

// StartTLS is Start with TLS.
func StartTLS(t *testing.T, change func(*server.Options)) *Server {
	t.Helper()
	var bundle []byte
	s := Start(t, func(o *server.Options) {
		certificate, _ := transporttest.SelfSigned(t, o.Host)
		bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
		o.TLS, o.TLSTimeout = true, patience.Seconds()
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
		if change != nil {
			change(o)
		}
	})
	s.CABundle = bundle
	return s
}

// Start returns a server with JetStream, of which everything may be changed.
func Start(t *testing.T, change func(*server.Options)) *Server {
	t.Helper()
	host, port := address(t)
	s := &Server{t: t, options: &server.Options{
		ServerName: "external", Host: host, Port: port, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		DisableJetStreamBanner: true,
	}}
	if change != nil {
		change(s.options)
	}
	s.start()
	t.Cleanup(s.Stop)
	return s
}

// Cluster returns several that are one cluster, when it has a leader.
func Cluster(t *testing.T, n int) []*Server {
	t.Helper()
	var routes []*url.URL
	var listens []server.ClusterOpts
	for range n {
		host, port := address(t)
		routes = append(routes, &url.URL{Scheme: "nats-route", Host: net.JoinHostPort(host, strconv.Itoa(port))})
		listens = append(listens, server.ClusterOpts{Name: "external", Host: host, Port: port})
	}
	var all []*Server
	for i, listen := range listens {
		all = append(all, Start(t, func(o *server.Options) {
			o.ServerName, o.Cluster, o.Routes = fmt.Sprintf("external-%d", i), listen, routes
		}))
	}
	deadline := time.Now().Add(patience)
	for {
		for _, s := range all {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == n {
				return all
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the cluster has no leader")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// address is a free one. Connections begin at 127.0.0.1, so that none takes the port before a server does.
func address(t *testing.T) (host string, port int) {
	t.Helper()
	host = fmt.Sprintf(
		"127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250),
	) //nolint:gosec // It is no secret.
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return host, listener.Addr().(*net.TCPAddr).Port
}

func (s *Server) start() {
	s.t.Helper()
	var err error
	if s.Server, err = server.NewServer(s.options); err != nil {
		s.t.Fatal(err)
	}
	s.Server.Start()
	if !s.ReadyForConnections(patience) {
		s.t.Fatal("the server does not start")
	}
}

// Stop ends the server. It may be repeated.
func (s *Server) Stop() {
	s.Shutdown()
	s.WaitForShutdown()
}

// Restart starts it again, with the same address and volume, after a change of its options.
func (s *Server) Restart(change func(*server.Options)) {
	s.t.Helper()
	s.Stop()
	if change != nil {
		change(s.options)
	}
	s.start()
}

// URL is where it listens.
func (s *Server) URL() string {
	if s.CABundle != nil {
		return "tls://" + s.Address()
	}
	return "nats://" + s.Address()
}

// Address is its host and port.
func (s *Server) Address() string {
	return net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
}
