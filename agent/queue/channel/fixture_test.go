// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/channel"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// maxMessage is what queues of the tests take.
const maxMessage = 256 << 10

// patience is for what takes moments, on a machine that does much else.
const patience = 2 * time.Minute

var (
	registry = engines.Default()
	quiet    = slog.New(slog.DiscardHandler)
	from     = channel.Source{Peer: "east", Namespace: "bank", Queue: "orders"}
)

// queue is one server with one stream.
type queue struct {
	server *server.Server
	conn   *nats.Conn
	js     jetstream.JetStream
	name   string
}

// streamConfig is that of a queue.
func streamConfig(name string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Subjects: []string{name, name + ".>", store.MarkerSubjects(name), store.DeadSubject(name)},
		Retention: jetstream.WorkQueuePolicy,
		Discard:   jetstream.DiscardNew, AllowAtomicPublish: true, AllowRollup: true, AllowMsgTTL: true,
		Duplicates: 2 * time.Minute,
	}
}

// openQueue starts a server on a directory. An address makes it listen there for tests in other processes.
func openQueue(name, directory, address string, change func(*jetstream.StreamConfig)) (*queue, error) {
	return openQueueOf(name, directory, address, store.MaxAtomicBatch, change)
}

// openQueueOf is openQueue with a server that takes so many messages in an atomic batch.
func openQueueOf(
	name, directory, address string, batch int, change func(*jetstream.StreamConfig),
) (*queue, error) {
	o := &server.Options{
		JetStream: true, StoreDir: directory, DontListen: address == "", NoSigs: true, NoLog: true, MaxPayload: 8 << 20,
		JetStreamLimits: server.JSLimitOpts{MaxBatchSize: batch},
	}
	if address != "" {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		o.Host = host
		if _, err := fmt.Sscan(port, &o.Port); err != nil {
			return nil, err
		}
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		return nil, errors.New("the server does not start")
	}
	conn, err := nats.Connect(
		"", nats.InProcessServer(s), nats.Timeout(patience),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		return nil, err
	}
	config := streamConfig(name)
	if change != nil {
		change(&config)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := js.CreateOrUpdateStream(ctx, config); err != nil {
		return nil, err
	}
	return &queue{server: s, conn: conn, js: js, name: name}, nil
}

func (q *queue) close() {
	q.conn.Close()
	q.server.Shutdown()
	q.server.WaitForShutdown()
}

func newQueue(t *testing.T, name string, change func(*jetstream.StreamConfig)) *queue {
	t.Helper()
	q, err := openQueue(name, t.TempDir(), "", change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.close)
	return q
}

// put stores messages.
func (q *queue) put(t *testing.T, messages ...*nats.Msg) {
	t.Helper()
	for _, m := range messages {
		if _, err := q.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

// waitFor waits until the queue has stored so many messages of its own subjects, and returns all.
func (q *queue) waitFor(t *testing.T, count int) []*jetstream.RawStreamMsg {
	t.Helper()
	stream, err := q.js.Stream(t.Context(), q.name)
	if err != nil {
		t.Fatal(err)
	}
	var all []*jetstream.RawStreamMsg
	for until := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			t.Fatal(err)
		}
		stored := 0
		for subject, n := range info.State.Subjects {
			if !strings.HasPrefix(subject, "$") {
				stored += int(n)
			}
		}
		if stored >= count {
			if info, err = stream.Info(t.Context()); err != nil { // The former state may be older than the subjects.
				t.Fatal(err)
			}
			for sequence := info.State.FirstSeq; sequence <= info.State.LastSeq; sequence++ {
				m, err := stream.GetMsg(t.Context(), sequence)
				if errors.Is(err, jetstream.ErrMsgNotFound) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(m.Subject, "$") {
					all = append(all, m)
				}
			}
			return all
		}
		if time.Now().After(until) {
			t.Fatalf("%d messages arrived in place of %d", stored, count)
		}
	}
}

// waitEmpty waits until the sender has forgotten everything.
func (q *queue) waitEmpty(t *testing.T) {
	t.Helper()
	eventually(t, "the sending queue is empty", func() bool {
		stream, err := q.js.Stream(t.Context(), q.name)
		return err == nil && stream.CachedInfo().State.Msgs == 0
	})
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	within(t, patience, what, holds)
}

func within(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it never came true that %s", what)
		}
	}
}

// link is a connection of tests, which trusts everybody.
type link struct{ *grpc.ClientConn }

func (link) Untrusted() error { return nil }

// network connects senders with the receiving end, and breaks.
type network struct {
	address string
	counter *transport.Counter // nil: nobody counts

	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

func (n *network) connect(context.Context) (channel.Link, error) {
	conn, err := grpc.NewClient("passthrough:///"+n.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.down {
				return nil, errors.New("the network is down")
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err == nil {
				n.conns = append(n.conns, conn)
				conn = n.counter.Count(conn)
			}
			return conn, err
		}))
	return link{conn}, err
}

// cut breaks all connections. down keeps new ones from being made.
func (n *network) cut(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	for _, conn := range n.conns {
		_ = conn.Close()
	}
	n.conns = nil
}

func newDecoding() *message.Decoding {
	d, err := message.NewDecoding(registry)
	if err != nil {
		panic(err)
	}
	return d
}

// encoding compresses everything.
func encoding(minSize int64) message.EncodingOptions {
	return message.EncodingOptions{
		Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast}, MinSize: minSize, Engines: registry,
	}
}

// serve starts a receiving end and returns its network and what stops it at once.
func serve(
	q *queue, address string, admit func(context.Context) (channel.Source, error), accepts channel.Acceptance,
) (*channel.Receiver, *network, func(), error) {
	return serveWith(q, address, admit, accepts, nil)
}

// serveWith is serve, and counts what was done.
func serveWith(
	q *queue, address string, admit func(context.Context) (channel.Source, error), accepts channel.Acceptance,
	work *channel.Work,
) (*channel.Receiver, *network, func(), error) {
	return serveAs(q, address, accepts, nil, func(o *channel.ReceiverOptions) {
		o.Work = work
		if admit != nil {
			o.Admit = admit
		}
	})
}

// serveAs is serve with other options, and shows the requests that arrive.
func serveAs(
	q *queue, address string, accepts channel.Acceptance, seen func(*wirev1.ChannelRunRequest),
	change func(*channel.ReceiverOptions),
) (*channel.Receiver, *network, func(), error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, nil, err
	}
	put := encoding(1)
	put.Codecs = []codec.ID{codec.Deflate}
	puts, err := message.NewEncoding(put)
	if err != nil {
		return nil, nil, nil, err
	}
	o := channel.ReceiverOptions{
		Conn: q.conn, Stream: q.name, Readable: registry.Codecs(), Decoding: newDecoding(), MaxMessage: maxMessage,
		Admit:    func(context.Context) (channel.Source, error) { return from, nil },
		Encoding: func() *message.Encoding { return puts }, Log: quiet,
	}
	if change != nil {
		change(&o)
	}
	r := channel.NewReceiver(o, accepts)
	s := grpc.NewServer(
		grpc.MaxRecvMsgSize(channel.FrameBound(maxMessage)),
		grpc.StreamInterceptor(func(
			server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler,
		) error {
			return handler(server, watched{stream, seen})
		}),
	)
	wirev1.RegisterChannelServer(s, r)
	go func() { _ = s.Serve(listener) }()
	return r, &network{address: listener.Addr().String()}, func() { s.Stop(); puts.Close() }, nil
}

// watched is a stream whose requests are shown.
type watched struct {
	grpc.ServerStream
	seen func(*wirev1.ChannelRunRequest)
}

func (w watched) RecvMsg(m any) error {
	err := w.ServerStream.RecvMsg(m)
	if request, ok := m.(*wirev1.ChannelRunRequest); ok && err == nil && w.seen != nil {
		w.seen(request)
	}
	return err
}

func newReceiver(t *testing.T, q *queue, accepts channel.Acceptance) (*channel.Receiver, *network) {
	t.Helper()
	r, n, stop, err := serve(q, "127.0.0.1:0", nil, accepts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return r, n
}

func senderOptions(q *queue, n *network, codecs ...codec.ID) channel.SenderOptions {
	return channel.SenderOptions{
		Conn: q.conn, Stream: q.name, Connect: n.connect, Codecs: codecs, BatchMessages: 20, BatchDelay: time.Millisecond,
		Encoding: encoding(1), Decoding: newDecoding(), Log: quiet,
		Backoff: channel.Backoff{First: 5 * time.Millisecond, Most: 50 * time.Millisecond},
	}
}

// send runs a sending end and returns it and what stops it.
func send(t *testing.T, o channel.SenderOptions) (*channel.Sender, func()) {
	t.Helper()
	s, err := channel.NewSender(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return s, stop
}

func TestMain(m *testing.M) {
	if role := os.Getenv(memberRole); role != "" {
		if err := member(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
