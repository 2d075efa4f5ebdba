// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	"github.com/lighterage/lighterage/agent/queueagent"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/api/messages"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// queueMember is the agent of a Queue orders with one member, as its pod runs it. The client NAME has the token
// "word-of-NAME".
type queueMember struct {
	*testing.T
	*queueagent.Agent
	directory, tokens string
	pool              *x509.CertPool
	log               syncBuffer

	mu     sync.Mutex
	config *wirev1.QueueConfig
}

// syncBuffer is a log.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func word(client string) string { return "word-of-" + client }

// prepareQueue has all that a member with clients needs, whose tokens are there from the start.
func prepareQueue(t *testing.T, change func(*wirev1.QueueConfig), clients ...string) *queueMember {
	t.Helper()
	m := &queueMember{T: t, tokens: t.TempDir(), directory: t.TempDir()}
	for _, client := range clients {
		m.write(filepath.Join(m.tokens, client), word(client))
	}
	host := fmt.Sprintf("127.%d.%d.%d", 1+mathrand.IntN(250), mathrand.IntN(250), 1+mathrand.IntN(250))
	m.config = &wirev1.QueueConfig{
		Revision: "1", Queue: "orders", ListenAddress: freeAddress(t, host), ServiceAddress: freeAddress(t, host),
		ControlAddress: "unused", HealthAddress: "unused",
		Members: []*wirev1.QueueMember{{Name: "orders-0"}},
		Storage: &wirev1.QueueStorage{Directory: storetest.Directory(t), Capacity: 1 << 30},
		Limits:  &wirev1.QueueLimits{MaxMessageSize: 1 << 20},
		Compression: &wirev1.CompressionSettings{
			Mode: wirev1.CompressionMode_COMPRESSION_MODE_AUTO, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
			Codecs: []string{"zstd"},
		},
		CompressionMinSize: 1000, DrainTimeout: durationpb.New(time.Second),
		Redelivery:     &wirev1.QueueRedelivery{MaxDeliveries: 5},
		Authentication: &wirev1.QueueAuthentication{TokensDirectory: m.tokens},
	}
	if change != nil {
		change(m.config)
	}
	m.pool = transporttest.WriteSelfSigned(t, m.directory, host)
	return m
}

func newAgent(read func() (*wirev1.QueueConfig, error), directory string, log io.Writer) *queueagent.Agent {
	return queueagent.New(queueagent.Options{
		Read: read, Member: "orders-0", Directory: directory,
		Log:      slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Interval: 10 * time.Millisecond,
		Engines: func(context.Context, compression.Settings) (*codec.Registry, policy.Accelerator) {
			return engines.Default(), policy.Absent
		},
		Decoders: func(context.Context) *codec.Registry { return engines.Default() },
	})
}

// startQueue starts one with clients, and waits until it serves.
func startQueue(t *testing.T, change func(*wirev1.QueueConfig), clients ...string) *queueMember {
	t.Helper()
	m := prepareQueue(t, change, clients...)
	m.run()
	m.await("it serves", func() bool { return m.Report(t.Context()).GetState() == wirev1.QueueState_QUEUE_STATE_SERVING })
	return m
}

// run starts the agent, which ends with the test.
func (m *queueMember) run() {
	m.Helper()
	m.Agent = newAgent(m.read, m.directory, &m.log)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Agent.Run(ctx) }()
	m.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			m.Error(err)
		}
	})
}

func (m *queueMember) read() (*wirev1.QueueConfig, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return proto.CloneOf(m.config), nil
}

// change changes the configuration, and waits until it is in effect.
func (m *queueMember) change(f func(*wirev1.QueueConfig)) {
	m.Helper()
	m.mu.Lock()
	f(m.config)
	m.config.Revision += "+"
	revision := m.config.GetRevision()
	m.mu.Unlock()
	m.await("a configuration is taken over", func() bool { return m.Report(m.Context()).GetRevision() == revision })
}

func (m *queueMember) await(what string, ok func() bool) {
	m.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			m.Fatalf("waited in vain until %s: %v", what, m.Report(m.Context()))
		}
	}
}

func (m *queueMember) write(path, text string) {
	m.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.Fatal(err)
	}
}

func freeAddress(t *testing.T, host string) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func (m *queueMember) tlsConfig() *tls.Config {
	return &tls.Config{RootCAs: m.pool, MinVersion: tls.VersionTLS13}
}

// nats connects as a client.
func (m *queueMember) nats(client string, options ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	m.Helper()
	conn, err := nats.Connect("nats://"+m.config.GetListenAddress(), append([]nats.Option{
		nats.Token(word(client)), nats.Timeout(patience), nats.Secure(m.tlsConfig()),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, options...)...)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		m.Fatal(err)
	}
	return conn, js
}

// grpc is a client of MessageService.
func (m *queueMember) grpc(client string) (messagesv1.MessageServiceClient, context.Context) {
	m.Helper()
	c, err := messages.New(
		m.config.GetServiceAddress(), messages.WithTLS(m.tlsConfig()), messages.WithToken(word(client)),
	)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = c.Close() })
	return c.Service(), m.Context()
}

// http sends a request and returns the code and the body of the answer.
func (m *queueMember) http(client, method, path, body string) (int, string) {
	m.Helper()
	r, err := http.NewRequestWithContext(
		m.Context(), method, "https://"+m.config.GetServiceAddress()+path, bytes.NewReader([]byte(body)),
	)
	if err != nil {
		m.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+word(client))
	transport := &http.Transport{TLSClientConfig: m.tlsConfig()}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(r)
	if err != nil {
		m.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		m.Fatal(err)
	}
	return res.StatusCode, string(text)
}
