// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build objectstores

package objectstoretest

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is in front of a Program, with faults of networks and servers that one cannot have on demand. Its endpoint and
// CA take the place of the server's. Requests stay as they were signed.
type Proxy struct {
	Program

	forward *httputil.ReverseProxy
	mu      sync.Mutex
	fault   Fault
}

// Fault may answer a request in place of the server, and reports whether it did. pass has the server answer.
type Fault func(w http.ResponseWriter, r *http.Request, pass http.Handler) bool

// NewProxy returns a proxy without faults.
func NewProxy(t testing.TB, behind Program) *Proxy {
	t.Helper()
	target, err := url.Parse(behind.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Program: behind}
	client := clientOf(behind.CA)
	p.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // It is signed.
		},
		Transport: client.Transport, ErrorLog: log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewUnstartedServer(p)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		client.CloseIdleConnections()
	})
	p.Endpoint = server.URL
	p.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return p
}

// Inject has a fault from now on; nil: none.
func (p *Proxy) Inject(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	fault := p.fault
	p.mu.Unlock()
	if fault == nil || !fault(w, r, p.forward) {
		p.forward.ServeHTTP(w, r)
	}
}

// FirstOf are several faults, of which the first one that answers does.
func FirstOf(all ...Fault) Fault {
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) bool {
		for _, f := range all {
			if f(w, r, pass) {
				return true
			}
		}
		return false
	}
}

// Transport trusts a CA.
func Transport(ca []byte) http.RoundTripper { return clientOf(ca).Transport }

// Kind is a kind of requests.
type Kind func(*http.Request) bool

// Kinds of requests. Own are those for objects that are no files.
var (
	All       Kind = func(*http.Request) bool { return true }
	Wholes    Kind = func(r *http.Request) bool { return r.Method == http.MethodPut && !has(r, "partNumber") && !Own(r) }
	Parts     Kind = func(r *http.Request) bool { return r.Method == http.MethodPut && has(r, "partNumber") }
	Creates   Kind = func(r *http.Request) bool { return r.Method == http.MethodPost && has(r, "uploads") }
	Completes Kind = func(r *http.Request) bool { return r.Method == http.MethodPost && has(r, "uploadId") }
	Lists     Kind = func(r *http.Request) bool { return r.Method == http.MethodGet && has(r, "list-type") }
	Gets      Kind = func(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.RawQuery == "" && !Own(r) }
	OwnGets   Kind = func(r *http.Request) bool { return r.Method == http.MethodGet && Own(r) }
	Deletes   Kind = func(r *http.Request) bool { return r.Method == http.MethodDelete }
	Notes     Kind = func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/.lighterage/uploads/")
	}
	Own Kind = func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/.lighterage/") }
)

func has(r *http.Request, parameter string) bool { return r.URL.Query().Has(parameter) }

// Put are puts of an object whose key ends with a text.
func Put(suffix string) Kind {
	return func(r *http.Request) bool { return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, suffix) }
}

// Times has a fault for the first n requests of a kind.
func (k Kind) Times(n int64, f Fault) Fault {
	var seen atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) bool {
		return k(r) && seen.Add(1) <= n && f(w, r, pass)
	}
}

// After has a fault for all requests of a kind but the first n.
func (k Kind) After(n int64, f Fault) Fault {
	var seen atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) bool {
		return k(r) && seen.Add(1) > n && f(w, r, pass)
	}
}

// Each has a fault for the first n tries of each request of a kind.
func (k Kind) Each(n int, f Fault) Fault {
	var mu sync.Mutex
	seen := map[string]int{}
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) bool {
		mu.Lock()
		key := r.Method + r.URL.RequestURI()
		seen[key] = (seen[key] + 1) % (n + 1)
		hit := seen[key] != 0
		mu.Unlock()
		return k(r) && hit && f(w, r, pass)
	}
}

// Once has something happen before the first request, which is then carried out.
func Once(f func()) Fault {
	var only sync.Once
	return func(http.ResponseWriter, *http.Request, http.Handler) bool {
		only.Do(f)
		return false
	}
}

// Fail answers with an error.
func Fail(status int, code string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
		w.Header().Set("Retry-After", "0")
		w.Header().Set("Connection", "close") // The body of the request is not read.
		fail(w, status, code)
		return true
	}
}

// Reset closes both connections in the middle of the request's body.
func Reset(w http.ResponseWriter, r *http.Request, pass http.Handler) bool {
	r.Body = &half{body: r.Body, left: max(r.ContentLength/2, 1), end: func() {}}
	pass.ServeHTTP(w, r)
	panic(http.ErrAbortHandler)
}

// half is the first half of a body, after which the connection breaks.
type half struct {
	body io.ReadCloser
	left int64
	end  func()
}

var errCut = errors.New("the connection breaks")

func (h *half) Read(p []byte) (int, error) {
	if h.left <= 0 {
		h.end()
		return 0, errCut
	}
	n, err := h.body.Read(p[:min(int64(len(p)), h.left)])
	h.left -= int64(n)
	return n, err
}

func (h *half) Close() error { return h.body.Close() }

// Lose carries the request out and closes the connection before the answer.
func Lose(_ http.ResponseWriter, r *http.Request, pass http.Handler) bool {
	pass.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// Truncate closes the connection in the middle of the answer's body.
func Truncate(w http.ResponseWriter, r *http.Request, pass http.Handler) bool {
	answer := httptest.NewRecorder()
	pass.ServeHTTP(answer, r)
	maps.Copy(w.Header(), answer.Header())
	w.Header().Set("Content-Length", fmt.Sprint(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
	_ = http.NewResponseController(w).Flush() // What is not sent yet is not an answer's beginning.
	panic(http.ErrAbortHandler)
}

var anMD5 = regexp.MustCompile("[0-9a-f]{32}")

// WrongETag answers with another ETag than the server has.
func WrongETag(w http.ResponseWriter, r *http.Request, pass http.Handler) bool {
	answer := httptest.NewRecorder()
	pass.ServeHTTP(answer, r)
	body := answer.Body.Bytes()
	if etag := strings.Trim(answer.Header().Get("Etag"), `"`); etag != "" {
		answer.Header().Set("Etag", `"`+digest([]byte(etag))+`"`)
	} else if at := anMD5.FindIndex(body); at != nil {
		copy(body[at[0]:], digest(body[at[0]:at[1]]))
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body)
	return true
}

// Clock has the server see a request as one of a client whose clock is off.
func Clock(offset time.Duration) Fault {
	const header, format = "X-Amz-Date", "20060102T150405Z"
	return func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if at, err := time.Parse(format, r.Header.Get(header)); err == nil {
			r.Header.Set(header, at.Add(offset).Format(format))
		}
		return false
	}
}

// Stall never answers. The server gets the first half of the request's body. reached is closed when that is done.
func Stall(reached chan struct{}) Fault {
	var once sync.Once
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) bool {
		body := r.Body
		hang := func() {
			once.Do(func() { close(reached) })
			_, _ = io.Copy(io.Discard, body) // The end of the client is seen only if all of its request was read.
			<-r.Context().Done()
		}
		if r.ContentLength > 1 {
			r.Body = &half{body: body, left: r.ContentLength / 2, end: hang}
			pass.ServeHTTP(w, r)
		} else {
			hang()
		}
		panic(http.ErrAbortHandler)
	}
}

// Lag answers lists as they were before freeze was called. A list that nobody had asked for then is empty.
func Lag() (f Fault, freeze func()) {
	var mu sync.Mutex
	frozen, old := false, map[string]*httptest.ResponseRecorder{}
	f = func(w http.ResponseWriter, r *http.Request, pass http.Handler) bool {
		if !Lists(r) {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		key := r.URL.RequestURI()
		if !frozen {
			old[key] = httptest.NewRecorder()
			pass.ServeHTTP(old[key], r)
		}
		if old[key] == nil {
			answer(w, listed{Name: Bucket, Prefix: r.URL.Query().Get("prefix")})
			return true
		}
		maps.Copy(w.Header(), old[key].Header())
		w.WriteHeader(old[key].Code)
		_, _ = w.Write(old[key].Body.Bytes())
		return true
	}
	return f, func() {
		mu.Lock()
		defer mu.Unlock()
		frozen = true
	}
}

// Fold has the server take A and a for one, and keep the spelling that came first. It is for servers that check no
// signatures.
func Fold() Fault {
	var mu sync.Mutex
	spellings := map[string]string{}
	return func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		mu.Lock()
		defer mu.Unlock()
		folded := strings.ToLower(r.URL.Path)
		if spellings[folded] == "" && (r.Method == http.MethodPut || r.Method == http.MethodPost) {
			spellings[folded] = r.URL.Path
		}
		if first := spellings[folded]; first != "" {
			r.URL.Path, r.URL.RawPath = first, ""
		}
		return false
	}
}

// Rename has requests go to another bucket. It is for servers that check no signatures.
func Rename(bucket string) Fault {
	return func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		r.URL.Path = strings.Replace(r.URL.Path, "/"+Bucket, "/"+bucket, 1)
		r.URL.RawPath = strings.Replace(r.URL.RawPath, "/"+Bucket, "/"+bucket, 1)
		return false
	}
}
