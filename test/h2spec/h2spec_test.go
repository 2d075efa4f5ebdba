// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package h2spec_test

import (
	"context"
	"encoding/xml"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/certificates"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/httpproxy"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
)

// cases are all that h2spec has, but for three, in which Go's HTTP/2 is as safe in another way:
//
//   - http2/6.5.3/1: SETTINGS that name a setting twice. The connection is closed.
//   - http2/8.1.2.2/1 and /2: fields about the connection, and TE of other than trailers. The answer is 400 instead of a reset.
//
// A section that is named runs what is below it too, unless that is named before it.
var cases = strings.Fields(`
	generic hpack
	http2/3 http2/4 http2/5
	http2/6.1 http2/6.2 http2/6.3 http2/6.4 http2/6.5.2 http2/6.5.3/2 http2/6.5/1 http2/6.5/2 http2/6.5/3
	http2/6.7 http2/6.8 http2/6.9 http2/6.10
	http2/7
	http2/8.1.2.1 http2/8.1.2.3 http2/8.1.2.6 http2/8.1.2/1 http2/8.1/1 http2/8.2`)

// count is how many cases these are: one that is not run any more is noticed.
const count = 142

type junit struct {
	Suites []struct {
		Package string `xml:"package,attr"`
		Cases   []struct {
			Name    string    `xml:"classname,attr"`
			Failure *string   `xml:"failure"`
			Error   *string   `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func TestH2spec(t *testing.T) {
	program := build(t)
	host, port := serve(t)
	report := filepath.Join(t.TempDir(), "report.xml")
	// A case waits so long, in seconds, for what does not come; none of these has to.
	args := append([]string{"-h", host, "-p", port, "-t", "-k", "-P", "/", "-o", "30", "-j", report}, cases...)
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	text, readErr := os.ReadFile(report)
	if readErr != nil {
		t.Fatalf("no report (%v, %v): %s", err, readErr, out)
	}
	var found junit
	if err := xml.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, suite := range found.Suites {
		for _, c := range suite.Cases {
			ran++
			if c.Failure != nil || c.Error != nil || c.Skipped != nil {
				t.Errorf(
					"%s, %s: failure %v, error %v, skipped %v", suite.Package, c.Name, value(c.Failure), value(c.Error),
					c.Skipped != nil,
				)
			}
		}
	}
	if ran != count {
		t.Errorf("%d cases ran, want %d", ran, count)
	}
	if t.Failed() || err != nil {
		t.Errorf("h2spec: %v\n%s", err, out)
	}
}

func value(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

// build returns the path of h2spec, which Go builds once and keeps.
func build(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "tool", "-modfile=hack/tools/h2spec/go.mod", "-n", "h2spec")
	command.Dir = "../.."
	command.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false -trimpath")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("build h2spec: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// serve runs a proxy with TLS before a backend until the test ends.
func serve(t *testing.T) (host, port string) {
	t.Helper()
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte(strings.Repeat("a body that can be compressed ", 100)))
	}))
	t.Cleanup(behind.Close)
	dir := t.TempDir()
	authority := transporttest.NewAuthority(t, "x")
	authority.Write(t, dir, authority, "/x", "localhost")
	server, err := httpproxy.New(httpproxy.Options{
		Settings: httpproxy.Settings{
			Egress:  egress.Policy{Loopback: true},
			Backend: behind.Listener.Addr().String(), Codings: []negotiate.Coding{negotiate.Gzip}, Engines: engines.Default(),
			Policy: policy.Settings{Mode: policy.Auto, Level: codec.Fast, SoftwareMinSize: 100},
		},
		Certificates: certificates.Read(dir), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
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
	host, port, err = net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}
