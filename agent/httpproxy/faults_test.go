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
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/httpproxy"
)

// raw is a backend that reads the header of a request and then does what a test wants.
func raw(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil { // a health check asks nothing
					serve(conn)
				}
			})
		}
	})
	return l.Addr().String()
}

// TestBrokenBackends: the client is told, or sees that something is missing.
func TestBrokenBackends(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
	long := string(text(300000))
	reset := func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) }
	for name, test := range map[string]struct {
		serve  func(net.Conn)
		status int // 0: the body ends early
	}{
		"no answer":              {func(net.Conn) {}, 502},
		"reset before an answer": {reset, 502},
		"no HTTP":                {func(c net.Conn) { fmt.Fprint(c, "SSH-2.0-x\r\n\r\n") }, 502},
		"half a header":          {func(c net.Conn) { fmt.Fprint(c, head) }, 502},
		"an endless header": {
			func(c net.Conn) { fmt.Fprint(c, head, "X: ", strings.Repeat("x", 1<<20), "\r\n\r\n") }, 502,
		},
		"a bad length": {func(c net.Conn) { fmt.Fprint(c, head, "Content-Length: -5\r\n\r\n") }, 502},
		"two lengths": {
			func(c net.Conn) { fmt.Fprint(c, head, "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello") }, 502,
		},
		"shorter than it says": {
			func(c net.Conn) { fmt.Fprint(c, head, "Content-Length: 5000\r\n\r\n", long[:4000]) }, 502,
		},
		"reset in a short body": {
			func(c net.Conn) { fmt.Fprint(c, head, "Content-Length: 5000\r\n\r\n", long[:4000]); reset(c) }, 502,
		},
		"long, shorter than it says": {func(c net.Conn) { fmt.Fprint(c, head, "Content-Length: 400000\r\n\r\n", long) }, 0},
		"long, chunked, broken off": {func(c net.Conn) {
			fmt.Fprintf(c, "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", head, len(long), long)
		}, 0},
		"long, chunked, a bad chunk": {func(c net.Conn) {
			fmt.Fprintf(c, "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nzz\r\n", head, len(long), long)
		}, 0},
		"an informational flood": {
			func(c net.Conn) { fmt.Fprint(c, strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100)) }, 502,
		},
		"protocols switched, unasked": {func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		}, 502},
	} {
		for _, coding := range []string{"gzip", "identity"} {
			t.Run(name+"/"+coding, func(t *testing.T) {
				if coding == "identity" && test.status == 502 && strings.Contains(name, "short") {
					test.status = 0 // what is passed on as it comes has begun
				}
				p := serve(t, settings(raw(t, test.serve)), nil)
				res := p.ask(t, "GET", "/", nil, "Accept-Encoding", coding)
				n, err := io.Copy(io.Discard, res.Body)
				switch {
				case test.status != 0 && res.StatusCode != test.status:
					t.Errorf("%s", res.Status)
				case test.status == 0 && err == nil:
					t.Errorf("%s, and %d bytes that seem to be all", res.Status, n)
				case test.status != 0 && err != nil:
					t.Error(err)
				}
			})
		}
	}
}

// TestLongerThanItSays: what a backend sends beyond its answer is nobody's answer.
func TestLongerThanItSays(t *testing.T) {
	served := make(chan struct{}, 10)
	p := serve(t, settings(raw(t, func(c net.Conn) {
		served <- struct{}{}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
		_, _ = io.Copy(io.Discard, c)
	})), nil)
	for range 3 {
		if _, body := read(t, p.ask(t, "GET", "/", nil)); string(body) != "hello" {
			t.Fatalf("got %q", body)
		}
		<-served // on a connection of its own
	}
}

func TestDeadBackend(t *testing.T) {
	l, err := net.Listen("tcp", "127.111.222.33:0") // where nobody else takes the port
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	s := settings(address)
	s.Health.Failures = 1 << 30 // at once it is unhealthy, see TestHealth
	p := serve(t, s, nil)
	for _, method := range []string{"GET", "POST"} {
		if res := p.ask(t, method, "/", nil); res.StatusCode != http.StatusBadGateway &&
			res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %s", method, res.Status)
		}
	}
}

func TestSlowBackend(t *testing.T) {
	release := make(chan struct{})
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/header":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/body":
			w.Header().Set("Content-Length", "5000")
			w.Header().Set("Content-Type", "text/plain")
			w.(http.Flusher).Flush()
			<-release
		}
	}
	p := start(t, handler, func(s *httpproxy.Settings) {
		s.HeaderTimeout, s.BodyTimeout = 100*time.Millisecond, 100*time.Millisecond
	})
	defer close(release)
	for _, test := range []struct{ method, path string }{{"GET", "/header"}, {"POST", "/header"}, {"GET", "/body"}} {
		if res := p.ask(
			t, test.method, test.path, nil, "Accept-Encoding", "gzip",
		); res.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("%s %s: %s", test.method, test.path, res.Status)
		}
	}
	if s := p.Statistics(); s.TimedOut != 3 {
		t.Errorf("%d timed out", s.TimedOut)
	}
}

// TestClientAborts: a backend that would send for ever is told to stop, in the header and in the body, on both
// protocols.
func TestClientAborts(t *testing.T) {
	asked, stopped := make(chan struct{}, 10), make(chan string, 10)
	handler := func(w http.ResponseWriter, r *http.Request) {
		defer func() { stopped <- r.URL.Path }()
		if r.URL.Path == "/header" {
			asked <- struct{}{}
			w.Header().Set("X", "y")
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		for r.Context().Err() == nil {
			if _, err := w.Write(text(10000)); err != nil {
				return
			}
		}
	}
	for protocol, p := range map[string]*proxy{"1.1": start(t, handler, nil), "2": startTLS(t, handler, nil)} {
		for _, path := range []string{"/header", "/body"} {
			for _, coding := range []string{"gzip", "identity"} {
				ctx, cancel := context.WithCancel(t.Context())
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Accept-Encoding", coding)
				if path == "/header" {
					go func() {
						<-asked
						cancel()
					}()
				}
				res, err := p.client.Do(req)
				if err == nil {
					_, err = io.CopyN(io.Discard, res.Body, 1000)
					cancel()
					res.Body.Close()
				}
				cancel()
				if path == "/body" && err != nil {
					t.Errorf("HTTP/%s, %s: %v", protocol, coding, err)
				}
				select {
				case <-stopped:
				case <-time.After(patience):
					t.Fatalf("HTTP/%s, %s, %s: the backend goes on", protocol, path, coding)
				}
			}
		}
	}
}

// TestClientStalls: one that takes nothing, or sends half of what it announced, loses its connection.
func TestClientStalls(t *testing.T) {
	stopped := make(chan struct{}, 1)
	p := start(t, func(w http.ResponseWriter, r *http.Request) {
		defer func() { stopped <- struct{}{} }()
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		for range 10000 { // more than all buffers hold
			if _, err := w.Write(generate("random", 10000)); err != nil {
				return
			}
		}
		t.Error("everything was taken")
	}, func(s *httpproxy.Settings) { s.Limits.StallTimeout = 200 * time.Millisecond })
	for name, request := range map[string]string{
		"takes nothing": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"sends half":    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf",
	} {
		conn := dial(t, p)
		fmt.Fprint(conn, request)
		select {
		case <-stopped:
		case <-time.After(patience):
			t.Fatalf("a client that %s is waited for", name)
		}
		eventually(t, "the connection is closed", func() bool { return p.Statistics().Active == 0 })
	}
	if s := p.Statistics(); s.TimedOut == 0 {
		t.Error("nothing was counted as timed out")
	}
}

// TestSlowHeader: who sends a header byte by byte is not waited for.
func TestSlowHeader(t *testing.T) {
	p := start(t, func(http.ResponseWriter, *http.Request) {
		t.Error("the backend is asked")
	}, func(s *httpproxy.Settings) { s.Limits.HeaderTimeout = 200 * time.Millisecond })
	conn := dial(t, p)
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) {
		t.Error("it is waited for")
	}
	eventually(t, "it is counted", func() bool { s := p.Statistics(); return s.TimedOut == 1 && s.Active == 0 })
}

func TestLargeHeader(t *testing.T) {
	handler := func(http.ResponseWriter, *http.Request) { t.Error("the backend is asked") }
	p := start(t, handler, nil)
	conn := dial(t, p)
	go func() {
		_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", 1<<20))
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%v, %v", res, err)
	}
	// Over HTTP/2 the client is told the limit, and this one keeps it.
	p = startTLS(t, handler, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X", strings.Repeat("x", 1<<20))
	if res, err := p.client.Do(req); err == nil && res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("HTTP/2: %s", res.Status)
	}
}

// smugglingCases are by name; refused are those to which the answer is an error.
var smugglingCases = map[string]struct {
	request string
	refused bool
}{
	"CL.TE": {
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false,
	},
	"CL.TE with a request behind": {
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + fmt.Sprint(5+len(smuggled)) +
			"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		false,
	},
	"TE.CL": {
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", false,
	},
	"two lengths": {
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", true,
	},
	"two equal lengths": {
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", false,
	},
	"a list of lengths":       {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 6\r\n\r\nhello", true},
	"a length with a sign":    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello", true},
	"a length in hexadecimal": {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n\r\nhello", true},
	"a negative length":       {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", true},
	"a huge length":           {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", true},
	"an empty length":         {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \r\n\r\n" + smuggled, true},
	"unknown coding":          {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", true},
	"identity": {
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello", true,
	},
	"chunked twice": {
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true,
	},
	"chunked and identity": {
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", true,
	},
	"gzip, chunked": {
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", true,
	},
	"space before the colon": {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", true},
	"tab before chunked":     {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n", false},
	"vertical tab before chunked": {
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n", true,
	},
	"a null in a value":   {"POST / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n", true},
	"a return in a value": {"POST / HTTP/1.1\r\nHost: x\r\nX: a\rTransfer-Encoding: chunked\r\n\r\n", true},
	"chunked on HTTP/1.0": {"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	"a chunk's length with a sign": {
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n", true,
	},
	"a chunk's length too long": {
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000000005\r\nhello\r\n0\r\n\r\n", true,
	},
	"a chunk's length in nonsense": {
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5x\r\nhello\r\n0\r\n\r\n", true,
	},
	"a chunk without its end": {
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n", true,
	},
	"a chunk's extension, endless": {
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;" + strings.Repeat("x", 100000) +
			"\r\nhello\r\n0\r\n\r\n",
		true,
	},
	"a chunk's extension, bare LF": {
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a\nhello\r\n0\r\n\r\n", true,
	},
	"two hosts":              {"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", true},
	"no host":                {"GET / HTTP/1.1\r\n\r\n", true},
	"a host with a path":     {"GET / HTTP/1.1\r\nHost: x/y z\r\n\r\n", true},
	"a space in the target":  {"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", true},
	"a name that is none":    {"GET / HTTP/1.1\r\nHost: x\r\nA(B: c\r\n\r\n", true},
	"an empty name":          {"GET / HTTP/1.1\r\nHost: x\r\n: c\r\n\r\n", true},
	"the first line goes on": {"GET / HTTP/1.1\r\n X: y\r\nHost: x\r\n\r\n", true},
	"another version":        {"GET / HTTP/3.0\r\nHost: x\r\n\r\n", true},
	"no version":             {"GET /\r\n\r\n", true},
	"a method that is none":  {"G(T / HTTP/1.1\r\nHost: x\r\n\r\n", true},
	"HTTP/2 without TLS":     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", true},
	"Connection names the length": {
		"POST / HTTP/1.1\r\nHost: x\r\nConnection: Content-Length\r\nContent-Length: 5\r\n\r\nhello", false,
	},
	"GET with a body": {
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: " + fmt.Sprint(len(smuggled)) + "\r\n\r\n" + smuggled, false,
	},
	"absolute target, another host": {"GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n", false},
}

const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

// TestSmuggling sends what servers have been known to understand differently. Either it is refused, or the backend sees
// one request as this proxy understood it, and no more.
func TestSmuggling(t *testing.T) {
	type seen struct {
		path, te string
		length   int64
		body     string
	}
	for name, test := range smugglingCases {
		t.Run(name, func(t *testing.T) {
			backend := make(chan seen, 10)
			p := start(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				backend <- seen{r.URL.Path, strings.Join(r.TransferEncoding, ","), r.ContentLength, string(body)}
			}, nil)
			conn := dial(t, p)
			fmt.Fprint(conn, test.request)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			refused := err != nil || res.StatusCode >= 400
			if refused != test.refused {
				t.Errorf("answered %v, %v", res, err)
			}
			conn.Close()
			if test.refused {
				// A body that turns out to be malformed may have been on its way.
				for {
					select {
					case s := <-backend:
						if s.path != "/" || s.te != "chunked" {
							t.Errorf("the backend sees %+v", s)
						}
						continue
					default:
					}
					break
				}
				return
			}
			s := <-backend
			if s.path != "/" || s.te != "" && s.te != "chunked" || s.te == "chunked" && s.length != -1 {
				t.Errorf("the backend sees %+v", s)
			}
			if name == "GET with a body" && s.body != smuggled {
				t.Errorf("the body became %q", s.body)
			}
			// What follows on the same connection is another request of the same client, as this proxy sees it.
			if name == "CL.TE with a request behind" {
				select {
				case s := <-backend:
					if s.path != "/smuggled" {
						t.Errorf("then %+v", s)
					}
				default: // the connection was closed
				}
			}
		})
	}
}

func TestMalformedAcceptEncoding(t *testing.T) {
	p := start(t, answers(text(5000), true), nil)
	for _, accept := range []string{
		"\xff", "gzip;q=", ";", ",", `"`, "gzip;;q=1", "gzip q=1", strings.Repeat("gzip;q=x,", 5000), "gzip\t;\tq\t=\t1",
	} {
		conn := dial(t, p)
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: %s\r\n\r\n", accept)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Content-Encoding") != "" {
			t.Errorf("%.40q: %v, %v", accept, res, err)
			continue
		}
		if body, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(body, text(5000)) {
			t.Errorf("%.40q: %d bytes, %v", accept, len(body), err)
		}
	}
}

// TestIdleConnections: what a connection holds while nothing happens on it is little.
func TestIdleConnections(t *testing.T) {
	const conns, most = 200, 64 << 10 // both ends are in this process
	p := startTLS(t, answers(text(5000), true), nil)
	before := live()
	var open []net.Conn
	for range conns {
		conn, err := tls.Dial("tcp", p.address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
		if res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", res, err)
		}
		open = append(open, conn)
	}
	if got := (live() - before) / conns; got > most {
		t.Errorf("an idle connection holds %d bytes", got)
	}
	if s := p.Statistics(); s.Active != conns || s.HighWater != conns {
		t.Errorf("%d active of at most %d", s.Active, s.HighWater)
	}
	for _, conn := range open {
		conn.Close()
	}
	eventually(t, "all are closed", func() bool { return p.Statistics().Active == 0 })
}

// live returns how many bytes are in use.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

func TestMaxConnections(t *testing.T) {
	p := start(t, answers(text(500), true), func(s *httpproxy.Settings) { s.Limits.MaxConnections = 2 })
	first, second := dial(t, p), dial(t, p)
	eventually(t, "two are open", func() bool { return p.Statistics().Active == 2 })
	third := dial(t, p)
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Error("a third is served")
	}
	if s := p.Statistics(); s.Refused != 1 {
		t.Errorf("%+v", s)
	}
	first.Close()
	eventually(t, "one is closed", func() bool { return p.Statistics().Active == 1 })
	fmt.Fprint(second, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	fourth := dial(t, p)
	fmt.Fprint(fourth, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	for _, conn := range []net.Conn{second, fourth} {
		if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%v, %v", res, err)
		}
	}
}
