// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/httpagent"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/external"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// production is a policy as the manager writes it, of a cluster whose API server is at an address that a test can
// listen on.
func production() *wirev1.DialPolicy {
	return &wirev1.DialPolicy{
		Denied: []string{"10.96.0.0/12", "10.244.0.0/16"}, Allowed: []string{"10.96.0.77/32"},
		Never: []string{"10.96.0.1/32"},
	}
}

// local are ways to write an address of this machine, of which resolvers understand some.
var local = []string{
	"127.0.0.1", "localhost", "::ffff:127.0.0.1", "0.0.0.0", "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "0",
}

// serveEndpoint runs an HTTPEndpoint's agent until the test ends.
func serveEndpoint(
	t *testing.T, backend string, permitted *wirev1.DialPolicy,
) (agent *httpagent.Agent, ended <-chan error) {
	t.Helper()
	config := &wirev1.HTTPConfig{
		Revision: "1", ListenAddress: "127.0.0.1:0", Backend: &wirev1.HTTPBackend{Address: backend}, DialPolicy: permitted,
		Codings: []string{"gzip"},
		Compression: &wirev1.CompressionSettings{
			Mode: wirev1.CompressionMode_COMPRESSION_MODE_AUTO, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
		},
	}
	agent = httpagent.New(httpagent.Options{
		Read: func() (*wirev1.HTTPConfig, error) { return proto.CloneOf(config), nil }, Delay: -1,
		Log: slog.New(slog.DiscardHandler),
		Engines: func(context.Context, compression.Settings) (*codec.Registry, policy.Accelerator) {
			return engines.Default(), policy.Absent
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	result, done := make(chan error, 1), make(chan struct{})
	go func() {
		result <- agent.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return agent, result
}

// eventually waits for something that has to happen.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

// TestBackendIsNoWayInside plays a tenant who names a server of the agent's own pod as backend, in all ways to write
// that.
//
// M4: with what the manager configures, no connection is opened.
func TestBackendIsNoWayInside(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	secret := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer secret.Close()
	_, port, err := net.SplitHostPort(secret.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range append([]string{"169.254.169.254", "10.96.0.1", "10.244.1.1", "fd00:ec2::254"}, local...) {
		agent, _ := serveEndpoint(t, net.JoinHostPort(host, port), production())
		eventually(t, host+" is checked", func() bool { return agent.Report().GetBackendFailure() != 0 })
		failure := agent.Report().GetBackendFailure()
		if _, err := netip.ParseAddr(host); (err == nil || host == "localhost") &&
			failure != wirev1.BackendFailure_BACKEND_FAILURE_BLOCKED {
			t.Errorf("%s: %v", host, failure)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
}

// TestNoPolicyNoDial: M4: an agent that is told nothing of what it may dial does not begin.
func TestNoPolicyNoDial(t *testing.T) {
	t.Parallel()
	_, ended := serveEndpoint(t, "127.0.0.1:1", nil)
	select {
	case err := <-ended:
		if !errors.Is(err, egress.ErrNoPolicy) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("it runs")
	}
}

// TestExternalServersAreNoWayInside plays a tenant whose Queue has a server of the agent's own pod for external
// servers.
//
// M4: no connection is opened, and what status says does not tell what listens there.
func TestExternalServersAreNoWayInside(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var connected atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connected.Add(1)
			_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n")
			c.Close()
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	open := func(host string, permitted egress.Policy) error {
		e, err := external.New(external.Options{
			Queue: "orders", Owner: "bank/orders", Member: "orders-0", MaxMessage: 1 << 20, Egress: permitted,
			Servers: []string{"nats://" + net.JoinHostPort(host, port)},
		})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := e.Connect("test")
		if err == nil {
			conn.Close()
		}
		return err
	}
	permitted, err := egress.Parse(production())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range local {
		if err := open(host, permitted); err == nil {
			t.Errorf("%s: it connects", host)
		}
	}
	if n := connected.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
	// A server that may be dialled and is none of NATS.
	if err := open("127.0.0.1", egress.Policy{Loopback: true}); err == nil || strings.Contains(err.Error(), "SSH") {
		t.Errorf("what status says: %v", err)
	}
	if connected.Load() == 0 {
		t.Error("the test shows nothing: nobody connects where that is allowed either")
	}
}
