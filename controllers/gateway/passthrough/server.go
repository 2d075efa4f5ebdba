// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// acceptPause is the wait after a failed accept, for instance when there are no file descriptors left.
const acceptPause = 100 * time.Millisecond

// Server is made by New.
type Server struct {
	options    Options
	limits     Limits
	metrics    *Metrics
	log        logr.Logger
	handshakes *handshakes
	local      *localListener

	mu          sync.Mutex
	connections int
	locals      int
	targets     map[string]map[*passed]struct{}
}

// passed is a connection that is passed to a target.
type passed struct {
	client, target *net.TCPConn
	closed         bool
}

// New returns a Server; Serve runs it.
func New(options Options) (*Server, error) {
	if err := options.Limits.Validate(); err != nil {
		return nil, err
	}
	limits := options.Limits.withDefaults()
	return &Server{
		options:    options,
		limits:     limits,
		metrics:    options.Metrics,
		log:        options.Log,
		handshakes: newHandshakes(limits.Handshakes, limits.HandshakesPerSource),
		local:      newLocalListener(),
		targets:    map[string]map[*passed]struct{}{},
	}, nil
}

// Local is where connections for Options.LocalName come out, with nothing of them read. It must be served.
func (s *Server) Local() net.Listener {
	return s.local
}

// Serve accepts connections until the context ends. It then closes the listener, gives passed connections the drain timeout and
// closes what is left. It returns nil after that, or the error that ended the listener early.
func (s *Server) Serve(ctx context.Context, listener *net.TCPListener) error {
	s.local.setAddress(listener.Addr())
	routing, stopRouting := context.WithCancel(ctx)
	defer stopRouting()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var all sync.WaitGroup
	err := s.accept(ctx, routing, listener, &all)
	stopRouting()
	_ = s.local.Close()
	s.drain(&all)
	return err
}

func (s *Server) accept(ctx, routing context.Context, listener *net.TCPListener, all *sync.WaitGroup) error {
	for {
		conn, err := listener.AcceptTCP()
		switch {
		case err == nil:
			all.Go(func() { s.handle(routing, conn) })
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the listener was closed because the server stops
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accepting connections: %w", err)
		default:
			s.log.Error(err, "A connection could not be accepted")
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
		}
	}
}

// drain waits for passed connections, and closes those that do not end in time.
func (s *Server) drain(all *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return
	case <-time.After(s.limits.DrainTimeout):
	}
	s.mu.Lock()
	for _, sessions := range s.targets {
		for session := range sessions {
			session.close()
		}
	}
	s.mu.Unlock()
	<-ended
}

// CloseTarget closes every connection that is passed to the target with this key.
func (s *Server) CloseTarget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for session := range s.targets[key] {
		session.close()
	}
}

// Keys returns those of the targets that connections are passed to now.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.targets))
}

// handle owns the connection until it is closed or handed to the local listener.
func (s *Server) handle(ctx context.Context, conn *net.TCPConn) {
	keepAlive(conn)
	serverName, hello, result := s.awaitHello(ctx, conn)
	if result == "" {
		result = s.route(ctx, conn, serverName, hello)
	}
	switch result {
	case resultLocal: // the local server closes it
		s.metrics.count(result)
		return
	case resultPassed: // counted when it began
	default:
		s.metrics.count(result)
		s.log.V(1).Info("Connection closed", "source", conn.RemoteAddr().String(), "result", result)
	}
	_ = conn.Close()
}

// route returns when the connection may be closed or the local server has it.
func (s *Server) route(ctx context.Context, conn *net.TCPConn, serverName string, hello []byte) (result string) {
	if !s.enter() {
		return resultTooMany
	}
	if serverName != s.options.LocalName {
		defer s.leave()
		return s.pass(ctx, conn, serverName, hello)
	}
	if result = s.serveLocal(conn, hello); result != resultLocal {
		s.leave()
	}
	return result
}

// awaitHello returns the server name and what was read, or what went wrong.
func (s *Server) awaitHello(ctx context.Context, conn *net.TCPConn) (serverName string, hello []byte, result string) {
	open := s.metrics.open.WithLabelValues("handshake")
	open.Inc()
	defer open.Dec()
	entry := s.handshakes.add(conn)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err := conn.SetReadDeadline(time.Now().Add(s.limits.HelloTimeout))
	if err == nil {
		serverName, hello, err = readHello(conn, s.limits.HelloBytes)
	}
	if !s.handshakes.done(entry) {
		return "", nil, resultEvicted
	}
	var timeout net.Error
	switch {
	case err == nil:
	case errors.Is(err, errHelloTooLarge):
		return "", nil, resultHelloTooLarge
	case errors.As(err, &timeout) && timeout.Timeout():
		return "", nil, resultHelloTimeout
	default:
		return "", nil, resultNotTLS
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return "", nil, resultNotTLS
	}
	return serverName, hello, ""
}

// enter counts a connection in, if there is room.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.connections >= s.limits.Connections {
		return false
	}
	s.connections++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections--
}

// keepAlive finds out within two minutes that the other side's machine is gone.
func keepAlive(conn *net.TCPConn) {
	_ = conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 15 * time.Second, Count: 6})
}
