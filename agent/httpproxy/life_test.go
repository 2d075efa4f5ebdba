// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/certificates"
	"github.com/lighterage/lighterage/agent/httpproxy"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
)

// get asks on a connection that is open already.
func get(t *testing.T, conn net.Conn, r *bufio.Reader) *http.Response {
	t.Helper()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip, zstd\r\n\r\n")
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	return res
}

// TestReload: new connections get what is new, open ones keep what they have, also another backend.
func TestReload(t *testing.T) {
	first := httptest.NewServer(answers(text(5000), true, "X-Backend", "first"))
	defer first.Close()
	second := httptest.NewServer(answers(text(5000), true, "X-Backend", "second"))
	defer second.Close()
	s := settings(first.Listener.Addr().String())
	p := serve(t, s, nil)
	old := dial(t, p)
	fromOld := bufio.NewReader(old)
	get(t, old, fromOld)

	bad := s
	bad.Padding = -1
	if err := p.Reload(bad); err == nil {
		t.Error("settings without meaning are taken")
	}
	s.Backend, s.Codings = second.Listener.Addr().String(), []negotiate.Coding{negotiate.Zstd}
	if err := p.Reload(s); err != nil {
		t.Fatal(err)
	}
	young := dial(t, p)
	fromYoung := bufio.NewReader(young)
	for range 2 {
		if h := get(t, old, fromOld).Header; h.Get("Content-Encoding") != "gzip" || h.Get("X-Backend") != "first" {
			t.Errorf("on the old connection: %v", h)
		}
		if h := get(t, young, fromYoung).Header; h.Get("Content-Encoding") != "zstd" || h.Get("X-Backend") != "second" {
			t.Errorf("on the new connection: %v", h)
		}
	}
	old.Close()
	eventually(t, "the old connection is closed", func() bool { return p.Statistics().Active == 1 })
	get(t, young, fromYoung)
}

// TestReloadUnderLoad: no request fails while settings change all the time.
func TestReloadUnderLoad(t *testing.T) {
	p := startTLS(t, answers(text(3000), true), nil)
	behind := httptest.NewServer(answers(text(3000), true))
	defer behind.Close()
	var failed atomic.Int64
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			transport := &http.Transport{
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true, DisableKeepAlives: true,
			}
			client := &http.Client{Transport: transport, Timeout: patience}
			for {
				select {
				case <-done:
					return
				default:
				}
				res, err := client.Get(p.url)
				if err != nil || res.StatusCode != http.StatusOK {
					failed.Add(1)
					continue
				}
				if n, err := io.Copy(io.Discard, res.Body); n != 3000 || err != nil {
					failed.Add(1)
				}
				res.Body.Close()
			}
		})
	}
	for range 20 {
		if err := p.Reload(settings(behind.Listener.Addr().String())); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	close(done)
	wg.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d requests failed", n)
	}
}

// TestCertificateChanges: a new pair is served to new connections; open ones go on.
func TestCertificateChanges(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	writePair(t, dir, "first")
	writePair(t, other, "second")
	c := certificates.Read(dir)
	behind := httptest.NewServer(answers(text(500), true))
	defer behind.Close()
	p := serve(t, settings(behind.Listener.Addr().String()), c)
	name := func() string {
		t.Helper()
		conn, err := tls.Dial("tcp", p.address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	open, err := tls.Dial("tcp", p.address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	fromOpen := bufio.NewReader(open)
	get(t, open, fromOpen)
	if got := name(); got != "first" {
		t.Errorf("served: %s", got)
	}
	mustCopy(t, filepath.Join(other, "tls.crt"), filepath.Join(dir, "tls.crt"))
	mustCopy(t, filepath.Join(other, "tls.key"), filepath.Join(dir, "tls.key"))
	c.Refresh()
	if got := name(); got != "second" {
		t.Errorf("served: %s", got)
	}
	get(t, open, fromOpen)
}

func mustCopy(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, b)
}

// TestDrain: what is under way ends, what is new goes elsewhere.
func TestDrain(t *testing.T) {
	release, begun := make(chan struct{}), make(chan struct{}, 10)
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if r.URL.Path == "/slow" {
			begun <- struct{}{}
			<-release
		}
		_, _ = w.Write(text(5000))
	}
	for protocol, p := range map[string]*proxy{"1.1": start(t, handler, nil), "2": startTLS(t, handler, nil)} {
		read(t, p.ask(t, "GET", "/", nil, "Accept-Encoding", "gzip")) // leaves a connection that is unused
		answered := make(chan error, 1)
		go func() {
			res, err := p.client.Get(p.url + "/slow")
			if err == nil {
				var n int64
				n, err = io.Copy(io.Discard, res.Body)
				if n != 5000 {
					err = errors.Join(err, fmt.Errorf("%d bytes", n))
				}
			}
			answered <- err
		}()
		<-begun
		drained := make(chan error, 1)
		go func() { drained <- p.Drain(t.Context(), 100*time.Millisecond) }()
		eventually(t, "it drains", p.Draining)
		// While it is in the lists of others it still answers, and says goodbye.
		if res, err := p.client.Get(p.url + "/"); err == nil {
			if protocol == "1.1" && !res.Close {
				t.Error("the client is not asked to close the connection")
			}
			res.Body.Close()
		}
		eventually(t, "nobody listens", func() bool {
			conn, err := net.Dial("tcp", p.address)
			if err == nil {
				conn.Close()
			}
			return err != nil
		})
		release <- struct{}{}
		if err := <-answered; err != nil {
			t.Errorf("HTTP/%s: the request under way: %v", protocol, err)
		}
		if err := <-drained; err != nil {
			t.Errorf("HTTP/%s: %v", protocol, err)
		}
	}
}

// TestDrainCuts: what does not end is ended.
func TestDrainCuts(t *testing.T) {
	begun := make(chan struct{}, 10)
	p := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+accepts+"\r\n")
			begun <- struct{}{}
			_, _ = io.Copy(io.Discard, buffered)
			return
		}
		begun <- struct{}{}
		<-r.Context().Done()
	}, nil)
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + key + "\r\n",
	} {
		fmt.Fprint(dial(t, p), request)
		<-begun
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Drain(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ends with %v", err)
	}
	eventually(t, "all are closed", func() bool { return p.Statistics().Active == 0 })
	if err := p.Reload(settings("127.0.0.1:1")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("settings are taken afterwards: %v", err)
	}
}

func TestHealth(t *testing.T) {
	var healthy atomic.Bool
	p := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" && !healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, func(s *httpproxy.Settings) {
		s.Health = httpproxy.Health{Path: "/healthz", Interval: 5 * time.Millisecond, Timeout: patience}
	})
	eventually(t, "it is unhealthy", func() bool { b := p.Backend(); return b.Checked && !b.Healthy })
	if b := p.Backend(); b.Failure != httpproxy.FailureStatus || b.Status != http.StatusServiceUnavailable ||
		b.Since.IsZero() {
		t.Errorf("%+v", b)
	}
	if res := p.ask(t, "GET", "/", nil); res.StatusCode != http.StatusServiceUnavailable ||
		res.Header.Get("Retry-After") == "" {
		t.Errorf("%s, %v", res.Status, res.Header)
	}
	healthy.Store(true)
	eventually(t, "it is healthy", func() bool { return p.Backend().Healthy })
	if res := p.ask(t, "GET", "/", nil); res.StatusCode != http.StatusOK || p.Backend().Failure != httpproxy.FailureNone {
		t.Errorf("%s, %+v", res.Status, p.Backend())
	}
}

// TestBreach: the lengths of equal bodies differ, and what sets cookies across sites is left alone.
func TestBreach(t *testing.T) {
	for _, coding := range []string{"gzip", "deflate", "zstd"} {
		for _, known := range []bool{true, false} {
			n := 5000
			if !known {
				n = 100000
			}
			p := start(t, answers(text(n), known), func(s *httpproxy.Settings) { s.Padding = 1000 })
			lengths := map[int]bool{}
			for range 8 {
				wire, plain := read(t, p.ask(t, "GET", "/", nil, "Accept-Encoding", coding))
				if !bytes.Equal(plain, text(n)) {
					t.Fatalf("%s: expands to %d bytes", coding, len(plain))
				}
				lengths[len(wire)] = true
			}
			if len(lengths) < 3 { // with a chance of less than one in a million million
				t.Errorf("%s, known %v: lengths are %v", coding, known, lengths)
			}
		}
	}
	for name, test := range map[string]struct {
		cookie, site string
		compressed   bool
	}{
		"no cookie":                 {"", "", true},
		"no cookie, from elsewhere": {"", "cross-site", true},
		"a cookie":                  {"a=b; Secure; SameSite=Lax", "", true},
		"a cookie, same site":       {"a=b", "same-origin", true},
		"a cookie across sites":     {"a=b; Secure; SameSite=None", "", false},
		"written otherwise":         {"a=b; samesite = none", "", false},
		"a value that looks so":     {"a=SameSite=None", "", true},
		"a cookie for elsewhere":    {"a=b; SameSite=Lax", "cross-site", false},
	} {
		header := []string{}
		if test.cookie != "" {
			header = []string{"Set-Cookie", test.cookie}
		}
		for _, spare := range []bool{true, false} {
			p := start(t, answers(text(5000), true, header...), func(s *httpproxy.Settings) { s.SparesCrossSiteCookies = spare })
			res := p.ask(t, "GET", "/", nil, "Accept-Encoding", "gzip", "Sec-Fetch-Site", test.site)
			if got := res.Header.Get("Content-Encoding") == "gzip"; got != (test.compressed || !spare) {
				t.Errorf("%s, spared %v: compressed %v, %s", name, spare, got, res.Header.Get("Lighterage-Compression"))
			}
		}
	}
	p := start(t, answers(text(5000), true, "Set-Cookie", "a=b; SameSite=None"), func(s *httpproxy.Settings) {
		s.SparesCrossSiteCookies = true
	})
	if res := p.ask(
		t, "GET", "/", nil, "Accept-Encoding", "gzip, identity;q=0",
	); res.StatusCode != http.StatusNotAcceptable || res.Header.Get("Set-Cookie") != "" {
		t.Errorf("identity refused: %s, %v", res.Status, res.Header)
	}
}

// TestMaxConcurrent: what comes in excess is passed on as it is, or refused where it must not be.
func TestMaxConcurrent(t *testing.T) {
	release, begun := make(chan struct{}), make(chan struct{})
	p := start(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if r.URL.Path == "/slow" {
			_, _ = w.Write(text(40000))
			w.(http.Flusher).Flush()
			close(begun)
			<-release
		}
		_, _ = w.Write(text(5000))
	}, func(s *httpproxy.Settings) { s.MaxConcurrent = 1 })
	slow := p.ask(t, "GET", "/slow", nil, "Accept-Encoding", "gzip")
	<-begun
	res := p.ask(t, "GET", "/", nil, "Accept-Encoding", "gzip")
	if got := res.Header.Get("Lighterage-Compression"); got != "none;Busy" {
		t.Errorf("identity accepted: %s", got)
	}
	read(t, res)
	// M8: who refuses that is asked to come again, unless the backend has done something for it.
	const forced = "gzip, identity;q=0"
	if res = p.ask(t, "GET", "/", nil, "Accept-Encoding", forced); res.StatusCode != http.StatusServiceUnavailable ||
		res.Header.Get("Retry-After") == "" {
		t.Errorf("identity refused: %s, %v", res.Status, res.Header)
	}
	read(t, res)
	res = p.ask(t, "POST", "/", nil, "Accept-Encoding", forced)
	if got := res.Header.Get("Lighterage-Compression"); res.StatusCode != http.StatusOK || got != "none;Busy" {
		t.Errorf("identity refused for a POST: %s, %s", res.Status, got)
	}
	read(t, res)
	close(release)
	read(t, slow)
	res = p.ask(t, "GET", "/", nil, "Accept-Encoding", forced)
	if read(t, res); res.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("afterwards: %s", res.Header.Get("Lighterage-Compression"))
	}
}
