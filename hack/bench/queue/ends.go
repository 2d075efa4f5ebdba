// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queueagent"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/hack/bench/agents"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// The ends of a channel and the gateway between them. The queue orders in namespace bank
// of cluster east sends to that in namespace vault of cluster west.
const (
	sendEnd    = "send"
	receiveEnd = "receive"
	gatewayEnd = "gateway"

	eastName, eastNamespace = "east", "bank"
	westName, westNamespace = "west", "vault"
	westDomain              = queue + "." + westNamespace + ".queue.lighterage.internal"
)

var (
	// wayIn is the server name of the way from the one to the other.
	wayIn = "way." + westDomain
	// eastHost is what clients know the sending queue by.
	eastHost = queue + "." + eastNamespace + ".svc"
	westHost = "*." + westDomain
)

// endOrder is what the program asks of an end, on a line of its own.
type endOrder struct {
	// Put so many messages, of a size in bytes.
	Put, Size int
	// Corpus that they are cut from; empty: XML, without a token behind the name of the queue.
	Corpus string
	// Send what is there to the gateway at an address, in batches, as long as the end runs.
	Gateway string
	Batch   uint32
	// Sent waits until the channel, which is open, has sent so many messages since it was opened.
	Sent uint64
}

// endAnswer is what it says: first where it listens, then one for each order.
type endAnswer struct {
	Address string
	// Of a channel that has sent everything.
	Seconds                          float64
	Codec                            string
	Payload, Wire, Messages, Recoded uint64
}

// endSettings are in the file settings.json of an end's directory.
type endSettings struct {
	// Codec of the queue and its channel; none: nothing is compressed.
	Codec string
	// Compression of the channel alone, as a CompressionSettings; empty: Codec says how messages are compressed.
	Compression []byte
	// Clients is where they put; empty: the usual port of loopback.
	Clients string
	// MaxBytes are kept of messages, the oldest being dropped; 0: all are kept.
	MaxBytes uint64
	// Listen at for the channel, or the gateway.
	Listen string
	// Target of the gateway.
	Target string
	// PeerCA vouches for the sending cluster.
	PeerCA []byte
}

const (
	settingsFile = "settings.json"
	volumeDir    = "volume"
	tokensDir    = "tokens"
	token        = "bench"
	// endPatience bounds what an end waits for.
	endPatience = 2 * time.Minute
	look        = 5 * time.Millisecond
)

// serveEnd is an end in a process of its own, until its standard input ends.
func serveEnd(ctx context.Context, role, directory string) error {
	text, err := os.ReadFile(filepath.Join(directory, settingsFile))
	if err != nil {
		return err
	}
	var s endSettings
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("read %s: %w", settingsFile, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if role == gatewayEnd {
		address, err := serveGateway(ctx, directory, s)
		if err != nil {
			return err
		}
		return listening(address)
	}
	m, err := newMember(directory, s, role)
	if err != nil {
		return err
	}
	go func() {
		defer close(m.ended)
		m.failed = m.agent.Run(ctx)
	}()
	defer func() { cancel(); <-m.ended }()
	if err := m.await(ctx, look, func(r *wirev1.QueueReport) bool {
		return r.GetState() == wirev1.QueueState_QUEUE_STATE_SERVING
	}); err != nil {
		return err
	}
	first := endAnswer{}
	if a := m.agent.ChannelAddress(); a != nil {
		first.Address = a.String()
	}
	harness.Answer(first)
	return harness.Work(func(o endOrder) error {
		a, err := m.do(ctx, o)
		if err == nil {
			harness.Answer(a)
		}
		return err
	})
}

// member is a queue of one member, run as `agent queue` runs it.
type member struct {
	agent     *queueagent.Agent
	directory string
	put       uint64        // messages
	ended     chan struct{} // closed when the agent has ended
	failed    error         // why it did

	mu     sync.Mutex
	config *wirev1.QueueConfig
}

func newMember(directory string, s endSettings, role string) (*member, error) {
	codecs := []string{s.Codec}
	c := &wirev1.QueueConfig{
		Revision: "1", Queue: queue, ListenAddress: "127.0.0.1:4222", ControlAddress: "unused", HealthAddress: "unused",
		Members: []*wirev1.QueueMember{{Name: queue}},
		Storage: &wirev1.QueueStorage{Directory: filepath.Join(directory, volumeDir), Capacity: 8 << 30},
		Limits:  &wirev1.QueueLimits{MaxMessageSize: maxPayload}, CompressionMinSize: 1,
		Compression: &wirev1.CompressionSettings{
			Mode: wirev1.CompressionMode_COMPRESSION_MODE_AUTO, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
			Codecs: codecs,
			// Rows are of what compresses, whatever this machine's disk would have it do.
			Objective: wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_BYTES,
		},
		Authentication: &wirev1.QueueAuthentication{TokensDirectory: filepath.Join(directory, tokensDir)},
	}
	if s.Codec == codec.None.String() {
		c.CompressionMinSize, c.Compression.Mode, c.Compression.Codecs = 0, wirev1.CompressionMode_COMPRESSION_MODE_NEVER, nil
	}
	if len(s.Compression) > 0 {
		c.CompressionMinSize, c.Compression = 0, &wirev1.CompressionSettings{}
		if err := proto.Unmarshal(s.Compression, c.Compression); err != nil {
			return nil, fmt.Errorf("read the compression: %w", err)
		}
	}
	if s.Clients != "" {
		c.ListenAddress = s.Clients
	}
	if s.MaxBytes > 0 {
		c.Limits.MaxBytes, c.Limits.Overflow = s.MaxBytes, wirev1.QueueOverflow_QUEUE_OVERFLOW_DROP_OLDEST
	}
	if role == receiveEnd {
		c.Acceptance = &wirev1.ChannelAcceptance{
			Address: s.Listen, AnyCodec: true,
			Peers: []*wirev1.ChannelPeer{
				{
					Name: eastName, CaBundle: s.PeerCA,
					Namespaces: []*wirev1.ChannelNamespace{{Name: eastNamespace, ServerName: wayIn}},
				},
			},
		}
	}
	m := &member{directory: directory, config: c, ended: make(chan struct{})}
	m.agent = queueagent.New(queueagent.Options{
		Read: m.read, Member: queue, Directory: directory,
		Log:      slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Interval: 2 * look,
		Engines: func(context.Context, compression.Settings) (*codec.Registry, policy.Accelerator) {
			return engines.Default(), policy.Absent
		},
		Decoders: func(context.Context) *codec.Registry { return engines.Default() },
	})
	return m, nil
}

func (m *member) read() (*wirev1.QueueConfig, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return proto.CloneOf(m.config), nil
}

// await looks every so often until a report is as it should be.
func (m *member) await(ctx context.Context, every time.Duration, ok func(*wirev1.QueueReport) bool) error {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	for {
		r := m.agent.Report(ctx)
		if ok(r) {
			return nil
		}
		select {
		case <-m.ended:
			return fmt.Errorf("the agent has ended: %w", m.failed)
		case <-ctx.Done():
			return fmt.Errorf("waited in vain: %v", r)
		case <-time.After(every):
		}
	}
}

func (m *member) do(ctx context.Context, o endOrder) (endAnswer, error) {
	switch {
	case o.Put > 0:
		m.put += uint64(o.Put)
		return endAnswer{}, m.fill(ctx, o)
	case o.Sent > 0:
		return m.sent(ctx, time.Millisecond, o.Sent)
	}
	codecs := m.config.GetCompression().GetCodecs()
	m.mu.Lock()
	m.config.Revision = "2"
	m.config.Channel = &wirev1.ChannelConfig{
		GatewayEndpoint: o.Gateway, Namespace: westNamespace, Queue: queue, Codecs: codecs, BatchMessages: o.Batch,
	}
	m.mu.Unlock()
	return m.sent(ctx, look, m.put)
}

// sent waits until the channel runs and has sent so many messages.
func (m *member) sent(ctx context.Context, every time.Duration, n uint64) (a endAnswer, err error) {
	var begin time.Time
	err = m.await(ctx, every, func(r *wirev1.QueueReport) bool {
		c := r.GetChannel()
		if begin.IsZero() && c.GetState() == wirev1.ChannelState_CHANNEL_STATE_RUNNING {
			begin = time.Now()
		}
		if begin.IsZero() || c.GetMessages() < n {
			return false
		}
		a = endAnswer{
			Seconds: time.Since(begin).Seconds(), Codec: c.GetCodec(), Payload: c.GetPayloadBytes(), Wire: c.GetWireBytes(),
			Messages: c.GetMessages(), Recoded: c.GetRecoded(),
		}
		return true
	})
	return a, err
}

// fill puts messages as a client.
func (m *member) fill(ctx context.Context, o endOrder) error {
	data, err := payloads(o.Size)
	if err != nil {
		return err
	}
	conn, js, err := connect(m.directory, m.config.GetListenAddress())
	if err != nil {
		return err
	}
	defer conn.Close()
	return (&running{conn: conn, js: js}).put(ctx, data, o.Put)
}

// connect connects a client to the sending queue at an address, whose directory has the CA.
func connect(directory, address string) (*nats.Conn, jetstream.JetStream, error) {
	ca, err := os.ReadFile(filepath.Join(directory, "cluster-ca.crt"))
	if err != nil {
		return nil, nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	conn, err := nats.Connect("nats://"+address, nats.Token(token),
		nats.Secure(&tls.Config{RootCAs: pool, ServerName: eastHost, MinVersion: tls.VersionTLS13}))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(pending))
	if err != nil {
		conn.Close()
	}
	return conn, js, err
}

// serveClient puts messages into the sending queue at an address, in a process of its own.
func serveClient(ctx context.Context, directory, address string) error {
	conn, js, err := connect(directory, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	harness.Answer(endAnswer{})
	return harness.Work(func(o endOrder) error {
		data, err := payloadsOf(o.Corpus, o.Size)
		if err != nil {
			return err
		}
		if err := putAll(ctx, js, queue+"."+o.Corpus, data, o.Put); err != nil {
			return err
		}
		harness.Answer(endAnswer{})
		return nil
	})
}

// serveGateway passes on what is for the receiving queue, and tells the sending one how
// it is reached. It returns its address.
func serveGateway(ctx context.Context, directory string, s endSettings) (string, error) {
	certificate, err := tls.LoadX509KeyPair(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"))
	if err != nil {
		return "", err
	}
	return agents.Gateway{
		Listen: s.Listen, Certificate: certificate, Name: wayIn, Target: s.Target, Server: admitAll{},
	}.Serve(ctx)
}

// admitAll tells how the receiving queue is reached.
type admitAll struct {
	wirev1.UnimplementedGatewayServer
}

func (admitAll) OpenQueue(_ context.Context, r *wirev1.OpenQueueRequest) (*wirev1.OpenQueueResponse, error) {
	if r.GetNamespace() != westNamespace || r.GetName() != queue {
		return nil, errors.New("another queue was asked for")
	}
	return &wirev1.OpenQueueResponse{ServerName: wayIn, KnownAs: eastName}, nil
}
