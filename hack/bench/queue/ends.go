// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/queue/channel"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
	"github.com/lighterage/lighterage/controllers/pki"
)

// The ends of a channel and the gateway between them. The queue orders in namespace bank
// of cluster east sends to that in namespace vault of cluster west.
const (
	sendEnd    = "send"
	receiveEnd = "receive"
	gatewayEnd = "gateway"

	eastName, eastNamespace = "east", "bank"
	westName, westNamespace = "west", "vault"
)

var (
	// wayIn is the server name of the way from the one to the other.
	wayIn = wirev1.ChannelServerName(eastName, eastNamespace, westNamespace, queue)
	// eastHost is what clients know the sending queue by.
	eastHost = queue + "." + eastNamespace + ".svc"
	westHost = "*." + wirev1.ChannelDomain(westNamespace, queue)
)

// endOrder is what the program asks of an end, on a line of its own.
type endOrder struct {
	// Put so many messages, of a size in bytes.
	Put, Size int
	// Send what is there to the gateway at an address, in batches.
	Gateway string
	Batch   uint32
}

// endAnswer is what it says: first where it listens, then one for each order.
type endAnswer struct {
	Address string
	// Of a channel that has sent everything.
	Seconds                 float64
	Codec                   string
	Payload, Wire, Messages uint64
	Error                   string
}

// endSettings are in the file settings.json of an end's directory.
type endSettings struct {
	// Codec of the queue and its channel; none: nothing is compressed.
	Codec string
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
	answer := json.NewEncoder(os.Stdout)
	if role == gatewayEnd {
		address, err := serveGateway(ctx, directory, s)
		if err != nil {
			return err
		}
		_ = answer.Encode(endAnswer{Address: address})
		_, _ = bufio.NewReader(os.Stdin).ReadByte() // there are no orders
		return nil
	}
	m, err := newMember(ctx, directory, s)
	if err != nil {
		return err
	}
	defer m.queue.close()
	first := endAnswer{}
	if role == receiveEnd {
		if first.Address, err = m.receive(ctx, s); err != nil {
			return err
		}
	}
	_ = answer.Encode(first)
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		var o endOrder
		if err := json.Unmarshal(orders.Bytes(), &o); err != nil {
			return fmt.Errorf("read an order: %w", err)
		}
		a, err := m.do(ctx, o)
		if err != nil {
			a.Error = err.Error()
		}
		_ = answer.Encode(a)
	}
	return orders.Err()
}

// member is a queue of one member.
type member struct {
	queue    *opened
	id       codec.ID
	files    *transport.Files
	encoding message.EncodingOptions
	log      *slog.Logger
	put      uint64 // messages
}

func newMember(ctx context.Context, directory string, s endSettings) (*member, error) {
	id, err := codec.ParseID(s.Codec)
	if err != nil {
		return nil, err
	}
	m := &member{
		id: id, files: transport.NewFiles(directory), encoding: encodingOptions(id),
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	m.queue, err = openQueue(ctx, filepath.Join(directory, volumeDir), m.encoding)
	return m, err
}

// receive lets the sending cluster in, and returns where.
func (m *member) receive(ctx context.Context, s endSettings) (string, error) {
	callers := transport.NewCallers(m.files)
	if err := callers.Set([]*wirev1.ChannelPeer{{Name: eastName, CaBundle: s.PeerCA, Namespaces: []string{eastNamespace}}}); err != nil {
		return "", err
	}
	receiver := channel.NewReceiver(channel.ReceiverOptions{
		Conn: m.queue.conn, Stream: queue, Admit: channel.Admission(callers), Readable: engines.Default().Codecs(), Decoding: m.queue.decoding,
		MaxMessage: maxPayload, Log: m.log,
	}, channel.Acceptance{Any: true})
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Listen)
	if err != nil {
		return "", err
	}
	server := transport.NewChannelServer(callers, channel.FrameBound(maxPayload))
	wirev1.RegisterChannelServer(server, receiver)
	const connections = 16
	go func() { _ = server.Serve(transport.Listen(listener, new(transport.Counter), connections)) }()
	context.AfterFunc(ctx, server.Stop)
	return listener.Addr().String(), nil
}

func (m *member) do(ctx context.Context, o endOrder) (endAnswer, error) {
	if o.Put > 0 {
		m.put += uint64(o.Put)
		return endAnswer{}, m.fill(ctx, o.Size, o.Put)
	}
	return m.send(ctx, o)
}

// send opens the channel and waits until everything has gone.
func (m *member) send(ctx context.Context, o endOrder) (endAnswer, error) {
	var counter transport.Counter
	to := &channel.Destination{Gateway: o.Gateway, Namespace: westNamespace, Queue: queue, Files: m.files, Counter: &counter}
	encoding := m.encoding
	encoding.MinSize = 1
	sender, err := channel.NewSender(channel.SenderOptions{
		Conn: m.queue.conn, Stream: queue, Connect: to.Connect, Codecs: []codec.ID{m.id}, BatchMessages: int(o.Batch),
		Encoding: encoding, Decoding: m.queue.decoding, Log: m.log,
	})
	if err != nil {
		return endAnswer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		sender.Run(ctx)
	}()
	defer func() { cancel(); <-ended }()
	var begin time.Time
	for {
		now := sender.Status()
		if begin.IsZero() && now.GetState() == wirev1.ChannelState_CHANNEL_STATE_RUNNING {
			begin = time.Now()
		}
		if !begin.IsZero() && now.GetMessages() >= m.put {
			return endAnswer{
				Seconds: time.Since(begin).Seconds(), Codec: now.GetCodec(), Payload: now.GetPayloadBytes(), Wire: uint64(counter.Bytes()), Messages: now.GetMessages(),
			}, nil
		}
		select {
		case <-ctx.Done():
			return endAnswer{}, fmt.Errorf("waited in vain: %v", now)
		case <-time.After(look):
		}
	}
}

// fill puts messages as a client.
func (m *member) fill(ctx context.Context, size, n int) error {
	data, err := payloads(size)
	if err != nil {
		return err
	}
	conn, err := nats.Connect("nats://" + m.queue.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(pending))
	if err != nil {
		return err
	}
	return (&running{conn: conn, js: js}).put(ctx, data, n)
}

// serveGateway passes on what is for the receiving queue, and tells the sending one how
// it is reached. It returns its address.
func serveGateway(ctx context.Context, directory string, s endSettings) (string, error) {
	metrics, err := passthrough.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return "", err
	}
	server, err := passthrough.New(passthrough.Options{
		LocalName: pki.GatewayServerName, Metrics: metrics, Log: logr.Discard(),
		Lookup: func(_ context.Context, name string) (passthrough.Target, bool) {
			return passthrough.Target{Address: s.Target, Key: name}, name == wayIn
		},
	})
	if err != nil {
		return "", err
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"))
	if err != nil {
		return "", err
	}
	address, err := net.ResolveTCPAddr("tcp", s.Listen)
	if err != nil {
		return "", err
	}
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		return "", err
	}
	door := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert,
	})))
	wirev1.RegisterGatewayServer(door, openDoor{})
	go func() { _ = door.Serve(server.Local()) }()
	go func() { _ = server.Serve(ctx, listener) }()
	context.AfterFunc(ctx, door.Stop)
	return listener.Addr().String(), nil
}

// openDoor lets everybody in: in the benchmark nobody else can reach it.
type openDoor struct {
	wirev1.UnimplementedGatewayServer
}

func (openDoor) OpenQueue(_ context.Context, r *wirev1.OpenQueueRequest) (*wirev1.OpenQueueResponse, error) {
	if r.GetNamespace() != westNamespace || r.GetName() != queue {
		return nil, errors.New("another queue was asked for")
	}
	return &wirev1.OpenQueueResponse{ServerName: wayIn, KnownAs: eastName}, nil
}
