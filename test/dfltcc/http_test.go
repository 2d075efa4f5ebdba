// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && dfltcc

package dfltcc_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/httpproxy"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/test/dfltcc"
)

// TestHTTP: responses are compressed by the instruction from hardwareMinSize on, whole and in parts, and by software
// below; what the instruction was not used for after all is not said to be its work.
func TestHTTP(t *testing.T) {
	model(t, dfltcc.DefaultStep, "")
	engine, verdict := hardware.Find(t.Context())
	if engine == nil {
		t.Fatalf("the model is not found: %v", verdict)
	}
	url := endpoint(t, engine)
	for name, test := range map[string]struct {
		fault  string
		size   int
		known  bool // the backend says how long the body is
		coding string
		want   string
	}{
		"gzip":                 {"", 60000, true, "gzip", "dfltcc;HardwareUsed"},
		"deflate":              {"", 60000, true, "deflate", "dfltcc;HardwareUsed"},
		"unknown length":       {"", 60000, false, "gzip", "dfltcc;HardwareUsed"},
		"parts":                {"", 300000, true, "gzip", "dfltcc;HardwareUsed"},
		"parts of deflate":     {"", 300000, false, "deflate", "dfltcc;HardwareUsed"},
		"below the minimum":    {"", 9000, true, "gzip", "zlib-ng;SoftwareUsed"},
		"without its function": {"no-functions", 60000, true, "gzip", "dfltcc;SelfTestFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			model(t, dfltcc.DefaultStep, test.fault)
			before := dfltcc.Calls(dfltcc.Compress)
			req, err := http.NewRequestWithContext(
				t.Context(), http.MethodGet, url+"/"+strconv.Itoa(test.size)+"/"+strconv.FormatBool(test.known), nil,
			)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept-Encoding", test.coding)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			var r io.Reader
			if test.coding == "gzip" {
				r, err = gzip.NewReader(res.Body)
			} else {
				r, err = zlib.NewReader(res.Body)
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, plain(test.size)) {
				t.Errorf("%d bytes expand to %d: %v", test.size, len(got), err)
			}
			if said := res.Header.Get("Lighterage-Compression"); said != test.want ||
				res.Header.Get("Content-Encoding") != test.coding {
				t.Errorf("%q, coding %q; want %q, %q", said, res.Header.Get("Content-Encoding"), test.want, test.coding)
			}
			if used := dfltcc.Calls(dfltcc.Compress) > before; used != (test.want == "dfltcc;HardwareUsed") {
				t.Errorf("whether the instruction was executed: %v", used)
			}
		})
	}
}

// endpoint runs a proxy with an engine for hardware, before a backend that answers /SIZE/KNOWN, until the test ends.
func endpoint(t *testing.T, engine codec.Engine) string {
	t.Helper()
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		length, known, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		size, err := strconv.Atoi(length)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		if known == "true" {
			w.Header().Set("Content-Length", length)
		} else {
			w.(http.Flusher).Flush()
		}
		_, _ = w.Write(plain(size))
	}))
	t.Cleanup(behind.Close)
	server, err := httpproxy.New(httpproxy.Options{
		Settings: httpproxy.Settings{
			Egress:  egress.Policy{Loopback: true},
			Backend: behind.Listener.Addr().String(), Codings: []negotiate.Coding{negotiate.Gzip, negotiate.Deflate},
			Explain: true,
			Engines: codec.NewRegistry(append([]codec.Engine{engine}, engines.All()...)...),
			Policy:  policy.Settings{Mode: policy.Auto, Level: codec.Fast, HardwareMinSize: 20000, SoftwareMinSize: 1024},
		},
		Log: slog.New(slog.DiscardHandler),
	})
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
	return "http://" + listener.Addr().String()
}
