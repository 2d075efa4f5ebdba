// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
)

const (
	// nearName is of the queue before the channel, farName and farNamespace of that behind it.
	nearName, farName, farNamespace = "letters", "copies", "vault"
	gatewayPort                     = "9443"
	// longest is what the ends of a channel, and the store, take at most to notice that nobody hears them.
	longest = 65 * time.Second
)

const (
	farDomain = farName + "." + farNamespace + ".queue.lighterage.internal"
	// wayIntoFar is the server name of the queue behind the channel.
	wayIntoFar = "way." + farDomain
)

// far is where a channel leads.
func far(own, other *transporttest.Authority) site {
	return site{
		queue: farName, namespace: farNamespace, authority: own, peer: other, certified: "*." + farDomain,
		server: "clients." + farDomain, first: 11,
		configure: func(c *wirev1.QueueConfig) {
			c.Acceptance = &wirev1.ChannelAcceptance{
				AnyCodec: true,
				Peers: []*wirev1.ChannelPeer{
					{
						Name: "east", CaBundle: other.PEM(),
						Namespaces: []*wirev1.ChannelNamespace{{Name: homeNamespace, ServerName: wayIntoFar}},
					},
				},
			}
		},
	}
}

// near is where a channel begins. A queue that is alone may be beside it.
func near(own, other *transporttest.Authority) site {
	const name = nearName + "." + homeNamespace + ".svc"
	return site{
		queue: nearName, namespace: homeNamespace, authority: own, peer: other, certified: name, server: name, first: 21,
		configure: func(c *wirev1.QueueConfig) {
			c.Channel = &wirev1.ChannelConfig{
				GatewayEndpoint: net.JoinHostPort(clientAddress, gatewayPort), Namespace: farNamespace, Queue: farName,
				Codecs:        []string{"zstd", "deflate"},
				BatchMessages: 50, BatchDelay: durationpb.New(5 * time.Millisecond),
			}
		},
	}
}

// pair is a queue with a channel to another one, through the gateway of the other cluster.
type pair struct {
	*testing.T
	east, west *queue
	gateway    *passthrough.Server
	// chosen is the member of west that the next connection is passed to. The gateway asks for the target of each
	// twice, and ends it if that is another then.
	chosen atomic.Int64
}

func newPair(t *testing.T, replicas int) *pair {
	t.Helper()
	east, west := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west")
	p := &pair{T: t, west: newQueueAt(t, far(west, east), replicas)}
	p.openGateway(west.Directory(t, east, "/gateway", transport.GatewayServerName))
	p.east = newQueueAt(t, near(east, west), replicas)
	return p
}

// openGateway runs the gateway of the cluster, which admits who asks.
func (p *pair) openGateway(directory string) {
	p.Helper()
	metrics, err := passthrough.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		p.Fatal(err)
	}
	p.gateway, err = passthrough.New(passthrough.Options{
		LocalName: transport.GatewayServerName, Metrics: metrics, Log: logr.Discard(),
		Limits: passthrough.Limits{DialTimeout: 2 * time.Second, DrainTimeout: time.Millisecond},
		Lookup: func(_ context.Context, name string) (passthrough.Target, bool) {
			m := p.west.members[p.chosen.Load()]
			return passthrough.Target{Address: net.JoinHostPort(m.address, channelPort), Key: m.name}, name == wayIntoFar
		},
	})
	if err != nil {
		p.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"))
	if err != nil {
		p.Fatal(err)
	}
	address, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(clientAddress, gatewayPort))
	if err != nil {
		p.Fatal(err)
	}
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		p.Fatal(err)
	}
	door := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert,
	})))
	wirev1.RegisterGatewayServer(door, doorman{pair: p})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = door.Serve(p.gateway.Local()) }() // it ends with the gateway
	ended := make(chan error, 1)
	go func() { ended <- p.gateway.Serve(ctx, listener) }()
	p.Cleanup(func() {
		cancel()
		door.Stop()
		if err := <-ended; err != nil {
			p.Errorf("the gateway: %v", err)
		}
	})
}

// doorman tells everybody the way, to any member: grants are no matter of these tests.
type doorman struct {
	wirev1.UnimplementedGatewayServer
	pair *pair
}

func (d doorman) OpenQueue(context.Context, *wirev1.OpenQueueRequest) (*wirev1.OpenQueueResponse, error) {
	d.pair.chosen.Store(rand.Int64N(int64(len(d.pair.west.members))))
	return &wirev1.OpenQueueResponse{ServerName: wayIntoFar, KnownAs: "east"}, nil
}

// silence keeps answers from the sending end, or batches from the receiving one, or both, for some time. Connections
// stay: nobody is told.
func (p *pair) silence(answers, batches bool, d time.Duration) {
	var heals []func()
	if answers {
		for _, m := range p.east.members {
			heals = append(heals, m.drop("--protocol", "tcp", "--source", clientAddress, "--source-port", gatewayPort))
		}
	}
	if batches {
		for _, m := range p.west.members {
			heals = append(heals, m.drop("--protocol", "tcp", "--source", clientAddress, "--destination-port", channelPort))
		}
	}
	time.Sleep(d)
	for _, heal := range heals {
		heal()
	}
}

// on does to one end what can be done to a queue.
func on(
	q *queue, f func(context.Context, *queue, jetstream.JetStream),
) func(context.Context, *queue, jetstream.JetStream) {
	return func(ctx context.Context, _ *queue, _ jetstream.JetStream) { f(ctx, q, q.admin()) }
}

// receiver returns the member to which the channel is connected, or any if it is not.
func (p *pair) receiver() *member {
	keys := p.gateway.Keys()
	if i := slices.IndexFunc(p.west.members, func(m *member) bool { return slices.Contains(keys, m.name) }); i >= 0 {
		return p.west.members[i]
	}
	return p.west.any()
}

// kills of the ends of a channel.
func (p *pair) kills() []fault {
	return []fault{
		{name: "sending end killed", breaks: on(p.east, killLeader)},
		{
			name:   "receiving end killed",
			breaks: func(context.Context, *queue, jetstream.JetStream) { restart(p.receiver(), (*member).kill) },
		},
		{name: "both ends killed", breaks: func(ctx context.Context, _ *queue, _ jetstream.JetStream) {
			for _, m := range append(p.east.members[:len(p.east.members):len(p.east.members)], p.west.members...) {
				m.kill()
			}
			killAll(ctx, p.west, nil)
			killAll(ctx, p.east, nil)
		}},
	}
}

// faults of a channel with ends of one member or of three.
func (p *pair) faults() []fault {
	quiet := func(answers, batches bool, least, most time.Duration) func(context.Context, *queue, jetstream.JetStream) {
		return func(context.Context, *queue, jetstream.JetStream) { p.silence(answers, batches, some(least, most)) }
	}
	return append(p.kills(), []fault{
		{name: "answers do not arrive", breaks: quiet(true, false, time.Second, 12*time.Second)},
		{name: "disconnected for longer than any time-out", breaks: quiet(true, true, longest, longest+time.Second)},
		{name: "batches do not arrive", breaks: quiet(false, true, time.Second, 12*time.Second)},
		{name: "connections closed", breaks: func(context.Context, *queue, jetstream.JetStream) {
			for _, key := range p.gateway.Keys() {
				p.gateway.CloseTarget(key)
			}
		}},
		{name: "receiving end's volume full", breaks: on(p.west, fillLeader)},
		{name: "sending end's volume full", breaks: on(p.east, fillLeader)},
		{name: "receiving end restarted", breaks: on(p.west, roll)},
		{name: "sending end restarted", breaks: on(p.east, roll)},
	}...)
}

// breakChannel breaks a channel and its ends while clients put before it and get behind it.
func breakChannel(t *testing.T, at pace, replicas int, faults func(*pair) []fault, d time.Duration) {
	t.Helper()
	p := newPair(t, replicas)
	l := beginAt(at, p.east, p.west)
	l.consume()
	l.breaks(faults(p), d)
	starts, carried := 0, 0
	for _, m := range p.east.members {
		log, err := os.ReadFile(m.log.Name())
		if err != nil {
			t.Fatal(err)
		}
		starts += bytes.Count(log, []byte("Channel runs"))
		carried += bytes.Count(log, []byte("Dictionary is sent before messages"))
	}
	t.Logf("the channel began %d times and carried %d dictionaries", starts, carried)
	if starts < 2 {
		t.Error("the channel was not broken once")
	}
	if carried == 0 {
		t.Error("the channel carried no dictionary")
	}
}

// TestChannel breaks a channel between queues of one member, and kills, fills up and restarts its ends.
func TestChannel(t *testing.T) { breakChannel(t, busy, 1, (*pair).faults, duration(t, 0)) }

// TestChannelBetweenThree does so with queues of three members, in the long run only: six members are much for a small
// machine.
func TestChannelBetweenThree(t *testing.T) {
	if os.Getenv(longVariable) == "" {
		t.Skip("set " + longVariable)
	}
	breakChannel(t, busy, 3, (*pair).faults, duration(t, 0))
}
