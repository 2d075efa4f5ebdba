// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// withRoles gives till Put, ledger Get and clerk both; other tokens have nothing.
func withRoles(c *wirev1.QueueConfig) {
	c.Authentication.TokenRoles = []*wirev1.QueueRole{
		{Client: "till", Put: true},
		{Client: "ledger", Get: true},
		{Client: "clerk", Put: true, Get: true},
	}
}

// rawClient speaks the protocol of NATS without a library, which would keep from saying some things.
type rawClient struct {
	*tls.Conn
	in *bufio.Reader
	m  *queueMember
}

func (m *queueMember) raw(client string) *rawClient {
	m.Helper()
	plain, err := net.Dial("tcp", m.config.GetListenAddress())
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = plain.Close() })
	if err := plain.SetDeadline(time.Now().Add(patience)); err != nil {
		m.Fatal(err)
	}
	for b := []byte{0}; b[0] != '\n'; { // INFO, and nothing of what follows
		if _, err := plain.Read(b); err != nil {
			m.Fatal(err)
		}
	}
	config := m.tlsConfig()
	config.ServerName, _, _ = net.SplitHostPort(m.config.GetListenAddress())
	conn := tls.Client(plain, config)
	r := &rawClient{conn, bufio.NewReader(conn), m}
	r.said(fmt.Sprintf("CONNECT {\"verbose\":false,\"headers\":true,\"auth_token\":%q}\r\n", word(client)))
	return r
}

// said sends lines, and returns all that the member says until it has handled them.
func (r *rawClient) said(text string) string {
	r.m.Helper()
	if _, err := r.Write([]byte(text + "PING\r\n")); err != nil {
		r.m.Fatal(err)
	}
	var heard strings.Builder
	for {
		line, err := r.in.ReadString('\n')
		if err != nil {
			r.m.Fatalf("%q: heard %q, %v", text, heard.String(), err)
		}
		if strings.HasPrefix(line, "PONG") {
			return heard.String()
		}
		heard.WriteString(line)
	}
}

// pub is a message of NATS with a reply.
func pub(subject, reply, payload string) string {
	return fmt.Sprintf("PUB %s %s %d\r\n%s\r\n", subject, reply, len(payload), payload)
}

const inbox = "_INBOX.abcdefghijklmnopqrstuv"

// messages is how many there are, and consumers how many consumers.
func (m *queueMember) holds() (messages, consumers uint64, pending int) {
	m.Helper()
	_, js := m.nats("clerk")
	stream, err := js.Stream(m.Context(), "orders")
	if err != nil {
		m.Fatal(err)
	}
	info, err := stream.Info(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	consumer, err := js.Consumer(m.Context(), "orders", "worker")
	if err != nil {
		m.Fatal(err)
	}
	return info.State.Msgs, uint64(info.State.Consumers), consumer.CachedInfo().NumAckPending
}

// filled has two messages in the Queue, of which the consumer worker has one.
func (m *queueMember) filled() (taken jetstream.Msg) {
	m.Helper()
	_, js := m.nats("clerk")
	for _, text := range []string{"a", "b"} {
		if _, err := js.Publish(m.Context(), "orders.new", []byte("cargo-"+text), jetstream.WithMsgID(text)); err != nil {
			m.Fatal(err)
		}
	}
	consumer, err := js.CreateConsumer(
		m.Context(), "orders",
		jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour},
	)
	if err != nil {
		m.Fatal(err)
	}
	taken, err = consumer.Next(jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
	if err != nil {
		m.Fatal(err)
	}
	return taken
}

// TestPutOnlyClient: a client with Put cannot see, get, acknowledge or remove messages or consumers, whatever it says
// to a member.
func TestPutOnlyClient(t *testing.T) {
	m := startQueue(t, withRoles, "till", "ledger", "clerk")
	taken := m.filled()
	till := m.raw("till")
	if heard := till.said("SUB " + inbox + ".* 1\r\n"); heard != "" {
		t.Fatalf("an inbox of its own: %q", heard)
	}
	if heard := till.said("SUB $JS.API.X 9\r\n"); !strings.Contains(heard, "Permissions Violation") {
		t.Fatalf("this test hears nothing: %q", heard)
	}
	for _, pattern := range []string{"orders", "orders.>", "orders.*", ">", "*.>", "_INBOX.>", "_INBOX.*", "_DELIVER.>",
		"_DELIVER.orders.x", "$JS.EVENT.ADVISORY.>",
		"$JS.EVENT.ADVISORY.CONSUMER.CREATED.orders.*", "$JS.>", "$JS.ACK.>", "$LIGHTERAGE.>", "$SYS.>"} {
		if heard := till.said("SUB " + pattern + " 2\r\n"); !strings.Contains(
			heard, "Permissions Violation for Subscription",
		) {
			t.Errorf("it listens to %s: %q", pattern, heard)
		}
	}
	create := `{"stream_name":"orders","config":{"durable_name":"mine","ack_policy":"explicit"}}`
	push := `{"stream_name":"orders","config":{"deliver_subject":"` + inbox + `.x","ack_policy":"none"}}`
	for subject, payload := range map[string]string{
		"$JS.API.INFO": "", "$JS.API.STREAM.INFO.orders": `{"subjects_filter":">"}`, "$JS.API.STREAM.NAMES": "",
		"$JS.API.STREAM.LIST":           "",
		"$JS.API.STREAM.MSG.GET.orders": `{"seq":1}`, "$JS.API.DIRECT.GET.orders": `{"seq":1}`,
		"$JS.API.DIRECT.GET.orders.orders.new": "",
		"$JS.API.CONSUMER.CREATE.orders":       push, "$JS.API.CONSUMER.CREATE.orders.mine": create,
		"$JS.API.CONSUMER.CREATE.orders.mine.orders.>": create,
		"$JS.API.CONSUMER.DURABLE.CREATE.orders.mine":  create, "$JS.API.CONSUMER.INFO.orders.worker": "",
		"$JS.API.CONSUMER.LIST.orders": "", "$JS.API.CONSUMER.NAMES.orders": "",
		"$JS.API.CONSUMER.MSG.NEXT.orders.worker": `{"batch":1}`, "$JS.API.CONSUMER.DELETE.orders.worker": "",
		"$JS.API.CONSUMER.PAUSE.orders.worker": `{"pause_until":"2999-01-01T00:00:00Z"}`,
		"$JS.API.CONSUMER.UNPIN.orders.worker": `{"group":"a"}`, "$JS.API.STREAM.PURGE.orders": "",
		"$JS.API.STREAM.DELETE.orders": "", "$JS.API.STREAM.MSG.DELETE.orders": `{"seq":1}`,
		"$JS.API.STREAM.UPDATE.orders": `{"name":"orders"}`, taken.Reply(): "+ACK",
		strings.Replace(taken.Reply(), ".1.1.1.", ".1.2.2.", 1): "+NXT", "$JS.FC.orders.worker.x": "",
		inbox + ".y": `{"stream":"orders","seq":1}`, "_DELIVER.orders.x": "forged",
	} {
		heard := till.said(pub(subject, inbox+".a", payload))
		if !strings.Contains(heard, "Permissions Violation for Publish") || strings.Contains(heard, "cargo") ||
			strings.Contains(heard, `"config"`) {
			t.Errorf("%s: %q", subject, heard)
		}
	}
	for _, reply := range []string{
		"orders.x", "_DELIVER.orders.x", "$JS.API.STREAM.PURGE.orders", taken.Reply(), "_INBOX.x",
	} {
		if heard := till.said(pub("orders.new", reply, "x")); !strings.Contains(
			heard, "Permissions Violation for Publish with Reply",
		) {
			t.Errorf("answered to %s: %q", reply, heard)
		}
	}
	caller, ctx := m.grpc("till")
	for what, call := range map[string]func() error{
		"Get": func() error { _, err := caller.Get(ctx, &messagesv1.GetRequest{}); return err },
		"Get of dead letters": func() error {
			_, err := caller.Get(ctx, &messagesv1.GetRequest{DeadLetters: true})
			return err
		},
		"Acknowledge": func() error {
			_, err := caller.Acknowledge(ctx, &messagesv1.AcknowledgeRequest{Receipts: []string{"x"}})
			return err
		},
		"Release": func() error { _, err := caller.Release(ctx, &messagesv1.ReleaseRequest{}); return err },
		"Extend":  func() error { _, err := caller.Extend(ctx, &messagesv1.ExtendRequest{}); return err },
		"Reject":  func() error { _, err := caller.Reject(ctx, &messagesv1.RejectRequest{}); return err },
	} {
		if err := call(); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "Get") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, request := range []string{
		"POST /v1/get", "POST /v1/message/next", "POST /v1/message/next?dead=true", "POST /v1/acknowledge",
		"POST /v1/release", "POST /v1/extend", "POST /v1/reject", "DELETE /v1/message/x",
	} {
		method, path, _ := strings.Cut(request, " ")
		if code, body := m.http("till", method, path, "{}"); code != http.StatusForbidden || !strings.Contains(body, "Get") {
			t.Errorf("%s: %d %s", request, code, body)
		}
	}
	if messages, consumers, pending := m.holds(); messages != 2 || consumers != 1 || pending != 1 {
		t.Errorf("%d messages, %d consumers, %d with them: something was changed", messages, consumers, pending)
	}
	// What it may do it can, by each protocol.
	if heard := till.said(pub("orders.new", inbox+".b", "x")); strings.Contains(heard, "-ERR") {
		t.Errorf("a put: %q", heard)
	}
	if out, err := caller.Put(
		ctx, &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{{Payload: []byte("x")}}},
	); err != nil || out.GetResults()[0].GetSequence() == 0 {
		t.Errorf("a put by gRPC: %v, %v", out, err)
	}
	for _, path := range []string{"/v1/put", "/v1/message"} {
		if code, body := m.http("till", http.MethodPost, path, `{"messages":[{"payload":"eA=="}]}`); code/100 != 2 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if r := m.Report(t.Context()).GetStatistics(); r.GetForbiddenRequests() == 0 {
		t.Error("nothing is counted of it")
	}
}

// TestGetOnlyClient: a client with Get cannot publish, directly or by what the server publishes for it.
func TestGetOnlyClient(t *testing.T) {
	m := startQueue(t, withRoles, "till", "ledger", "clerk")
	m.filled()
	ledger := m.raw("ledger")
	if heard := ledger.said("SUB " + inbox + ".* 1\r\nSUB orders.> 2\r\nSUB _DELIVER.orders.mine 3\r\n"); heard != "" {
		t.Fatalf("what it may listen to: %q", heard)
	}
	for _, subject := range []string{
		"orders", "orders.new", "orders.a.b", "ORDERS.new", "$LIGHTERAGE.DEAD.orders", "$LIGHTERAGE.CHANNEL.orders.x",
		inbox + ".y", "_DELIVER.orders.mine", "other",
	} {
		if heard := ledger.said(pub(subject, inbox+".a", "forged")); !strings.Contains(
			heard, "Permissions Violation for Publish",
		) {
			t.Errorf("it publishes to %s: %q", subject, heard)
		}
		header := "NATS/1.0\r\nNats-Rollup: all\r\nNats-Msg-Id: z\r\n\r\n"
		if heard := ledger.said(
			fmt.Sprintf("HPUB %s %s %d %d\r\n%sx\r\n", subject, inbox+".a", len(header), len(header)+1, header),
		); !strings.Contains(heard, "Permissions Violation for Publish") {
			t.Errorf("it publishes to %s with headers: %q", subject, heard)
		}
	}
	// The server would publish there with rights of its own.
	for subject, payload := range map[string]string{
		"$JS.API.STREAM.MSG.GET.orders": `{"seq":1}`, "$JS.API.CONSUMER.MSG.NEXT.orders.worker": `{"batch":1}`,
		"$JS.API.DIRECT.GET.orders": `{"seq":1}`, "$JS.API.INFO": "",
	} {
		for _, reply := range []string{"orders.new", "orders", "$LIGHTERAGE.DEAD.orders", "$JS.API.STREAM.PURGE.orders"} {
			if heard := ledger.said(pub(subject, reply, payload)); !strings.Contains(
				heard, "Permissions Violation for Publish with Reply",
			) {
				t.Errorf("%s answers to %s: %q", subject, reply, heard)
			}
		}
	}
	for _, deliver := range []string{"orders.new", "orders", "$LIGHTERAGE.DEAD.orders"} {
		body := `{"stream_name":"orders","config":{"durable_name":"pushes","deliver_subject":"` + deliver +
			`","ack_policy":"explicit"}}`
		if heard := ledger.said(
			pub("$JS.API.CONSUMER.DURABLE.CREATE.orders.pushes", inbox+".a", body),
		); !strings.Contains(heard, "deliver_subject") {
			t.Errorf("a consumer delivers to %s: %q", deliver, heard)
		}
	}
	trace := "NATS/1.0\r\nNats-Trace-Dest: orders.new\r\n\r\n"
	if heard := ledger.said(
		fmt.Sprintf("HPUB $JS.API.INFO %s %d %d\r\n%s\r\n", inbox+".a", len(trace), len(trace), trace),
	); !strings.Contains(heard, "Permissions Violation") {
		t.Errorf("a trace goes to the queue: %q", heard)
	}
	_, js := m.nats("ledger")
	var refused *jetstream.APIError
	if _, err := js.Publish(t.Context(), "orders.new", []byte("x")); !errors.As(err, &refused) || refused.Code != 403 ||
		!strings.Contains(refused.Description, "Put") {
		t.Errorf("a library's put: %v", err)
	}
	caller, ctx := m.grpc("ledger")
	if _, err := caller.Put(
		ctx, &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{{Payload: []byte("x")}}},
	); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a put by gRPC: %v", err)
	}
	for _, path := range []string{"/v1/put", "/v1/message"} {
		if code, body := m.http(
			"ledger", http.MethodPost, path, `{"messages":[{"payload":"eA=="}]}`,
		); code != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if messages, _, _ := m.holds(); messages != 2 {
		t.Errorf("%d messages", messages)
	}
	// What it may do it can.
	consumer, err := js.Consumer(t.Context(), "orders", "worker")
	if err != nil {
		t.Fatal(err)
	}
	got, err := consumer.Next(jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
	if err != nil {
		t.Fatal(err)
	}
	if err := got.DoubleAck(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestNobodyForgesAcknowledgements: a client that sees messages as they are published would learn the inbox of who put
// them, and could tell that client that a message is stored which is not, or read its answers.
func TestNobodyForgesAcknowledgements(t *testing.T) {
	m := startQueue(t, nil, "till", "ledger")
	ledger := m.raw("ledger")
	ledger.said("SUB orders.> 2\r\n")
	_, js := m.nats("till")
	if _, err := js.Publish(t.Context(), "orders.new", []byte("cargo")); err != nil {
		t.Fatal(err)
	}
	var heard string
	m.await("the other client hears of it", func() bool {
		heard += ledger.said("")
		return strings.Contains(heard, "cargo")
	})
	if strings.Contains(heard, "_INBOX.") {
		t.Errorf("it is told where the putter listens: %q", heard)
	}
	if heard := ledger.said(
		pub(inbox+".x", inbox+".y", `{"stream":"orders","seq":7}`),
	); !strings.Contains(heard, "Permissions Violation") {
		t.Errorf("it publishes to another's inbox: %q", heard)
	}
}

// TestRolesOfOpenConnections: what a client may do changes while it is connected, as it does with its token.
func TestRolesOfOpenConnections(t *testing.T) {
	m := startQueue(t, withRoles, "till", "ledger", "clerk")
	gone := make(chan struct{})
	m.nats("clerk", nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(gone) }))
	stays, _ := m.nats("ledger", nats.NoReconnect())
	m.change(func(c *wirev1.QueueConfig) {
		at := slices.IndexFunc(c.GetAuthentication().GetTokenRoles(), func(r *wirev1.QueueRole) bool {
			return r.GetClient() == "clerk"
		})
		c.Authentication.TokenRoles[at].Get = false
	})
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("a client that lost Get stays connected, with its subscriptions")
	}
	if err := stays.FlushTimeout(patience); err != nil {
		t.Errorf("a client whose role is the same was disconnected: %v", err)
	}
	if code, body := m.http("clerk", http.MethodPost, "/v1/message/next", ""); code != http.StatusForbidden {
		t.Errorf("%d %s", code, body)
	}
	// A token that has no role any more is none.
	m.change(func(c *wirev1.QueueConfig) { c.Authentication.TokenRoles = c.Authentication.TokenRoles[:1] })
	if code, body := m.http("ledger", http.MethodPost, "/v1/message/next", ""); code != http.StatusUnauthorized {
		t.Errorf("%d %s", code, body)
	}
	m.change(func(c *wirev1.QueueConfig) {
		c.Authentication.TokenRoles = append(c.Authentication.TokenRoles, &wirev1.QueueRole{Client: "*", Get: true})
	})
	if code, body := m.http("ledger", http.MethodPost, "/v1/message/next", ""); code != http.StatusNoContent {
		t.Errorf("%d %s", code, body)
	}
}
