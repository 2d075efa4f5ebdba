// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/certificates"
	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/regret"
	"github.com/lighterage/lighterage/agent/transport"
)

// Options of a Server.
type Options struct {
	Settings Settings
	// Certificates for clients; nil: plain HTTP/1.1.
	Certificates *certificates.Serving
	Log          *slog.Logger
}

// Server is a reverse proxy. It is safe for concurrent use.
type Server struct {
	certificates *certificates.Serving
	log          *slog.Logger
	failures     *failureLog
	stats        statistics
	wire         transport.Counter
	buffers      buffers
	classes      *adapt.Classes
	// sampler measures what choices lose, until unsample is called.
	sampler  *regret.Sampler
	unsample context.CancelFunc
	accepted atomic.Uint64
	draining atomic.Bool
	egress   *egress.Guard
	// abort is closed when connections that switched protocols have to end.
	abort     chan struct{}
	abortOnce sync.Once
	upgrades  upgrades
	// collecting is nil unless a sample is being taken.
	collecting atomic.Pointer[collector]

	mu        sync.Mutex
	current   *generation
	live      map[*generation]struct{} // those that still serve connections, current included
	listeners map[net.Listener]struct{}
	closed    bool
}

// sampledOn is a variable for tests.
var sampledOn regret.Machine

// New returns a server that listens nowhere yet. Close ends it.
func New(o Options) (*Server, error) {
	s := &Server{
		certificates: o.Certificates, log: o.Log, failures: newFailureLog(), abort: make(chan struct{}),
		egress: egress.NewGuard(o.Settings.Egress), live: make(map[*generation]struct{}),
		listeners: make(map[net.Listener]struct{}), classes: newClasses(),
	}
	s.stats.reset(time.Now())
	s.sampler = regret.New(sampledOn, s.overCPU)
	if err := s.Reload(o.Settings); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.unsample = cancel
	go s.sampler.Run(ctx)
	return s, nil
}

// Reload replaces the settings for new connections. Those that are open keep theirs,
// as long as they are. An error leaves everything as it was.
func (s *Server) Reload(settings Settings) error {
	g, err := newGeneration(s, settings)
	if err != nil {
		return fmt.Errorf("use new settings: %w", err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		g.close()
		return net.ErrClosed
	}
	old := s.current
	s.current = g
	s.live[g] = struct{}{}
	s.mu.Unlock()
	s.classes.Set(
		policy.Serving{Objective: settings.Policy.Objective, Prices: settings.Policy.Prices}, old == nil || !old.likewise(g),
	)
	s.sampler.Set(regret.Serving(settings.Policy, settings.Engines, g.codecs(), s.classes.Inflate))
	s.egress.Set(settings.Egress)
	g.serve()
	if old != nil {
		old.retire()
	}
	return nil
}

// SetEgress replaces Settings.Egress alone.
func (s *Server) SetEgress(p egress.Policy) { s.egress.Set(p) }

// overCPU reports whether compression is held back because the process uses its share of the processors.
func (s *Server) overCPU() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != nil && s.current.governor.overCPU.Load()
}

// forget drops a generation that has no connections any more.
func (s *Server) forget(g *generation) {
	s.mu.Lock()
	delete(s.live, g)
	s.mu.Unlock()
}

// Serve accepts connections until the listener is closed, by Drain or Close among
// others, which is no error.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		l.Close()
		return net.ErrClosed
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	var pause time.Duration
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			// Too many open files, mostly: it passes when connections are closed.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Error("Accepting a connection failed", "error", err.Error(), "pause", pause.String())
			time.Sleep(pause)
			continue
		}
		pause = 0
		s.accept(c)
	}
}

// accept hands a connection to the settings that are in force.
func (s *Server) accept(inner net.Conn) {
	for {
		s.mu.Lock()
		g := s.current
		s.mu.Unlock()
		if g.use() != nil {
			continue // replaced in between
		}
		limits := g.settings.Limits
		if active := s.stats.opened(); limits.MaxConnections > 0 && active > int64(limits.MaxConnections) {
			s.stats.refused.Add(1)
			s.stats.closed()
			inner.Close()
			g.turnAway()
			return
		}
		c := &conn{
			Conn: s.wire.Count(inner), server: s, generation: g, stall: limits.StallTimeout,
			from: newPeer(inner.RemoteAddr(), g.settings.TrustedProxies),
		}
		if g.settings.Policy.Mode == policy.Auto && !c.from.trusted {
			c.link = s.newLink(c.Conn)
		}
		g.hand(c)
		return
	}
}

// Drain ends the server without dropping anything that is under way. From now on every
// response asks its client to close the connection; new connections are still taken for
// the delay, in which whoever sends them here can learn not to. Then what is unused is
// closed and requests have until the context ends; connections that switched protocols
// are closed then too. It returns the context's error if it had to cut something.
func (s *Server) Drain(ctx context.Context, delay time.Duration) error {
	s.draining.Store(true)
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
	live := make([]*generation, 0, len(s.live))
	for g := range s.live {
		live = append(live, g)
	}
	s.mu.Unlock()

	ended := make(chan error, len(live)+1)
	for _, g := range live {
		go func() { ended <- g.http.Shutdown(ctx) }()
	}
	go func() {
		done := s.upgrades.ended()
		select {
		case <-done:
			ended <- nil
		case <-ctx.Done():
			s.cutUpgrades()
			<-done
			ended <- ctx.Err()
		}
	}()
	var errs []error
	for range len(live) + 1 {
		errs = append(errs, <-ended)
	}
	s.Close()
	return errors.Join(errs...)
}

func (s *Server) cutUpgrades() { s.abortOnce.Do(func() { close(s.abort) }) }

// Draining reports whether Drain was called.
func (s *Server) Draining() bool { return s.draining.Load() }

// Close ends the server and every connection at once.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
	live := make([]*generation, 0, len(s.live))
	for g := range s.live {
		live = append(live, g)
	}
	s.mu.Unlock()
	s.unsample()
	s.cutUpgrades()
	for _, g := range live {
		g.retire()
		_ = g.http.Close()
	}
	s.failures.close()
}

// Backend returns what the checks of the backend of new connections said.
func (s *Server) Backend() BackendHealth {
	s.mu.Lock()
	g := s.current
	s.mu.Unlock()
	return g.health.get()
}

// WireBytes returns how many bytes were read and written so far, to and from clients
// and backends, TLS included.
func (s *Server) WireBytes() int64 { return s.wire.Bytes() }
