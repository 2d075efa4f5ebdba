// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/queue/audit"
	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/roles"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

const (
	headerTimeout = 10 * time.Second
	// requestTimeout bounds how long a request may take that holds no memory.
	requestTimeout = 5 * time.Minute
	// bodyTimeout and a second for each bodyRate bytes bound how long a body may take in each direction for which
	// memory is held, because others may wait for that.
	bodyTimeout = 30 * time.Second
	bodyRate    = 1 << 20
	// smallBody is the longest in bytes for which no memory is held, so that acknowledgements do not wait for payloads.
	smallBody      = 32 << 10
	idleTimeout    = 5 * time.Minute
	maxHeaderBytes = 128 << 10
	maxStreams     = 256 // at once, of one connection

	grpcType = "application/grpc"
)

// Server serves a Service on a port.
type Server struct {
	service *Service
	http    *http.Server
	end     context.CancelFunc
}

// NewServer returns one that does not serve yet.
func NewServer(s *Service) *Server {
	// All requests end with it.
	ctx, end := context.WithCancel(context.Background())
	calls := grpc.NewServer(grpc.MaxRecvMsgSize(s.maxBody()), grpc.UnaryInterceptor(s.intercept))
	messagesv1.RegisterMessageServiceServer(calls, s)
	x := &Server{service: s, end: end}
	x.http = &http.Server{
		Handler:           s.handler(calls, newReflection(s, calls), s.mux()),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, own(c))
		},
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog: slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug), // what clients do wrong
	}
	return x
}

// Serve takes connections until Drain or Close.
func (x *Server) Serve(l net.Listener) error {
	f := x.service.options.Front
	l = listener{l, x.service}
	var err error
	if f.TLSConfig() == nil {
		x.http.Protocols = new(http.Protocols)
		x.http.Protocols.SetHTTP1(true)
		x.http.Protocols.SetUnencryptedHTTP2(true)
		err = x.http.Serve(l)
	} else {
		x.http.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				c := f.TLSConfig()
				c.NextProtos = []string{"h2", "http/1.1"}
				return c, nil
			}}
		err = x.http.ServeTLS(l, "", "")
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Drain takes no more connections, answers gets that wait and waits until requests have
// ended or the context does, whose error it returns then. Others are served to their end.
func (x *Server) Drain(ctx context.Context) error {
	x.service.drain()
	return x.http.Shutdown(ctx)
}

// Close ends all connections.
func (x *Server) Close() {
	x.service.drain()
	x.end()
	_ = x.http.Close() // that of the listener, which is closed
}

// listener counts connections and bounds them.
type listener struct {
	net.Listener
	service *Service
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		f := l.service.options.Front
		if f.Enter() {
			return &conn{Conn: l.service.options.Front.Wire().Count(c), service: l.service}, nil
		}
		_ = c.Close()
	}
}

// conn is the connection of a client.
type conn struct {
	net.Conn
	service *Service
	closed  atomic.Bool

	mu          sync.Mutex
	looked      bool // for a certificate
	certificate *front.Credential
	guest       *front.Guest // who showed it; nil: nobody
	sessions    sessions

	wire atomic.Int64 // bytes in both directions
}

type connKey struct{}

// own returns the connection that the listener took, below TLS.
func own(c net.Conn) *conn {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	taken, _ := c.(*conn)
	return taken
}

// cut ends the connection and the requests on it.
func (c *conn) cut(roles.Client) { _ = c.Close() }

// credential returns the client's certificate, if it showed one. From then on the connection ends when that
// lets nobody in any more.
func (c *conn) credential(state *tls.ConnectionState) *front.Credential {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looked {
		return c.certificate
	}
	c.looked, c.certificate = true, front.Certificate(state)
	if c.certificate != nil && !c.closed.Load() {
		c.guest = c.service.options.Front.Watch(c.cut, c.certificate)
	}
	return c.certificate
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.wire.Add(int64(n))
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.wire.Add(int64(n))
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	err := c.Conn.Close()
	if c.closed.Swap(true) {
		return err
	}
	c.service.options.Front.Leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.guest != nil {
		c.guest.Leave()
	}
	c.sessions.end(c.wire.Load())
	return err
}

// handler admits who may come, as many as there is space for.
func (s *Service) handler(calls, reflection, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		remote := r.ProtoMajor >= 2 && strings.HasPrefix(r.Header.Get("Content-Type"), grpcType)
		fail := func(err error) {
			if !remote {
				writeError(w, err)
				return
			}
			w.Header().Set("Content-Type", grpcType)
			w.Header().Set("Grpc-Status", grpcStatus(err))
			w.Header().Set("Grpc-Message", status.Convert(err).Message())
		}
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		shown := []*front.Credential{front.Token(strings.TrimSpace(token)), nil}
		cut := func(roles.Client) {} // Nothing but its connection ends a request.
		c, _ := r.Context().Value(connKey{}).(*conn)
		if c != nil {
			shown[1], cut = c.credential(r.TLS), c.cut
		}
		from := caller{protocol: "http", remote: r.RemoteAddr}
		if remote {
			from.protocol = "grpc"
		}
		guest := s.options.Front.Watch(cut, shown...)
		defer guest.Leave()
		from.client = guest.Client()
		if from.client.Operations == roles.None {
			s.options.Front.Count(front.Unauthenticated)
			s.options.Front.Audit().Reject(audit.Unauthenticated, "", from.protocol, from.remote)
			w.Header().Set("WWW-Authenticate", "Bearer")
			fail(status.Error(codes.Unauthenticated, "show a token of the queue as bearer token, or a client certificate"))
			return
		}
		if c != nil {
			session, done := c.session(from)
			defer done()
			from.session = session
		}
		select {
		case s.requests <- struct{}{}:
			defer func() { <-s.requests }()
		default:
			fail(status.Error(codes.ResourceExhausted, "too many requests are served: try again later"))
			return
		}
		a := &account{memory: s.memory, most: s.most, control: http.NewResponseController(w)}
		defer a.drop()
		r = r.WithContext(context.WithValue(context.WithValue(r.Context(), accountKey{}, a), callerKey{}, from))
		if remote && r.URL.Path == reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName {
			s.serveStream(reflection, w, r)
			return
		}
		if remote {
			r.Body = &bounded{ReadCloser: r.Body, context: r.Context(), limit: s.maxBody()}
			calls.ServeHTTP(w, r)
			return
		}
		other.ServeHTTP(w, r)
	})
}

// account is the memory that a request holds.
type account struct {
	memory  *semaphore.Weighted
	most    int64
	held    int64
	control *http.ResponseController
}

type accountKey struct{}

// hold waits until there is memory for a body of so many bytes, in place of what the
// request held before, and keeps it until the request has ended. A body is there twice. A small one needs none.
func hold(ctx context.Context, n int) error {
	a, ok := ctx.Value(accountKey{}).(*account)
	if !ok {
		return nil // a call within the process
	}
	a.drop()
	if n <= smallBody {
		return nil
	}
	want := min(2*int64(n), a.most)
	if err := a.memory.Acquire(ctx, want); err != nil {
		return status.FromContextError(err).Err()
	}
	a.held = want
	return nil
}

// drop ends holding memory.
func drop(ctx context.Context) {
	if a, ok := ctx.Value(accountKey{}).(*account); ok {
		a.drop()
	}
}

// deadline of a body for which memory is held.
func deadline(n int) time.Time {
	return time.Now().Add(bodyTimeout + time.Duration(n/bodyRate)*time.Second)
}

// reading bounds how long the body of a request may take; it is called when memory is held. What cannot have deadlines
// is not served by a Server.
func reading(ctx context.Context, n int) {
	if a, ok := ctx.Value(accountKey{}).(*account); ok && a.held > 0 {
		_ = a.control.SetReadDeadline(deadline(n))
	}
}

// read ends what reading began: the server goes on to read, to learn when the client goes.
func read(ctx context.Context) {
	if a, ok := ctx.Value(accountKey{}).(*account); ok && a.held > 0 {
		_ = a.control.SetReadDeadline(time.Now().Add(requestTimeout))
	}
}

// answering bounds how long the body of an answer may take.
func answering(ctx context.Context, n int) {
	if a, ok := ctx.Value(accountKey{}).(*account); ok && a.held > 0 {
		_ = a.control.SetWriteDeadline(deadline(n))
	}
}

func (a *account) drop() {
	a.memory.Release(a.held)
	a.held = 0
}

// bounded is the body of a call: one message, for which it asks for memory before it is read in full. What a client
// sends after that is not read: gRPC would keep all of it until the call is answered.
type bounded struct {
	io.ReadCloser
	context context.Context //nolint:containedctx // It is that of the request whose body this is.
	limit   int
	head    [5]byte
	got     int // of the head
	given   int // of the head
	left    int // of the message
}

// ended is true when the message was read.
func (b *bounded) ended() bool { return b.given == len(b.head) && b.left == 0 }

// Read implements io.Reader. A message begins with a byte for its compression and four for its length. It fills p as
// far as the message goes, because gRPC keeps each p for itself, however little was read.
func (b *bounded) Read(p []byte) (int, error) {
	if b.got < len(b.head) {
		n, err := io.ReadFull(b.ReadCloser, b.head[b.got:])
		b.got += n
		if err != nil {
			return 0, err
		}
		// What is longer than allowed is refused when its length is read.
		b.left = int(min(int64(binary.BigEndian.Uint32(b.head[1:])), int64(b.limit)))
		if err := hold(b.context, b.left); err != nil {
			return 0, err
		}
		reading(b.context, b.left)
	}
	if b.given < len(b.head) {
		n := copy(p, b.head[b.given:])
		b.given += n
		return n, nil
	}
	if b.ended() {
		return 0, io.EOF
	}
	n, err := io.ReadFull(b.ReadCloser, p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
