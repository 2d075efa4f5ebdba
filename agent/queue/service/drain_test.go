// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/queue/service"
	"github.com/lighterage/lighterage/agent/queue/store"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// TestDrain: a put that has begun is stored and says so, and a get does not go on to wait.
func TestDrain(t *testing.T) {
	q := start(t, store.Settings{})
	conn, err := net.Dial("tcp", q.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := "the last one"
	if _, err := fmt.Fprintf(
		conn,
		"POST /v1/message HTTP/1.1\r\nHost: orders\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: "+
			"100-continue\r\n\r\n",
		token, len(body),
	); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	if res, err := http.ReadResponse(answers, nil); err != nil || res.StatusCode != http.StatusContinue {
		t.Fatal(res, err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := q.service.Get(t.Context(), &messagesv1.GetRequest{Wait: wait()})
		waiting <- err
	}()
	drained := make(chan error, 1)
	go func() { drained <- q.server.Drain(t.Context()) }()
	if err := <-waiting; status.Code(err) != codes.Unavailable {
		t.Errorf("a get that waits: %v", err)
	}
	if _, err := conn.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(answers, nil)
	if err != nil || res.StatusCode != http.StatusCreated {
		t.Fatal(res, err)
	}
	_ = res.Body.Close()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// TestGivenBack: messages that cannot be answered with come again at once, and were not delivered.
func TestGivenBack(t *testing.T) {
	q := start(t, store.Settings{})
	if res, _ := q.ask("POST", "/v1/message", xml(12000)); res.StatusCode != http.StatusCreated {
		t.Fatal(res.StatusCode)
	}
	free := q.service.TakeTurns()
	if _, err := q.service.Get(
		service.Leaving(t.Context()), &messagesv1.GetRequest{Wait: wait()},
	); status.Code(err) != codes.Canceled {
		t.Fatalf("a get whose client leaves: %v", err)
	}
	free()
	got, err := q.service.Get(t.Context(), &messagesv1.GetRequest{Wait: wait()})
	if err != nil || len(got.GetMessages()) != 1 || got.GetMessages()[0].GetDeliveries() != 1 {
		t.Errorf("%v, %v", got, err)
	}
}
