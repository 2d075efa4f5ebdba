// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	openPath = "/open"
	// closeTimeout is how long the end waits for pages that are being written.
	closeTimeout = 2 * time.Second
	signInText   = "Open a link of the console. Press Enter where kubectl lighterage console runs: it prints one, which can " +
		"be opened once, within 10 minutes."
)

// Options are what a Server is made of.
type Options struct {
	// Clusters, of which there is one at least, in the order in which they are shown.
	Clusters []Cluster
	// Kinds are those of the API.
	Kinds []Kind
	// Namespace to show; "" is all.
	Namespace string
	// Version of the plugin.
	Version string
	// Now is time.Now where it is nil.
	Now func() time.Time
}

// Server serves the pages.
type Server struct {
	clusters  []Cluster
	kinds     []Kind
	namespace string
	version   string
	now       func() time.Time

	listener net.Listener
	origin   string
	base     string
	guard    *guard
	sessions *sessions
	readings []map[string]*reading
	handler  http.Handler
}

// Listen makes a server that listens on an address of loopback; port 0 is any that is free. Serve must be called, or
// the context be cancelled before.
func Listen(ctx context.Context, ip net.IP, port int, o Options) (*Server, error) {
	if !ip.IsLoopback() {
		return nil, fmt.Errorf("%s is no address of loopback, on which alone the console listens; write 127.0.0.1 or ::1", ip)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", (&net.TCPAddr{IP: ip, Port: port}).String())
	if err != nil {
		return nil, fmt.Errorf("listening on loopback: %w", err)
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("listening on %s, which is no TCP address", listener.Addr())
	}
	s := newServer(address, o)
	s.listener = listener
	return s, nil
}

func newServer(address *net.TCPAddr, o Options) *Server {
	s := &Server{
		clusters: o.Clusters, kinds: o.Kinds, namespace: o.Namespace, version: o.Version, now: o.Now,
		origin: "http://" + address.String(), base: "/" + strings.ToLower(rand.Text()),
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.sessions = newSessions(s.now)
	s.guard = newGuard(address, s.base, s.sessions)
	s.guard.refuse = s.message
	for range s.clusters {
		all := map[string]*reading{}
		for _, k := range s.kinds {
			all[k.Name] = &reading{}
		}
		s.readings = append(s.readings, all)
	}
	s.handler = s.guard.shield(s.routes())
	return s
}

// routes are the pages.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	page := func(pattern string, handler http.HandlerFunc) {
		mux.HandleFunc("GET "+s.base+pattern, s.guard.signedIn(bounded(handler)))
	}
	mux.HandleFunc("GET "+s.base+"/console.css", asset("console.css", "text/css; charset=utf-8"))
	mux.HandleFunc("GET "+s.base+"/console.js", asset("console.js", "text/javascript; charset=utf-8"))
	mux.HandleFunc("GET "+s.base+openPath, s.open)
	page("/{$}", s.overview)
	page("/runs", s.runs)
	page("/list/{resource}", s.list)
	page("/object/{cluster}/{resource}/{namespace}/{name}", s.object)
	page("/confirm/{act}/{cluster}/{resource}/{namespace}/{name}", s.confirm)
	mux.HandleFunc("POST "+s.base+"/act/{act}/{cluster}/{resource}/{namespace}/{name}", s.guard.form(bounded(s.act)))
	mux.HandleFunc("POST "+s.base+"/leave", s.guard.form(s.leave))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.message(w, r, http.StatusNotFound, "No such page", "The console has no page at this address. "+signInText)
	})
	return mux
}

// bounded gives a page a time.
func bounded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		next(w, r.WithContext(ctx))
	}
}

// Link makes a URL that signs one browser in, once.
func (s *Server) Link() string { return s.origin + s.base + openPath + "?token=" + s.sessions.link() }

// Serve serves until the context is cancelled.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: answerTimeout + 15*time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving the console: %w", err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if server.Shutdown(closing) != nil {
		_ = server.Close() // what is left is a page that nobody waits for
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the console: %w", err)
	}
	return nil
}

// open signs a browser in. The answer is a page that leads on, not a redirection: after a redirection of a link in
// another page, browsers would withhold the cookie.
func (s *Server) open(w http.ResponseWriter, r *http.Request) {
	id, ok := s.sessions.exchange(r.URL.Query().Get("token"))
	if !ok {
		s.message(w, r, http.StatusForbidden, "Link is not valid", "It was opened before, is older than 10 minutes, or is "+
			"not of this console. "+signInText)
		return
	}
	s.guard.give(w, id, int(sessionLife.Seconds()))
	s.render(w, r, http.StatusOK, "opened", page{Title: "Signed in"})
}

// leave ends the session.
func (s *Server) leave(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(s.guard.cookie); err == nil {
		s.sessions.end(cookie.Value)
	}
	s.guard.give(w, "", -1)
	s.message(w, r, http.StatusOK, "Signed out", signInText)
}
