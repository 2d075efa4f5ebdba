// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/durationpb"

	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// audited are the audit lines of a message.
func (m *queueMember) audited(message string) []map[string]any {
	m.Helper()
	var all []map[string]any
	for line := range strings.Lines(m.log.String()) {
		var one map[string]any
		if !strings.HasSuffix(line, "\n") {
			continue // it is being written
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			m.Fatalf("%s: %v", line, err)
		}
		if one["audit"] == true && one["msg"] == message {
			all = append(all, one)
		}
	}
	return all
}

// auditedOf is the line of a client by a protocol; nil: none.
func (m *queueMember) auditedOf(message, client, protocol string) map[string]any {
	m.Helper()
	for _, line := range m.audited(message) {
		if line["client"] == client && line["protocol"] == protocol {
			return line
		}
	}
	return nil
}

// TestQueueAudit: the log says who connected by which protocol and what they did, also of what was rejected, and never
// what they showed.
func TestQueueAudit(t *testing.T) {
	m := startQueue(t, withRoles, "till", "ledger", "clerk")
	conn, js := m.nats("clerk")
	for range 3 {
		if _, err := js.Publish(t.Context(), "orders.new", []byte("cargo")); err != nil {
			t.Fatal(err)
		}
	}
	consumer, err := js.CreateConsumer(
		t.Context(), "orders", jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy},
	)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := consumer.Next(jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
		if err != nil {
			t.Fatal(err)
		}
		if err := got.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := js.DeleteConsumer(t.Context(), "orders", "worker"); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if line := m.auditedOf("Client authenticated", "token:clerk", "nats"); line == nil ||
		line["operations"] != "Put,Get" || line["remote"] == "" {
		t.Errorf("%v", line)
	}
	m.await("the client is seen to go", func() bool {
		return m.auditedOf("Client disconnected", "token:clerk", "nats") != nil
	})
	if line := m.auditedOf("Client disconnected", "token:clerk", "nats"); line["puts"] != 3.0 || line["gets"] != 2.0 ||
		line["acknowledgements"] != 2.0 || line["bytes"].(float64) == 0 || line["duration"] == "" {
		t.Errorf("%v", line)
	}
	if code, body := m.http("till", http.MethodPost, "/v1/message", "cargo"); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	m.await("a request's connection is seen to end", func() bool {
		return m.auditedOf("Client disconnected", "token:till", "http") != nil
	})
	if line := m.auditedOf("Client disconnected", "token:till", "http"); line["puts"] != 1.0 ||
		line["bytes"].(float64) == 0 {
		t.Errorf("%v", line)
	}
	caller, ctx := m.grpc("ledger")
	// A Get waits for the first message and not for more, so two messages may take two.
	for got := 0; got < 2; {
		out, err := caller.Get(ctx, &messagesv1.GetRequest{MaxMessages: 10, Wait: durationpb.New(patience)})
		if err != nil || len(out.GetMessages()) == 0 {
			t.Fatalf("after %d messages: %v, %v", got, out, err)
		}
		got += len(out.GetMessages())
	}
	if line := m.auditedOf("Client authenticated", "token:ledger", "grpc"); line == nil || line["operations"] != "Get" {
		t.Errorf("%v", line)
	}
	m.http("ledger", http.MethodPost, "/v1/put", "{}")
	if line := m.auditedOf("Request rejected", "token:ledger", "http"); line == nil || line["reason"] != "Forbidden" {
		t.Errorf("%v", line)
	}
	// Guesses by each protocol are many, and lines about them few.
	const guesses = 100
	for range guesses {
		if code, _ := m.http("nobody", http.MethodPost, "/v1/put", "{}"); code != http.StatusUnauthorized {
			t.Fatal(code)
		}
	}
	if _, err := nats.Connect(
		"nats://"+m.config.GetListenAddress(), nats.Token(word("nobody")), nats.Timeout(patience),
		nats.Secure(&tls.Config{RootCAs: m.pool, MinVersion: tls.VersionTLS13}),
	); err == nil {
		t.Fatal("a token of nobody authenticates")
	}
	if lines := m.audited("Request rejected"); len(lines) < 2 || len(lines) > guesses/2 {
		t.Errorf("%d lines about %d guesses", len(lines), guesses)
	}
	for _, client := range []string{"till", "ledger", "clerk", "nobody"} {
		if strings.Contains(m.log.String(), word(client)) {
			t.Errorf("the token of %s is in the log", client)
		}
	}
	if !strings.Contains(m.log.String(), "token:till") {
		t.Error("nothing was logged: this test proves nothing")
	}
}
