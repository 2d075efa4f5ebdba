// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/audit"
	"github.com/lighterage/lighterage/agent/queue/classes"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/roles"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/transport"
)

// Options of a Front.
type Options struct {
	// Queue is the name of the queue.
	Queue string
	// Server keeps the messages.
	Server Server
	// Certificate for clients; nil: no TLS.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Settings    Settings
	// IDs of messages that were given to consumers; nil: a restart of the server forgets them.
	IDs ids.Keeper
	// Quota of ids that the server remembers; nil: as many as clients like.
	Quota *ids.Quota
	// Failed returns an error when the server could not write something. From then on
	// clients are not told that what they acknowledged is. nil: it never does.
	Failed func() error
	// Clock by which trials are bounded; nil: that of the machine.
	Clock adapt.Clock
	Log   *slog.Logger
}

// Server is where the connections of clients lead.
type Server interface {
	// Dial returns a connection on which the server speaks the protocol of NATS to a client
	// that has not said yet who it is.
	Dial(ctx context.Context) (net.Conn, error)
	// Introduce adds to what is said at CONNECT that by which the server authenticates a client.
	// The nonce is what it wants to have signed; empty: nothing.
	Introduce(connect map[string]any, nonce string) error
	// Shared reports whether others than the clients of this queue use the server.
	Shared() bool
	// Configure is told what a consumer is to read before the server is asked for it. Fresh says that there is none of
	// that name. A *store.FiltersError says that it may not read that.
	Configure(ctx context.Context, consumer string, filters []string) (fresh bool, err error)
	// Pending lists clients for which this process holds what they did not take yet, those first for which it is most.
	Pending() []store.Pending
}

// Settings of a Front. They may be changed at any time.
type Settings struct {
	// Encoding and Decoding are used for messages from then on. They are the caller's to
	// close, which may be done as soon as others are set.
	Encoding *message.Encoding
	Decoding *message.Decoding
	// MaxMessageSize is the longest plain payload in bytes, up to message.MaxLength.
	MaxMessageSize int
	// MaxConnections of clients at once; 0: not bounded.
	MaxConnections int
	// Tokens of clients that authenticate, and CAs whose certificates do. TokenRoles and
	// CertificateRoles say what they may do then. Open says that everybody may do all.
	Tokens                       []roles.Token
	ClientCAs                    *x509.CertPool
	TokenRoles, CertificateRoles roles.Roles
	Open                         bool
	// Unsure says that there may be more tokens or CAs, which cannot be read now: nobody who was let
	// in is sent away for want of them.
	Unsure bool
}

// generation is Settings as they are used.
type generation struct {
	Settings
	clients *roles.Table
}

func newGeneration(s Settings) (*generation, error) {
	switch {
	case s.Encoding == nil || s.Decoding == nil:
		return nil, errors.New("a front needs an encoding and a decoding")
	case s.MaxMessageSize <= 0 || s.MaxMessageSize > message.MaxLength:
		return nil, fmt.Errorf("longest message of %d bytes: use 1 to %d", s.MaxMessageSize, message.MaxLength)
	}
	return &generation{Settings: s, clients: roles.NewTable(s.Tokens, s.TokenRoles, s.CertificateRoles)}, nil
}

// Front serves clients. It is safe for concurrent use.
type Front struct {
	options  Options
	access   access
	leaving  leaving
	slow     atomic.Pointer[slowClients]
	settings atomic.Pointer[generation]
	turns    chan struct{}
	inflated *memory
	putAck   []byte // how acknowledgements of puts begin

	counters counters // since the start
	wire     transport.Counter
	history  history
	encoded  meter.Meter
	decoded  meter.Meter
	classes  *classes.Classes
	open     atomic.Int64
	draining atomic.Bool

	context context.Context //nolint:containedctx // It ends with Close, which no caller's does.
	cancel  context.CancelFunc

	guests  guests
	batches batches
	audit   *audit.Log

	mu       sync.Mutex
	conns    map[*conn]struct{}
	listener net.Listener
	closed   bool
	served   sync.WaitGroup
}

// New returns a front that does not serve yet.
func New(o Options) (*Front, error) {
	g, err := newGeneration(o.Settings)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &Front{
		options: o, access: access{queue: o.Queue, shared: o.Server.Shared()}, leaving: defaultLeaving,
		turns: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), inflated: newMemory(maxInflatedBytes),
		conns: make(map[*conn]struct{}),
		audit: audit.New(o.Log), classes: classes.New(o.Queue, false, o.Clock),
		putAck: []byte(`{"stream":` + strconv.Quote(o.Queue)),
	}
	f.context, f.cancel = context.WithCancel(context.Background())
	f.settings.Store(g)
	f.classes.Sample(f.context, nil)
	f.classes.Set(g.Encoding, nil)
	slow := defaultSlow
	f.slow.Store(&slow)
	f.ResetStatistics(time.Now())
	return f, nil
}

// Reload sets other settings: encoding for messages from then on, and which clients may do
// what. Connections of clients whose operations are others now are ended.
func (f *Front) Reload(s Settings) error {
	g, err := newGeneration(s)
	if err != nil {
		return err
	}
	before := f.settings.Swap(g)
	if g.Encoding != before.Encoding {
		f.classes.Set(g.Encoding, before.Encoding)
	}
	if !g.Unsure && (before.Unsure || !g.same(before)) {
		f.revoke(g)
	}
	return nil
}

func (f *Front) tlsConfig(s *generation) *tls.Config {
	if f.options.Certificate == nil {
		return nil
	}
	config := &tls.Config{GetCertificate: f.options.Certificate, MinVersion: tls.VersionTLS12}
	if s.ClientCAs != nil {
		config.ClientCAs, config.ClientAuth = s.ClientCAs, tls.VerifyClientCertIfGiven
	}
	return config
}

// ErrClosed is returned by Serve after Close or Drain.
var ErrClosed = errors.New("front closed")

// Serve takes connections until Close or Drain.
func (f *Front) Serve(l net.Listener) error {
	f.mu.Lock()
	f.listener = l
	closed := f.closed || f.draining.Load()
	f.mu.Unlock()
	if closed {
		_ = l.Close()
		return ErrClosed
	}
	ticks, stop := context.WithCancel(f.context)
	defer stop()
	go f.tick(ticks)
	go f.watchPending(ticks)
	delay := time.Duration(0)
	for {
		outer, err := l.Accept()
		if err != nil {
			if f.draining.Load() || errors.Is(err, net.ErrClosed) {
				return ErrClosed
			}
			// Out of file descriptors, for example: that passes.
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			f.options.Log.Error("Connection cannot be accepted", "error", err.Error())
			time.Sleep(delay)
			continue
		}
		delay = 0
		f.accept(outer)
	}
}

// tick ends windows of statistics.
func (f *Front) tick(ctx context.Context) {
	ticker := time.NewTicker(window)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			f.history.tick(now, f.totals())
			f.audit.Flush()
		}
	}
}

func newConn(f *Front, outer net.Conn) *conn {
	c := &conn{front: f, ended: make(chan struct{}), memory: newAccount(f.inflated)}
	outer = f.wire.Count(outer)
	c.raw = counting{outer, &c.said}
	c.outer = c.raw
	// Whoever cancels ends both connections.
	c.context, c.cancel = context.WithCancel(f.context)
	context.AfterFunc(c.context, func() { _ = outer.Close() })
	return c
}

func (f *Front) accept(outer net.Conn) {
	if !f.Enter() {
		_ = outer.SetWriteDeadline(time.Now().Add(farewell))
		_, _ = outer.Write([]byte("-ERR 'maximum connections exceeded'\r\n"))
		_ = outer.Close()
		return
	}
	c := newConn(f, outer)
	f.mu.Lock()
	ending := f.closed || f.draining.Load() // nobody may come when they are waited for
	if !ending {
		f.served.Add(1)
		f.conns[c] = struct{}{}
	}
	f.mu.Unlock()
	if ending {
		c.cancel()
		f.Leave()
		return
	}
	go func() {
		defer f.served.Done()
		defer f.Leave()
		c.serve()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.conns, c)
	}()
}

// Drain takes no more connections and sends clients elsewhere: each as soon as nothing is
// said on its connection, or after some seconds. It waits until they have gone or the
// context ends, whose error it returns then.
func (f *Front) Drain(ctx context.Context) error {
	f.mu.Lock()
	f.draining.Store(true)
	if f.listener != nil {
		_ = f.listener.Close()
	}
	open := slices.Collect(maps.Keys(f.conns))
	f.mu.Unlock()
	for i, c := range open {
		c.leave(min(time.Duration(i)*f.leaving.each, f.leaving.all))
	}
	gone := make(chan struct{})
	go func() {
		f.served.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Draining reports whether Drain was called.
func (f *Front) Draining() bool { return f.draining.Load() }

// Close ends all connections and waits until they have ended.
func (f *Front) Close() {
	f.cancel()
	f.mu.Lock()
	f.closed = true
	if f.listener != nil {
		_ = f.listener.Close()
	}
	f.mu.Unlock()
	f.served.Wait()
	f.audit.Flush()
}
