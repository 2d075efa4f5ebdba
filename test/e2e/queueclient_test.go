// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/corpus"
)

// patience bounds what one answer may take on a machine that is busy.
const patience = time.Minute

// orders are messages of which every other one is long enough to be compressed: XML, a short one, JSON, a short one and
// so on.
func orders(n int) [][]byte {
	var messages [][]byte
	for i := range n {
		switch {
		case i%2 == 1:
			messages = append(messages, fmt.Appendf(nil, "%-100s", fmt.Sprintf("<ack order=\"%d\"/>", i)))
		case i%4 == 0:
			messages = append(messages, document("xml", i))
		default:
			messages = append(messages, document("json", i))
		}
	}
	return messages
}

// document is a piece of a corpus that is no other's.
func document(name string, i int) []byte {
	kind, _ := corpus.ByName(name)
	length := 12000 + 137*i
	return kind.Generate(200000)[1000*i:][:length]
}

// queueClient is an ordinary NATS client outside of the cluster.
type queueClient struct {
	cluster *cluster
	queue   *v1alpha1.Queue
	roots   *x509.CertPool
	token   string

	conn   *nats.Conn
	stream jetstream.JetStream
}

// dial connects through a forwarded port of its own: kubectl gives up forwarding when the Service ends one of the
// connections.
func (c *queueClient) dial(t *testing.T, roots *x509.CertPool, token string) (*nats.Conn, error) {
	t.Helper()
	address := c.cluster.forward(t, c.queue.Namespace, "service/"+c.queue.Name, 4222)
	conn, err := nats.Connect("tls://"+address, nats.Token(token), nats.Timeout(patience), nats.NoReconnect(),
		nats.Secure(
			&tls.Config{
				MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: c.queue.Name + "." + c.queue.Namespace + ".svc",
			},
		))
	if err == nil {
		t.Cleanup(conn.Close)
	}
	return conn, err
}

// connect begins, or begins again.
func (c *queueClient) connect(t *testing.T) {
	t.Helper()
	c.close()
	var err error
	if c.conn, err = c.dial(t, c.roots, c.token); err != nil {
		t.Fatalf("connect to Queue %s: %v", c.queue.Name, err)
	}
	if c.stream, err = jetstream.New(c.conn); err != nil {
		t.Fatal(err)
	}
}

func (c *queueClient) close() {
	if c.conn != nil {
		c.conn.Close()
	}
}

// expectStrangersKeptOut: nobody gets in by another token, and nobody takes the Service for another's.
func (c *queueClient) expectStrangersKeptOut(t *testing.T) {
	t.Helper()
	if _, err := c.dial(t, c.roots, "let anybody in"); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("with a token that is none of the Secret's: %v, want %v", err, nats.ErrAuthorization)
	}
	var unknown x509.UnknownAuthorityError
	if _, err := c.dial(t, x509.NewCertPool(), c.token); !errors.As(err, &unknown) {
		t.Errorf("without the cluster's CA: %v, want %T", err, unknown)
	}
}

// put waits for the acknowledgement of each message.
func (c *queueClient) put(t *testing.T, messages [][]byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i, message := range messages {
		ack, err := c.stream.Publish(ctx, c.queue.Name, message)
		if err != nil {
			t.Fatalf("put message %d of %d bytes: %v", i, len(message), err)
		}
		if ack.Stream != c.queue.Name || ack.Sequence != uint64(i+1) || ack.Duplicate {
			t.Fatalf("message %d was acknowledged with %+v", i, *ack)
		}
	}
}

// putNext is put for a queue that may have had messages before.
func (c *queueClient) putNext(t *testing.T, messages [][]byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i, message := range messages {
		if _, err := c.stream.Publish(ctx, c.queue.Name, message); err != nil {
			t.Fatalf("put message %d of %d bytes: %v", i, len(message), err)
		}
	}
}

// get expects the messages to come next, and acknowledges each until the queue has taken note of that.
func (c *queueClient) get(t *testing.T, messages [][]byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	consumer, err := c.stream.CreateOrUpdateConsumer(ctx, c.queue.Name, jetstream.ConsumerConfig{
		Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 2 * patience,
	})
	if err != nil {
		t.Fatalf("make a consumer: %v", err)
	}
	batch, err := consumer.Fetch(len(messages), jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
	if err != nil {
		t.Fatalf("get %d messages: %v", len(messages), err)
	}
	got := 0
	for message := range batch.Messages() {
		if want := messages[got]; !bytes.Equal(message.Data(), want) {
			t.Fatalf("message %d has %d bytes that are not the %d bytes that were put", got, len(message.Data()), len(want))
		}
		for name := range message.Headers() {
			if strings.HasPrefix(name, "Lighterage-") && name != "Lighterage-Put-Time" {
				t.Errorf("message %d was delivered in plain and has header %s", got, name)
			}
		}
		if err := message.DoubleAck(ctx); err != nil {
			t.Fatalf("acknowledge message %d: %v", got, err)
		}
		got++
	}
	if got != len(messages) || batch.Error() != nil {
		t.Fatalf("got %d of %d messages: %v", got, len(messages), batch.Error())
	}
}

// forward listens on this machine for a port of an object in the cluster until the test ends, and returns the address.
func (c *cluster) forward(t *testing.T, namespace, object string, port int) string {
	t.Helper()
	command := c.command("-n", namespace, "port-forward", object, fmt.Sprintf(":%d", port))
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// It may have ended by itself, with the pod that it forwarded to.
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	address, _, found := strings.Cut(strings.TrimPrefix(line, "Forwarding from "), " -> ")
	if err != nil || !found {
		_ = command.Process.Kill()
		_ = command.Wait()
		t.Fatalf("%s: forward a port to %s: %q, %v\n%s", c.name, object, line, err, problems.String())
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return address
}
