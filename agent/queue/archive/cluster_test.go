// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/archive"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
)

// newCluster returns three members of one queue.
func newCluster(t *testing.T, name string) []*queue {
	t.Helper()
	authority := transporttest.NewAuthority(t, "east")
	config := transport.NewFiles(authority.Directory(t, authority, "/ns/bank/queue/"+name, "")).MembersConfig()
	// Connections begin at 127.0.0.1, so that none takes a port before a member does. Each has to know all: what
	// members tell each other of a third is the address that its connection came from.
	host := fmt.Sprintf("127.%d.%d.%d", 1+mathrand.IntN(250), mathrand.IntN(250), 1+mathrand.IntN(250))
	var known []string
	var held []net.Listener
	for range 3 {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		known, held = append(known, listener.Addr().String()), append(held, listener)
	}
	for _, listener := range held { // All at once, so that they are three.
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var members []*queue
	for i := range 3 {
		q := &queue{T: t, name: name, member: fmt.Sprintf("%s-%d", name, i)}
		var err error
		if q.store, err = store.Start(t.Context(), store.Options{
			Queue: name, Member: q.member, Directory: storetest.Directory(t), Capacity: 256 << 20, MaxPayload: 8 << 20,
			Cluster: &store.Cluster{ListenAddress: known[i], Members: known, TLS: config},
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(q.store.Shutdown)
		members = append(members, q)
	}
	for _, q := range members {
		var err error
		if q.conn, err = q.store.Connect("test"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(q.conn.Close)
		if err := q.store.Ensure(t.Context(), q.conn, store.Settings{Replicas: 3}); err != nil {
			t.Fatal(err)
		}
		if q.js, err = jetstream.New(q.conn); err != nil {
			t.Fatal(err)
		}
	}
	return members
}

// tryTimeout is how long one try may take where a server takes what it was asked with it when it stops leading.
const tryTimeout = 2 * time.Second

// again does something as often as it takes until it succeeds.
func again(t *testing.T, what string, do func(context.Context) error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), tryTimeout)
		err := do(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// putSurely puts a message, once, when there is a leader that stores it.
func (q *queue) putSurely(text string) {
	q.Helper()
	again(q.T, "put "+text, func(ctx context.Context) error {
		_, err := q.js.Publish(ctx, q.name, []byte(text), jetstream.WithMsgID(text))
		return err
	})
}

// leads reports whether a member leads a stream.
func (q *queue) leads(stream string) bool {
	ctx, cancel := context.WithTimeout(q.Context(), tryTimeout)
	defer cancel()
	s, err := q.js.Stream(ctx, stream)
	return err == nil && s.CachedInfo().Cluster != nil && s.CachedInfo().Cluster.Leader == q.member
}

// TestMembers: of three members the one that leads writes the archive and speaks of it, another goes on when it does
// not lead any more, and of three that restore one does so, each message once.
func TestMembers(t *testing.T) {
	if testing.Short() {
		t.Skip("elections take some seconds")
	}
	const messages = 40
	directory := t.TempDir()
	members := newCluster(t, "orders")
	var archivers []*archive.Archiver
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	for _, q := range members {
		a := q.archiver(directory, func(o *archive.Options, s *archive.Settings) {
			o.Leads, o.Member, o.Poll, s.Interval = q.store.Leader, q.member, 20*time.Millisecond, 20*time.Millisecond
		})
		archivers = append(archivers, a)
		go func() { a.Run(ctx); ended <- struct{}{} }()
	}
	defer func() {
		cancel()
		for range members {
			<-ended
		}
	}()
	// upTo waits until one member, and no other, says that it has archived so many messages, and returns which.
	upTo := func(n uint64) int {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			var all []archive.Status
			who, others := -1, false
			for i, a := range archivers {
				s := a.Status()
				all = append(all, s)
				if s.Sequence == n && s.LastError == nil && !s.LastTime.IsZero() {
					who = i
				} else {
					others = others || s.Path != "" || s.LastError != nil
				}
			}
			if who >= 0 && !others {
				return who
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d messages are not archived by one member: %+v", n, all)
			}
		}
	}
	for i := range messages / 2 {
		members[0].putSurely(fmt.Sprint(i))
	}
	first := upTo(messages / 2)
	again(t, "let another member lead", func(ctx context.Context) error {
		if !members[first].store.Leader() {
			return nil
		}
		_, err := members[0].conn.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN.orders", nil)
		return errors.Join(err, errors.New("it leads still"))
	})
	for i := messages / 2; i < messages; i++ {
		members[0].putSurely(fmt.Sprint(i))
	}
	upTo(messages)

	// Another queue in the same three servers.
	again(t, "make another queue", func(ctx context.Context) error {
		from, err := members[0].js.Stream(ctx, "orders")
		if err != nil {
			return err
		}
		c := from.CachedInfo().Config
		c.Name, c.Subjects, c.Metadata = "again", []string{
			"again", "again.>", store.DeadSubject("again"), store.RestoreSubject("again"),
		}, nil
		_, err = members[0].js.CreateOrUpdateStream(ctx, c)
		return err
	})
	done := make(chan error, len(members))
	for _, q := range members {
		r := q.restorer(directory, func(o *archive.RestoreOptions) {
			o.Stream, o.Leads = "again", func() bool { return q.leads("again") }
		})
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			done <- r.Run(ctx)
		}()
	}
	for range members {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	var want, got []string
	for i := range messages {
		want = append(want, fmt.Sprintf("again=%d", i))
	}
	// Any member may answer, and some may not have everything yet.
	again(t, "see what is restored", func(ctx context.Context) error {
		stream, err := members[0].js.Stream(ctx, "again")
		if err != nil {
			return err
		}
		got = nil
		for sequence := uint64(1); sequence <= stream.CachedInfo().State.LastSeq; sequence++ {
			m, err := stream.GetMsg(ctx, sequence)
			if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && m.Subject != "again" {
				continue
			}
			if err != nil {
				return err
			}
			got = append(got, m.Subject+"="+string(m.Data))
		}
		if len(got) < len(want) {
			return fmt.Errorf("%d messages are there", len(got))
		}
		return nil
	})
	if !slices.Equal(got, want) {
		t.Errorf("the queue has %q", got)
	}
}
