// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
	"github.com/lighterage/lighterage/controllers/pki"
)

// serveGateway serves, until ctx ends, the gateway's listener with a door that admits the one Transfer of the
// benchmark. It returns its address.
func serveGateway(ctx context.Context, ca *pki.CA, target string) (string, error) {
	metrics, err := passthrough.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return "", fmt.Errorf("make the gateway's metrics: %w", err)
	}
	server, err := passthrough.New(passthrough.Options{
		LocalName: pki.GatewayServerName, Metrics: metrics, Log: logr.Discard(),
		Lookup: func(_ context.Context, name string) (passthrough.Target, bool) {
			return passthrough.Target{Address: target, Key: name}, name == serverName
		},
	})
	if err != nil {
		return "", fmt.Errorf("make the gateway: %w", err)
	}
	pair, err := ca.Issue(pki.Template{
		Identity: pki.Identity{Cluster: "bench", Path: pki.GatewayPath}, DNSNames: []string{pki.GatewayServerName},
		Lifetime: time.Hour,
	}, time.Now())
	if err != nil {
		return "", fmt.Errorf("issue the gateway's certificate: %w", err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		return "", err
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return "", fmt.Errorf("listen as the gateway: %w", err)
	}
	door := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert,
	})))
	wirev1.RegisterGatewayServer(door, admitAll{})
	go func() { _ = door.Serve(server.Local()) }()
	go func() { _ = server.Serve(ctx, listener) }()
	context.AfterFunc(ctx, door.Stop)
	return listener.Addr().String(), nil
}

// admitAll answers every Open as ready: in the benchmark nobody else can reach it.
type admitAll struct {
	wirev1.UnimplementedGatewayServer
}

func (admitAll) Open(_ *wirev1.OpenRequest, stream grpc.ServerStreamingServer[wirev1.OpenResponse]) error {
	return stream.Send(
		&wirev1.OpenResponse{State: &wirev1.OpenResponse_Ready{Ready: &wirev1.OpenReady{ServerName: serverName}}},
	)
}
