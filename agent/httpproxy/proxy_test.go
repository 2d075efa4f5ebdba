// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/lighterage/lighterage/agent/certificates"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/httpproxy"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/test/corpus"
)

// patience is what is waited for something that has to happen, also where a hundred other programs run.
const patience = 2 * time.Minute

// settings for a backend, which compress everything from 100 bytes on in software.
func settings(backend string) httpproxy.Settings {
	return httpproxy.Settings{
		Backend: backend, Codings: []negotiate.Coding{negotiate.Gzip, negotiate.Deflate, negotiate.Zstd},
		Engines: engines.Default(), Explain: true,
		Egress: egress.Policy{Loopback: true},
		Policy: policy.Settings{Mode: policy.Auto, Level: codec.Fast, HardwareMinSize: 20000, SoftwareMinSize: 100},
		Limits: httpproxy.Limits{HeaderTimeout: patience, IdleTimeout: patience, StallTimeout: patience},
		Health: httpproxy.Health{Timeout: patience},
	}
}

// proxy is one that runs for a test.
type proxy struct {
	*httpproxy.Server
	address string
	url     string
	client  *http.Client
}

// start runs a proxy before a backend that is a handler.
func start(t testing.TB, handler http.HandlerFunc, change func(*httpproxy.Settings)) *proxy {
	t.Helper()
	behind := httptest.NewServer(handler)
	t.Cleanup(behind.Close)
	s := settings(behind.Listener.Addr().String())
	if change != nil {
		change(&s)
	}
	return serve(t, s, nil)
}

// startTLS is start with TLS and HTTP/2.
func startTLS(t testing.TB, handler http.HandlerFunc, change func(*httpproxy.Settings)) *proxy {
	t.Helper()
	behind := httptest.NewServer(handler)
	t.Cleanup(behind.Close)
	s := settings(behind.Listener.Addr().String())
	if change != nil {
		change(&s)
	}
	dir := t.TempDir()
	writePair(t, dir, "first")
	return serve(t, s, certificates.Read(dir))
}

func serve(t testing.TB, s httpproxy.Settings, c *certificates.Serving) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, listener, s, c)
}

// serveOn is serve on a listener.
func serveOn(t testing.TB, listener net.Listener, s httpproxy.Settings, c *certificates.Serving) *proxy {
	t.Helper()
	server, err := httpproxy.New(httpproxy.Options{Settings: s, Certificates: c, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	p := &proxy{Server: server, address: listener.Addr().String(), url: "http://" + listener.Addr().String()}
	transport := &http.Transport{DisableCompression: true}
	if c != nil {
		p.url = "https://" + p.address
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
		transport.ForceAttemptHTTP2 = true
	}
	p.client = &http.Client{
		Transport: transport, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		// It may have been closed before it began to serve.
		if err := <-ended; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return p
}

// writePair writes a certificate for a name and its key.
func writePair(t testing.TB, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask sends a request; header alternates names and values.
func (p *proxy) ask(t *testing.T, method, path string, body io.Reader, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := p.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// read returns a body as it came, and expanded.
func read(t *testing.T, res *http.Response) (wire, plain []byte) {
	t.Helper()
	wire, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("after %d bytes: %v", len(wire), err)
	}
	plain, err = io.ReadAll(expander(t, res.Header.Get("Content-Encoding"), bytes.NewReader(wire)))
	if err != nil {
		t.Fatalf("expand %d bytes of %s: %v", len(wire), res.Header.Get("Content-Encoding"), err)
	}
	return wire, plain
}

func expander(t testing.TB, coding string, r io.Reader) io.Reader {
	t.Helper()
	var err error
	switch coding {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "deflate":
		r, err = zlib.NewReader(r)
	case "zstd":
		var d *zstd.Decoder
		d, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		t.Cleanup(d.Close)
		r = d
	}
	if err != nil {
		t.Fatalf("expand %s: %v", coding, err)
	}
	return r
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

func text(n int) []byte { return generate("json", n) }

func generate(name string, n int) []byte {
	c, ok := corpus.ByName(name)
	if !ok {
		panic("no corpus " + name)
	}
	return c.Generate(n)
}

// answers is a backend with a header and a body. known says that it tells the length.
func answers(body []byte, known bool, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		if !known {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}
		_, _ = w.Write(body)
	}
}

// TestEveryWay sends bodies of all lengths in all codings over both protocols.
func TestEveryWay(t *testing.T) {
	for _, n := range []int{0, 99, 5000, 256 << 10, 256<<10 + 1} {
		body := text(n)
		for _, known := range []bool{true, false} {
			handler := answers(body, known)
			for protocol, p := range map[string]*proxy{"1.1": start(t, handler, nil), "2": startTLS(t, handler, nil)} {
				for _, coding := range []string{"gzip", "deflate", "zstd", "identity"} {
					res := p.ask(t, "GET", "/", nil, "Accept-Encoding", coding)
					wire, plain := read(t, res)
					if !bytes.Equal(plain, body) {
						t.Errorf("%d bytes, known %v, HTTP/%s, %s: got %d", n, known, protocol, coding, len(plain))
					}
					if (res.ProtoMajor == 2) != (protocol == "2") {
						t.Errorf("it was %s", res.Proto)
					}
					got := res.Header.Get("Content-Encoding")
					if n < 100 && got != "" || n > 5000 && (got != strings.TrimPrefix(coding, "identity") ||
						got != "" && len(wire) > n/2) {
						t.Errorf(
							"%d bytes, known %v, HTTP/%s, %s: coding %q, %d bytes, %s", n, known, protocol, coding, got, len(wire),
							res.Header.Get("Lighterage-Compression"),
						)
					}
					if res.Header.Get("Vary") != "Accept-Encoding" {
						t.Errorf("%d bytes, %s: Vary is %q", n, coding, res.Header.Values("Vary"))
					}
				}
			}
		}
	}
}

// TestWhatIsCompressed is a table of single answers.
func TestWhatIsCompressed(t *testing.T) {
	plain, random := text(5000), generate("random", 5000)
	for name, test := range map[string]struct {
		body   []byte
		header []string // of the backend
		ask    []string
		status int
		change func(*httpproxy.Settings)
		coding string
		reason string // after the engine
	}{
		"compressed": {
			body: plain, ask: []string{"Accept-Encoding", "gzip"}, coding: "gzip", reason: "SoftwareUsed",
		},
		"hardware is preferred": {
			body: plain, ask: []string{"Accept-Encoding", "gzip"},
			change: func(s *httpproxy.Settings) { s.Policy.PreferHardware = true }, coding: "gzip", reason: "NoAccelerator",
		},
		"hardware does no zstd": {
			body: plain, ask: []string{"Accept-Encoding", "zstd"},
			change: func(s *httpproxy.Settings) { s.Policy.PreferHardware = true }, coding: "zstd",
			reason: "CodecNotAccelerated",
		},
		"hardware failed its test": {
			body: plain, ask: []string{"Accept-Encoding", "gzip"},
			change: func(s *httpproxy.Settings) { s.Accelerator = policy.NotUsed }, coding: "gzip", reason: "SelfTestFailed",
		},
		"no Accept-Encoding": {body: plain, reason: "PeerRefused"},
		"identity preferred": {
			body: plain, ask: []string{"Accept-Encoding", "gzip;q=0.5, identity"}, reason: "PeerRefused",
		},
		"below the minimum": {body: plain[:99], ask: []string{"Accept-Encoding", "gzip"}, reason: "BelowMinimum"},
		"at the minimum": {
			body: bytes.Repeat([]byte("ab"), 50), ask: []string{"Accept-Encoding", "gzip"}, coding: "gzip",
			reason: "SoftwareUsed",
		},
		"below, identity refused": {
			body: plain[:99], ask: []string{"Accept-Encoding", "gzip, identity;q=0"}, coding: "gzip", reason: "SoftwareUsed",
		},
		"empty, identity refused": {
			body: nil, ask: []string{"Accept-Encoding", "gzip, identity;q=0"}, coding: "gzip", reason: "SoftwareUsed",
		},
		"noise": {body: random, ask: []string{"Accept-Encoding", "gzip"}, reason: "Incompressible"},
		"noise, always": {
			body: random, ask: []string{"Accept-Encoding", "gzip"},
			change: func(s *httpproxy.Settings) { s.Policy.Mode = policy.Always }, reason: "DidNotShrink",
		},
		"noise, identity refused": {
			body: random, ask: []string{"Accept-Encoding", "gzip, identity;q=0"}, coding: "gzip", reason: "SoftwareUsed",
		},
		"never": {
			body: plain, ask: []string{"Accept-Encoding", "gzip"},
			change: func(s *httpproxy.Settings) { s.Policy.Mode = policy.Never }, reason: "PolicyNever",
		},
		"no software": {
			body: plain, ask: []string{"Accept-Encoding", "gzip"},
			change: func(s *httpproxy.Settings) { s.Policy.SoftwareDisabled = true }, reason: "SoftwareDisabled",
		},
		"no codings": {
			body: plain, ask: []string{"Accept-Encoding", "gzip"}, change: func(s *httpproxy.Settings) { s.Codings = nil },
			reason: "PolicyNever",
		},
		"other type": {
			body: plain, header: []string{"Content-Type", "image/png"}, ask: []string{"Accept-Encoding", "gzip"},
			reason: "OtherContentType",
		},
		"other type, forced": {
			body: plain, header: []string{"Content-Type", "image/png"}, ask: []string{"Accept-Encoding", "gzip, identity;q=0"},
			coding: "gzip", reason: "SoftwareUsed",
		},
		"a type of the user's": {
			body: plain, header: []string{"Content-Type", "image/png"}, ask: []string{"Accept-Encoding", "gzip"},
			change: func(s *httpproxy.Settings) { s.ContentTypes = []string{"image/*"} }, coding: "gzip", reason: "SoftwareUsed",
		},
		"events": {
			body: plain, header: []string{"Content-Type", "text/event-stream"}, ask: []string{"Accept-Encoding", "gzip"},
			reason: "OtherContentType",
		},
		"a range": {
			body: plain, header: []string{"Content-Range", "bytes 0-4999/9999"}, status: 206,
			ask: []string{"Accept-Encoding", "gzip"}, reason: "PartialContent",
		},
		"a range, identity refused": {
			body: plain, header: []string{"Content-Range", "bytes 0-4999/9999"}, status: 206,
			ask: []string{"Accept-Encoding", "gzip, identity;q=0"}, reason: "PartialContent",
		},
		"encoded by the backend": {
			body: plain, header: []string{"Content-Encoding", "br"}, ask: []string{"Accept-Encoding", "gzip"}, coding: "br",
			reason: "AlreadyEncoded",
		},
		"encoded as identity": {
			body: plain, header: []string{"Content-Encoding", "identity"}, ask: []string{"Accept-Encoding", "gzip"},
			coding: "gzip", reason: "SoftwareUsed",
		},
		"no-transform": {
			body: plain, header: []string{"Cache-Control", "public, no-transform"}, ask: []string{"Accept-Encoding", "gzip"},
			reason: "NoTransform",
		},
		"the client's no-transform": {
			body: plain, ask: []string{"Accept-Encoding", "gzip", "Cache-Control", "no-transform"}, reason: "NoTransform",
		},
		"an error": {
			body: plain, status: 500, ask: []string{"Accept-Encoding", "gzip"}, coding: "gzip", reason: "SoftwareUsed",
		},
		"not found": {
			body: plain, status: 404, ask: []string{"Accept-Encoding", "gzip"}, coding: "gzip", reason: "SoftwareUsed",
		},
		"too many already": {
			body: plain, ask: []string{"Accept-Encoding", "gzip"}, change: func(s *httpproxy.Settings) { s.MaxConcurrent = 1 },
			coding: "gzip", reason: "SoftwareUsed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.status == 0 {
				test.status = http.StatusOK
			}
			p := start(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				// else what is decided depends on how much comes soon
				w.Header().Set("Content-Length", strconv.Itoa(len(test.body)))
				for i := 0; i < len(test.header); i += 2 {
					w.Header().Set(test.header[i], test.header[i+1])
				}
				w.WriteHeader(test.status)
				_, _ = w.Write(test.body)
			}, test.change)
			res := p.ask(t, "GET", "/", nil, test.ask...)
			if res.StatusCode != test.status || res.Header.Get("Content-Encoding") != test.coding {
				t.Errorf("%s, coding %q", res.Status, res.Header.Get("Content-Encoding"))
			}
			engine, reason, _ := strings.Cut(res.Header.Get("Lighterage-Compression"), ";")
			tried := test.reason == "DidNotShrink" || test.coding != "" && test.coding != "br"
			if reason != test.reason || (engine == "none") == tried {
				t.Errorf("the header says %q", res.Header.Get("Lighterage-Compression"))
			}
			wire, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if test.coding == "br" || test.coding == "" {
				if !bytes.Equal(wire, test.body) {
					t.Errorf("%d bytes became %d", len(test.body), len(wire))
				}
				return
			}
			if got, err := io.ReadAll(expander(t, test.coding, bytes.NewReader(wire))); err != nil ||
				!bytes.Equal(got, test.body) {
				t.Errorf("%d bytes became %d, %v", len(test.body), len(got), err)
			}
		})
	}
}

func TestNotAcceptable(t *testing.T) {
	asked := false
	p := start(t, func(w http.ResponseWriter, _ *http.Request) { asked = true }, nil)
	for _, accept := range []string{"identity;q=0", "*;q=0", "br, identity;q=0"} {
		if res := p.ask(t, "POST", "/", nil, "Accept-Encoding", accept); res.StatusCode != http.StatusNotAcceptable ||
			res.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %s, Vary %q", accept, res.Status, res.Header.Get("Vary"))
		}
	}
	if asked {
		t.Error("the backend was asked for what could not be sent")
	}
	// Who compresses nothing judges nothing.
	p = start(t, answers(text(200), true), func(s *httpproxy.Settings) { s.Policy.Mode = policy.Never })
	if res := p.ask(t, "GET", "/", nil, "Accept-Encoding", "identity;q=0"); res.StatusCode != http.StatusOK {
		t.Errorf("mode Never: %s", res.Status)
	}
}

// TestNoBody: answers without a body keep what they say.
func TestNoBody(t *testing.T) {
	p := start(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("ETag", `"v1"`)
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.WriteHeader(http.StatusNotModified)
		case "/small":
			w.Header().Set("Content-Length", "10")
		case "/large":
			w.Header().Set("Content-Length", "10000")
			w.Header().Set("Accept-Ranges", "bytes")
		}
	}, nil)
	for _, test := range []struct {
		method, path, coding, length, tag string
	}{
		{"GET", "/204", "", "", `"v1"`},
		{"GET", "/304", "", "", `"v1"`},
		{"HEAD", "/small", "", "10", `"v1"`},
		{"HEAD", "/large", "gzip", "", `"v1;lighterage=gzip"`},
		{"HEAD", "/304", "", "", `"v1"`},
	} {
		res := p.ask(t, test.method, test.path, nil, "Accept-Encoding", "gzip")
		h := res.Header
		if h.Get("Content-Encoding") != test.coding || h.Get("Content-Length") != test.length || h.Get("ETag") != test.tag ||
			h.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s %s: %v", test.method, test.path, h)
		}
		if test.coding != "" && h.Get("Accept-Ranges") != "" {
			t.Errorf("%s %s: ranges of what is coded", test.method, test.path)
		}
	}
	if s := p.Statistics(); s.Uncompressed != 5 || len(s.Meter.Skipped) != 0 {
		t.Errorf("%+v", s)
	}
}

func TestStatistics(t *testing.T) {
	p := startTLS(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		switch r.URL.Path {
		case "/lost":
			w.WriteHeader(http.StatusNotFound)
		case "/stream":
			w.(http.Flusher).Flush()
			_, _ = w.Write(text(300000))
		default:
			_, _ = w.Write(text(5000))
		}
	}, nil)
	before := p.Statistics()
	if before.Hardware+before.Software+before.Uncompressed+before.Active != 0 || before.Since.IsZero() {
		t.Errorf("at the start: %+v", before)
	}
	passed := p.Passed()
	if again := p.Passed(); again != passed {
		t.Errorf("%d passed without a request, %d before", again, passed)
	}
	read(t, p.ask(t, "GET", "/", nil, "Accept-Encoding", "gzip"))
	if p.Passed() == passed {
		t.Error("nothing passed with a request")
	}
	read(t, p.ask(t, "GET", "/", nil, "Accept-Encoding", "zstd"))
	read(t, p.ask(t, "GET", "/stream", nil, "Accept-Encoding", "gzip"))
	read(t, p.ask(t, "GET", "/", nil, "Accept-Encoding", "identity"))
	read(t, p.ask(t, "GET", "/lost", nil, "Accept-Encoding", "gzip"))
	var s httpproxy.Statistics
	eventually(t, "all are counted", func() bool {
		s = p.Statistics()
		return s.Software+s.Uncompressed == 5
	})
	if s.Active != 1 || s.HighWater != 1 || s.Reused != 4 || s.URLErrors != 1 || s.TimedOut != 0 || s.Refused != 0 {
		t.Errorf("connections: %+v", s)
	}
	if s.Software != 3 || s.Uncompressed != 2 || s.ByCoding[negotiate.Gzip] != 2 || s.ByCoding[negotiate.Zstd] != 1 ||
		s.ByCoding[negotiate.Identity] != 2 {
		t.Errorf("responses: %+v", s)
	}
	if s.CompressedPlainBytes != 310000 || s.CompressedBytes <= 0 || s.CompressedBytes > 155000 ||
		s.Meter.Software.Operations != 3 ||
		s.Meter.UncompressedBytes != 315000 || s.Meter.Stored.Bytes != 5000 || s.Meter.Skipped[policy.PeerRefused] != 1 ||
		s.Meter.CPU <= 0 || s.Meter.Estimate.CPU <= 0 || s.Meter.Estimate.CPU >= s.Meter.CPU {
		t.Errorf("bodies: %+v", s)
	}
	if s.Wire.Wire < 315000+s.CompressedBytes {
		t.Errorf("%d bytes travelled", s.Wire.Wire)
	}
	p.ResetStatistics(time.Now())
	s = p.Statistics()
	if s.Software+s.Uncompressed+s.Reused+s.URLErrors+s.CompressedBytes+s.Meter.UncompressedBytes != 0 || s.Active != 1 ||
		s.HighWater != 1 || !s.Since.After(before.Since) {
		t.Errorf("after a reset: %+v", s)
	}
}

func TestValidate(t *testing.T) {
	good := settings("127.0.0.1:80")
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*httpproxy.Settings){
		"write host:port":    func(s *httpproxy.Settings) { s.Backend = "api" },
		"both the name":      func(s *httpproxy.Settings) { s.BackendServerName = "x" },
		"no engines":         func(s *httpproxy.Settings) { s.Engines = nil },
		"use Fast, Balanced": func(s *httpproxy.Settings) { s.Policy.Level = 9 },
		"once at most": func(s *httpproxy.Settings) {
			s.Codings = []negotiate.Coding{negotiate.Gzip, negotiate.Gzip}
		},
		"type/subtype":          func(s *httpproxy.Settings) { s.ContentTypes = []string{"text"} },
		"padding in bytes":      func(s *httpproxy.Settings) { s.Padding = -1 },
		"share of CPU":          func(s *httpproxy.Settings) { s.MaxCPUPercent = 101 },
		"begins with /":         func(s *httpproxy.Settings) { s.Health.Path = "healthz" },
		"number of responses c": func(s *httpproxy.Settings) { s.MaxConcurrent = -1 },
	} {
		s := good
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	// Engines that are there are not always those of the level.
	s := good
	s.Engines = codec.NewRegistry()
	if _, err := httpproxy.New(httpproxy.Options{Settings: s, Log: slog.New(slog.DiscardHandler)}); err == nil ||
		!strings.Contains(err.Error(), "no engine") {
		t.Errorf("without engines: %v", err)
	}
}
