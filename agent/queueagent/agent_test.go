// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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
	"github.com/lighterage/lighterage/agent/queue/dictionary"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	"github.com/lighterage/lighterage/agent/queueagent"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/test/corpus"
)

// patience bounds waiting for what has to come.
const patience = time.Minute

// member is an agent with its files.
type member struct {
	*testing.T
	*queueagent.Agent
	directory, tokens string
	// dictionaries says when they are trained by what begin makes.
	dictionaries dictionary.Timing

	mu     sync.Mutex
	config *wirev1.QueueConfig
}

func (m *member) read() (*wirev1.QueueConfig, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return proto.CloneOf(m.config), nil
}

func (m *member) change(f func(*wirev1.QueueConfig)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.config)
}

func (m *member) write(path, text string) {
	m.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.Fatal(err)
	}
}

// certify writes a certificate for clients and returns who trusts it.
func (m *member) certify() *x509.CertPool {
	m.Helper()
	host, _, err := net.SplitHostPort(m.config.GetListenAddress())
	if err != nil {
		m.Fatal(err)
	}
	return transporttest.WriteSelfSigned(m, m.directory, host)
}

// await waits until a report is as it should be.
func (m *member) await(what string, ok func(*wirev1.QueueReport) bool) *wirev1.QueueReport {
	m.Helper()
	deadline := time.Now().Add(3 * patience) // some of it takes several answers that wait, and elections
	for {
		r := m.Report(m.Context())
		if ok(r) {
			return r
		}
		if time.Now().After(deadline) {
			m.Fatalf("waited in vain until %s: %v", what, r)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (m *member) health(path string) int {
	w := httptest.NewRecorder()
	m.HealthHandler().ServeHTTP(w, httptest.NewRequestWithContext(m.Context(), http.MethodGet, path, nil))
	return w.Code
}

// freeAddress is one to listen at. Connections begin at 127.0.0.1, so that none takes the port before an agent does.
func freeAddress(t *testing.T) string {
	t.Helper()
	return freeAddressOf(t, fmt.Sprintf("127.%d.%d.%d", 1+mathrand.IntN(250), mathrand.IntN(250), 1+mathrand.IntN(250)))
}

// given are the addresses that were given out. The kernel may choose a port again as soon as nobody listens at it.
var given sync.Map

func freeAddressOf(t *testing.T, host string) string {
	t.Helper()
	for {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		address := listener.Addr().String()
		listener.Close()
		if _, taken := given.LoadOrStore(address, true); !taken {
			return address
		}
	}
}

func newMember(t *testing.T) *member {
	t.Helper()
	m := &member{T: t, directory: t.TempDir(), tokens: t.TempDir(), dictionaries: hastyDictionaries}
	m.write(filepath.Join(m.tokens, "clerk"), " secret\n")
	m.config = &wirev1.QueueConfig{
		Revision: "1", Queue: "orders", ControlAddress: "unused", HealthAddress: "unused",
		Members: []*wirev1.QueueMember{{Name: "orders-0"}},
		Storage: &wirev1.QueueStorage{Directory: storetest.Directory(t), Capacity: 1 << 30},
		Limits:  &wirev1.QueueLimits{MaxMessageSize: 1 << 20},
		Compression: &wirev1.CompressionSettings{
			Mode: wirev1.CompressionMode_COMPRESSION_MODE_AUTO, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
			Codecs: []string{"zstd"}, Objective: wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_BYTES,
		},
		CompressionMinSize: 1000, DrainTimeout: durationpb.New(patience),
		Authentication: &wirev1.QueueAuthentication{TokensDirectory: m.tokens},
	}
	m.begin()
	return m
}

// begin is a new agent, at another address.
func (m *member) begin() { m.beginAs("orders-0") }

func (m *member) beginAs(name string) {
	m.Helper()
	m.config.ListenAddress = freeAddress(m.T)
	m.Agent = queueagent.New(queueagent.Options{
		Read: m.read, Member: name, Directory: m.directory, Log: slog.New(slog.DiscardHandler),
		Interval: 10 * time.Millisecond, Dictionaries: m.dictionaries,
		Engines: func(context.Context, compression.Settings) (*codec.Registry, policy.Accelerator) {
			return engines.Default(), policy.Absent
		},
		Decoders: func(context.Context) *codec.Registry { return engines.Default() },
	})
}

// run starts the agent and returns what ends it.
func (m *member) run() (stop func()) {
	ctx, cancel := context.WithCancel(m.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Agent.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				m.Error(err)
			}
		})
	}
	m.Cleanup(stop)
	return stop
}

func (m *member) client(pool *x509.CertPool, token string) (*nats.Conn, error) {
	return nats.Connect(
		"nats://"+m.config.GetListenAddress(), nats.Token(token), nats.Timeout(patience),
		nats.Secure(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}),
	)
}

// TestMemory: a member that keeps messages in memory becomes ready, too.
func TestMemory(t *testing.T) {
	m := newMember(t)
	m.change(func(c *wirev1.QueueConfig) { c.Storage.Memory = true })
	m.certify()
	m.run()
	m.await("it serves", func(r *wirev1.QueueReport) bool {
		return r.GetState() == wirev1.QueueState_QUEUE_STATE_SERVING && r.GetDetail() == ""
	})
	if ready := m.health("/readyz"); ready != http.StatusOK {
		t.Errorf("serving: %d", ready)
	}
}

func TestAgent(t *testing.T) {
	m := newMember(t)
	if r := m.Report(t.Context()); r.GetState() != wirev1.QueueState_QUEUE_STATE_STARTING || r.GetDetail() == "" ||
		r.GetMember() != "orders-0" {
		t.Errorf("before it runs: %v", r)
	}
	stop := m.run()
	m.await("it lacks a certificate", func(r *wirev1.QueueReport) bool {
		return strings.Contains(r.GetDetail(), "certificate") &&
			r.GetCertificate().GetState() == wirev1.CertificateState_CERTIFICATE_STATE_MISSING
	})
	if live, ready := m.health("/livez"), m.health("/readyz"); live != 200 || ready != 503 {
		t.Errorf("without a certificate: %d, %d", live, ready)
	}
	pool := m.certify()
	m.await("it serves", serves)
	if ready := m.health("/readyz"); ready != 200 {
		t.Errorf("serving: %d", ready)
	}
	conn, err := m.client(pool, "secret")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	xml, _ := corpus.ByName("xml")
	plain := xml.Generate(12000)
	put := func() {
		t.Helper()
		if _, err := js.Publish(t.Context(), "orders.new", plain); err != nil {
			t.Fatal(err)
		}
	}
	put()
	put()
	consumer, err := js.CreateConsumer(t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := consumer.Next(jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
	if err != nil || len(got.Data()) != 12000 {
		t.Fatalf("%v", err)
	}
	known := func(r *wirev1.QueueReport) bool { return r.GetContent() != nil }
	r := m.await("its content is known", known)
	if r.GetContent().GetMessages() != 2 || r.GetContent().GetUnacknowledged() != 1 ||
		r.GetContent().GetConsumers() != 1 || r.GetContent().GetLeader() != "orders-0" ||
		r.GetStatistics().GetPuts().GetCount() != 2 || r.GetStatistics().GetGets().GetCount() != 1 ||
		r.GetStatistics().GetFileBlocks() == 0 ||
		r.GetCompression().GetCodec() != "zstd" || r.GetCompression().GetReason() != "SoftwareUsed" ||
		r.GetCompression().GetLevel() != "Fast" || r.GetCompression().GetEngine() == "" ||
		r.GetCompression().GetSoftware().GetOperations() != 2 || r.GetDecompression().GetSoftware().GetOperations() != 1 ||
		r.GetWireBytes() == 0 || r.GetTraffic().GetDataSegments() == 0 || r.GetCpu().GetSendNanos() == 0 {
		t.Errorf("%v", r)
	}

	// What may change does, for what comes then.
	m.change(func(c *wirev1.QueueConfig) {
		c.Revision, c.CompressionMinSize, c.ResetStatistics = "2", 0, "now"
		c.Limits.MaxMessages = 3
	})
	m.await("the second configuration is in effect", func(r *wirev1.QueueReport) bool { return r.GetRevision() == "2" })
	put()
	if _, err := js.Publish(t.Context(), "orders.new", plain); err == nil {
		t.Error("a full queue takes more")
	}
	r = m.await("its content is known", known)
	if r.GetStatistics().GetPuts().GetCount() != 1 || r.GetStatistics().GetRefusedPuts() != 1 ||
		r.GetCompression().GetSkipped()["CompressionOff"] != 2 ||
		r.GetStatistics().GetReset_() != "now" || r.GetContent().GetMessages() != 3 {
		t.Errorf("%v", r)
	}
	// What may not is refused, and what was stays.
	m.change(func(c *wirev1.QueueConfig) { c.Revision, c.ListenAddress = "3", "127.0.0.1:1" })
	m.await("the third configuration is refused", func(r *wirev1.QueueReport) bool {
		return strings.Contains(r.GetConfigError(), "start it again") && r.GetRevision() == "2"
	})
	m.change(func(c *wirev1.QueueConfig) { c.ListenAddress = conn.ConnectedAddr() })
	m.await("it was fixed", func(r *wirev1.QueueReport) bool { return r.GetRevision() == "3" && r.GetConfigError() == "" })

	// Tokens come and go.
	m.write(filepath.Join(m.tokens, "clerk"), "other")
	deadline := time.Now().Add(patience)
	for {
		second, err := m.client(pool, "other")
		if err == nil {
			second.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if _, err := m.client(pool, "secret"); err == nil {
		t.Error("a token of before admits")
	}
	for conn.IsConnected() {
		if time.Now().After(deadline) {
			t.Fatal("a client stays whose token admits no more")
		}
		time.Sleep(time.Millisecond)
	}
	m.write(filepath.Join(m.tokens, "broken"), "\n")
	m.await("a token is empty", func(r *wirev1.QueueReport) bool {
		return strings.Contains(r.GetAuthenticationError(), "broken") && !strings.Contains(fmt.Sprint(r), "other")
	})
	conn.Close()
	stop()
	if r := m.Report(context.Background()); r.GetState() != wirev1.QueueState_QUEUE_STATE_DRAINING {
		t.Errorf("at the end: %v", r.GetState())
	}
}

func TestRefused(t *testing.T) {
	for what, change := range map[string]func(*wirev1.QueueConfig){
		"limits":        func(c *wirev1.QueueConfig) { c.Limits = nil },
		"size":          func(c *wirev1.QueueConfig) { c.Limits.MaxMessageSize = 1 << 40 },
		"storage":       func(c *wirev1.QueueConfig) { c.Storage = nil },
		"sync_interval": func(c *wirev1.QueueConfig) { c.Storage.SyncInterval = durationpb.New(-1) },
		"members":       func(c *wirev1.QueueConfig) { c.Members = nil },
		"this host":     func(c *wirev1.QueueConfig) { c.Members[0].Name = "another" },
		"route_address": func(c *wirev1.QueueConfig) {
			c.Members = append(c.Members, c.GetMembers()[0], c.GetMembers()[0])
		},
		"compression":       func(c *wirev1.QueueConfig) { c.Compression = nil },
		"archive.directory": func(c *wirev1.QueueConfig) { c.Archive = &wirev1.QueueArchiveConfig{} },
		"archive.interval": func(c *wirev1.QueueConfig) {
			c.Archive = &wirev1.QueueArchiveConfig{Directory: "/archive", Interval: durationpb.New(-1)}
		},
		"restore.directory": func(c *wirev1.QueueConfig) { c.Restore = &wirev1.QueueRestoreConfig{Queue: "orders"} },
		"dial_policy": func(c *wirev1.QueueConfig) {
			c.Archive = &wirev1.QueueArchiveConfig{Store: &wirev1.ObjectStoreConfig{}}
		},
		"restore.store": func(c *wirev1.QueueConfig) {
			c.DialPolicy = &wirev1.DialPolicy{}
			c.Restore = &wirev1.QueueRestoreConfig{
				Directory: "/archive", Store: &wirev1.ObjectStoreConfig{}, Queue: "orders",
			}
		},
		"restore.path": func(c *wirev1.QueueConfig) { c.Restore = &wirev1.QueueRestoreConfig{Directory: "/archive"} },
		"queue name":   func(c *wirev1.QueueConfig) { c.Queue = "or.ders" },
	} {
		m := newMember(t)
		m.change(change)
		if err := m.Agent.Run(t.Context()); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestLimitsThatCannotBeYet: a member whose stream cannot be given the limits of the configuration serves it as it is,
// says so, and has the configuration when the limits can be.
func TestLimitsThatCannotBeYet(t *testing.T) {
	const space = 64 << 20
	m := newMember(t)
	m.config.Storage.Capacity = space
	roots := m.certify()
	// Half of the volume is another's, as it is while other members have half of the space.
	kept, err := store.Start(t.Context(), store.Options{
		Queue: "orders", Member: "orders-0", Directory: m.config.GetStorage().GetDirectory(), Capacity: space,
		MaxPayload: 8 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := kept.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Ensure(t.Context(), conn, store.Settings{Replicas: 1, MaxBytes: space / 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(
		t.Context(), jetstream.StreamConfig{Name: "another", Subjects: []string{"another"}, MaxBytes: space / 2},
	); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	kept.Shutdown()

	m.run()
	if r := m.await("it serves", serves); r.GetRevision() != "" ||
		!strings.Contains(r.GetConfigError(), "insufficient storage") {
		t.Errorf("revision %q, problem %q", r.GetRevision(), r.GetConfigError())
	}
	if code := m.health("/readyz"); code != http.StatusOK {
		t.Errorf("ready: %d", code)
	}
	client, err := m.client(roots, "secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if js, err = jetstream.New(client, jetstream.WithDefaultTimeout(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "orders", []byte("1")); err != nil {
		t.Error(err)
	}
	m.change(func(c *wirev1.QueueConfig) { c.Revision, c.Limits.MaxBytes = "2", space/2 })
	m.await("it has taken the limits over", func(r *wirev1.QueueReport) bool {
		return r.GetRevision() == "2" && r.GetConfigError() == ""
	})
}
