// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
)

const (
	// requestTime is how long the header of a request may take, and its answer to be written.
	requestTime = 5 * time.Second
	// maxRequest bounds the header, in bytes.
	maxRequest = tunnel.MaxProof + 4<<10
	// acceptPause is the wait after a failed accept.
	acceptPause = 100 * time.Millisecond
	// hopHeader is in requests that another replica passes on.
	hopHeader = "Lighterage-Hop"
)

// Limits of a Server. A field that is zero stands for its default.
type Limits struct {
	// Unknown is how many connections may be of askers who are not authenticated. One more evicts the oldest. Default
	// 512.
	Unknown int
	// UnknownPerSource is the same for each source: an IPv4 address or an IPv6 /64. Default 64.
	UnknownPerSource int
	// Asking is how many authenticated requests may be without an answer, and half of it how many of one owner. Default
	// 512.
	Asking int
	// Tunnels is how many may be open, and half of it how many of one owner. Default 4096.
	Tunnels int
}

// Asked is a request for a connection to a peer.
type Asked struct {
	Peer string
	// Owner is who asks, as ServerOptions.Authenticate returned it.
	Owner string
	// Proof of who asks, as it was given.
	Proof string
	// Passed says that another replica passes it on.
	Passed bool
}

// ServerOptions of NewServer.
type ServerOptions struct {
	// Authenticate returns whose a proof for a target is.
	Authenticate func(proof, target string) (owner string, err error)
	// Connect makes the connection. Its errors are of *tunnel.Error, or the gateway's own trouble.
	Connect func(ctx context.Context, asked Asked) (*net.TCPConn, error)
	// Join joins it to who asked, of whom first was read, and closes both when they have ended.
	Join func(peer string, remote, local *net.TCPConn, first []byte) error
	// State of the control connections with a peer, for the owner Manager alone.
	State   func(peer string) State
	Manager string
	// Count is told what became of each request: "connected" or a tunnel.Reason. The peer is a name that an object may
	// have, and there need not be one; it is empty before the asker is authenticated.
	Count  func(peer, result string)
	Limits Limits
	Log    logr.Logger
}

// Server gives the pods of this cluster connections to peers, by HTTP CONNECT.
type Server struct {
	options ServerOptions
	// strangers are connections before the asker is authenticated.
	strangers *passthrough.Strangers

	mu sync.Mutex
	// open and asking are what owners have together.
	open, asking int
	owners       map[string]*owned
}

// owned is what an owner has: tunnels, those that are being made included, and the latter alone.
type owned struct{ tunnels, asking int }

// NewServer returns one; Serve runs it.
func NewServer(o ServerOptions) *Server {
	o.Limits.Asking, o.Limits.Tunnels = cmp.Or(o.Limits.Asking, 512), cmp.Or(o.Limits.Tunnels, 4096)
	unknown, perSource := cmp.Or(o.Limits.Unknown, 512), cmp.Or(o.Limits.UnknownPerSource, 64)
	return &Server{options: o, strangers: passthrough.NewStrangers(unknown, perSource), owners: map[string]*owned{}}
}

// Serve accepts connections until the context ends, and returns nil then, or the error that ended the listener early.
// Tunnels go on after it.
func (s *Server) Serve(ctx context.Context, listener *net.TCPListener) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		conn, err := listener.AcceptTCP()
		switch {
		case err == nil:
			// Here, and not in its goroutine, so that there are not more of those than the limit.
			known := s.strangers.Add(conn, func() {})
			go s.handle(ctx, conn, known)
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the listener was closed because the server stops
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accepting requests for tunnels: %w", err)
		default:
			s.options.Log.Error(err, "A connection could not be accepted")
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
		}
	}
}

// handle owns the connection.
func (s *Server) handle(ctx context.Context, conn *net.TCPConn, known func() bool) {
	remote, peer, first, done := s.answer(ctx, conn, known)
	known()
	if remote == nil {
		_ = conn.Close()
		return
	}
	defer done()
	if err := s.options.Join(peer, remote, conn, first); err != nil {
		s.options.Log.V(1).Info("Tunnel ended early", "peer", peer, "cause", err.Error())
	}
}

// answer answers one request. known is called once the asker is authenticated. remote is nil if there is no tunnel;
// else done must be called when it has ended.
func (s *Server) answer(
	ctx context.Context, conn *net.TCPConn, known func() bool,
) (remote *net.TCPConn, peer string, first []byte, done func()) {
	_ = conn.SetDeadline(time.Now().Add(requestTime))
	request, first, err := readRequest(conn)
	if err != nil {
		s.reply(conn, http.StatusBadRequest, "", nil)
		return nil, "", nil, nil
	}
	path, isState := strings.CutPrefix(request.URL.Path, statePath)
	peer, isPeer := tunnel.PeerOf(request.Host)
	if isState && request.Method == http.MethodGet {
		peer, isPeer = path, path != ""
	} else if request.Method != http.MethodConnect {
		isPeer = false
	}
	// Anything else is no name of an object, and is looked up, logged and counted nowhere.
	isPeer = isPeer && len(validation.IsDNS1123Subdomain(peer)) == 0
	proof := request.Header.Get("Proxy-Authorization")
	owner, err := s.options.Authenticate(proof, tunnel.Target(peer))
	switch {
	case err != nil:
		s.options.Log.V(1).Info("Request for a tunnel rejected", "cause", err.Error())
		s.options.Count("", string(tunnel.NotAllowed))
		s.reply(conn, http.StatusForbidden, tunnel.NotAllowed, nil)
		return nil, "", nil, nil
	case !known():
		s.options.Count("", string(tunnel.Busy))
		return nil, "", nil, nil
	case isState && owner != s.options.Manager:
		s.reply(conn, http.StatusForbidden, tunnel.NotAllowed, nil)
		return nil, "", nil, nil
	case !isPeer:
		s.reply(conn, http.StatusBadRequest, "", nil)
		return nil, "", nil, nil
	case isState:
		state, _ := json.Marshal(s.options.State(peer))
		s.reply(conn, http.StatusOK, "", state)
		return nil, "", nil, nil
	}
	remote, done, err = s.connect(ctx, conn, owner, Asked{
		Peer: peer, Owner: owner, Proof: proof, Passed: request.Header.Get(hopHeader) != "",
	})
	if err != nil {
		reason, refused := tunnel.ReasonOf(err)
		if !refused {
			reason = tunnel.Busy
			s.options.Log.Error(err, "A connection to a peer could not be made", "peer", peer)
		}
		s.options.Count(peer, string(reason))
		_ = conn.SetDeadline(time.Now().Add(requestTime))
		s.reply(conn, http.StatusBadGateway, reason, nil)
		return nil, "", nil, nil
	}
	s.options.Count(peer, ResultConnected)
	return remote, peer, first, done
}

func (s *Server) connect(
	ctx context.Context, conn *net.TCPConn, owner string, asked Asked,
) (remote *net.TCPConn, done func(), err error) {
	made, ended := s.admit(owner)
	if ended == nil {
		return nil, nil, &tunnel.Error{Reason: tunnel.Busy}
	}
	defer func() {
		if err != nil {
			ended()
		}
	}()
	remote, err = s.options.Connect(ctx, asked)
	made()
	if err != nil {
		return nil, nil, err
	}
	err = conn.SetDeadline(time.Now().Add(requestTime))
	if err == nil {
		_, err = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = remote.Close()
		return nil, nil, fmt.Errorf("answering a request for a tunnel: %w", err)
	}
	return remote, ended, nil
}

// admit returns nil if there are too many tunnels. Else made is to be called when one is made or not, and done, once,
// when it has ended.
func (s *Server) admit(owner string) (made, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limits, own := s.options.Limits, s.owners[owner]
	if own == nil {
		own = &owned{}
	}
	if s.open >= limits.Tunnels || own.tunnels >= max(1, limits.Tunnels/2) || s.asking >= limits.Asking ||
		own.asking >= max(1, limits.Asking/2) {
		return nil, nil
	}
	s.open++
	s.asking++
	own.tunnels++
	own.asking++
	s.owners[owner] = own
	made = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asking--
		own.asking--
	}
	return made, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
		if own.tunnels--; own.tunnels == 0 {
			delete(s.owners, owner)
		}
	}
}

// readRequest reads the header of a request. first is what was read behind it.
func readRequest(conn io.Reader) (request *http.Request, first []byte, err error) {
	buffered := bufio.NewReader(io.LimitReader(conn, maxRequest))
	if request, err = http.ReadRequest(buffered); err != nil {
		return nil, nil, fmt.Errorf("reading a request for a tunnel: %w", err)
	}
	if request.ContentLength > 0 || len(request.TransferEncoding) > 0 {
		return nil, nil, errors.New("reading a request for a tunnel: it has a body")
	}
	if first, err = buffered.Peek(buffered.Buffered()); err != nil {
		return nil, nil, fmt.Errorf("reading a request for a tunnel: %w", err)
	}
	return request, bytes.Clone(first), nil
}

// reply ends a connection; its errors are those of who asked.
func (s *Server) reply(conn net.Conn, status int, reason tunnel.Reason, body []byte) {
	var answer strings.Builder
	fmt.Fprintf(&answer, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: %d\r\n", status,
		http.StatusText(status), len(body))
	if reason != "" {
		fmt.Fprintf(&answer, "%s: %s\r\n", tunnel.ReasonHeader, reason)
	}
	_, _ = io.WriteString(conn, answer.String()+"\r\n"+string(body))
}
