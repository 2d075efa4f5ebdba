// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/httpproxy"
)

// rawBackend takes one request on each connection, shows it to look, and answers with bytes that need not be HTTP.
type rawBackend struct {
	net.Listener
	mu     sync.Mutex
	answer []byte
	cut    int // the answer comes in two parts, of which the first is this long
	look   func(*http.Request, *bufio.Reader)
}

func newRawBackend(t testing.TB) *rawBackend {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &rawBackend{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go b.serve(conn)
		}
	}()
	return b
}

func (b *rawBackend) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	req, err := http.ReadRequest(r)
	b.mu.Lock()
	answer, cut, look := b.answer, b.cut, b.look
	b.mu.Unlock()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return // a check of health, or a client that has gone
	}
	if look != nil {
		if err != nil {
			req = nil
		}
		look(req, r)
	}
	if err == nil {
		_, _ = conn.Write(answer[:cut])
		_, _ = conn.Write(answer[cut:])
	}
}

// final reads an answer after those with status 1xx, of which there may be so many.
func final(r *bufio.Reader, informational int) (*http.Response, []byte, error) {
	for range informational + 1 {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return nil, nil, err
		}
		if res.StatusCode/100 != 1 {
			body, err := io.ReadAll(res.Body)
			return res, body, err
		}
		if res.StatusCode == http.StatusSwitchingProtocols {
			break
		}
	}
	return nil, nil, errors.New("no answer")
}

// FuzzAnswer: whatever a backend sends, the client gets what Go understands of it, or is told that there is none. What
// breaks off is never passed on as if it were whole.
func FuzzAnswer(f *testing.F) {
	long := strings.Repeat("compress me ", 100)
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1200\r\n\r\n" + long,
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1201\r\n\r\n" + long,
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\n" + long,
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + long,
		"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nETag: \"x\"\r\n\r\n" + long,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\nTrailer: A\r\n\r\n4b0\r\n" + long +
			"\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n\r\n4b0\r\n" + long + "\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
		"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
		strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 6) + "HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
		"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
		"HTTP/1.1 050 Odd\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 000 None\r\n\r\n",
		"HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/9.9 200 OK\r\n\r\n", "ICY 200 OK\r\n\r\n",
		"HTTP/1.1 200\r\n\r\n", "\r\n\r\n", "\x00", "",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nA : b\r\n\r\nok",
		"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
		"HTTP/1.1 200 OK\r\nA: b\x00c\r\n\r\nok", "HTTP/1.1 200 OK\r\n: b\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nConnection: Content-Length, x\r\nContent-Length: 2\r\n\r\nokay",
	} {
		f.Add([]byte(answer), uint16(len(answer)/2))
	}
	backend := newRawBackend(f)
	s := settings(backend.Addr().String())
	s.Health = httpproxy.Health{Interval: time.Hour, Timeout: patience}
	p := serve(f, s, nil)
	f.Fuzz(func(t *testing.T, answer []byte, cut uint16) {
		backend.mu.Lock()
		backend.answer, backend.cut = answer, min(int(cut), len(answer))
		backend.mu.Unlock()
		want, wantBody, wantErr := final(bufio.NewReader(bytes.NewReader(answer)), 5)
		conn := dial(t, p)
		defer conn.Close()
		if _, err := io.WriteString(
			conn, "GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n",
		); err != nil {
			t.Fatal(err)
		}
		got, body, err := final(bufio.NewReader(conn), 10)
		if err == nil && got.Header.Get("Content-Encoding") == "gzip" && (want == nil ||
			len(want.Header["Content-Encoding"]) == 0) {
			if body, err = io.ReadAll(expander(t, "gzip", bytes.NewReader(body))); err != nil {
				t.Fatalf("what was compressed is broken: %v", err)
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			t.Fatal("no answer at all")
		case want == nil || want.StatusCode < 100:
			if err != nil || got.StatusCode != http.StatusBadGateway {
				t.Errorf("of what is no answer became %s, %q", got.Status, body)
			}
		case wantErr != nil:
			if err == nil && got.StatusCode != http.StatusBadGateway {
				t.Errorf("half an answer (%v) became a whole one: %s, %q", wantErr, got.Status, body)
			}
		case err != nil:
			t.Errorf("%s, %q did not arrive: %v", want.Status, wantBody, err)
		case got.StatusCode != want.StatusCode || !bytes.Equal(body, wantBody):
			t.Errorf("%s, %q became %s, %q", want.Status, wantBody, got.Status, body)
		}
	})
}

// FuzzRequest: whatever a client sends, the backend sees requests that can be read in one way only, each with nothing
// behind it.
func FuzzRequest(f *testing.F) {
	for _, name := range slices.Sorted(maps.Keys(smugglingCases)) {
		f.Add([]byte(smugglingCases[name].request))
	}
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /second HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Add([]byte("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: \r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok"))
	backend := newRawBackend(f)
	s := settings(backend.Addr().String())
	// Nothing depends on whether that is enough: what it cuts is seen less far.
	s.Limits = httpproxy.Limits{
		HeaderTimeout: 20 * time.Millisecond, IdleTimeout: 20 * time.Millisecond, StallTimeout: 40 * time.Millisecond,
	}
	p := serve(f, s, nil)
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
	f.Fuzz(func(t *testing.T, request []byte) {
		var problems sync.Map
		backend.mu.Lock()
		backend.answer, backend.cut = answer, len(answer)
		backend.look = func(r *http.Request, rest *bufio.Reader) {
			switch {
			case r == nil:
				problems.Store("what the backend gets is no request", true)
				return
			case len(r.Header["Content-Length"]) > 1 || r.ContentLength >= 0 && len(r.TransferEncoding) > 0:
				problems.Store("there are two lengths", true)
			}
			if _, err := io.Copy(io.Discard, r.Body); err == nil && rest.Buffered() > 0 {
				problems.Store("something follows the request", true)
			}
		}
		backend.mu.Unlock()
		conn := dial(t, p)
		defer conn.Close()
		if _, err := conn.Write(request); err == nil {
			_, _ = io.Copy(io.Discard, conn) // until the proxy has had enough
		}
		problems.Range(func(problem, _ any) bool {
			t.Errorf("%v: %q", problem, request)
			return true
		})
	})
}
