// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c" //nolint:staticcheck // What replaces it knows no upgrade from HTTP/1.1, which is the attack.

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/httpproxy"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/agent/policy"
)

// patience is what is waited for something that has to happen.
const patience = time.Minute

// proxySettings compress everything from 100 bytes on with gzip.
func proxySettings(backend string) httpproxy.Settings {
	return httpproxy.Settings{
		Egress:  egress.Policy{Loopback: true},
		Backend: backend, Codings: []negotiate.Coding{negotiate.Gzip}, Engines: engines.Default(),
		Policy: policy.Settings{Mode: policy.Auto, Level: codec.Fast, HardwareMinSize: 20000, SoftwareMinSize: 100},
		Health: httpproxy.Health{Timeout: patience},
	}
}

// serveProxy runs an HTTPEndpoint's proxy and returns its address.
func serveProxy(t *testing.T, s httpproxy.Settings) string {
	t.Helper()
	server, err := httpproxy.New(httpproxy.Options{Settings: s, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// TestUpgradeToH2CIsNoTunnel plays a client that asks a backend for h2c, to speak HTTP/2 past the proxy from then on.
//
// M3: the backend must see neither the upgrade nor a byte that the proxy did not write.
func TestUpgradeToH2CIsNoTunnel(t *testing.T) {
	t.Parallel()
	type request struct{ proto, path, forwardedFor, settings, upgrade string }
	var mu sync.Mutex
	var seen []request
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, request{
			r.Proto, r.URL.Path, r.Header.Get("X-Forwarded-For"), r.Header.Get("Http2-Settings"), r.Header.Get("Upgrade"),
		})
		mu.Unlock()
		_, _ = io.WriteString(w, "plain")
	})
	behind := httptest.NewServer(h2c.NewHandler(handler, new(http2.Server))) //nolint:staticcheck // see the import
	defer behind.Close()
	backend := behind.Listener.Addr().String()

	// attack asks for h2c and then sends, as HTTP/2, a request that claims to come from elsewhere.
	attack := func(address string) (status int) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprint(conn, "GET /first HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"+
			"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n")
		r := bufio.NewReader(conn)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		fmt.Fprint(conn, http2.ClientPreface)
		framer := http2.NewFramer(conn, r)
		_ = framer.WriteSettings()
		// HPACK by hand: GET, http, / and, as literals, :authority, :path and x-forwarded-for.
		block := []byte{0x82, 0x86}
		for _, field := range [][2]string{{":authority", "x"}, {":path", "/second"}, {"x-forwarded-for", "6.6.6.6"}} {
			block = append(block, 0, byte(len(field[0])))
			block = append(append(block, field[0]...), byte(len(field[1])))
			block = append(block, field[1]...)
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: block, EndStream: true, EndHeaders: true})
		for answered := 0; answered < 2; { // stream 1 is the request that asked for h2c
			frame, err := framer.ReadFrame()
			if err != nil {
				break // the connection was closed
			}
			if _, ok := frame.(*http2.HeadersFrame); ok {
				answered++
			}
		}
		return res.StatusCode
	}

	// Without the proxy the attack works, so that the test shows something.
	if status := attack(backend); status != http.StatusSwitchingProtocols {
		t.Fatalf("the backend does not speak h2c: %d", status)
	}
	mu.Lock()
	if forged := (request{proto: "HTTP/2.0", path: "/second", forwardedFor: "6.6.6.6"}); !slices.Contains(seen, forged) {
		t.Fatalf("the backend saw %+v", seen)
	}
	seen = nil
	mu.Unlock()

	if status := attack(serveProxy(t, proxySettings(backend))); status != http.StatusOK {
		t.Errorf("the first request got %d", status)
	}
	mu.Lock()
	defer mu.Unlock()
	want := request{proto: "HTTP/1.1", path: "/first", forwardedFor: "127.0.0.1"}
	if len(seen) != 1 || seen[0] != want {
		t.Errorf("the backend saw %+v", seen)
	}
}

// TestForcedCompressionObeysLimit plays twenty clients that accept nothing but compressed responses where one may be
// compressed at a time.
//
// M8: one is compressed, the others are asked to try again.
func TestForcedCompressionObeysLimit(t *testing.T) {
	t.Parallel()
	const clients = 20
	page := strings.Repeat("compress me ", 5000)
	release := make(chan struct{})
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, page)
		w.(http.Flusher).Flush()
		<-release // the response is under way until all clients have theirs
	}))
	defer behind.Close()
	s := proxySettings(behind.Listener.Addr().String())
	s.MaxConcurrent = 1
	url := "http://" + serveProxy(t, s)

	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	answers := make(chan *http.Response, clients)
	var asking sync.WaitGroup
	for range clients {
		asking.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Accept-Encoding", "gzip, identity;q=0")
			res, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			answers <- res
		})
	}
	asking.Wait()
	close(release)
	close(answers)
	var compressed, later int
	for res := range answers {
		switch {
		case res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != "":
			later++
		case res.StatusCode == http.StatusOK && res.Header.Get("Content-Encoding") == "gzip":
			compressed++
			plain, err := gzip.NewReader(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(plain); err != nil || string(got) != page {
				t.Errorf("the compressed response expands to %d bytes, %v", len(got), err)
			}
		default:
			t.Errorf("%s, %v", res.Status, res.Header)
		}
		res.Body.Close()
	}
	if compressed != 1 || later != clients-1 {
		t.Errorf("%d were compressed, %d are to try again", compressed, later)
	}
}
