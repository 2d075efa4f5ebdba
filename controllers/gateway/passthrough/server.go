// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"context"
	"encoding/binary"
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
	options Options
	limits  Limits
	metrics *Metrics
	log     logr.Logger
	local   *localListener

	// hellos are connections whose ClientHello, and the target that it names, are not known.
	hellos *Strangers
	// unknown and known are connections to the server in this process, before and after it has authenticated the
	// client.
	unknown, known *pool
	// unproven and proven are connections that are passed to targets, before and after those have authenticated the
	// client.
	unproven, proven *pool

	// all are connections that are handled or joined.
	all sync.WaitGroup

	mu      sync.Mutex
	targets map[string]map[*passed]struct{}
	// routing is the context of connections that are handled; nil before Serve, and when it ends.
	routing context.Context //nolint:containedctx // of Serve, for connections that come by Accept
}

// passed is a connection that is passed to a target.
type passed struct {
	client, target *net.TCPConn
	closed         bool
	evicted        bool
}

// New returns a Server; Serve runs it.
func New(options Options) (*Server, error) {
	if err := options.Limits.Validate(); err != nil {
		return nil, err
	}
	limits := options.Limits.withDefaults()
	return &Server{
		options:  options,
		limits:   limits,
		metrics:  options.Metrics,
		log:      options.Log,
		local:    newLocalListener(limits.Handshakes),
		hellos:   NewStrangers(limits.Handshakes, limits.HandshakesPerSource),
		unknown:  newPool(limits.Handshakes),
		known:    newPool(limits.LocalConnections),
		unproven: newPool(max(1, limits.Connections/2)),
		proven:   newPool(limits.Connections),
		targets:  map[string]map[*passed]struct{}{},
	}, nil
}

// Local is where connections for Options.LocalName come out, with nothing of them read. It must be served.
func (s *Server) Local() net.Listener {
	return s.local
}

// Serve accepts connections until the context ends. It then closes the listener, gives passed connections the drain
// timeout and closes what is left. It returns nil after that, or the error that ended the listener early.
func (s *Server) Serve(ctx context.Context, listener *net.TCPListener) error {
	s.local.setAddress(listener.Addr())
	routing, stopRouting := context.WithCancel(ctx)
	defer stopRouting()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	s.mu.Lock()
	s.routing = routing
	s.mu.Unlock()
	err := s.accept(ctx, listener)
	s.mu.Lock()
	s.routing = nil
	s.mu.Unlock()
	stopRouting()
	_ = s.local.Close()
	s.drain()
	return err
}

// Accept takes a connection as one that the listener has accepted, with its limits for strangers. Outside of Serve it
// closes the connection and reports false.
func (s *Server) Accept(conn *net.TCPConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.routing == nil {
		_ = conn.Close()
		return false
	}
	ctx := s.routing
	s.all.Go(func() { s.handle(ctx, conn) })
	return true
}

func (s *Server) accept(ctx context.Context, listener *net.TCPListener) error {
	for {
		conn, err := listener.AcceptTCP()
		switch {
		case err == nil:
			s.Accept(conn) //nolint:contextcheck // it has s.routing
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
func (s *Server) drain() {
	ended := make(chan struct{})
	go func() {
		s.all.Wait()
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
	result := s.route(ctx, conn)
	switch result {
	case resultLocal, resultData: // who has it closes it
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
func (s *Server) route(ctx context.Context, conn *net.TCPConn) (result string) {
	wanted, result := s.await(ctx, conn)
	switch {
	case result != "":
		return result
	case wanted.serverName == s.options.LocalName:
		return s.serveLocal(conn, wanted.hello)
	case s.isData(wanted.serverName):
		if len(wanted.hello) != recordLength(wanted.hello) || !s.options.Data.Take(wanted.serverName, conn) {
			return resultUnknownName
		}
		return resultData
	default:
		return s.pass(ctx, conn, wanted)
	}
}

// wanted is what a client asks for.
type wanted struct {
	serverName string
	// hello is what was read of the connection.
	hello []byte
	// target is unset for the local server.
	target Target
}

// await returns what the client asks for, or what went wrong.
func (s *Server) await(ctx context.Context, conn *net.TCPConn) (w wanted, result string) {
	open := s.metrics.open.WithLabelValues("handshake")
	open.Inc()
	defer open.Dec()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	known := s.hellos.Add(conn, cancel)
	result = s.read(ctx, conn, &w)
	if result == "" && w.serverName != s.options.LocalName && !s.isData(w.serverName) {
		result = s.find(ctx, &w)
	}
	if !known() {
		return w, resultEvicted
	}
	return w, result
}

func (s *Server) isData(serverName string) bool {
	return s.options.Data != nil && s.options.Data.Mine(serverName)
}

// recordLength is that of the first TLS record in what was read. What follows the ClientHello of a data connection is
// not of the same stream, so that nothing may have been read of it.
func recordLength(read []byte) int {
	if len(read) < 5 {
		return -1
	}
	return 5 + int(binary.BigEndian.Uint16(read[3:5]))
}

func (s *Server) bySource(conn net.Conn) group {
	return group{key: sourceOf(conn.RemoteAddr()), limit: s.limits.HandshakesPerSource}
}

// read reads the ClientHello.
func (s *Server) read(ctx context.Context, conn *net.TCPConn, w *wanted) (result string) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err := conn.SetReadDeadline(time.Now().Add(s.limits.HelloTimeout))
	if err == nil {
		w.serverName, w.hello, err = readHello(conn, s.limits.HelloBytes)
	}
	var timeout net.Error
	switch {
	case err == nil:
	case errors.Is(err, errHelloTooLarge):
		return resultHelloTooLarge
	case errors.As(err, &timeout) && timeout.Timeout():
		return resultHelloTimeout
	default:
		return resultNotTLS
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return resultNotTLS
	}
	return ""
}

// find looks the target up.
func (s *Server) find(ctx context.Context, w *wanted) (result string) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.HelloTimeout)
	defer cancel()
	var ok bool
	if w.serverName != "" {
		w.target, ok = s.options.Lookup(ctx, w.serverName)
	}
	if !ok {
		return resultUnknownName
	}
	return ""
}

// keepAlive finds out within two minutes that the other side's machine is gone.
func keepAlive(conn *net.TCPConn) {
	_ = conn.SetKeepAliveConfig(
		net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 15 * time.Second, Count: 6},
	)
}
