// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/httpproxy/backend"
	"github.com/lighterage/lighterage/agent/transport"
)

const patience = 2 * time.Minute

// server answers each connection by a function, which is told how many there were before.
func server(t *testing.T, serve func(n int, c net.Conn, r *bufio.Reader)) (address string, conns *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns = new(atomic.Int64)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := int(conns.Add(1)) - 1
			wg.Go(func() {
				defer c.Close()
				serve(n, c, bufio.NewReader(c))
			})
		}
	})
	return l.Addr().String(), conns
}

// always answers every request with the same.
func always(answer string) func(int, net.Conn, *bufio.Reader) {
	return func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

func start(t *testing.T, o backend.Options) *backend.Backend {
	t.Helper()
	if o.Egress == nil {
		o.Egress = egress.NewGuard(egress.Policy{Loopback: true})
	}
	b := backend.New(o)
	t.Cleanup(b.Close)
	return b
}

func request(t *testing.T, method string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://backend/", nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func do(t *testing.T, b *backend.Backend, req *http.Request) string {
	t.Helper()
	res, err := b.Do(req, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestReuse: connections are used again after every kind of answer that permits it.
func TestReuse(t *testing.T) {
	for name, test := range map[string]struct {
		method, answer, body string
		conns                int64
	}{
		"length": {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 1},
		"empty":  {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", 1},
		"chunked": {
			"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: y\r\n\r\n", "hello", 1,
		},
		"204":       {"GET", "HTTP/1.1 204 No Content\r\n\r\n", "", 1},
		"304":       {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n", "", 1},
		"HEAD":      {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", "", 1},
		"told so":   {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", "hello", 3},
		"HTTP/1.0":  {"GET", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 3},
		"too much":  {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!", "hello", 3},
		"100 first": {"GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 1},
	} {
		address, conns := server(t, always(test.answer))
		b := start(t, backend.Options{Address: address})
		for range 3 {
			if got := do(t, b, request(t, test.method)); got != test.body {
				t.Errorf("%s: %q", name, got)
			}
		}
		if got := conns.Load(); got != test.conns {
			t.Errorf("%s: %d connections", name, got)
		}
	}
}

// TestStale: a request is sent again when the backend had closed the connection, and only then.
func TestStale(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
	second := make(chan struct{})
	address, conns := server(t, func(n int, c net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		fmt.Fprintf(c, "%s%02d", answer, n)
		if _, err := http.ReadRequest(r); err == nil && n == 1 {
			close(second)
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Le") // dies while it answers
		}
		// Else it reads the next request and closes without a word, as one that has just given up waiting does.
	})
	b := start(t, backend.Options{Address: address})
	for i, want := range []string{"00", "01"} {
		if got := do(t, b, request(t, "GET")); got != want {
			t.Errorf("request %d: %q", i, got)
		}
	}
	if _, err := b.Do(request(t, "GET"), nil); err == nil || conns.Load() != 2 {
		t.Errorf("half an answer: %v, %d connections", err, conns.Load())
	}
	<-second
}

// TestUnasked: what comes before a request is not the answer to it.
func TestUnasked(t *testing.T) {
	poison := make(chan struct{})
	address, _ := server(t, func(n int, c net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
		if n == 0 {
			<-poison
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad")
			awaitReceipt(t, c)
			poison <- struct{}{}
		}
		_, _ = io.Copy(io.Discard, c)
	})
	b := start(t, backend.Options{Address: address})
	do(t, b, request(t, "GET"))
	poison <- struct{}{}
	<-poison
	if got := do(t, b, request(t, "GET")); got != "good" {
		t.Errorf("%q", got)
	}
}

// awaitReceipt waits until the other side's kernel has all that was sent.
func awaitReceipt(t *testing.T, c net.Conn) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		var unacknowledged int
		var asked error
		err := raw.Control(func(fd uintptr) { unacknowledged, asked = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
		err = errors.Join(err, asked)
		if err != nil || time.Now().After(deadline) {
			t.Errorf("%d bytes were not received: %v", unacknowledged, err)
		}
		if err != nil || unacknowledged == 0 {
			return
		}
	}
}

func TestInformational(t *testing.T) {
	address, _ := server(
		t, always("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
	)
	b := start(t, backend.Options{Address: address})
	for _, method := range []string{"GET", "DELETE"} {
		var got []string
		res, err := b.Do(request(t, method), func(code int, h http.Header) error {
			got = append(got, fmt.Sprint(code, h.Get("Link")))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if strings.Join(got, ",") != "103a" {
			t.Errorf("%s: %q", method, got)
		}
	}
	broken := errors.New("the client has gone")
	if _, err := b.Do(request(t, "GET"), func(int, http.Header) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestTimeouts(t *testing.T) {
	silent, _ := server(t, func(_ int, c net.Conn, _ *bufio.Reader) { _, _ = io.Copy(io.Discard, c) })
	slow, _ := server(t, func(_ int, c net.Conn, _ *bufio.Reader) {
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
		_, _ = io.Copy(io.Discard, c)
	})
	o := backend.Options{HeaderTimeout: 50 * time.Millisecond, BodyTimeout: 50 * time.Millisecond}
	for _, method := range []string{"GET", "POST"} {
		o.Address = silent
		if _, err := start(t, o).Do(request(t, method), nil); !errors.Is(err, backend.ErrTimeout) {
			t.Errorf("%s: %v", method, err)
		}
	}
	o.Address, o.HeaderTimeout = slow, patience
	res, err := start(t, o).Do(request(t, "GET"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(res.Body); string(got) != "some" || !errors.Is(err, backend.ErrTimeout) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := res.Body.Read(make([]byte, 1)); !errors.Is(err, backend.ErrTimeout) {
		t.Errorf("again: %v", err)
	}
}

// TestUsedAfterTheDeadline: the deadline of one request, which stays when it is answered, does not end the next one.
func TestUsedAfterTheDeadline(t *testing.T) {
	t.Parallel()
	for limit := 100 * time.Millisecond; ; limit *= 2 {
		address, conns := server(t, always("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
		b := start(t, backend.Options{Address: address, HeaderTimeout: limit, BodyTimeout: limit})
		var err error
		for range 2 {
			var res *http.Response
			if res, err = b.Do(request(t, "GET"), nil); err != nil {
				break
			}
			var got []byte
			if got, err = io.ReadAll(res.Body); string(got) != "ok" && err == nil {
				t.Errorf("%q", got)
			}
			res.Body.Close()
			time.Sleep(limit + limit/2)
		}
		if errors.Is(err, backend.ErrTimeout) && limit < patience {
			continue // on a busy machine the header may need more
		}
		if err != nil || conns.Load() != 1 {
			t.Errorf("%v, by %d connections", err, conns.Load())
		}
		return
	}
}

// TestEndlessStream: a body of unknown length may stand still, for longer than a header may take.
func TestEndlessStream(t *testing.T) {
	t.Parallel()
	address, _ := server(t, func(_ int, c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		pause, err := time.ParseDuration(req.Header.Get("X-Pause"))
		if err != nil {
			t.Error(err)
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
		time.Sleep(pause)
		fmt.Fprint(c, "1\r\nb\r\n0\r\n\r\n")
	})
	for limit := 200 * time.Millisecond; ; limit *= 2 {
		req := request(t, "GET")
		req.Header.Set("X-Pause", (limit + limit/4).String())
		res, err := start(
			t, backend.Options{Address: address, HeaderTimeout: limit, BodyTimeout: time.Millisecond},
		).Do(req, nil)
		if errors.Is(err, backend.ErrTimeout) && limit < patience {
			continue // on a busy machine the header may need more
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if string(got) != "ab" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		return
	}
}

// TestCancel: who waits is woken when nobody wants the answer any more.
func TestCancel(t *testing.T) {
	address, _ := server(t, func(_ int, c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if req.URL.Path == "/body" {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
		}
		_, _ = io.Copy(io.Discard, c)
	})
	b := start(t, backend.Options{Address: address})
	for _, path := range []string{"/header", "/body"} {
		ctx, cancel := context.WithCancel(t.Context())
		req := request(t, "GET").WithContext(ctx)
		req.URL.Path = path
		time.AfterFunc(20*time.Millisecond, cancel)
		res, err := b.Do(req, nil)
		if err == nil {
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", path, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Do(request(t, "GET").WithContext(ctx), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("before the start: %v", err)
	}
}

func TestHeaderTooLong(t *testing.T) {
	address, _ := server(t, always("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 100000)+"\r\nContent-Length: 0\r\n\r\n"))
	if _, err := start(
		t, backend.Options{Address: address, MaxHeaderBytes: 50000},
	).Do(request(t, "GET"), nil); !errors.Is(err, backend.ErrHeaderTooLong) {
		t.Errorf("%v", err)
	}
	do(t, start(t, backend.Options{Address: address}), request(t, "GET"))
}

func TestIdle(t *testing.T) {
	var open atomic.Int64
	address, _ := server(t, func(n int, c net.Conn, r *bufio.Reader) {
		open.Add(1)
		defer open.Add(-1)
		always("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")(n, c, r)
	})
	counter := new(transport.Counter)
	b := start(t, backend.Options{Address: address, IdleTimeout: 30 * time.Millisecond, MaxIdle: 2, Counter: counter})
	var answers []*http.Response
	for range 4 {
		res, err := b.Do(request(t, "GET"), nil)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, res)
	}
	if n := open.Load(); n != 4 {
		t.Errorf("%d connections for four answers", n)
	}
	for i, res := range answers {
		if i < 3 {
			_, _ = io.Copy(io.Discard, res.Body)
		}
		res.Body.Close() // the last was not read
	}
	for deadline := time.Now().Add(patience); open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections stay", open.Load())
		}
	}
	if counter.Bytes() < 4*40 {
		t.Errorf("%d bytes are counted", counter.Bytes())
	}
	// Nothing is kept after the end.
	b.Close()
	do(t, b, request(t, "GET"))
	for deadline := time.Now().Add(patience); open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections stay", open.Load())
		}
	}
}

func TestTLS(t *testing.T) {
	behind := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))
	defer behind.Close()
	pool := x509.NewCertPool()
	pool.AddCert(behind.Certificate())
	for name, want := range map[string]bool{"example.com": true, "elsewhere.example": false} {
		b := start(
			t, backend.Options{Address: behind.Listener.Addr().String(), TLS: &tls.Config{ServerName: name, RootCAs: pool}},
		)
		req := request(t, "GET")
		req.URL.Scheme = "https"
		res, err := b.Do(req, nil)
		if (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			res.Body.Close()
		}
	}
}
