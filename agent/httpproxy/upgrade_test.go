// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// key and accepts are the example of RFC 6455, section 1.3.
const (
	key     = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	accepts = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
)

// TestUpgrade: both sides speak what they have switched to.
func TestUpgrade(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" {
			t.Errorf("the backend sees %v", r.Header)
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n"+accepts+
			"X-Kept: yes\r\n\r\nhello\n")
		_, _ = io.Copy(conn, buffered)
	}
	p := start(t, handler, nil)
	conn := dial(t, p)
	// The first bytes come with the request.
	fmt.Fprint(conn, "GET /chat HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"+key+
		"\r\nearly\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("X-Kept") != "yes" ||
		res.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("%v, %v", res, err)
	}
	for _, want := range []string{"hello\n", "early\n"} {
		if got, err := r.ReadString('\n'); got != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
	for range 3 {
		fmt.Fprint(conn, "ping\n")
		if got, err := r.ReadString('\n'); got != "ping\n" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if s := p.Statistics(); s.Active != 1 {
		t.Errorf("%+v", s)
	}
	// The end of one direction is the end there.
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %q, %v", rest, err)
	}
	eventually(t, "the connection is counted as closed", func() bool { return p.Statistics().Active == 0 })
}

// TestUpgradeRefused: what was not asked for is not switched to.
func TestUpgradeRefused(t *testing.T) {
	var answer string
	p := start(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"+answer+"\r\n")
	}, nil)
	asked := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}
	for _, answer = range []string{
		"Upgrade: other\r\n" + accepts, "Upgrade: h2c\r\n", "Upgrade: websocket\r\n", accepts,
		"Upgrade: websocket\r\nSec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n",
	} {
		for _, header := range [][]string{asked, nil} {
			if res := p.ask(t, "GET", "/", nil, header...); res.StatusCode != http.StatusBadGateway {
				t.Errorf("%q, %q: %s", header, answer, res.Status)
			}
		}
	}
}

// TestUpgradeFields: the backend is asked for WebSocket and for nothing else, and a request for something else goes on
// as one for HTTP/1.1, as RFC 9110, section 7.8 allows.
func TestUpgradeFields(t *testing.T) {
	type fields struct{ upgrade, connection, settings, method string }
	seen := make(chan fields, 1)
	p := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		seen <- fields{r.Header.Get("Upgrade"), r.Header.Get("Connection"), r.Header.Get("Http2-Settings"), r.Method}
		_, _ = io.WriteString(w, "plain")
	}, nil)
	const upgrade = "Connection: Upgrade\r\nUpgrade: "
	for request, passes := range map[string]bool{
		"GET / HTTP/1.1\r\nHost: x\r\n" + upgrade + "websocket\r\n" + key:                                            true,
		"GET / HTTP/1.1\r\nHost: x\r\n" + upgrade + "h2c, WebSocket\r\nHTTP2-Settings: AAMAAABk\r\n" + key:           true,
		"GET / HTTP/1.1\r\nHost: x\r\n" + upgrade + "h2c\r\nHTTP2-Settings: AAMAAABk\r\n":                            false,
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n": false,
		"GET / HTTP/1.1\r\nHost: x\r\nHTTP2-Settings: AAMAAABk\r\n":                                                  false,
		"GET / HTTP/1.1\r\nHost: x\r\n" + upgrade + "TLS/1.0\r\n" + key:                                              false,
		"GET / HTTP/1.1\r\nHost: x\r\n" + upgrade + "websocket/2\r\n" + key:                                          false,
		"GET / HTTP/1.1\r\nHost: x\r\n" + upgrade + "websocket\r\n":                                                  false,
		"GET / HTTP/1.1\r\nHost: x\r\n" + upgrade + "websocket\r\nSec-WebSocket-Key: c2hvcnQ=\r\n":                   false,
		"GET / HTTP/1.1\r\nHost: x\r\n" + upgrade + "websocket\r\n" + key + "Sec-WebSocket-Key: another\r\n":         false,
		"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n" + key:                                                  false,
		"GET / HTTP/1.0\r\nHost: x\r\n" + upgrade + "websocket\r\n" + key:                                            false,
		"POST / HTTP/1.1\r\nHost: x\r\n" + upgrade + "websocket\r\n" + key + "Content-Length: 0\r\n":                 false,
		"GET / HTTP/1.1\r\nHost: x\r\n" + upgrade + "websocket\r\n" + key + "Transfer-Encoding: chunked\r\n":         false,
	} {
		conn := dial(t, p)
		body := ""
		if strings.Contains(request, "chunked") {
			body = "0\r\n\r\n"
		}
		fmt.Fprint(conn, request, "\r\n", body)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%q: %v, %v", request, res, err)
		}
		got := <-seen
		want := fields{method: request[:strings.IndexByte(request, ' ')]}
		if passes {
			want.upgrade, want.connection = "websocket", "Upgrade"
		}
		if got != want {
			t.Errorf("%q: the backend sees %+v", request, got)
		}
		conn.Close()
	}
}
