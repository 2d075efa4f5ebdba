// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/roles"
	"github.com/lighterage/lighterage/agent/queue/service"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	"github.com/lighterage/lighterage/api/messages"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// reload changes who may come in.
func (q *queue) reload(change func(*front.Settings)) {
	q.Helper()
	s := q.front.Settings()
	change(&s)
	if err := q.front.Reload(s); err != nil {
		q.Fatal(err)
	}
}

// TestRevokedToken: a get that waits ends when its token is admitted no more, and so does what came by the same
// connection.
func TestRevokedToken(t *testing.T) {
	t.Parallel()
	q := start(t, store.Settings{})
	q.reload(func(s *front.Settings) {
		s.Tokens = []roles.Token{{Name: "one", Text: token}, {Name: "two", Text: "other"}}
	})
	ended := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(
			t.Context(), http.MethodPost, "http://"+q.address+"/v1/message/next?wait=60s", http.NoBody,
		)
		if err != nil {
			ended <- err
			return
		}
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		ended <- err
	}()
	for deadline := time.Now().Add(time.Minute); q.service.Requests() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no request comes")
		}
	}
	q.reload(func(s *front.Settings) { s.Tokens = []roles.Token{{Name: "two", Text: "other"}} })
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a get with a revoked token was answered")
		}
	case <-time.After(30 * time.Second): // it would have been answered after a minute
		t.Fatal("a get with a revoked token goes on")
	}
	if res, _ := q.ask(http.MethodPost, "/v1/message/next", nil); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("with a revoked token: %s", res.Status)
	}
	if res, _ := q.ask(
		http.MethodPost, "/v1/message/next", nil, "Authorization", "Bearer other",
	); res.StatusCode != http.StatusNoContent {
		t.Errorf("with another token: %s", res.Status)
	}
}

// TestRevokedCA: connections of clients with a certificate end when its CA is admitted no more: one on which nothing is
// asked, and one of gRPC on which a get waits.
func TestRevokedCA(t *testing.T) {
	t.Parallel()
	own, ownPool := transporttest.SelfSigned(t)
	client, clients := transporttest.SelfSigned(t)
	q := start(t, store.Settings{}, func(f *front.Options, _ *service.Options) {
		f.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &own, nil }
		f.Settings.ClientCAs = clients
	})
	config := &tls.Config{RootCAs: ownPool, Certificates: []tls.Certificate{client}, MinVersion: tls.VersionTLS13}
	conn, err := tls.Dial("tcp", q.address, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(
		conn, "POST /v1/message/next HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n", q.address,
	); err != nil {
		t.Fatal(err)
	}
	read := bufio.NewReader(conn)
	res, err := http.ReadResponse(read, nil)
	if err != nil || res.StatusCode != http.StatusNoContent {
		t.Fatalf("%v, %v", res, err)
	}
	_ = res.Body.Close()
	calls, err := messages.New(q.address, messages.WithTLS(config))
	if err != nil {
		t.Fatal(err)
	}
	defer calls.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := calls.Service().Get(
			t.Context(), &messagesv1.GetRequest{Wait: durationpb.New(time.Minute)},
		)
		ended <- err
	}()
	for deadline := time.Now().Add(time.Minute); q.service.Requests() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no call comes")
		}
	}
	q.reload(func(s *front.Settings) { s.ClientCAs = nil })
	if _, err := read.ReadByte(); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
		t.Errorf("the connection stays: %v", err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a call with a revoked certificate was answered")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a call with a revoked certificate goes on")
	}
}

// TestQuota: puts with more ids than the server can remember are refused, with what to do.
func TestQuota(t *testing.T) {
	t.Parallel()
	quota, err := ids.NewQuota(ids.QuotaOptions{Limit: 2, Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	q := start(t, store.Settings{}, func(_ *front.Options, s *service.Options) { s.Quota = quota })
	out, err := q.service.Put(
		t.Context(), &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{{Id: "1"}, {}, {Id: "2"}, {Id: "3"}, {}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range out.GetResults() {
		if full := r.GetRefused() == messagesv1.PutRefusal_PUT_REFUSAL_FULL; full != (i == 3) {
			t.Errorf("message %d: %v", i, r)
		}
	}
}
