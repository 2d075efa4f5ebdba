// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/httpagent"
	"github.com/lighterage/lighterage/agent/policy"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// serveProxy runs an agent in mode http with a configuration until its standard input ends. It answers once when the
// agent serves.
func serveProxy(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	config := &wirev1.HTTPConfig{}
	if err := protojson.Unmarshal(text, config); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	agent := httpagent.New(httpagent.Options{
		Read: func() (*wirev1.HTTPConfig, error) { return config, nil }, Interval: time.Minute, Delay: -1,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Engines: func(context.Context, compression.Settings) (*codec.Registry, policy.Accelerator) {
			return engines.Default(), policy.Absent
		},
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	ready := agent.HealthHandler()
	for look := httptest.NewRecorder(); ; look = httptest.NewRecorder() {
		ready.ServeHTTP(look, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
		if look.Code == http.StatusOK {
			break
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the agent has ended: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	if r := agent.Report(); r.GetBackendFailure() != wirev1.BackendFailure_BACKEND_FAILURE_UNSPECIFIED {
		return fmt.Errorf("the backend is not healthy: %v", r.GetBackendFailure())
	}
	harness.Answer(answer{})
	err = harness.Work(func(struct{}) error { return errors.New("there are no orders") })
	cancel()
	return errors.Join(err, <-ended)
}

// ask is an order of the client: so many requests for a body, one after the other.
type ask struct {
	URL, Accept string
	Requests    int
}

// asked is what they took: bytes with TLS in both directions, and the coding that most bodies had.
type asked struct {
	Elapsed time.Duration
	Bytes   int64
	Coding  string
}

// serveClient asks over one connection to each agent, which it keeps.
func serveClient(ctx context.Context) error {
	var wire atomic.Int64
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // The certificate was made for this run.
		DisableCompression: true, ReadBufferSize: 64 << 10,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return counted{conn, &wire}, err
		},
	}}
	return harness.Work(func(o ask) error {
		before, begin := wire.Load(), time.Now()
		codings := map[string]int{}
		for range o.Requests {
			coding, err := fetch(ctx, client, o)
			if err != nil {
				return err
			}
			codings[coding]++
		}
		got := asked{Elapsed: time.Since(begin), Bytes: wire.Load() - before}
		for coding, n := range codings {
			if n > o.Requests/2 {
				got.Coding = coding
			}
		}
		harness.Answer(got)
		return nil
	})
}

// fetch takes one body, which it does not inflate.
func fetch(ctx context.Context, client *http.Client, o ask) (coding string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL, nil)
	if err != nil {
		return "", fmt.Errorf("ask for a body: %w", err)
	}
	request.Header.Set("Accept-Encoding", o.Accept)
	res, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("ask for a body: %w", err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return "", fmt.Errorf("take a body: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s", o.URL, res.Status)
	}
	return res.Header.Get("Content-Encoding"), nil
}

// counted counts the bytes of a connection.
type counted struct {
	net.Conn
	bytes *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}
