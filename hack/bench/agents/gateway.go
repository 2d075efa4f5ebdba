// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agents has what agents need beside their configuration: certificates, and the listener of the gateway, with a
// server of the benchmark behind it, so that connections take the way that they take between clusters.
package agents

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
	"github.com/lighterage/lighterage/controllers/pki"
)

// Gateway is what one of these has.
type Gateway struct {
	// Listen is an address with a port, which may be 0.
	Listen      string
	Certificate tls.Certificate
	// Name is the server name of connections that are passed on to the address Target.
	Name, Target string
	// Server answers calls of peers. Nobody but the benchmark can reach it, so that it may admit everybody.
	Server wirev1.GatewayServer
}

// Serve serves until ctx ends. It returns the address that it listens at.
func (g Gateway) Serve(ctx context.Context) (string, error) {
	metrics, err := passthrough.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return "", fmt.Errorf("make the gateway's metrics: %w", err)
	}
	server, err := passthrough.New(passthrough.Options{
		LocalName: pki.GatewayServerName, Metrics: metrics, Log: logr.Discard(),
		Lookup: func(_ context.Context, name string) (passthrough.Target, bool) {
			return passthrough.Target{Address: g.Target, Key: name}, name == g.Name
		},
	})
	if err != nil {
		return "", fmt.Errorf("make the gateway: %w", err)
	}
	address, err := net.ResolveTCPAddr("tcp", g.Listen)
	if err != nil {
		return "", fmt.Errorf("listen as the gateway: %w", err)
	}
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		return "", fmt.Errorf("listen as the gateway: %w", err)
	}
	calls := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{g.Certificate}, ClientAuth: tls.RequireAnyClientCert,
	})))
	wirev1.RegisterGatewayServer(calls, g.Server)
	go func() { _ = calls.Serve(server.Local()) }()
	go func() { _ = server.Serve(ctx, listener) }()
	context.AfterFunc(ctx, calls.Stop)
	return listener.Addr().String(), nil
}
