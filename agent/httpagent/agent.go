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
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/certificates"
	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/httpproxy"
	"github.com/lighterage/lighterage/agent/meter"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Options of an Agent.
type Options struct {
	// Read returns the configuration as it is now.
	Read func() (*wirev1.HTTPConfig, error)
	// Engines to compress with.
	Engines Engines
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
	started time.Time

	server       atomic.Pointer[httpproxy.Server] // nil while it is starting
	certificates atomic.Pointer[certificates.Serving]

	mu          sync.Mutex
	config      *wirev1.HTTPConfig // that new connections get
	configError string
	reset       string
	cpuBase     time.Duration // of the process at the last reset
	idle        meter.Idleness
}

// New returns an agent that does not run yet.
func New(o Options) *Agent {
	if o.Interval == 0 {
		o.Interval = 2 * time.Second
	}
	if o.Delay == 0 {
		o.Delay = 5 * time.Second
	}
	return &Agent{options: o, started: time.Now()}
}

// defaultDrain is how long requests may take after the end if nothing else is said.
const defaultDrain = 30 * time.Second

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
	a.mu.Lock()
	a.config, a.reset = c, c.GetResetStatistics()
	a.mu.Unlock()

	watching, stop := context.WithCancel(ctx)
	defer stop()
	go collectLazily(watching)
	var serving *certificates.Serving
	if c.GetServingDirectory() != "" {
		serving = certificates.Read(c.GetServingDirectory())
		a.certificates.Store(serving)
		go serving.Run(watching, a.options.Interval, a.options.Log)
		if !serving.Await(ctx, a.options.Interval/4, a.options.Log) {
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
	a.server.Store(server)
	a.options.Log.Info("Clients are served", "address", listener.Addr().String(), "backend", c.GetBackend().GetAddress())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	go a.follow(watching, server)
	select {
	case err := <-ended:
		return fmt.Errorf("serve clients: %w", err)
	case <-ctx.Done():
	}
	stop()
	return a.drain(server) //nolint:contextcheck // The context has ended; what is under way gets time of its own.
}

// drain ends the server. What had to be cut is a matter of the log, not a failure.
func (a *Agent) drain(server *httpproxy.Server) error {
	a.mu.Lock()
	patience := a.config.GetDrainTimeout().AsDuration()
	a.mu.Unlock()
	if patience == 0 {
		patience = defaultDrain
	}
	delay := max(min(a.options.Delay, patience/2), 0)
	a.options.Log.Info("Agent drains", "delay", delay.String(), "timeout", patience.String())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := server.Drain(ctx, delay); errors.Is(err, context.DeadlineExceeded) {
		a.options.Log.Warn("Requests that took too long were cut", "timeout", patience.String())
	} else if err != nil {
		return fmt.Errorf("end serving clients: %w", err)
	}
	return nil
}

// follow takes over configurations that have changed until the context ends.
func (a *Agent) follow(ctx context.Context, server *httpproxy.Server) {
	ticker := time.NewTicker(a.options.Interval)
	defer ticker.Stop()
	var refused *wirev1.HTTPConfig
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		a.idle.Look(server.Passed())
		c, err := a.options.Read()
		a.mu.Lock()
		same := err == nil && (proto.Equal(c, a.config) || refused != nil && proto.Equal(c, refused))
		if same && refused != nil && proto.Equal(c, a.config) {
			a.configError, refused = "", nil // it was taken back
		}
		a.mu.Unlock()
		if same {
			continue
		}
		if err == nil {
			err = a.reload(ctx, server, c)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			refused = c
			a.note(err)
			continue
		}
		refused = nil
	}
}

// note keeps why a configuration cannot be used, and logs it once.
func (a *Agent) note(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if text := err.Error(); text != a.configError {
		a.configError = text
		a.options.Log.Error("New configuration cannot be used; the one before stays", "error", text)
	}
}

// reload makes a configuration that of new connections.
func (a *Agent) reload(ctx context.Context, server *httpproxy.Server, c *wirev1.HTTPConfig) error {
	a.mu.Lock()
	before := a.config
	a.mu.Unlock()
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
		a.adopt(server, c)
		return nil
	}
	s, err := settings(ctx, c, a.options.Engines)
	if err != nil {
		return err
	}
	if err := server.Reload(s); err != nil { //nolint:contextcheck // Settings last longer than what sets them.
		return err
	}
	a.adopt(server, c)
	a.options.Log.Info("Configuration was taken over", "revision", c.GetRevision())
	return nil
}

// sameSettings reports whether nothing changed that connections depend on, or that has to be
// the same for as long as they are.
func sameSettings(before, after *wirev1.HTTPConfig) bool {
	c := proto.CloneOf(before)
	c.Revision, c.ResetStatistics, c.DrainTimeout = after.GetRevision(), after.GetResetStatistics(),
		after.GetDrainTimeout()
	c.DialPolicy = after.GetDialPolicy()
	return proto.Equal(c, after)
}

// adopt notes a configuration that is in force, and resets the counters if it says so.
func (a *Agent) adopt(server *httpproxy.Server, c *wirev1.HTTPConfig) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.config, a.configError = c, ""
	if reset := c.GetResetStatistics(); reset != a.reset {
		a.reset = reset
		server.ResetStatistics(time.Now())
		if user, system, err := meter.ProcessCPU(); err == nil {
			a.cpuBase = user + system
			a.idle.Reset()
		}
	}
}
