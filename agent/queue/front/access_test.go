// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/roles"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
)

// TestAuthentication: a token or a certificate admits, over TLS, and nothing else does.
func TestAuthentication(t *testing.T) {
	own, ownPool := transporttest.SelfSigned(t)
	trusted, trustedPool := transporttest.SelfSigned(t)
	stranger, _ := transporttest.SelfSigned(t)
	s := settings(t, nil)
	s.Open, s.Tokens, s.ClientCAs = false, tokens("secret", "other"), trustedPool
	q := start(t, s, func(o *front.Options) {
		o.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &own, nil }
	})
	secure := func(certificates ...tls.Certificate) nats.Option {
		return nats.Secure(&tls.Config{RootCAs: ownPool, Certificates: certificates, MinVersion: tls.VersionTLS13})
	}
	for what, test := range map[string]struct {
		options []nats.Option
		ok      bool
	}{
		"token":                  {[]nats.Option{secure(), nats.Token("secret")}, true},
		"other token":            {[]nats.Option{secure(), nats.Token("other")}, true},
		"certificate":            {[]nats.Option{secure(trusted)}, true},
		"both":                   {[]nats.Option{secure(trusted), nats.Token("guess")}, true},
		"nothing":                {[]nats.Option{secure()}, false},
		"wrong token":            {[]nats.Option{secure(), nats.Token("guess")}, false},
		"empty token":            {[]nats.Option{secure(), nats.Token("")}, false},
		"stranger's certificate": {[]nats.Option{secure(stranger)}, false},
		"stranger with a token":  {[]nats.Option{secure(stranger), nats.Token("secret")}, false},
		"the store's user":       {[]nats.Option{secure(), nats.UserInfo("agent", "")}, false},
		"who trusts another": {
			[]nats.Option{nats.Secure(&tls.Config{RootCAs: trustedPool, MinVersion: tls.VersionTLS13}), nats.Token("secret")},
			false,
		},
	} {
		conn, err := q.connect(test.options...)
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil {
			continue
		}
		js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), "orders.new", xml(t, 12000)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		conn.Close()
	}
	// A client hears from TLS that its certificate is refused before that is counted.
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		got := q.front.Statistics()
		if got.FailedAuthentications == 6 && got.Puts.Count == 4 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d not admit, %d puts", got.FailedAuthentications, got.Puts.Count)
		}
	}
	// Tokens change for new connections.
	s.Tokens = tokens("new")
	if err := q.front.Reload(s); err != nil {
		t.Fatal(err)
	}
	if _, err := q.connect(secure(), nats.Token("secret")); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("with a token of before: %v", err)
	}
	q.client(secure(), nats.Token("new"))
}

// raw is a client without a library.
type raw struct {
	net.Conn
	*bufio.Reader
	t *testing.T
}

func (q *queue) raw(t *testing.T) raw {
	t.Helper()
	conn, err := net.Dial("tcp", q.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return raw{conn, bufio.NewReader(conn), t}
}

func (r raw) say(text string) {
	r.t.Helper()
	if _, err := r.Conn.Write([]byte(text)); err != nil {
		r.t.Fatal(err)
	}
}

func (r raw) hear(want string) {
	r.t.Helper()
	line, err := r.ReadString('\n')
	for err == nil && line == "PING\r\n" { // the server asks two seconds after a client came
		line, err = r.ReadString('\n')
	}
	if err != nil || !strings.HasPrefix(line, want) {
		r.t.Fatalf("heard %q, %v; want %q", line, err, want)
	}
}

// Read is that of the buffer.
func (r raw) Read(b []byte) (int, error) { return r.Reader.Read(b) }

// TestRudeClients: who does not keep to the protocol is told so and sent away.
func TestRudeClients(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	const hello = "CONNECT {\"verbose\":false}\r\nPING\r\n"
	for what, test := range map[string]struct{ say, want string }{
		"no CONNECT":      {"PING\r\n", "-ERR 'Unknown Protocol"},
		"no JSON":         {"CONNECT x\r\n", "-ERR 'Unknown Protocol"},
		"null":            {"CONNECT null\r\n", "-ERR 'Unknown Protocol"},
		"long line":       {strings.Repeat("x", 5000), "-ERR 'Unknown Protocol"},
		"unknown":         {hello + "GET / HTTP/1.1\r\n", "-ERR 'Unknown Protocol"},
		"second CONNECT":  {hello + "CONNECT {}\r\n", "-ERR 'Unknown Protocol"},
		"oversize":        {hello + fmt.Sprintf("PUB orders %d\r\n", maxMessage+1), "-ERR 'Maximum Payload"},
		"absurd length":   {hello + "PUB orders 99999999999\r\n", "-ERR 'Unknown Protocol"},
		"negative":        {hello + "PUB orders -1\r\n", "-ERR 'Unknown Protocol"},
		"more headers":    {hello + "HPUB orders 12 2\r\n", "-ERR 'Unknown Protocol"},
		"without its end": {hello + "PUB orders 2\r\nabcd\r\n", "-ERR 'Unknown Protocol"},
	} {
		t.Run(what, func(t *testing.T) {
			r := q.raw(t)
			r.hear("INFO {")
			rest, greeted := strings.CutPrefix(test.say, hello)
			if greeted {
				r.say(hello)
				r.hear("PONG")
			}
			r.say(rest)
			r.hear(test.want)
			if _, err := r.ReadByte(); err == nil {
				t.Error("the connection stays")
			}
		})
	}
	// Another client is not concerned.
	_, js := q.client()
	q.put(js, &nats.Msg{Subject: "orders", Data: xml(t, 12000)})
	// And a clean end puts what was said before.
	r := q.raw(t)
	r.hear("INFO {")
	r.say("connect {}\r\npub orders.last 5\r\nhello\r\npub orders.last 0\r\n\r\nPING\r\n")
	r.hear("+OK") // verbose, as nobody said otherwise
	for range 2 {
		r.hear("+OK")
	}
	r.hear("PONG")
	if m := q.stored(2); string(m.Data) != "hello" || m.Subject != "orders.last" {
		t.Errorf("%q", m.Data)
	}
}

// TestSlowClient: a client may take longer to say who it is than the server would wait for one of its own.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	q := start(t, settings(t, nil), nil)
	r := q.raw(t)
	r.hear("INFO {")
	time.Sleep(2500 * time.Millisecond)
	r.say("CONNECT {\"verbose\":false}\r\nPING\r\n")
	r.hear("PONG")
}

// TestWithoutHeaders: a client that does not know headers gets plain messages without any.
func TestWithoutHeaders(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	r := q.raw(t)
	r.hear("INFO {")
	r.say("CONNECT {\"verbose\":false,\"headers\":false}\r\nSUB orders.> 1\r\nPING\r\n")
	r.hear("PONG")
	_, js := q.client()
	plain := xml(t, 12000)
	for _, header := range []nats.Header{nil, {"A": {"1"}}} {
		q.put(js, &nats.Msg{Subject: "orders.new", Data: plain, Header: header})
		r.hear("MSG orders.new 1 ")
		body := make([]byte, len(plain)+2)
		for at := 0; at < len(body); {
			n, err := r.Read(body[at:])
			if err != nil {
				t.Fatal(err)
			}
			at += n
		}
		if !bytes.Equal(body, append(bytes.Clone(plain), "\r\n"...)) {
			t.Error("another payload")
		}
	}
}

func TestTooManyConnections(t *testing.T) {
	s := settings(t, nil)
	s.MaxConnections = 1
	q := start(t, s, nil)
	r := q.raw(t)
	r.hear("INFO {")
	q.raw(t).hear("-ERR 'maximum connections exceeded'")
	if got := q.front.Statistics(); got.RefusedConnections != 1 || got.Connections != 1 {
		t.Errorf("%+v", got)
	}
}

// TestDrain: clients are told to go elsewhere, and served until they do.
func TestDrain(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	q.front.SetLeaving(patience, patience)
	told := make(chan struct{})
	conn, js := q.client(nats.LameDuckModeHandler(func(*nats.Conn) { close(told) }), nats.NoReconnect())
	q.put(js, &nats.Msg{Subject: "orders", Data: xml(t, 12000)})
	drained := make(chan error, 1)
	go func() { drained <- q.front.Drain(t.Context()) }()
	<-told
	q.put(js, &nats.Msg{Subject: "orders", Data: xml(t, 12000)})
	if _, err := q.connect(); err == nil {
		t.Error("another client was taken")
	}
	conn.Close()
	if err := <-drained; err != nil || !q.front.Draining() {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = q.front.Drain(ctx) // twice does no harm
}

// TestManyClients: what several clients put at once arrives, in the order of each.
func TestManyClients(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	const clients, messages = 4, 60
	plain := xml(t, 40000)
	var all sync.WaitGroup
	for c := range clients {
		_, js := q.client()
		all.Go(func() {
			for i := range messages {
				n := 100 + (i*7919+c*104729)%39000
				m := &nats.Msg{Subject: fmt.Sprintf("orders.%d", c), Data: plain[:n], Header: nats.Header{"I": {fmt.Sprint(i)}}}
				if _, err := js.PublishMsgAsync(m); err != nil {
					t.Error(err)
				}
			}
			<-js.PublishAsyncComplete()
		})
	}
	all.Wait()
	_, js := q.client()
	consumer := q.consumer(js, "clerk")
	batch, err := consumer.Fetch(clients*messages, soon...)
	if err != nil {
		t.Fatal(err)
	}
	next := make(map[string]int)
	for m := range batch.Messages() {
		i := next[m.Subject()]
		next[m.Subject()]++
		var c int
		if _, err := fmt.Sscanf(m.Subject(), "orders.%d", &c); err != nil {
			t.Fatal(err)
		}
		n := 100 + (i*7919+c*104729)%39000
		if m.Headers().Get("I") != fmt.Sprint(i) || !bytes.Equal(m.Data(), plain[:n]) {
			t.Errorf(
				"%s: message %s with %d bytes where %d with %d belongs", m.Subject(), m.Headers().Get("I"), len(m.Data()), i, n,
			)
		}
	}
	for c, n := range next {
		if n != messages {
			t.Errorf("%s: %d messages", c, n)
		}
	}
	if len(next) != clients {
		t.Errorf("messages of %d clients", len(next))
	}
}

// TestOwnConsumers: clients may look at the agent's own consumers, and neither get by them, acknowledge for them,
// change nor remove them.
func TestOwnConsumers(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	complaints := make(chan error, 10)
	conn, js := q.client(nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { complaints <- err }))
	complaint := func(what string) {
		t.Helper()
		select {
		case err := <-complaints:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(patience):
			t.Fatalf("nobody is told of %s", what)
		}
	}
	q.put(js, &nats.Msg{Subject: "orders.new", Data: []byte("for the channel")})
	own, err := q.direct.CreateConsumer(t.Context(), "orders", jetstream.ConsumerConfig{
		Durable: roles.OwnConsumers + "channel", FilterSubjects: store.Subjects("orders"),
		AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	name := own.CachedInfo().Name
	seen, err := js.Consumer(t.Context(), "orders", name)
	if err != nil || seen.CachedInfo().NumPending != 1 {
		t.Fatalf("a client sees %v, %v", seen, err)
	}
	if _, err := seen.Next(soon...); err == nil || !strings.Contains(err.Error(), "the queue's own") {
		t.Errorf("getting by it: %v", err)
	}
	if err := conn.Publish("$JS.API.CONSUMER.MSG.NEXT.orders."+name, nil); err != nil {
		t.Fatal(err)
	}
	complaint("a request without an answer")
	denied := func(what string, err error) {
		t.Helper()
		var refused *jetstream.APIError
		if !errors.As(err, &refused) || refused.Code != 403 || !strings.Contains(refused.Description, "the queue's own") {
			t.Errorf("%s: %v", what, err)
		}
	}
	denied("removing it", js.DeleteConsumer(t.Context(), "orders", name))
	_, err = js.PauseConsumer(t.Context(), "orders", name, time.Now().Add(time.Hour))
	denied("pausing it", err)
	_, err = js.CreateOrUpdateConsumer(t.Context(), "orders", jetstream.ConsumerConfig{Durable: name, AckWait: time.Hour})
	denied("changing it", err)
	_, err = js.CreateConsumer(t.Context(), "orders", jetstream.ConsumerConfig{Name: roles.OwnConsumers + "x"})
	denied("making another", err)
	answer, err := conn.Request(
		"$JS.API.CONSUMER.CREATE.orders",
		[]byte(`{"stream_name":"orders","config":{"name":"lighterage-x","ack_policy":"explicit"}}`), patience,
	)
	if err != nil || !strings.Contains(string(answer.Data), "the queue's own") {
		t.Errorf("making another by a name in the request: %v, %v", answer, err)
	}

	m, err := own.Next(soon...)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Publish(m.Reply(), []byte("+ACK")); err != nil {
		t.Fatal(err)
	}
	complaint("an acknowledgement")
	// Nor does the server do by an answer what a client may not ask for.
	if err := conn.PublishRequest("orders.new", "$JS.API.STREAM.PURGE.orders", []byte("a put")); err != nil {
		t.Fatal(err)
	}
	complaint("a put that is answered to the server")
	info, err := own.Info(t.Context())
	if err != nil || info.NumAckPending != 1 {
		t.Errorf("the message was acknowledged: %+v, %v", info, err)
	}
	if stream, err := q.direct.Stream(t.Context(), "orders"); err != nil || stream.CachedInfo().State.Msgs != 1 ||
		stream.CachedInfo().State.Consumers != 1 {
		t.Errorf("the stream is %v, %v", stream, err)
	}
}

// TestForgedDeadLetters: an ordinary message cannot look like a dead letter.
func TestForgedDeadLetters(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	_, js := q.client()
	for _, name := range []string{"Lighterage-Dead-Reason", "Lighterage-Dead-Sequence"} {
		_, err := js.PublishMsg(
			t.Context(), &nats.Msg{Subject: "orders", Header: nats.Header{name: {"7"}}, Data: xml(t, 12000)},
		)
		var refused *jetstream.APIError
		if !errors.As(err, &refused) || !strings.Contains(refused.Description, "dead letters") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The dead letter of message 7 would be taken for a duplicate of a message with this id.
	_, err := js.PublishMsg(
		t.Context(),
		&nats.Msg{Subject: "orders", Header: nats.Header{nats.MsgIdHdr: {"lighterage-dead.7"}}, Data: []byte("x")},
	)
	var refused *jetstream.APIError
	if !errors.As(err, &refused) || !strings.Contains(refused.Description, "dead letters") {
		t.Errorf("with such an id: %v", err)
	}
	q.put(
		js, &nats.Msg{Subject: "orders", Header: nats.Header{nats.MsgIdHdr: {"not-lighterage-dead.7"}}, Data: []byte("x")},
	)
	q.put(
		js, &nats.Msg{Subject: "orders", Header: nats.Header{"About": {"Lighterage-Dead-Reason: none"}}, Data: xml(t, 12000)},
	)
}
