// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// gateway is a gateway that knows one receiving agent: it answers Open itself and passes on what names that agent.
type gateway struct {
	wirev1.UnimplementedGatewayServer
	serverName string
	backend    string
	own        chan net.Conn
	listener   net.Listener
}

// startGateway serves with the certificates of a configuration directory.
func startGateway(t *testing.T, directory, serverName, backend string) string {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(filepath.Join(directory, transport.PeerCA))
	if err != nil {
		t.Fatal(err)
	}
	peers := x509.NewCertPool()
	peers.AppendCertsFromPEM(pem)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{serverName: serverName, backend: backend, own: make(chan net.Conn), listener: listener}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: peers,
	})))
	wirev1.RegisterGatewayServer(server, g)
	go server.Serve(g)
	t.Cleanup(server.Stop)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				close(g.own)
				return
			}
			go g.route(conn)
		}
	}()
	return listener.Addr().String()
}

func (g *gateway) Open(request *wirev1.OpenRequest, s wirev1.Gateway_OpenServer) error {
	if !request.GetPrivileged() || !request.GetMirror() {
		return s.Send(
			&wirev1.OpenResponse{
				State: &wirev1.OpenResponse_Refused{Refused: &wirev1.Failure{Message: "the request lost what was asked for"}},
			},
		)
	}
	return errors.Join(
		s.Send(&wirev1.OpenResponse{State: &wirev1.OpenResponse_Pending{Pending: &wirev1.OpenPending{Message: "starting"}}}),
		s.Send(&wirev1.OpenResponse{State: &wirev1.OpenResponse_Ready{Ready: &wirev1.OpenReady{ServerName: g.serverName}}}),
	)
}

func (g *gateway) route(conn net.Conn) {
	var hello bytes.Buffer
	var name string
	stop := errors.New("seen enough")
	tls.Server(listening{conn, io.TeeReader(conn, &hello)}, &tls.Config{
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name = h.ServerName
			return nil, stop
		},
	}).Handshake()
	replayed := listening{conn, io.MultiReader(&hello, conn)}
	if name != g.serverName {
		g.own <- speaking{replayed, conn}
		return
	}
	out, err := net.Dial("tcp", g.backend)
	if err != nil {
		conn.Close()
		return
	}
	go func() {
		io.Copy(out, replayed)
		out.Close()
	}()
	io.Copy(conn, out)
	conn.Close()
}

// listening reads from elsewhere and writes nothing; speaking writes, too.
type listening struct {
	net.Conn
	from io.Reader
}

func (c listening) Read(p []byte) (int, error)  { return c.from.Read(p) }
func (c listening) Write(p []byte) (int, error) { return len(p), nil }

type speaking struct {
	listening
	to net.Conn
}

func (c speaking) Write(p []byte) (int, error) { return c.to.Write(p) }

// The gateway is the listener of its own server.
func (g *gateway) Accept() (net.Conn, error) {
	conn, ok := <-g.own
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (g *gateway) Close() error   { return g.listener.Close() }
func (g *gateway) Addr() net.Addr { return g.listener.Addr() }
