// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/api/messages"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
	"github.com/lighterage/lighterage/test/corpus"
)

// caller returns a client of MessageService who wants a name in the certificate, or else that of the address, and a
// context for its calls.
func (m *member) caller(pool *x509.CertPool, name, token string) (messagesv1.MessageServiceClient, context.Context) {
	m.Helper()
	client, err := messages.New(
		m.config.GetServiceAddress(), messages.WithToken(token),
		messages.WithTLS(&tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS13}),
	)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { client.Close() })
	return client.Service(), m.Context()
}

// TestMessageService: what is put by gRPC is got by it, counted as what comes by the front, and a
// changed redelivery counts at once.
func TestMessageService(t *testing.T) {
	m := newMember(t)
	host, _, err := net.SplitHostPort(m.config.GetListenAddress())
	if err != nil {
		t.Fatal(err)
	}
	m.config.ServiceAddress = freeAddressOf(t, host) // the certificate is for one host
	m.config.Redelivery = &wirev1.QueueRedelivery{VisibilityTimeout: durationpb.New(time.Hour), MaxDeliveries: 5}
	pool := m.certify()
	stop := m.run()
	m.await("it serves", serves)

	client, ctx := m.caller(pool, "", "secret")
	xml, _ := corpus.ByName("xml")
	put, err := client.Put(
		ctx, &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{{Payload: xml.Generate(12000)},
			{Payload: []byte("b")}}},
	)
	if err != nil || len(put.GetResults()) != 2 || put.GetResults()[1].GetSequence() != 2 {
		t.Fatal(put, err)
	}
	got, err := client.Get(ctx, &messagesv1.GetRequest{Wait: durationpb.New(time.Minute), MaxMessages: 1})
	if err != nil || len(got.GetMessages()) != 1 || len(got.GetMessages()[0].GetMessage().GetPayload()) != 12000 {
		t.Fatal(got, err)
	}
	m.await("one message is with a client", func(r *wirev1.QueueReport) bool {
		return r.GetContent().GetUnacknowledged() == 1 && r.GetContent().GetMessages() == 2 &&
			r.GetStatistics().GetPuts().GetCount() == 2 &&
			r.GetStatistics().GetGets().GetCount() == 1 && r.GetStatistics().GetConnections() == 1 &&
			r.GetCompression().GetSoftware().GetOperations() == 1
	})
	// What was given out as often as is allowed now becomes a dead letter when it comes back.
	m.change(func(c *wirev1.QueueConfig) { c.Revision, c.Redelivery.MaxDeliveries = "2", 1 })
	m.await("the second configuration is in effect", func(r *wirev1.QueueReport) bool { return r.GetRevision() == "2" })
	if _, err := client.Release(
		ctx, &messagesv1.ReleaseRequest{Receipts: []string{got.GetMessages()[0].GetReceipt()}},
	); err != nil {
		t.Fatal(err)
	}
	if got, err = client.Get(ctx, &messagesv1.GetRequest{Wait: durationpb.New(time.Minute)}); err != nil ||
		string(got.GetMessages()[0].GetMessage().GetPayload()) != "b" {
		t.Fatal(got, err)
	}
	m.await("the dead letter is counted", func(r *wirev1.QueueReport) bool {
		return r.GetContent().GetDeadLetters() == 1 && r.GetContent().GetMessages() == 1
	})

	other, wrong := m.caller(pool, "", "other")
	if _, err := other.Get(wrong, &messagesv1.GetRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a wrong token: %v", err)
	}
	// A get that waits does not keep the agent from ending.
	waiting := make(chan error, 1)
	go func() {
		_, err := client.Get(ctx, &messagesv1.GetRequest{Wait: durationpb.New(time.Minute)})
		waiting <- err
	}()
	stop()
	if err := <-waiting; err == nil {
		t.Error("a get is answered after the end")
	}
}

// TestBothEnd: while the agent lets a put end that has begun, clients of NATS are told to go elsewhere already.
func TestBothEnd(t *testing.T) {
	m := newMember(t)
	host, _, err := net.SplitHostPort(m.config.GetListenAddress())
	if err != nil {
		t.Fatal(err)
	}
	m.config.ServiceAddress = freeAddressOf(t, host)
	pool := m.certify()
	stop := m.run()
	m.await("it serves", serves)
	told := make(chan struct{})
	client, err := nats.Connect("nats://"+
		m.config.GetListenAddress(), nats.Token("secret"), nats.Timeout(patience), nats.NoReconnect(),
		nats.Secure(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}), nats.LameDuckModeHandler(func(*nats.Conn) {
			close(told)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	put, err := tls.Dial("tcp", m.config.GetServiceAddress(), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13})
	if err != nil {
		t.Fatal(err)
	}
	defer put.Close()
	if _, err := io.WriteString(
		put,
		"POST /v1/message HTTP/1.1\r\nHost: orders\r\nAuthorization: Bearer secret\r\nContent-Length: 1\r\nExpect: "+
			"100-continue\r\n\r\n",
	); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(put)
	if res, err := http.ReadResponse(answers, nil); err != nil || res.StatusCode != http.StatusContinue {
		t.Fatal(res, err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	select {
	case <-told:
	case <-stopped:
		t.Fatal("the agent ended without waiting for a put, or without telling clients of NATS")
	}
	if _, err := io.WriteString(put, "x"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(answers, nil)
	if err != nil || res.StatusCode != http.StatusCreated {
		t.Fatal(res, err)
	}
	_ = res.Body.Close()
	client.Close()
	<-stopped
}
