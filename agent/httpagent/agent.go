// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpagent runs the reverse proxy as the manager configures it, follows
// changes, and reports.
package httpagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/certificates"
	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/httpproxy"
	"github.com/lighterage/lighterage/agent/serve"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Options of an Agent.
type Options struct {
	// Read returns the configuration as it is now.
	Read func() (*wirev1.HTTPConfig, error)
	// Engines to compress with.
	Engines serve.Engines
	Log     *slog.Logger
	// Interval at which configuration and certificate are looked at. Default 2 s.
	Interval time.Duration
	// Delay for which an agent that has to end still takes connections, so that those
	// who send them here learn not to. Default 5 s; negative: none.
	Delay time.Duration
}

// Agent is one. It is a wirev1.HTTPAgentServer, whose reports are there from the start.
type Agent struct {
	wirev1.UnimplementedHTTPAgentServer
	options Options
	frame   *serve.Frame[*wirev1.HTTPConfig]
	server  atomic.Pointer[httpproxy.Server] // nil while it is starting
}

// New returns an agent that does not run yet.
func New(o Options) *Agent {
	if o.Delay == 0 {
		o.Delay = 5 * time.Second
	}
	return &Agent{options: o, frame: serve.New(serve.Options[*wirev1.HTTPConfig]{
		Read: o.Read, Interval: o.Interval, Log: o.Log,
	})}
}

// Run serves until the context ends, and then until what is under way is done. The
// first configuration has to be good. Clients are served as soon as there is a
// certificate, if one is wanted.
func (a *Agent) Run(ctx context.Context) error {
	c, err := a.options.Read()
	if err != nil {
		return err
	}
	s, err := settings(ctx, c, a.options.Engines)
	if err != nil {
		return err
	}
	a.frame.Begin(c)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go collectLazily(watching)
	var serving *certificates.Serving
	if c.GetServingDirectory() != "" {
		if serving = a.frame.Certificate(watching, c.GetServingDirectory()); serving == nil {
			return nil // told to end before it began
		}
	}
	//nolint:contextcheck // Settings last longer than what sets them.
	server, err := httpproxy.New(
		httpproxy.Options{Settings: s, Certificates: serving, Log: a.options.Log},
	)
	if err != nil {
		return err
	}
	defer server.Close()
	listener, err := net.Listen("tcp", c.GetListenAddress())
	if err != nil {
		return fmt.Errorf("listen for clients: %w", err)
	}
	a.frame.Follow(watching, serve.Service[*wirev1.HTTPConfig]{
		Passed: server.Passed, ResetStatistics: server.ResetStatistics,
		Reload: func(ctx context.Context, before, c *wirev1.HTTPConfig) error { return a.reload(ctx, server, before, c) },
	})
	a.server.Store(server)
	a.options.Log.Info("Clients are served", "address", listener.Addr().String(), "backend", c.GetBackend().GetAddress())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve clients: %w", err)
	case <-ctx.Done():
	}
	stop()
	//nolint:contextcheck // The context has ended; what is under way gets time of its own.
	return a.frame.Drain(func(ctx context.Context, patience time.Duration) error {
		return server.Drain(ctx, max(min(a.options.Delay, patience/2), 0))
	})
}

// reload makes a configuration that of new connections.
func (a *Agent) reload(ctx context.Context, server *httpproxy.Server, before, c *wirev1.HTTPConfig) error {
	if c.GetListenAddress() != before.GetListenAddress() ||
		(c.GetServingDirectory() == "") != (before.GetServingDirectory() == "") {
		return errors.New("listen_address, and whether there is TLS, cannot be changed while the agent runs: start it again")
	}
	if sameSettings(before, c) {
		permitted, err := egress.Parse(c.GetDialPolicy())
		if err != nil {
			return err
		}
		server.SetEgress(permitted)
		return nil
	}
	s, err := settings(ctx, c, a.options.Engines)
	if err != nil {
		return err
	}
	if err := server.Reload(s); err != nil { //nolint:contextcheck // Settings last longer than what sets them.
		return err
	}
	a.options.Log.Info("Configuration was taken over", "revision", c.GetRevision())
	return nil
}

// sameSettings reports whether nothing changed that connections depend on, or that has to be
// the same for as long as they are.
func sameSettings(before, after *wirev1.HTTPConfig) bool {
	c := proto.CloneOf(before)
	c.Revision, c.ResetStatistics, c.DrainTimeout = after.GetRevision(), after.GetResetStatistics(),
		after.GetDrainTimeout()
	c.DialPolicy, c.Generation = after.GetDialPolicy(), after.GetGeneration()
	return proto.Equal(c, after)
}
