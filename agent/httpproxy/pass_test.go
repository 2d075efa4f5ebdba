// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/httpproxy"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
)

// TestFlush: what the backend flushes arrives before the backend goes on.
func TestFlush(t *testing.T) {
	for _, contentType := range []string{"text/plain", "text/event-stream"} {
		for _, coding := range []string{"gzip", "deflate", "zstd", "identity"} {
			next := make(chan struct{})
			handler := func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", contentType)
				for i := range 3 {
					fmt.Fprintf(w, "data: %d %s\n", i, strings.Repeat("x", 200))
					w.(http.Flusher).Flush()
					<-next
				}
			}
			for protocol, p := range map[string]*proxy{"1.1": start(t, handler, nil), "2": startTLS(t, handler, nil)} {
				res := p.ask(t, "GET", "/", nil, "Accept-Encoding", coding)
				got := res.Header.Get("Content-Encoding")
				if want := strings.TrimPrefix(coding, "identity"); contentType == "text/plain" && got != want ||
					contentType != "text/plain" && got != "" {
					t.Errorf("%s, HTTP/%s, %s: coding %q", contentType, protocol, coding, got)
				}
				lines := bufio.NewReader(expander(t, got, res.Body))
				for i := range 3 {
					line, err := lines.ReadString('\n')
					if err != nil || !strings.HasPrefix(line, fmt.Sprintf("data: %d", i)) {
						t.Fatalf("%s, HTTP/%s, %s: line %d is %q, %v", contentType, protocol, coding, i, line, err)
					}
					next <- struct{}{}
				}
				if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
					t.Errorf("%s, HTTP/%s, %s: at the end %q, %v", contentType, protocol, coding, rest, err)
				}
			}
		}
	}
}

func TestTrailers(t *testing.T) {
	for _, n := range []int{10, 5000, 400000} {
		handler := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Trailer", "X-Sum")
			_, _ = w.Write(text(n))
			w.Header().Set("X-Sum", "42")
			w.Header().Set(http.TrailerPrefix+"X-Unannounced", "43")
		}
		for protocol, p := range map[string]*proxy{"1.1": start(t, handler, nil), "2": startTLS(t, handler, nil)} {
			for _, coding := range []string{"gzip", "identity"} {
				res := p.ask(t, "GET", "/", nil, "Accept-Encoding", coding)
				if _, plain := read(t, res); !bytes.Equal(plain, text(n)) {
					t.Errorf("%d bytes, HTTP/%s, %s: got %d", n, protocol, coding, len(plain))
				}
				if res.Trailer.Get("X-Sum") != "42" || res.Trailer.Get("X-Unannounced") != "43" {
					t.Errorf("%d bytes, HTTP/%s, %s: trailers %v", n, protocol, coding, res.Trailer)
				}
			}
		}
	}
}

// TestRequests: what a client sends reaches the backend as it is, but for what is about the connection.
func TestRequests(t *testing.T) {
	type request struct {
		*http.Request
		body []byte
	}
	seen := make(chan request, 1)
	p := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		seen <- request{r, body}
	}, nil)
	packed := generate("random", 100000) // whatever its coding says
	for name, body := range map[string]io.Reader{
		"none": nil, "length": bytes.NewReader(packed), "chunked": io.MultiReader(bytes.NewReader(packed)),
		"empty": strings.NewReader(""),
	} {
		res := p.ask(t, "POST", "/a%2Fb//c?x=1;y&z=%zz", body, "Content-Encoding", "gzip", "X-Custom", "kept", "Connection",
			"close, X-Private",
			"X-Private", "secret", "Proxy-Authorization", "secret", "Te", "trailers, gzip", "Keep-Alive", "x", "X-Forwarded-For",
			"6.6.6.6", "Forwarded", "for=6.6.6.6", "Accept-Encoding", "gzip")
		if res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", name, res.Status)
		}
		got := <-seen
		if body != nil && name != "empty" && !bytes.Equal(got.body, packed) {
			t.Errorf("%s: the body became %d bytes", name, len(got.body))
		}
		if got.RequestURI != "/a%2Fb//c?x=1;y&z=%zz" || got.Host != p.address || got.Method != http.MethodPost {
			t.Errorf("%s: %s %s of %s", name, got.Method, got.RequestURI, got.Host)
		}
		want := map[string]string{
			"Content-Encoding": "gzip", "X-Custom": "kept", "X-Private": "", "Proxy-Authorization": "", "Te": "trailers",
			"Keep-Alive":      "",
			"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": p.address,
			"Forwarded": `for=127.0.0.1;host="` + p.address + `";proto=http`, "Accept-Encoding": "identity",
		}
		for key, value := range want {
			if got.Header.Get(key) != value {
				t.Errorf("%s: %s is %q, want %q", name, key, got.Header.Get(key), value)
			}
		}
	}
	p.ask(t, "PUT", "/", strings.NewReader("x"), "User-Agent", "")
	if got := <-seen; got.Header.Get("User-Agent") != "" {
		t.Errorf("the proxy calls itself %q", got.Header.Get("User-Agent"))
	}
}

// TestTrustedProxies: what is said of who was before is kept when somebody says it who is believed, and replaced else.
func TestTrustedProxies(t *testing.T) {
	seen := make(chan http.Header, 1)
	for trusted, want := range map[string]struct{ client, proto, port, forwarded string }{
		"127.0.0.0/8":  {"6.6.6.6, 127.0.0.1", "gopher", "70", "for=6.6.6.6, for=127.0.0.1;"},
		"192.0.2.0/24": {"127.0.0.1", "http", "", "for=127.0.0.1;"},
	} {
		p := start(t, func(w http.ResponseWriter, r *http.Request) { seen <- r.Header }, func(s *httpproxy.Settings) {
			s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix(trusted)}
		})
		p.ask(
			t, "GET", "/", nil, "X-Forwarded-For", "6.6.6.6", "X-Forwarded-Proto", "gopher", "X-Forwarded-Port", "70",
			"Forwarded", "for=6.6.6.6",
		)
		h := <-seen
		if h.Get("X-Forwarded-For") != want.client || h.Get("X-Forwarded-Proto") != want.proto ||
			h.Get("X-Forwarded-Port") != want.port || !strings.HasPrefix(h.Get("Forwarded"), want.forwarded) {
			t.Errorf("%s is trusted: %v", trusted, h)
		}
	}
}

// TestContinue: a client that asks first whether to send a body is told by the backend.
func TestContinue(t *testing.T) {
	p := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}, nil)
	for path, want := range map[string][]string{
		"/yes": {"HTTP/1.1 100 Continue", "", "HTTP/1.1 200 OK"}, "/no": {"HTTP/1.1 413 Request Entity Too Large"},
	} {
		conn := dial(t, p)
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", path)
		r := bufio.NewReader(conn)
		for i, line := range want {
			got, err := r.ReadString('\n')
			if err != nil || strings.TrimSpace(got) != line {
				t.Fatalf("%s: %q, %v; want %q", path, got, err, line)
			}
			if i == 0 && path == "/yes" {
				fmt.Fprint(conn, "hello")
			}
		}
	}
}

// TestEarlyHints: other informational answers are passed on.
func TestEarlyHints(t *testing.T) {
	p := start(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</x.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		_, _ = io.WriteString(w, "body")
	}, nil)
	conn := dial(t, p)
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	r := bufio.NewReader(conn)
	hints, err := http.ReadResponse(r, nil)
	if err != nil || hints.StatusCode != http.StatusEarlyHints || hints.Header.Get("Link") != "</x.css>" {
		t.Fatalf("%v, %v", hints, err)
	}
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Link") != "" {
		t.Fatalf("%v, %v", res, err)
	}
}

func TestRefusedMethods(t *testing.T) {
	p := start(t, func(http.ResponseWriter, *http.Request) { t.Error("the backend is asked") }, nil)
	for _, line := range []string{"TRACE / HTTP/1.1", "CONNECT other:443 HTTP/1.1"} {
		conn := dial(t, p)
		fmt.Fprintf(conn, "%s\r\nHost: other:443\r\n\r\n", line)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %v, %v", line, res, err)
		}
	}
}

// TestManyStreams: more streams than there are encoders to hold are compressed too, part by part.
func TestManyStreams(t *testing.T) {
	const streams = 80
	release := make(chan struct{})
	p := start(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(text(40000))
		w.(http.Flusher).Flush()
		<-release
		_, _ = w.Write(text(40000))
	}, func(s *httpproxy.Settings) { s.Codings = []negotiate.Coding{negotiate.Gzip} })
	var answers []*http.Response
	for range streams {
		answers = append(answers, p.ask(t, "GET", "/", nil, "Accept-Encoding", "gzip"))
	}
	close(release)
	want := append(text(40000), text(40000)...)
	for i, res := range answers {
		if wire, plain := read(t, res); !bytes.Equal(plain, want) || len(wire) > len(want)/2 {
			t.Errorf("stream %d: %d bytes, expanded %d", i, len(wire), len(plain))
		}
	}
}

func dial(t *testing.T, p *proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}
