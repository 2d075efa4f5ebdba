// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/gateway/gatewaytest"
	"github.com/lighterage/lighterage/controllers/pki"
)

// way is a gateway with the channel server of Queue vault/orders behind it, which namespace bank of east may send to.
type way struct {
	west *gatewaytest.Cluster
	// east and member are the CAs of the sender's cluster and of the Queue's agents.
	east, member *transporttest.Authority
	// arrived counts connections that reached the agent.
	arrived atomic.Int64
	name    string
}

// counting is a listener that counts.
type counting struct {
	net.Listener
	arrived *atomic.Int64
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.arrived.Add(1)
	}
	return conn, err
}

// channel echoes what it is sent, for those who may send.
type channel struct {
	wirev1.UnimplementedChannelServer
	callers *transport.Callers
}

func (c channel) Run(run grpc.BidiStreamingServer[wirev1.ChannelRunRequest, wirev1.ChannelRunResponse]) error {
	if _, err := c.callers.FromContext(run.Context()); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	for {
		if _, err := run.Recv(); err != nil {
			return err
		}
		if err := run.Send(
			&wirev1.ChannelRunResponse{Message: &wirev1.ChannelRunResponse_Stored{Stored: &wirev1.ChannelStored{Position: 1}}},
		); err != nil {
			return err
		}
	}
}

func newWay(t *testing.T) *way {
	t.Helper()
	w := &way{east: transporttest.NewAuthority(t, "east"), member: transporttest.NewAuthority(t, "west")}
	w.name = pki.ChannelServerName(gatewaytest.ChannelKey, "east", "bank", "vault", "orders")
	callers := transport.NewCallers(
		transport.NewFiles(
			w.member.Directory(t, w.east, transport.QueuePath("vault", "orders"), "*."+pki.ChannelDomain("vault", "orders")),
		), nil,
	)
	if err := callers.Set([]*wirev1.ChannelPeer{{
		Name: "east", CaBundle: w.east.PEM(), Namespaces: []*wirev1.ChannelNamespace{{Name: "bank", ServerName: w.name}},
	}}); err != nil {
		t.Fatal(err)
	}
	server := transport.NewChannelServer(callers, 1<<20)
	wirev1.RegisterChannelServer(server, channel{callers: callers})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(counting{listener, &w.arrived}) }()
	t.Cleanup(server.Stop)
	queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "orders"}}
	peer := &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Spec: v1alpha1.PeerSpec{CABundle: w.east.PEM()}}
	w.west = gatewaytest.New(t, func(o *gateway.Options) {
		o.QueueAddress = func(string, string) string { return listener.Addr().String() }
	}, peer, queue, gatewaytest.GrantOf("vault", "east", "bank", v1alpha1.GrantedQueue, "orders"))
	return w
}

// sender opens the channel, as the member of a Queue does.
func (w *way) sender(t *testing.T) wirev1.Channel_RunClient {
	t.Helper()
	run, err := w.connect(t)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// connect is one attempt of a sender to connect and to have a batch stored.
func (w *way) connect(t *testing.T) (wirev1.Channel_RunClient, error) {
	t.Helper()
	files := transport.NewFiles(w.east.Directory(t, w.member, transport.QueuePath("bank", "out"), "sender"))
	client, err := (&transport.Dialer{Address: w.west.Address, Files: files}).Dial(w.name)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Patience)
	t.Cleanup(cancel)
	run, err := wirev1.NewChannelClient(client).Run(ctx)
	if err != nil {
		return nil, err
	}
	return run, storeBatch(run)
}

// exchange sends a batch and waits until it is stored.
func exchange(t *testing.T, run wirev1.Channel_RunClient) {
	t.Helper()
	if err := storeBatch(run); err != nil {
		t.Fatal(err)
	}
}

func storeBatch(run wirev1.Channel_RunClient) error {
	if err := run.Send(&wirev1.ChannelRunRequest{}); err != nil {
		return fmt.Errorf("sending a batch: %w", err)
	}
	if _, err := run.Recv(); err != nil {
		return fmt.Errorf("receiving the answer to a batch: %w", err)
	}
	return nil
}

// TestGuessedChannels: a stranger probes names of Queues, those that former releases gave out included, and learns
// nothing of which exist.
//
// M2: names were a hash of what can be guessed, and a Queue that exists answered under its name.
func TestGuessedChannels(t *testing.T) {
	w := newWay(t)
	hash := sha256.Sum256([]byte("east/bank"))
	unkeyed := hex.EncodeToString(hash[:8])
	for what, name := range map[string]string{
		"unkeyed, exists":     unkeyed + "." + pki.ChannelDomain("vault", "orders"),
		"unkeyed, absent":     unkeyed + "." + pki.ChannelDomain("vault", "nothing"),
		"another key, exists": pki.ChannelServerName(make([]byte, 32), "east", "bank", "vault", "orders"),
		"another key, absent": pki.ChannelServerName(make([]byte, 32), "east", "bank", "vault", "nothing"),
		"own, exists":         pki.OwnChannelServerName("vault", "orders"),
		"own, absent":         pki.OwnChannelServerName("vault", "nothing"),
		"another length":      strings.Repeat("0", 32) + "." + pki.ChannelDomain("vault", "orders"),
		"another namespace":   pki.ChannelServerName(make([]byte, 32), "east", "bank", "absent", "orders"),
	} {
		conn, err := net.DialTimeout("tcp", w.west.Address, gatewaytest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		recorded := &recorder{Conn: conn}
		err = tls.Client(
			recorded, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"h2"}},
		).Handshake()
		if closed := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET); !closed || recorded.read.Load() > 0 {
			t.Errorf("%s: %d bytes came, and %v", what, recorded.read.Load(), err)
		}
		_ = conn.Close()
	}
	if n := w.arrived.Load(); n > 0 {
		t.Errorf("%d probes reached the Queue", n)
	}
	w.sender(t)
}

// recorder counts what is read.
type recorder struct {
	net.Conn
	read atomic.Int64
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.read.Add(int64(n))
	return n, err
}
