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

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/httpagent"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/sampling"
	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func (a *agent) http(ctx context.Context) error {
	read := func() (*wirev1.HTTPConfig, error) {
		c := new(wirev1.HTTPConfig)
		return c, a.readConfig(c)
	}
	c, err := read()
	if err != nil {
		return err
	}
	if err := required(
		"listen_address", c.GetListenAddress(), "control_address", c.GetControlAddress(), "health_address",
		c.GetHealthAddress(),
	); err != nil {
		return err
	}
	proxy := httpagent.New(httpagent.Options{
		Read: read, Log: a.log,
		Engines: func(ctx context.Context, c compression.Settings) (*codec.Registry, policy.Accelerator) {
			e := a.encoders(ctx, c)
			return e.registry, e.accelerator
		},
	})
	health, err := net.Listen("tcp", c.GetHealthAddress())
	if err != nil {
		return badConfig("listen for health checks: %w", err)
	}
	defer a.serveHealth(health, proxy.HealthHandler())()
	listener, err := net.Listen("tcp", c.GetControlAddress())
	if err != nil {
		return badConfig("listen for the manager: %w", err)
	}
	server := transport.NewSampledServer(transport.NewFiles(a.configDir))
	wirev1.RegisterHTTPAgentServer(server, proxy)
	wirev1.RegisterSamplerServer(server, sampling.NewServer(proxy, httpagent.SampleLimits))
	defer a.serve(server, transport.Listen(listener, nil, maxControlConns))()
	return proxy.Run(ctx)
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
