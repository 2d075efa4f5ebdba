// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/sampling"
	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// servingAgent is an agent that serves clients until the context ends.
type servingAgent interface {
	sampling.Source
	HealthHandler() http.Handler
	Run(context.Context) error
}

// servingConfig is what the configuration of such an agent says of its other addresses.
type servingConfig interface {
	GetControlAddress() string
	GetHealthAddress() string
}

// serveClients runs an agent. It answers the manager and health checks from the start.
func (a *agent) serveClients(
	ctx context.Context, c servingConfig, agent servingAgent, limits sampling.Limits, register func(grpc.ServiceRegistrar),
) error {
	if err := required("control_address", c.GetControlAddress(), "health_address", c.GetHealthAddress()); err != nil {
		return err
	}
	health, err := net.Listen("tcp", c.GetHealthAddress())
	if err != nil {
		return badConfig("listen for health checks: %w", err)
	}
	defer a.serveHealth(health, agent.HealthHandler())()
	server := transport.NewSampledServer(transport.NewFiles(a.configDir))
	register(server)
	wirev1.RegisterSamplerServer(server, sampling.NewServer(agent, limits))
	stop, err := a.serveManager(server, c.GetControlAddress())
	if err != nil {
		return err
	}
	defer stop()
	return agent.Run(ctx)
}

// serveManager runs a server that the manager dials until the function that it returns is called.
func (a *agent) serveManager(server server, address string) (stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, badConfig("listen for the manager: %w", err)
	}
	return a.serve(server, transport.Listen(listener, nil, maxControlConns)), nil
}

// serveHealth answers health checks until the function that it returns is called.
func (a *agent) serveHealth(listener net.Listener, handler http.Handler) (stop func()) {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := server.Serve(transport.Listen(listener, nil, maxControlConns)); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("Server has ended", "address", listener.Addr().String(), "error", err.Error())
		}
	}()
	return func() { _ = server.Close() }
}

// chosen is encoders for agents that serve.
func (a *agent) chosen(ctx context.Context, c compression.Settings) (*codec.Registry, policy.Accelerator) {
	e := a.encoders(ctx, c)
	return e.registry, e.accelerator
}
