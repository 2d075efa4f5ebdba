// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/lighterage/lighterage/agent/certificates"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/httpproxy/backend"
	"github.com/lighterage/lighterage/agent/httpproxy/coding"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/agent/policy"
)

// generation is what was made of settings. Connections hold the one that was there
// when they were opened; when the last of an old one is closed, so is it.
type generation struct {
	server   *Server
	settings Settings
	http     *http.Server
	conns    handover
	offered  []negotiate.Coding
	types    *negotiate.Types
	backend  *backend.Backend
	hardware map[codec.ID]*encoders
	software map[codec.ID]*encoders
	governor governor
	health   *healthCheck
	stop     context.CancelFunc

	mu      sync.Mutex
	users   int // connections
	coming  int // of these have not been handed over yet
	retired bool
}

// newGeneration starts what settings need.
func newGeneration(server *Server, s Settings) (*generation, error) {
	s.Limits.setDefaults()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	patterns := s.ContentTypes
	if len(patterns) == 0 {
		patterns = negotiate.DefaultTypes()
	}
	types, err := negotiate.NewTypes(patterns)
	if err != nil {
		return nil, err
	}
	g := &generation{
		server: server, settings: s, types: types, conns: newHandover(),
		hardware: make(map[codec.ID]*encoders), software: make(map[codec.ID]*encoders),
	}
	if err := g.openEngines(); err != nil {
		g.closeEngines()
		return nil, err
	}
	g.offered = g.able()
	g.governor.maxConcurrent = int64(s.MaxConcurrent)
	var backendTLS *tls.Config
	if s.BackendServerName != "" {
		backendTLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.BackendServerName, RootCAs: s.BackendCAs}
	}
	g.backend = backend.New(backend.Options{
		Address: s.Backend, TLS: backendTLS, Counter: &server.wire, Egress: server.egress,
		DialTimeout: s.DialTimeout, HeaderTimeout: s.HeaderTimeout, BodyTimeout: s.BodyTimeout,
	})
	g.http = g.newHTTPServer()
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	if s.MaxCPUPercent > 0 && s.MaxCPUPercent < 100 {
		go g.governor.watchCPU(ctx, s.MaxCPUPercent)
	}
	g.health = newHealthCheck(s.Backend, backendTLS, s.Health, server.egress)
	g.health.tell = func(err error) {
		server.log.Warn("Backend fails its health check", "backend", s.Backend, "error", err.Error())
	}
	go g.health.run(ctx)
	return g, nil
}

// openEngines makes an encoder of each engine that the settings may need.
func (g *generation) openEngines() error {
	level := g.settings.Policy.Level
	for _, c := range g.settings.Codings {
		id := coding.Codec(c)
		for _, class := range []codec.Class{codec.Hardware, codec.Software} {
			into := g.hardware
			if class == codec.Software {
				into = g.software
			}
			engine, ok := g.settings.Engines.Best(id, class, level)
			if !ok || into[id] != nil || class == codec.Software && g.settings.Policy.SoftwareDisabled {
				continue
			}
			encoders, err := newEncoders(engine, level)
			if err != nil {
				return fmt.Errorf("make ready to compress with %s: %w", engine.Name(), err)
			}
			into[id] = encoders
		}
		if g.hardware[id] == nil && g.software[id] == nil && !g.settings.Policy.SoftwareDisabled {
			return fmt.Errorf("content coding %v: this build has no engine for it at level %v", c, level)
		}
	}
	return nil
}

func (g *generation) closeEngines() {
	for _, engines := range []map[codec.ID]*encoders{g.hardware, g.software} {
		for _, e := range engines {
			e.close()
		}
	}
}

// codecs are those of the codings of the settings, each once.
func (g *generation) codecs() []codec.ID {
	var ids []codec.ID
	for _, c := range g.settings.Codings {
		if id := coding.Codec(c); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// able are the codings of the settings that can be made: their engine is there, and the
// policy lets something be compressed with it.
func (g *generation) able() []negotiate.Coding {
	var able []negotiate.Coding
	for _, c := range g.settings.Codings {
		id := coding.Codec(c)
		if g.settings.Policy.Mode == policy.Never || g.hardware[id] == nil && (g.settings.Policy.SoftwareDisabled ||
			g.software[id] == nil) {
			continue
		}
		able = append(able, c)
	}
	return able
}

// likewise reports whether another generation compresses by the same engines at the same level.
func (g *generation) likewise(o *generation) bool {
	same := func(a, b map[codec.ID]*encoders) bool {
		return maps.EqualFunc(a, b, func(a, b *encoders) bool {
			return a.engine.Name() == b.engine.Name() && a.level == b.level
		})
	}
	return same(g.hardware, o.hardware) && same(g.software, o.software)
}

// encodersOf returns the encoders for a decision; nil if there are none.
func (g *generation) encodersOf(id codec.ID, class codec.Class) *encoders {
	switch class {
	case codec.Hardware:
		return g.hardware[id]
	case codec.Software:
		return g.software[id]
	default:
		return nil
	}
}

var errRetired = errors.New("the settings were replaced")

// use notes a connection, unless it is too late for that. It is handed over or turned away next.
func (g *generation) use() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.retired {
		return errRetired
	}
	g.users++
	g.coming++
	return nil
}

// leave notes that a connection is closed.
func (g *generation) leave() {
	g.mu.Lock()
	g.users--
	last := g.retired && g.users == 0
	g.mu.Unlock()
	if last {
		g.close()
	}
}

// newHTTPServer returns what speaks HTTP on the connections of this generation.
func (g *generation) newHTTPServer() *http.Server {
	limits := g.settings.Limits
	server := &http.Server{
		Handler:                      g,
		DisableGeneralOptionsHandler: true, // the backend answers OPTIONS *
		ReadHeaderTimeout:            limits.HeaderTimeout,
		IdleTimeout:                  limits.IdleTimeout,
		MaxHeaderBytes:               limits.MaxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: limits.MaxStreams, MaxReadFrameSize: maxFrame, SendPingTimeout: limits.IdleTimeout,
			PingTimeout: limits.HeaderTimeout,
		},
		// What clients do wrong is counted, and would fill the log.
		ErrorLog: slog.NewLogLogger(g.server.log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, ok := c.(*tls.Conn); ok {
				c = t.NetConn()
			}
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	if c := g.server.certificates; c != nil {
		protocols.SetHTTP2(true)
		server.TLSConfig = servingTLS(c)
	}
	server.Protocols = protocols
	return server
}

// maxFrame is how long a frame of HTTP/2 may be that a client sends, in bytes: the least that
// a server has to take, since each connection holds as much.
const maxFrame = 16 << 10

// connKey is under what the *conn of a request is in its context.
type connKey struct{}

// serve begins to serve the connections that are handed over.
func (g *generation) serve() {
	go func() {
		// It returns when the handover is closed, and goes on with what it has.
		if g.server.certificates != nil {
			_ = g.http.ServeTLS(&g.conns, "", "")
			return
		}
		_ = g.http.Serve(&g.conns)
	}()
}

// hand gives a connection to the HTTP server.
func (g *generation) hand(c *conn) {
	g.conns.hand(c)
	g.came()
}

// turnAway notes that a connection was closed instead of handed over.
func (g *generation) turnAway() {
	g.came()
	g.leave()
}

// came notes that a connection is not on its way any more. What was on its way when the
// generation was retired is still served.
func (g *generation) came() {
	g.mu.Lock()
	g.coming--
	last := g.retired && g.coming == 0
	g.mu.Unlock()
	if last {
		g.conns.Close()
	}
}

// retire closes the generation when the last connection that uses it is closed.
func (g *generation) retire() {
	g.mu.Lock()
	last := !g.retired && g.users == 0
	g.retired = true
	coming := g.coming > 0
	g.mu.Unlock()
	if last {
		g.close()
	}
	if !coming {
		g.conns.Close()
	}
}

func (g *generation) close() {
	g.server.forget(g)
	g.stop()
	g.backend.Close()
	g.closeEngines()
}

// servingTLS is what a server for clients needs of TLS.
func servingTLS(c *certificates.Serving) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Records are written whole from the start: that costs less CPU, and what is sent
		// here is mostly complete.
		DynamicRecordSizingDisabled: true,
		GetCertificate:              c.Get,
	}
}
