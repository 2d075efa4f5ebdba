// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/queue/external/externaltest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
	"github.com/lighterage/lighterage/test/corpus"
)

// inExternal is a member of a queue in external servers.
func inExternal(t *testing.T, name string, members int, servers ...*externaltest.Server) *member {
	t.Helper()
	m := newMember(t)
	m.config.Storage, m.config.Members = &wirev1.QueueStorage{Capacity: 64 << 20}, nil
	for i := range members {
		m.config.Members = append(m.config.Members, &wirev1.QueueMember{Name: fmt.Sprintf("orders-%d", i)})
	}
	m.config.External = &wirev1.QueueExternal{Owner: "bank/orders"}
	m.config.DialPolicy = &wirev1.DialPolicy{AllowLoopback: true}
	for _, s := range servers {
		m.config.External.Servers, m.config.External.CaBundle = append(m.config.External.Servers, s.URL()), s.CABundle
	}
	m.beginAs(name)
	return m
}

func served(r *wirev1.QueueReport) bool {
	return r.GetState() == wirev1.QueueState_QUEUE_STATE_SERVING && r.GetExternalFailure() == nil
}

// fails returns what is true of a report with a reason.
func fails(reason wirev1.FailureReason) func(*wirev1.QueueReport) bool {
	return func(r *wirev1.QueueReport) bool {
		return r.GetExternalFailure().GetReason() == reason && r.GetExternalFailure().GetMessage() != ""
	}
}

// TestExternal: a member waits until the servers serve it, whatever that takes, and then has its messages there.
func TestExternal(t *testing.T) {
	t.Parallel()
	s := externaltest.StartTLS(t, func(o *server.Options) { o.Username, o.Password = "queue", "word" })
	s.Stop()
	m := inExternal(t, "orders-0", 1, s)
	secret := t.TempDir()
	m.config.External.CredentialsDirectory = secret
	pool := m.certify()
	stop := m.run()
	m.await("its Secret is missing", fails(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_REFUSED))
	m.write(filepath.Join(secret, wirev1.ExternalUsernameKey), "queue")
	m.write(filepath.Join(secret, wirev1.ExternalPasswordKey), "guess")
	m.await("the server is missing", fails(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNREACHABLE))
	if live, ready := m.health("/livez"), m.health("/readyz"); live != 200 || ready != 503 {
		t.Errorf("without a server: %d, %d", live, ready)
	}
	s.Restart(nil)
	m.await("the password is wrong", fails(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_REFUSED))
	m.write(filepath.Join(secret, wirev1.ExternalPasswordKey), "word")
	m.await("it serves", served)
	if ready := m.health("/readyz"); ready != 200 {
		t.Errorf("serving: %d", ready)
	}
	conn, err := m.client(pool, "secret")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	xml, _ := corpus.ByName("xml")
	if _, err := js.Publish(t.Context(), "orders.new", xml.Generate(12000)); err != nil {
		t.Fatal(err)
	}
	r := m.await("it leads", func(r *wirev1.QueueReport) bool { return r.GetContent().GetLeader() == "orders-0" })
	if r.GetContent().GetMessages() != 1 || r.GetContent().GetBytes() >= 12000 ||
		r.GetStatistics().GetPuts().GetCount() != 1 ||
		r.GetStatistics().FileBlocks != nil || r.GetStatistics().FileBytes != nil || r.GetStatistics().MemoryBytes != nil {
		t.Errorf("%v", r)
	}
	m.change(func(c *wirev1.QueueConfig) { c.Revision, c.Limits.MaxMessages = "2", 1 })
	m.await("the second configuration is in effect", func(r *wirev1.QueueReport) bool { return r.GetRevision() == "2" })
	if _, err := js.Publish(t.Context(), "orders.new", []byte("one more")); err == nil {
		t.Error("a full queue takes more")
	}
	m.change(func(c *wirev1.QueueConfig) { c.Revision, c.External = "3", nil })
	m.await("the change of the engine is refused", func(r *wirev1.QueueReport) bool {
		return r.GetConfigError() != "" && r.GetRevision() == "2"
	})
	conn.Close()
	stop()
}

// TestExternalFixed: what a configuration says wrong is fixed by another, without a restart.
func TestExternalFixed(t *testing.T) {
	t.Parallel()
	one, taken := externaltest.Start(t, nil), externaltest.Start(t, nil)
	conn, err := nats.Connect(taken.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(
		t.Context(), jetstream.StreamConfig{Name: "orders", Subjects: []string{"orders.>"}},
	); err != nil {
		t.Fatal(err)
	}
	m := inExternal(t, "orders-0", 1, taken)
	m.certify()
	stop := m.run()
	m.await("another's stream is there", fails(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_IN_USE))
	m.change(func(c *wirev1.QueueConfig) { c.Revision, c.External.Servers = "2", []string{one.URL()} })
	if r := m.await("it serves", served); r.GetRevision() != "2" {
		t.Errorf("%v", r)
	}
	stop()
	if stream, err := js.Stream(t.Context(), "orders"); err != nil || stream.CachedInfo().State.Msgs != 0 ||
		len(stream.CachedInfo().Config.Subjects) != 1 {
		t.Errorf("the other stream was touched: %v", err)
	}
	three := inExternal(t, "orders-0", 3, one)
	three.config.Queue = "bills"
	three.certify()
	three.run()
	if r := three.await(
		"there are too few servers", fails(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT),
	); !strings.Contains(r.GetExternalFailure().GetMessage(), "replicas") {
		t.Errorf("%v", r)
	}
}

// TestExternalRestart: a server that is restarted while messages are put and got loses none that was acknowledged, and
// stores none twice, and which member gives out messages changes with the members.
func TestExternalRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("elections take some seconds")
	}
	t.Parallel() // servers mostly wait for each other
	servers := externaltest.Cluster(t, 3)
	var members []*member
	var stops []func()
	for i := range 2 {
		m := inExternal(t, fmt.Sprintf("orders-%d", i), 3, servers...)
		m.certify()
		members, stops = append(members, m), append(stops, m.run())
	}
	for _, m := range members {
		m.await("it serves", served)
	}
	conn := members[1].connectAgain(t)
	defer conn.Close()
	// a put that a server takes with it is tried again
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	xml, _ := corpus.ByName("xml")
	plain := xml.Generate(12000)
	const puts = 300
	var stored atomic.Int64
	ended := make(chan error, 1)
	go func() { // each is put until that is acknowledged
		for i := range puts {
			m := &nats.Msg{
				Subject: "orders.new", Data: append([]byte(fmt.Sprintf("%06d", i)), plain...),
				Header: nats.Header{jetstream.MsgIDHeader: {fmt.Sprint(i)}},
			}
			for deadline := time.Now().Add(3 * patience); ; time.Sleep(20 * time.Millisecond) {
				_, err := js.PublishMsg(t.Context(), m)
				if err == nil {
					break
				}
				if time.Now().After(deadline) {
					ended <- fmt.Errorf("message %d: %w", i, err)
					return
				}
			}
			stored.Add(1)
		}
		ended <- nil
	}()
	for i, s := range servers {
		wait := int64((i + 1) * puts / 5)
		for stored.Load() < wait && len(ended) == 0 {
			time.Sleep(time.Millisecond)
		}
		s.Restart(nil)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	first := members[0].await("one leads", func(r *wirev1.QueueReport) bool {
		return r.GetContent().GetLeader() != ""
	}).GetContent().GetLeader()
	leader := 0
	if first == "orders-1" {
		leader = 1
	}
	// The other leads when that one ends, which does not wait for its clients if they have gone.
	if leader == 1 {
		conn.Close()
	}
	stops[leader]()
	rest := members[1-leader]
	rest.await("the other leads", func(r *wirev1.QueueReport) bool {
		return r.GetContent().GetLeader() == fmt.Sprintf("orders-%d", 1-leader)
	})
	if leader == 1 {
		conn = rest.connectAgain(t)
		defer conn.Close()
		if js, err = jetstream.New(conn); err != nil {
			t.Fatal(err)
		}
	}
	r := rest.await("what it holds is known", func(r *wirev1.QueueReport) bool { return r.GetContent() != nil })
	if r.GetContent().GetMessages() != puts {
		t.Errorf("%d messages of %d", r.GetContent().GetMessages(), puts)
	}
	// The server that was restarted last may have been the one that leads: of what it was asked, and of what is asked
	// until another leads, nothing is heard.
	again := func(what string, ask func(context.Context) error) {
		t.Helper()
		deadline := time.Now().Add(patience)
		for bound := 5 * time.Second; ; bound *= 2 {
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			err := ask(ctx)
			cancel()
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	var consumer jetstream.Consumer
	again("make a consumer", func(ctx context.Context) (err error) {
		consumer, err = js.CreateConsumer(ctx, "orders", jetstream.ConsumerConfig{
			Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 10 * time.Second, MaxAckPending: 1,
		})
		return err
	})
	last := uint64(0)
	for i := 0; i < puts; {
		var m jetstream.Msg
		again(fmt.Sprintf("message %d", i), func(ctx context.Context) (err error) {
			m, err = consumer.Next(jetstream.FetchContext(ctx))
			return err
		})
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		if meta.Sequence.Stream != last { // else it is delivered again, because that it was acknowledged is what was lost
			if want := fmt.Sprintf("%06d", i) + string(plain); string(m.Data()) != want {
				t.Fatalf("message %d is %.6q", i, m.Data())
			}
			i, last = i+1, meta.Sequence.Stream
		}
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
}

// trust is for a client of the member.
func (m *member) trust() *tls.Config {
	m.Helper()
	public, err := os.ReadFile(filepath.Join(m.directory, "tls.crt"))
	if err != nil {
		m.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(public)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
}

// connectAgain returns a client that connects again by itself.
func (m *member) connectAgain(t *testing.T) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect("nats://"+
		m.config.GetListenAddress(), nats.Token("secret"), nats.Timeout(patience), nats.Secure(m.trust()),
		nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.IgnoreAuthErrorAbort())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestExternalService: clients of gRPC get the same messages at whichever member they ask, each once.
func TestExternalService(t *testing.T) {
	t.Parallel()
	s := externaltest.StartTLS(t, func(o *server.Options) { // no more rights than README says
		o.Users = []*server.User{{Username: "queue", Password: "word", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{
				Allow: []string{"orders", "orders.>", "$LIGHTERAGE.>", "$JS.API.>", "$JS.ACK.>", "$JS.FC.>", "_INBOX.>"},
			},
			Subscribe: &server.SubjectPermission{
				Allow: []string{"orders", "orders.>", "$LIGHTERAGE.>", "_INBOX.>", "_DELIVER.orders.>", "$JS.EVENT.ADVISORY.>"},
			},
		}}}
	})
	secret := t.TempDir()
	var clients []messagesv1.MessageServiceClient
	var ctx context.Context
	for i := range 2 {
		m := inExternal(t, fmt.Sprintf("orders-%d", i), 1, s)
		m.config.Members[0].Name = fmt.Sprintf("orders-%d", i) // as many as servers have each message
		m.write(filepath.Join(secret, wirev1.ExternalUsernameKey), "queue")
		m.write(filepath.Join(secret, wirev1.ExternalPasswordKey), "word")
		m.config.External.CredentialsDirectory = secret
		host, _, err := net.SplitHostPort(m.config.GetListenAddress())
		if err != nil {
			t.Fatal(err)
		}
		m.config.ServiceAddress = freeAddressOf(t, host) // the certificate is for one host
		pool := m.certify()
		m.run()
		m.await("it serves", served)
		client, with := m.caller(pool, "", "secret")
		clients, ctx = append(clients, client), with
	}
	const messages = 20
	for i := range messages {
		if _, err := clients[i%2].Put(
			ctx, &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{{Payload: []byte(fmt.Sprint(i)),
				Id: fmt.Sprint(i)}}},
		); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[string]bool)
	for deadline := time.Now().Add(patience); len(seen) < messages; {
		if time.Now().After(deadline) {
			t.Fatalf("%d messages of %d came", len(seen), messages)
		}
		for _, client := range clients {
			got, err := client.Get(
				ctx,
				&messagesv1.GetRequest{Wait: durationpb.New(time.Second), MaxMessages: 3,
					VisibilityTimeout: durationpb.New(time.Hour)},
			)
			if status.Code(err) == codes.Unavailable {
				continue // nobody leads yet
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range got.GetMessages() {
				text := string(one.GetMessage().GetPayload())
				if seen[text] {
					t.Errorf("message %s came twice", text)
				}
				seen[text] = true
				for {
					_, err := client.Acknowledge(ctx, &messagesv1.AcknowledgeRequest{Receipts: []string{one.GetReceipt()}})
					if err == nil {
						break
					}
					// nobody may lead when a member was stalled
					if status.Code(err) != codes.Unavailable || time.Now().After(deadline) {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// TestExternalChannel: messages go exactly once from external servers to others, which are restarted meanwhile.
func TestExternalChannel(t *testing.T) {
	t.Parallel()
	from, to := externaltest.Start(t, nil), externaltest.Start(t, nil)
	p := newPair(t, func(p *pair) {
		for m, s := range map[*member]*externaltest.Server{p.east: from, p.west: to} {
			m.config.Storage = &wirev1.QueueStorage{Capacity: 64 << 20}
			m.config.External = &wirev1.QueueExternal{Owner: "bank/orders", Servers: []string{s.URL()}}
			m.config.DialPolicy = &wirev1.DialPolicy{AllowLoopback: true}
		}
	})
	p.runs("zstd", 1)
	p.send(7)
	for _, s := range []*externaltest.Server{to, from} {
		s.Restart(nil)
		p.east.await("it serves", served)
		p.west.await("it serves", served)
		p.putter = p.east.connect(p.authorities[0], "orders.bank.svc")
		p.meet()
		p.send(7)
	}
}
