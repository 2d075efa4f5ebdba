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
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
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
	t.Parallel() // members mostly wait for each other
	const capacity = 32 << 20
	authority := transporttest.NewAuthority(t, "east")
	config := transport.NewFiles(authority.Directory(t, authority, "/ns/bank/queue/orders", "")).MembersConfig()
	members := storetest.Members(t, store.Options{Capacity: capacity}, config)
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
	for deadline := time.Now().Add(storetest.Elections); ; time.Sleep(10 * time.Millisecond) {
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

	for i, m := range members {
		trying(t, fmt.Sprintf("member %d to take over what was put", i), func(context.Context) error {
			if m.Applied() == 0 {
				return errors.New("it has taken over nothing")
			}
			return nil
		})
	}
	keepsUnread(t, members, js, 5)
	members[leader].Shutdown()
	left := members[(leader+1)%3]
	conn, js = connect(t, left)
	putByElected(t, js, 7)
	// Who leads has looked for messages that are to be removed.
	trying(t, "the members that are left to have what nobody got", func(ctx context.Context) error {
		got, err := left.Statistics(ctx, conn)
		if err == nil && got.Messages != 6 {
			err = fmt.Errorf("%d messages are left, want 6", got.Messages)
		}
		return err
	})
}

// keepsUnread: filters of a consumer are not changed when it is beyond messages that it did not read, of which there
// are so many; one that is recreated in its place has them all to read.
func keepsUnread(t *testing.T, members []*store.Store, js jetstream.JetStream, unread int) {
	t.Helper()
	s := members[1]
	made := func(filter string) (c jetstream.Consumer) {
		t.Helper()
		trying(t, "a consumer of "+filter, func(ctx context.Context) (err error) {
			c, err = js.CreateOrUpdateConsumer(ctx, "orders", jetstream.ConsumerConfig{Durable: "clerk", FilterSubject: filter})
			return err
		})
		return c
	}
	asked := func(filter string) (fresh bool, refused *store.FiltersError) {
		t.Helper()
		trying(t, "the servers to say what consumers read", func(ctx context.Context) (err error) {
			if fresh, err = s.Configure(ctx, "clerk", []string{filter}); errors.As(err, &refused) {
				return nil
			}
			return err
		})
		return fresh, refused
	}
	if fresh, refused := asked("orders.read"); !fresh || refused != nil {
		t.Errorf("a consumer that is not there: fresh %v, %v", fresh, refused)
	}
	clerk := made("orders.read")
	trying(t, "a message to be read", func(ctx context.Context) error {
		_, err := js.Publish(ctx, "orders.read", nil, jetstream.WithMsgID("read"))
		return err
	})
	trying(t, "a message to be acknowledged", func(ctx context.Context) error {
		if info, err := clerk.Info(ctx); err == nil && info.AckFloor.Stream > uint64(unread) {
			return nil
		}
		m, err := clerk.Next(jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		return m.DoubleAck(ctx)
	})
	if fresh, refused := asked("orders.read"); fresh || refused != nil {
		t.Errorf("the same filters again: fresh %v, %v", fresh, refused)
	}
	if _, refused := asked("orders.new"); refused == nil || refused.Before != "orders.read" {
		t.Errorf("filters of what it has passed: %v", refused)
	}
	// One that has not heard of the acknowledgement when the consumer goes keeps the message for good, and may come to
	// lead.
	trying(t, "all members to have removed what is acknowledged", func(context.Context) error {
		for _, member := range members {
			held, err := member.Held()
			if err == nil && held != uint64(unread) {
				err = fmt.Errorf("one has %d messages, want %d", held, unread)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	trying(t, "the consumer to be deleted", func(ctx context.Context) error {
		if err := js.DeleteConsumer(ctx, "orders", "clerk"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return err
		}
		return nil
	})
	if fresh, refused := asked("orders.new"); !fresh || refused != nil {
		t.Errorf("after it was deleted: fresh %v, %v", fresh, refused)
	}
	clerk = made("orders.new")
	trying(t, "one that begins with the oldest message", func(ctx context.Context) error {
		info, err := clerk.Info(ctx)
		if err == nil && info.NumPending != uint64(unread) {
			err = fmt.Errorf("it has %d messages to read, want %d", info.NumPending, unread)
		}
		return err
	})
}

// trying does something until it succeeds, for which members may first have to elect who leads.
func trying(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	for deadline := time.Now().Add(storetest.Elections); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := try(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s: %v", what, err)
		}
	}
}

// putByElected puts a message that becomes number n, as often as it takes until there is a leader that stores it.
func putByElected(t *testing.T, js jetstream.JetStream, n uint64) {
	t.Helper()
	trying(t, fmt.Sprintf("somebody to be elected who stores message %d", n), func(ctx context.Context) error {
		ack, err := js.Publish(ctx, "orders.new", nil, jetstream.WithMsgID(fmt.Sprint(n)))
		if err == nil && ack.Sequence != n {
			t.Errorf("message %d: %+v", n, ack)
		}
		return err
	})
}

// TestAddressInUse: a member that nobody could reach does not start.
func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s, err := store.Start(t.Context(), store.Options{
		Queue: "orders", Directory: storetest.Directory(t),
		Cluster: &store.Cluster{ListenAddress: taken.Addr().String(), Members: []string{"127.0.0.1:1"}},
	})
	if err == nil {
		s.Shutdown()
		t.Fatal("it started")
	}
	t.Log(err)
}
