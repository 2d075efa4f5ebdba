// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// policy of what pages may load: files of the console alone, and no script or style within a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// mostForm bounds what a form sends.
const mostForm = 4 << 10

// guard is what a request must pass before a page is made. A foreign page can neither read a page of the console nor
// act by it:
//
//   - Requests must name the console by an address of loopback, so that a name of somebody else that resolves to
//     loopback is of no use (DNS rebinding).
//   - Requests that browsers mark as made by other origins are rejected, but for the opening of a link.
//   - Everything but files needs the cookie. Its path is made for this process, because browsers send cookies to all
//     ports of a host.
//   - Forms must come from the console's origin, and carry the secret of the session.
type guard struct {
	hosts    map[string]bool
	base     string
	cookie   string
	sessions *sessions
	refuse   func(w http.ResponseWriter, r *http.Request, status int, title, text string)
}

func newGuard(address *net.TCPAddr, base string, s *sessions) *guard {
	port := strconv.Itoa(address.Port)
	g := &guard{base: base, cookie: "lighterage-console-" + port, sessions: s, hosts: map[string]bool{
		net.JoinHostPort("localhost", port): true, net.JoinHostPort(address.IP.String(), port): true,
	}}
	return g
}

// shield wraps what needs no session, in what holds for all answers.
func (g *guard) shield(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers hide the origin of forms
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !g.hosts[strings.ToLower(r.Host)]:
			http.Error(w, "The console is at an address of loopback alone.", http.StatusMisdirectedRequest)
		case !g.fromHere(r) && r.URL.Path != g.base+openPath:
			g.refuse(w, r, http.StatusForbidden, "Request from another page",
				"Another page led here, or asked for this in your name. Nothing was done. Open the console by its link.")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// fromHere reports whether the browser says that the user, or a page of the console, made the request. Browsers that do
// not say send no cookie for others, because it is of the kind Strict.
func (g *guard) fromHere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return true
	}
	return false
}

type sessionKey struct{}

// signedIn wraps what needs a session.
func (g *guard) signedIn(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie(g.cookie)
		if err != nil {
			g.refuse(w, r, http.StatusUnauthorized, "Not signed in", signInText)
			return
		}
		found, ok := g.sessions.find(cookie.Value)
		if !ok {
			g.refuse(w, r, http.StatusUnauthorized, "Session has ended", signInText)
			return
		}
		next(w, r.WithContext(context.WithValue(r.Context(), sessionKey{}, found)))
	}
}

// form wraps what a form asks for: only forms of the console, in this session, are followed.
func (g *guard) form(next http.HandlerFunc) http.HandlerFunc {
	return g.signedIn(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		origin := r.Header.Get("Origin")
		switch err := r.ParseForm(); {
		case err != nil:
			g.refuse(w, r, http.StatusBadRequest, "Form cannot be read", fmt.Sprintf("Nothing was done: %v.", err))
		case origin != "http://"+r.Host:
			g.refuse(w, r, http.StatusForbidden, "Form of another page", "Nothing was done. Use the forms of the console.")
		case !sessionOf(r).carries(r.PostForm.Get(formField)):
			g.refuse(w, r, http.StatusForbidden, "Form of another session", "Nothing was done. Load the page again.")
		default:
			next(w, r)
		}
	})
}

// formField is the field with the secret of the session.
const formField = "form"

func sessionOf(r *http.Request) session {
	s, _ := r.Context().Value(sessionKey{}).(session)
	return s
}

// give has the browser keep the id of its session.
func (g *guard) give(w http.ResponseWriter, id string, seconds int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // not Secure: loopback has no TLS, and not all browsers except it
		Name: g.cookie, Value: id, Path: g.base, MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}
