// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpagent_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/httpagent"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const patience = time.Minute

// configs hands out what a test sets.
type configs struct {
	mu  sync.Mutex
	c   *wirev1.HTTPConfig
	err error
}

func (c *configs) read() (*wirev1.HTTPConfig, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return proto.CloneOf(c.c), c.err
}

func (c *configs) change(f func(*wirev1.HTTPConfig)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.c)
}

func ready(t *testing.T, h http.Handler, path string) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

// config for a backend that answers 5000 bytes.
func config(t *testing.T) *wirev1.HTTPConfig {
	t.Helper()
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, strings.Repeat("compress me ", 500))
	}))
	t.Cleanup(behind.Close)
	// Connections begin at 127.0.0.1, so that none takes the port before the agent does.
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return &wirev1.HTTPConfig{
		Revision: "1", ListenAddress: l.Addr().String(),
		Backend:    &wirev1.HTTPBackend{Address: behind.Listener.Addr().String()},
		DialPolicy: &wirev1.DialPolicy{AllowLoopback: true},
		Codings:    []string{"gzip", "zstd"}, DrainTimeout: durationpb.New(patience), ResetStatistics: "a",
		Compression: &wirev1.CompressionSettings{
			Mode: wirev1.CompressionMode_COMPRESSION_MODE_AUTO, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
		},
	}
}

func start(t *testing.T, c *configs) (a *httpagent.Agent, stop func() error) {
	t.Helper()
	a = httpagent.New(httpagent.Options{
		Read: c.read, Interval: 5 * time.Millisecond, Delay: -1, Log: slog.New(slog.DiscardHandler),
		Engines: func(_ context.Context, asked compression.Settings) (*codec.Registry, policy.Accelerator) {
			if len(asked.Codecs) == 0 {
				t.Error("engines for no codec")
			}
			return engines.Default(), policy.Absent
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	return a, stop
}

func get(t *testing.T, client *http.Client, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip;q=0.5, zstd")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	return res
}

func TestAgent(t *testing.T) {
	c := &configs{c: config(t)}
	a, stop := start(t, c)
	h := a.HealthHandler()
	if ready(t, h, "/livez") != http.StatusOK {
		t.Error("it does not live")
	}
	eventually(t, "it is ready", func() bool { return ready(t, h, "/readyz") == http.StatusOK })
	if r := a.Report(); r.GetState() != wirev1.HTTPState_HTTP_STATE_SERVING || r.GetRevision() != "1" ||
		r.GetConfigError() != "" || r.GetVersion() == "" ||
		r.GetCertificate().GetState() != wirev1.CertificateState_CERTIFICATE_STATE_NONE ||
		r.GetStatistics().GetReset_() != "a" || r.GetBackendFailure() != 0 {
		t.Errorf("%v", r)
	}
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	client, url := &http.Client{Transport: transport, Timeout: patience}, "http://"+c.c.GetListenAddress()
	if got := get(t, client, url).Header.Get("Content-Encoding"); got != "zstd" {
		t.Errorf("coding %q", got)
	}
	answer, err := a.GetHTTPReport(t.Context(), &wirev1.GetHTTPReportRequest{})
	if err != nil {
		t.Fatal(err)
	}
	r := answer.GetReport()
	s, packed := r.GetStatistics(), r.GetCompression()
	if s.GetSoftwareResponses() != 1 || s.GetResponsesByCoding()["zstd"] != 1 || s.GetCompressedPlainBytes() != 6000 ||
		s.GetCompressedBytes() == 0 || s.GetHighWaterConnections() != 1 ||
		packed.GetCodec() != "zstd" || packed.GetReason() != "SoftwareUsed" || packed.GetUncompressedBytes() != 6000 ||
		packed.GetSoftware().GetOperations() != 1 || packed.GetLevel() != "Fast" ||
		packed.GetReasons()["SoftwareUsed"] != 1 || packed.GetEngine() == "" ||
		r.GetCpu().GetSendNanos() == 0 || r.GetCpu().GetCompressNanos() == 0 || r.GetWireBytes() < 6000 ||
		r.GetTraffic().GetDataSegments() == 0 || r.GetTraffic().GetReceivedBytes() < 6000 {
		t.Errorf("%v", r)
	}

	eventually(t, "it is idle", func() bool {
		cpu := a.Report().GetCpu()
		return cpu.GetIdleNanos() > 0 && cpu.GetIdleNanos() < cpu.GetSendNanos()
	})

	// Another configuration, for new connections.
	c.change(func(c *wirev1.HTTPConfig) { c.Revision, c.Codings, c.ResponseHeader = "2", []string{"gzip"}, true })
	eventually(t, "it is taken over", func() bool { return a.Report().GetRevision() == "2" })
	if h := get(t, client, url).Header; h.Get("Content-Encoding") != "gzip" ||
		!strings.HasSuffix(h.Get("Lighterage-Compression"), ";SoftwareUsed") {
		t.Errorf("%v", h)
	}
	if s := a.Report().GetStatistics(); s.GetSoftwareResponses() != 2 {
		t.Errorf("counters were lost: %v", s)
	}
	// A bad one is refused, and says so until it is fixed.
	for want, spoil := range map[string]func(*wirev1.HTTPConfig){
		"unknown content coding":   func(c *wirev1.HTTPConfig) { c.Codings = []string{"br"} },
		"cannot be changed while":  func(c *wirev1.HTTPConfig) { c.ListenAddress = "127.0.0.1:1" },
		"lacks dial_policy":        func(c *wirev1.HTTPConfig) { c.DialPolicy = nil },
		"dial_policy.never":        func(c *wirev1.HTTPConfig) { c.DialPolicy.Never = []string{"10.0.0.1"} },
		"lacks backend.address":    func(c *wirev1.HTTPConfig) { c.Backend.Address = "" },
		"no certificate in PEM":    func(c *wirev1.HTTPConfig) { c.Backend.ServerName = "x" },
		"use Auto, Always or Neve": func(c *wirev1.HTTPConfig) { c.Compression.Mode = 0 },
		"trusted_proxies":          func(c *wirev1.HTTPConfig) { c.TrustedProxies = []string{"10.0.0.1"} },
		"such as 10.0.0.0/8":       func(c *wirev1.HTTPConfig) { c.TrustedProxies = []string{"::ffff:10.0.0.0/104"} },
		"type/subtype":             func(c *wirev1.HTTPConfig) { c.ContentTypes = []string{"text"} },
	} {
		good, _ := c.read()
		c.change(func(c *wirev1.HTTPConfig) { c.Revision = "bad"; spoil(c) })
		eventually(t, "it says "+want, func() bool { return strings.Contains(a.Report().GetConfigError(), want) })
		if r := a.Report(); r.GetRevision() != "2" {
			t.Errorf("%s: %v", want, r)
		}
		get(t, client, url)
		c.change(func(c *wirev1.HTTPConfig) { proto.Reset(c); proto.Merge(c, good) })
		eventually(t, "it is fixed", func() bool { return a.Report().GetConfigError() == "" })
	}
	c.mu.Lock()
	c.err = errors.New("no such file")
	c.mu.Unlock()
	eventually(t, "it says that it cannot read", func() bool {
		return strings.Contains(a.Report().GetConfigError(), "no such file")
	})
	c.mu.Lock()
	c.err = nil
	c.mu.Unlock()

	// A reset.
	c.change(func(c *wirev1.HTTPConfig) { c.ResetStatistics = "b" })
	eventually(t, "it is reset", func() bool { return a.Report().GetStatistics().GetReset_() == "b" })
	if r := a.Report(); r.GetStatistics().GetSoftwareResponses() != 0 || r.GetCompression().GetUncompressedBytes() != 0 ||
		r.GetConfigError() != "" {
		t.Errorf("%v", r)
	}

	if err := stop(); err != nil {
		t.Error(err)
	}
	if r := a.Report(); r.GetState() != wirev1.HTTPState_HTTP_STATE_DRAINING ||
		ready(t, h, "/readyz") != http.StatusServiceUnavailable {
		t.Errorf("%v", r)
	}
	if conn, err := net.Dial("tcp", c.c.GetListenAddress()); err == nil {
		conn.Close()
		t.Error("somebody listens still")
	}
}

// TestCertificate: an agent waits for its certificate, and goes on with it when that is spoilt.
// TestReadinessWaitsForTheBackend: an agent is not ready before it knows whether the backend is healthy, and then is
// although it is not, so that clients get its 503; it stays so while another backend is checked for the first time.
func TestReadinessWaitsForTheBackend(t *testing.T) {
	c := &configs{c: config(t)}
	asked, answer := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(slow.Close)
	first := c.c.Backend
	c.c.Backend = &wirev1.HTTPBackend{
		Address: slow.Listener.Addr().String(), HealthPath: "/", HealthTimeout: durationpb.New(patience),
		HealthInterval: durationpb.New(time.Millisecond),
	}
	a, stop := start(t, c)
	h := a.HealthHandler()
	for range 2 {
		<-asked
		if r := a.Report(); ready(t, h, "/readyz") != http.StatusServiceUnavailable || r.GetBackendFailure() != 0 {
			t.Errorf("before a check has ended: %v", r)
		}
		answer <- struct{}{}
	}
	go func() {
		for range asked {
			answer <- struct{}{}
		}
	}()
	eventually(t, "it is ready", func() bool { return ready(t, h, "/readyz") == http.StatusOK })
	if r := a.Report(); r.GetBackendFailure() != wirev1.BackendFailure_BACKEND_FAILURE_STATUS ||
		r.GetBackendStatus() != http.StatusTeapot {
		t.Errorf("%v", r)
	}
	c.change(func(c *wirev1.HTTPConfig) { c.Revision, c.Backend = "2", first })
	for a.Report().GetRevision() != "2" {
		if ready(t, h, "/readyz") != http.StatusOK {
			t.Fatal("it is not ready while another backend is checked")
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	slow.CloseClientConnections()
	close(asked)
}

func TestCertificate(t *testing.T) {
	c := &configs{c: config(t)}
	dir := t.TempDir()
	c.c.ServingDirectory = dir
	a, _ := start(t, c)
	eventually(t, "it says what it waits for", func() bool {
		r := a.Report()
		return r.GetState() == wirev1.HTTPState_HTTP_STATE_STARTING &&
			strings.Contains(r.GetDetail(), "tls.crt is missing") &&
			r.GetCertificate().GetState() == wirev1.CertificateState_CERTIFICATE_STATE_MISSING
	})
	h := a.HealthHandler()
	if ready(t, h, "/readyz") != http.StatusServiceUnavailable {
		t.Error("it is ready")
	}
	authority := transporttest.NewAuthority(t, "x")
	authority.Write(t, dir, authority, "/x", "localhost")
	eventually(t, "it is ready", func() bool { return ready(t, h, "/readyz") == http.StatusOK })
	client := &http.Client{
		Timeout: patience,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true, DisableKeepAlives: true,
		},
	}
	if res := get(t, client, "https://"+c.c.GetListenAddress()); res.Header.Get("Content-Encoding") != "zstd" {
		t.Errorf("%v", res.Header)
	}
	if r := a.Report().GetCertificate(); r.GetState() != wirev1.CertificateState_CERTIFICATE_STATE_LOADED ||
		r.GetNotAfter() == nil {
		t.Errorf("%v", r)
	}
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it says so", func() bool {
		r := a.Report().GetCertificate()
		return r.GetState() == wirev1.CertificateState_CERTIFICATE_STATE_INVALID && r.GetMessage() != "" &&
			r.GetNotAfter() != nil
	})
	get(t, client, "https://"+c.c.GetListenAddress())
}

func TestBadStart(t *testing.T) {
	for want, spoil := range map[string]func(*configs){
		"lacks dial_pol": func(c *configs) { c.c.DialPolicy = nil },
		"lacks backend":  func(c *configs) { c.c.Backend = nil },
		"listen for":     func(c *configs) { c.c.ListenAddress = "nowhere:-1" },
		"is not there":   func(c *configs) { c.err = errors.New("it is not there") },
		"unknown conten": func(c *configs) { c.c.Codings = []string{"lzw"} },
	} {
		c := &configs{c: config(t)}
		spoil(c)
		a := httpagent.New(httpagent.Options{Read: c.read, Log: slog.New(slog.DiscardHandler), Engines: func(
			context.Context, compression.Settings,
		) (*codec.Registry, policy.Accelerator) {
			return engines.Default(), policy.Absent
		}})
		if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
