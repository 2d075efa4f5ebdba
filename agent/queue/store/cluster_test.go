// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
)

// inProcess lets a client of NATS dial the store.
type inProcess struct{ s *store.Store }

func (p inProcess) InProcessConn() (net.Conn, error) { return p.s.Dial() }

// TestCluster: three members keep each message, and two go on without the third.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("elections take some seconds")
	}
	const capacity = 32 << 20
	authority := transporttest.NewAuthority(t, "east")
	config := transport.NewFiles(authority.Directory(t, authority, "/ns/bank/queue/orders", "")).MembersConfig()
	var members []*store.Store
	known := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"} // nobody is there, but a cluster of three expects three
	for i := range 3 {
		s := start(t, store.Options{
			Member: fmt.Sprintf("orders-%d", i), Directory: t.TempDir(), Capacity: capacity,
			Cluster: &store.Cluster{ListenAddress: "127.0.0.1:0", Members: known, TLS: config},
		})
		if i == 0 {
			known = append([]string{s.RouteAddress().String()}, known[1:]...)
		}
		members = append(members, s)
	}
	settings := store.Settings{Replicas: 3, MaxBytes: capacity}
	for _, s := range members { // each does, and one is first
		conn, _ := connect(t, s)
		ensure(t, s, conn, settings)
	}
	conn, js := connect(t, members[1])
	for i := range 5 {
		put(t, js, "orders.new", fmt.Sprint(i))
	}
	// More than members have is refused, and the stream stays as it is.
	var refused *store.StreamError
	err := members[1].Ensure(t.Context(), conn, store.Settings{Replicas: 3, MaxBytes: 2 * capacity})
	if !errors.As(err, &refused) || !refused.Exists || !refused.Permanent {
		t.Errorf("limits beyond the members' capacity: %v", err)
	}
	got := statistics(t, members[1], conn)
	var leader int
	leaders := 0
	for i, s := range members {
		if s.Leader() {
			leader, leaders = i, leaders+1
		}
	}
	if leaders != 1 || got.Messages != 5 || got.Leader != fmt.Sprintf("orders-%d", leader) {
		t.Errorf("%d leaders, the last %d: %+v", leaders, leader, got)
	}

	members[leader].Shutdown()
	left := members[(leader+1)%3]
	_, js = connect(t, left)
	deadline := time.Now().Add(time.Minute)
	for {
		ack, err := js.Publish(t.Context(), "orders.new", []byte("5"), jetstream.WithMsgID("5"))
		if err == nil {
			if !ack.Duplicate && ack.Sequence != 6 {
				t.Errorf("after the leader has gone: %+v", ack)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("two of three do not elect a leader: %v", err)
		}
	}
}

// TestAddressInUse: a member that nobody could reach does not start.
func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s, err := store.Start(t.Context(), store.Options{
		Queue: "orders", Directory: t.TempDir(), Cluster: &store.Cluster{ListenAddress: taken.Addr().String(), Members: []string{"127.0.0.1:1"}},
	})
	if err == nil {
		s.Shutdown()
		t.Fatal("it started")
	}
	t.Log(err)
}
