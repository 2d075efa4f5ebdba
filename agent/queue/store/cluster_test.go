// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
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

func (p inProcess) InProcessConn() (net.Conn, error) { return p.s.Dial(context.Background()) }

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
		putByElected(t, js, uint64(i+1))
	}
	// More than members have is refused, and the stream stays as it is.
	var refused *store.StreamError
	err := members[1].Ensure(t.Context(), conn, store.Settings{Replicas: 3, MaxBytes: 2 * capacity})
	if !errors.As(err, &refused) || !refused.Exists || !refused.Permanent {
		t.Errorf("limits beyond the members' capacity: %v", err)
	}
	// Members that get no processor for some seconds elect another leader, and do not learn of it at once.
	var leader int
	for deadline := time.Now().Add(elections); ; time.Sleep(10 * time.Millisecond) {
		got, err := members[1].Statistics(t.Context(), conn)
		leaders := 0
		for i, s := range members {
			if s.Leader() {
				leader, leaders = i, leaders+1
			}
		}
		if err == nil && leaders == 1 && got.Messages == 5 && got.Leader == fmt.Sprintf("orders-%d", leader) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d leaders, the last %d: %+v, %v", leaders, leader, got, err)
		}
	}

	members[leader].Shutdown()
	left := members[(leader+1)%3]
	_, js = connect(t, left)
	putByElected(t, js, 6)
}

// elections bounds how long members may take to elect who leads.
const elections = 2 * time.Minute

// putByElected puts a message that becomes number n, as often as it takes until there is a leader that stores it.
func putByElected(t *testing.T, js jetstream.JetStream, n uint64) {
	t.Helper()
	for deadline := time.Now().Add(elections); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		ack, err := js.Publish(ctx, "orders.new", nil, jetstream.WithMsgID(fmt.Sprint(n)))
		cancel()
		if err == nil {
			if ack.Sequence != n {
				t.Errorf("message %d: %+v", n, ack)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the members do not elect who stores message %d: %v", n, err)
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
