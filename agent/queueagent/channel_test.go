// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
	"github.com/lighterage/lighterage/test/corpus"
)

// wayIn is the name of the way from namespace bank of east to the queue in west.
const wayIn = "way." + waySuffix

// gateway answers OpenQueue itself and passes on what is for the queue.
type gateway struct {
	wirev1.UnimplementedGatewayServer
	net.Listener
	own     chan net.Conn
	backend atomic.Pointer[string]
}

// startGateway serves with the certificates of a directory until the test ends.
func startGateway(t *testing.T, directory string, peer *transporttest.Authority) *gateway {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	peers := x509.NewCertPool()
	peers.AppendCertsFromPEM(peer.PEM())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{Listener: listener, own: make(chan net.Conn)}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: peers,
	})))
	wirev1.RegisterGatewayServer(server, g)
	go func() { _ = server.Serve(g) }()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); server.Stop() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				close(g.own)
				return
			}
			go g.route(ctx, conn)
		}
	}()
	return g
}

func (g *gateway) Accept() (net.Conn, error) {
	conn, ok := <-g.own
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (g *gateway) OpenQueue(_ context.Context, r *wirev1.OpenQueueRequest) (*wirev1.OpenQueueResponse, error) {
	if r.GetNamespace() != "vault" || r.GetName() != "orders" {
		return nil, errors.New("another queue was asked for")
	}
	return &wirev1.OpenQueueResponse{ServerName: wayIn, KnownAs: "east"}, nil
}

// replayed is a connection of which something was read already.
type replayed struct {
	net.Conn
	from io.Reader
	mute bool
}

func (c replayed) Read(p []byte) (int, error) { return c.from.Read(p) }

func (c replayed) Write(p []byte) (int, error) {
	if c.mute {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (g *gateway) route(ctx context.Context, conn net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var hello bytes.Buffer
	var name string
	_ = tls.Server(replayed{conn, io.TeeReader(conn, &hello), true}, &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name = h.ServerName
			return nil, errors.New("seen enough")
		},
	}).HandshakeContext(ctx)
	again := replayed{conn, io.MultiReader(&hello, conn), false}
	if name == transport.GatewayServerName {
		select {
		case g.own <- again:
			<-ctx.Done() // the server closes it
		case <-ctx.Done():
		}
		return
	}
	defer conn.Close()
	if name != wayIn {
		return
	}
	out, err := new(net.Dialer).DialContext(ctx, "tcp", *g.backend.Load())
	if err != nil {
		return
	}
	defer out.Close()
	defer context.AfterFunc(ctx, func() { _ = out.Close() })()
	go func() {
		defer out.Close()
		_, _ = io.Copy(out, again)
	}()
	_, _ = io.Copy(conn, out)
}

// connect is a client of a member whose certificate an authority has made for a name.
func (m *member) connect(authority *transporttest.Authority, name string) jetstream.JetStream {
	m.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM())
	conn, err := nats.Connect("nats://"+m.config.GetListenAddress(), nats.Token("secret"), nats.Timeout(patience),
		nats.Secure(&tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS13}))
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		m.Fatal(err)
	}
	return js
}

func serves(r *wirev1.QueueReport) bool {
	return r.GetState() == wirev1.QueueState_QUEUE_STATE_SERVING
}

// pair are a queue that sends and one that receives.
type pair struct {
	*testing.T
	east, west     *member
	gateway        *gateway
	putter, getter jetstream.JetStream
	authorities    [2]*transporttest.Authority // of east and west
	put, got       [][]byte
	consumer       jetstream.Consumer
	subject        string // of what is put
	stopWest       func()
}

// waySuffix is that of the names of the queue in west.
const waySuffix = "orders.vault.queue.lighterage.internal"

// meet lets the gateway know where west is, and connects its client.
func (p *pair) meet() {
	p.Helper()
	address := p.west.ChannelAddress().String()
	p.gateway.backend.Store(&address)
	p.getter, p.consumer = p.west.connect(p.authorities[1], "x."+waySuffix), nil
}

func newPair(t *testing.T, changes ...func(*pair)) *pair {
	t.Helper()
	east, west := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west")
	p := &pair{
		T: t, subject: "orders.new", east: newMember(t), west: newMember(t),
		authorities: [2]*transporttest.Authority{east, west},
	}
	east.Write(t, p.east.directory, west, transport.QueuePath("bank", "orders"), "orders.bank.svc")
	west.Write(t, p.west.directory, east, transport.QueuePath("vault", "orders"), "*."+waySuffix)
	p.gateway = startGateway(t, west.Directory(t, east, "/gateway", transport.GatewayServerName), east)
	p.west.config.Acceptance = &wirev1.ChannelAcceptance{
		Address: "127.0.0.1:0", AnyCodec: true,
		Peers: []*wirev1.ChannelPeer{
			{Name: "east", CaBundle: east.PEM(), Namespaces: []*wirev1.ChannelNamespace{{Name: "bank", ServerName: wayIn}}},
		},
	}
	p.east.config.Channel = &wirev1.ChannelConfig{
		GatewayEndpoint: p.gateway.Addr().String(), Namespace: "vault", Queue: "orders", Codecs: []string{"zstd", "deflate"},
		BatchMessages: 5,
	}
	p.east.config.ServiceAddress = freeAddress(t)
	for _, change := range changes {
		change(p)
	}
	p.stopWest = p.west.run()
	p.west.await("it serves", serves)
	p.meet()
	p.east.run()
	p.east.await("it serves", serves)
	p.putter = p.east.connect(east, "orders.bank.svc")
	return p
}

// runs waits until the channel carries a codec, begun as often as is given at least: a stalled machine lets
// sessions end that begin again.
func (p *pair) runs(codec string, starts uint64) {
	p.Helper()
	p.east.await("the channel carries "+codec, func(r *wirev1.QueueReport) bool {
		c := r.GetChannel()
		return c.GetState() == wirev1.ChannelState_CHANNEL_STATE_RUNNING && c.GetCodec() == codec && c.GetStarts() >= starts
	})
}

// publish puts some messages, every other one too short to be compressed.
func (p *pair) publish(n int) int {
	p.Helper()
	xml, _ := corpus.ByName("xml")
	for range n {
		i := len(p.put)
		plain := xml.Generate(100000)[i:][:500]
		if i%2 == 0 {
			plain = xml.Generate(100000)[i:][:12000+i]
		}
		if _, err := p.putter.Publish(p.Context(), p.subject, plain); err != nil {
			p.Fatal(err)
		}
		p.put = append(p.put, plain)
	}
	return n
}

// gone waits until the sending queue is empty.
func (p *pair) gone() {
	p.Helper()
	p.east.await("everything has gone", func(r *wirev1.QueueReport) bool {
		return r.GetContent() != nil && r.GetContent().GetMessages() == 0
	})
}

// send publishes and waits until the other end has everything.
func (p *pair) send(n int) {
	p.Helper()
	p.publish(n)
	p.gone()
	p.get(n)
}

// get takes some messages from the receiving queue, and looks whether they are what was put, in its order.
func (p *pair) get(n int) {
	p.Helper()
	if p.consumer == nil {
		var err error
		if p.consumer, err = p.getter.CreateOrUpdateConsumer(
			p.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy},
		); err != nil {
			p.Fatal(err)
		}
	}
	batch, err := p.consumer.Fetch(n, jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
	if err != nil {
		p.Fatal(err)
	}
	for m := range batch.Messages() {
		if i := len(p.got); i >= len(p.put) || !bytes.Equal(m.Data(), p.put[i]) || m.Subject() != p.subject {
			p.Fatalf("message %d, of %d bytes for %s, is not what was put", i, len(m.Data()), m.Subject())
		}
		p.got = append(p.got, m.Data())
		if err := m.DoubleAck(p.Context()); err != nil {
			p.Fatal(err)
		}
	}
	if batch.Error() != nil || len(p.got) != len(p.put) {
		p.Fatalf("%d of %d messages arrived: %v", len(p.got), len(p.put), batch.Error())
	}
}

// TestChannel moves messages from one agent to the other, through a gateway, under changing settings of both.
func TestChannel(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.runs("zstd", 1)
	p.east.await("the path is told", func(r *wirev1.QueueReport) bool {
		path := r.GetChannel().GetDataPath()
		return path.GetType() == "TCP" && path.GetReason() == "Configured" && path.GetRoundTripNanos() > 0 &&
			path.GetCongestionControl() != ""
	})
	const first = 12
	p.send(first)
	p.east.await("the channel counts", func(r *wirev1.QueueReport) bool {
		c := r.GetChannel()
		return c.GetMessages() == first && c.GetBatches() > 1 && c.GetInDoubt() == 0 && c.GetRecoded() == 0 &&
			c.GetWireBytes() > c.GetPayloadBytes() &&
			c.GetPayloadBytes()*2 < c.GetPlainBytes()
	})
	p.west.await("the other end counts", func(r *wirev1.QueueReport) bool {
		return len(r.GetReceived()) == 1 && r.GetReceived()[0].GetPeer() == "east" &&
			r.GetReceived()[0].GetNamespace() == "bank" &&
			r.GetReceived()[0].GetQueue() == "orders" && r.GetReceived()[0].GetMessages() == first &&
			r.GetReceived()[0].GetPosition() == first &&
			r.GetReceived()[0].GetConnected() && r.GetReceivedWireBytes() > r.GetReceived()[0].GetPayloadBytes()
	})

	// What the receiver accepts counts when the channel starts again: the first of the sender's list that it takes.
	for i, accepted := range []struct {
		codecs []string
		want   string
	}{{[]string{"deflate"}, "deflate"}, {nil, "none"}} {
		p.west.change(func(c *wirev1.QueueConfig) {
			c.Revision = accepted.want
			c.Acceptance.AnyCodec, c.Acceptance.Codecs = false, accepted.codecs
		})
		p.west.await("it accepts less", func(r *wirev1.QueueReport) bool { return r.GetRevision() == accepted.want })
		p.east.change(func(c *wirev1.QueueConfig) { c.Revision = accepted.want; c.Channel.BatchMessages += uint32(i) + 1 })
		p.runs(accepted.want, 1) // counters are of the channel as it is configured
		p.send(4)
		p.east.await("the channel recodes", func(r *wirev1.QueueReport) bool {
			// Nobody gets messages here: what was inflated was so for the channel.
			return r.GetChannel().GetMessages() == 4 && r.GetChannel().GetRecoded() == 2 &&
				r.GetDecompression().GetSoftware().GetOperations() == uint64(2*(i+1)) && r.GetCpu().GetDecompressNanos() > 0
		})
	}

	// A reset, of both ends.
	for _, m := range []*member{p.east, p.west} {
		m.change(func(c *wirev1.QueueConfig) { c.Revision, c.ResetStatistics = "reset", "now" })
		m.await("its counters begin again", func(r *wirev1.QueueReport) bool {
			return r.GetStatistics().GetReset_() == "now" && r.GetChannel().GetMessages() == 0 &&
				r.GetDecompression().GetSoftware().GetOperations() == 0 &&
				!slices.ContainsFunc(r.GetReceived(), func(c *wirev1.ReceivedChannel) bool { return c.GetMessages() != 0 })
		})
	}

	// Messages wait while the receiver is away, and one that begins again goes on where it was.
	p.getter.Conn().Close() // or the receiver would wait for it to go
	p.stopWest()
	waiting := p.publish(3)
	p.east.await("no path is told", func(r *wirev1.QueueReport) bool { return r.GetChannel().GetDataPath() == nil })
	p.west.begin()
	p.west.run()
	p.west.await("it serves", serves)
	p.meet()
	p.gone()
	p.get(waiting)
}

// TestChannelIsPriced: a channel decides by its prices, and by those of the queue where it has none. Other prices do
// not begin it again. Where nothing costs anything time is what counts.
func TestChannelIsPriced(t *testing.T) {
	t.Parallel()
	some := &wirev1.Prices{CpuHourNanos: 1e9, NetworkGibNanos: 1e9}
	p := newPair(t, func(p *pair) {
		c := p.east.config
		c.Compression.Objective = wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_COST
		c.Compression.Prices, c.Channel.Prices = some, &wirev1.Prices{}
	})
	p.runs("zstd", 1)
	sent := 0
	for i, step := range []struct {
		queue, channel           *wirev1.Prices
		ofTheQueue, ofTheChannel string
	}{
		{some, &wirev1.Prices{}, "Cost", "Elapsed"}, {some, some, "Cost", "Cost"},
		{&wirev1.Prices{}, some, "Elapsed", "Cost"}, {&wirev1.Prices{}, nil, "Elapsed", "Elapsed"},
		{some, nil, "Cost", "Cost"},
	} {
		revision := strconv.Itoa(i + 1)
		p.east.change(func(c *wirev1.QueueConfig) {
			c.Revision, c.Compression.Prices, c.Channel.Prices = revision, step.queue, step.channel
		})
		p.send(2)
		sent += 2
		p.east.await("it decides by other prices", func(r *wirev1.QueueReport) bool {
			return r.GetRevision() == revision && r.GetChannel().GetMessages() == uint64(sent) &&
				r.GetDecisions().GetObjective() == step.ofTheQueue &&
				r.GetChannel().GetDecisions().GetObjective() == step.ofTheChannel
		})
	}
}

// TestChannelIsRevoked: who is not granted any more is disconnected, and what cannot be taken over besides does not
// keep it connected.
func TestChannelIsRevoked(t *testing.T) {
	p := newPair(t)
	p.runs("zstd", 1)
	p.send(2)
	p.west.change(func(c *wirev1.QueueConfig) { c.Revision, c.Acceptance.Peers, c.Storage.Capacity = "2", nil, 1 })
	p.west.await("the channel has ended", func(r *wirev1.QueueReport) bool {
		return len(r.GetReceived()) == 1 && !r.GetReceived()[0].GetConnected() &&
			r.GetReceived()[0].GetLastError().GetReason() == wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED
	})
	p.east.await("it says why", func(r *wirev1.QueueReport) bool {
		return r.GetChannel().GetState() == wirev1.ChannelState_CHANNEL_STATE_RETRYING &&
			strings.Contains(r.GetChannel().GetLastError().GetMessage(), "PeerGrant")
	})
	p.west.await("the rest is refused", func(r *wirev1.QueueReport) bool {
		return r.GetRevision() == "1" && r.GetConfigError() != ""
	})
}

// TestChannelIsTakenAway: messages go to clients' consumers again, and a channel that finds such consumers names them.
func TestChannelIsTakenAway(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.runs("zstd", 1)
	p.send(2)
	channel := p.east.config.GetChannel()
	p.east.change(func(c *wirev1.QueueConfig) { c.Revision, c.Channel = "2", nil })
	p.east.await("the channel's consumer is gone", func(r *wirev1.QueueReport) bool {
		return r.GetChannel() == nil && r.GetContent() != nil && r.GetContent().GetConsumers() == 0
	})
	if _, err := p.putter.CreateConsumer(
		t.Context(), "orders", jetstream.ConsumerConfig{Durable: "teller", AckPolicy: jetstream.AckExplicitPolicy},
	); err != nil {
		t.Fatal(err)
	}
	p.east.change(func(c *wirev1.QueueConfig) { c.Revision, c.Channel = "3", channel })
	p.east.await("the channel names what is in its way", func(r *wirev1.QueueReport) bool {
		e := r.GetChannel().GetLastError()
		return e.GetReason() == wirev1.FailureReason_FAILURE_REASON_SOURCE_IN_USE &&
			strings.Contains(e.GetMessage(), "(teller)")
	})
	if err := p.putter.DeleteConsumer(t.Context(), "orders", "teller"); err != nil {
		t.Fatal(err)
	}
	p.runs("zstd", 1)
	p.send(2)
}

// TestChannelAndService: where there is a channel, clients of gRPC put and do not get; what one has when a channel
// begins goes through it.
func TestChannelAndService(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.runs("zstd", 1)
	p.subject = "orders"
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.authorities[0].PEM())
	client, ctx := p.east.caller(roots, "orders.bank.svc", "secret")
	putOne := func(text string) {
		t.Helper()
		put, err := client.Put(
			ctx, &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{{Id: text, Key: "k", Payload: []byte(text)}}},
		)
		if err != nil || put.GetResults()[0].GetSequence() == 0 {
			t.Fatal(put, err)
		}
		p.put = append(p.put, []byte(text))
	}
	putOne("a")
	p.gone()
	p.get(1)
	if _, err := client.Get(
		ctx, &messagesv1.GetRequest{Wait: durationpb.New(patience)},
	); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "channel") {
		t.Errorf("a get beside the channel: %v", err)
	}

	channel := p.east.config.GetChannel()
	p.east.change(func(c *wirev1.QueueConfig) { c.Revision, c.Channel = "2", nil })
	p.east.await("the channel's consumer is gone", func(r *wirev1.QueueReport) bool {
		return r.GetRevision() == "2" && r.GetContent() != nil && r.GetContent().GetConsumers() == 0
	})
	putOne("b")
	got, err := client.Get(
		ctx, &messagesv1.GetRequest{Wait: durationpb.New(patience), VisibilityTimeout: durationpb.New(time.Hour)},
	)
	if err != nil || len(got.GetMessages()) != 1 {
		t.Fatal(got, err)
	}
	p.east.change(func(c *wirev1.QueueConfig) { c.Revision, c.Channel = "3", channel })
	p.gone()
	p.get(1)
	late, err := client.Acknowledge(ctx,
		&messagesv1.AcknowledgeRequest{Receipts: []string{got.GetMessages()[0].GetReceipt()}})
	if err != nil || late.GetResults()[0] == messagesv1.ReceiptResult_RECEIPT_RESULT_DONE {
		t.Errorf("acknowledged what the channel had taken: %v, %v", late, err)
	}
}

func TestChannelConfigurations(t *testing.T) {
	sound := func() *wirev1.ChannelConfig {
		return &wirev1.ChannelConfig{GatewayEndpoint: "gateway:8443", Namespace: "vault", Queue: "orders"}
	}
	for says, change := range map[string]func(*wirev1.QueueConfig){
		"lacks channel.queue":    func(c *wirev1.QueueConfig) { c.Channel = sound(); c.Channel.Queue = "" },
		"channel.codecs":         func(c *wirev1.QueueConfig) { c.Channel = sound(); c.Channel.Codecs = []string{"lz9"} },
		"channel.batch_messages": func(c *wirev1.QueueConfig) { c.Channel = sound(); c.Channel.BatchMessages = 2001 },
		"channel.data_path":      func(c *wirev1.QueueConfig) { c.Channel = sound(); c.Channel.DataPath = "RDMA" },
		"acceptance.data_path": func(c *wirev1.QueueConfig) {
			c.Acceptance = &wirev1.ChannelAcceptance{DataPath: "RDMA"}
		},
		"acceptance.codecs": func(c *wirev1.QueueConfig) {
			c.Acceptance = &wirev1.ChannelAcceptance{Codecs: []string{"zstd", "zstd"}}
		},
	} {
		m := newMember(t)
		m.change(change)
		if err := m.Agent.Run(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
