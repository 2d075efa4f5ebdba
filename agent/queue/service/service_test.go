// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/dispatch"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/roles"
	"github.com/lighterage/lighterage/agent/queue/service"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
	"github.com/lighterage/lighterage/test/corpus"
)

const (
	maxMessage = 1 << 20
	token      = "secret"
)

// queue is a store with a service.
type queue struct {
	*testing.T
	front   *front.Front
	service *service.Service
	server  *service.Server
	js      jetstream.JetStream
	address string
}

func start(t *testing.T, settings store.Settings, changes ...func(*front.Options, *service.Options)) *queue {
	t.Helper()
	kept, conn, js := storetest.Open(t, store.Options{MaxPayload: 8 << 20}, settings)
	encoding, err := message.NewEncoding(message.EncodingOptions{
		Policy: policy.Settings{Mode: policy.Auto, Level: codec.Fast}, Codecs: []codec.ID{codec.Zstd}, MinSize: 1000,
		Engines: engines.Default(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(encoding.Close)
	decoding, err := message.NewDecoding(engines.Default())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(decoding.Close)
	fronts := front.Options{
		Queue: "orders", Server: kept,
		Settings: front.Settings{
			Encoding: encoding, Decoding: decoding, MaxMessageSize: maxMessage,
			Tokens: []roles.Token{{Name: "clerk", Text: token}},
		},
	}
	services := service.Options{Queue: "orders", Conn: conn, MaxPayload: 8 << 20, Visibility: time.Hour}
	for _, change := range changes {
		change(&fronts, &services)
	}
	f, err := front.New(fronts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	hub := dispatch.New(dispatch.Options{
		Conn: conn, Queue: "orders", Leads: kept.Leader, MaxPayload: 8 << 20, MaxDeliveries: 5,
		EnsureLeases: func(ctx context.Context) error { return kept.EnsureLeases(ctx, conn, settings) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- hub.Run(ctx) }()
	services.Front, services.Hub = f, hub
	s, err := service.New(services)
	if err != nil {
		t.Fatal(err)
	}
	server := service.NewServer(s)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		cancel()
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}
	})
	return &queue{t, f, s, server, js, listener.Addr().String()}
}

// ask sends a request of HTTP.
func (q *queue) ask(method, path string, body []byte, headers ...string) (*http.Response, []byte) {
	q.Helper()
	r, err := http.NewRequestWithContext(q.Context(), method, "http://"+q.address+path, bytes.NewReader(body))
	if err != nil {
		q.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept-Encoding", "identity")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		q.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		q.Fatal(err)
	}
	return res, out
}

// call makes a call with JSON.
func (q *queue) call(name string, in, out proto.Message) int {
	q.Helper()
	body, err := protojson.Marshal(in)
	if err != nil {
		q.Fatal(err)
	}
	res, answer := q.ask("POST", "/v1/"+name, body, "Content-Type", "application/json")
	if res.StatusCode == http.StatusOK {
		if err := protojson.Unmarshal(answer, out); err != nil {
			q.Fatal(err)
		}
	}
	return res.StatusCode
}

func xml(n int) []byte {
	generator, _ := corpus.ByName("xml")
	return generator.Generate(n)
}

func wait() *durationpb.Duration { return durationpb.New(time.Minute) }

func TestJSON(t *testing.T) {
	q := start(t, store.Settings{})
	plain := xml(12000)
	put, stored := &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{
		{Id: "1", Key: "k", Headers: map[string]string{"Customer": "7"}, Payload: plain}, {Id: "1", Payload: []byte("again")},
		{Payload: []byte("short")},
		{Key: "line\nbreak"}, {Headers: map[string]string{"nats-rollup": "all"}}, {Payload: make([]byte, maxMessage+1)},
	}}, &messagesv1.PutResponse{}
	if code := q.call("put", put, stored); code != 200 {
		t.Fatal(code)
	}
	r := stored.GetResults()
	if len(r) != 6 || r[0].GetSequence() != 1 || !r[1].GetDuplicate() || r[2].GetSequence() != 2 || r[2].GetDuplicate() {
		t.Errorf("%v", r)
	}
	for _, refused := range r[3:] {
		if refused.GetRefused() != messagesv1.PutRefusal_PUT_REFUSAL_INVALID || refused.GetSequence() != 0 ||
			refused.GetError() == "" {
			t.Errorf("%v", refused)
		}
	}
	got := &messagesv1.GetResponse{}
	for len(got.GetMessages()) < 2 { // a get waits for one message
		more := &messagesv1.GetResponse{}
		if code := q.call("get", &messagesv1.GetRequest{MaxMessages: 10, Wait: wait()}, more); code != 200 ||
			len(more.GetMessages()) == 0 {
			t.Fatal(code)
		}
		got.Messages = append(got.Messages, more.GetMessages()...)
	}
	m := got.GetMessages()[0].GetMessage()
	if m.GetId() != "1" || m.GetKey() != "k" || m.GetHeaders()["Customer"] != "7" || !bytes.Equal(m.GetPayload(), plain) ||
		m.GetStoredForm() != nil {
		t.Errorf("%v", got.GetMessages()[0])
	}
	results := &messagesv1.AcknowledgeResponse{}
	if code := q.call(
		"acknowledge", &messagesv1.AcknowledgeRequest{Receipts: []string{got.GetMessages()[0].GetReceipt(), "x"}}, results,
	); code != 200 {
		t.Fatal(code)
	}
	if want := []messagesv1.ReceiptResult{
		messagesv1.ReceiptResult_RECEIPT_RESULT_DONE, messagesv1.ReceiptResult_RECEIPT_RESULT_INVALID,
	}; !slices.Equal(results.GetResults(), want) {
		t.Errorf("%v", results)
	}
	if code := q.call(
		"extend", &messagesv1.ExtendRequest{Receipts: []string{got.GetMessages()[1].GetReceipt()}, VisibilityTimeout: wait()},
		&messagesv1.ExtendResponse{},
	); code != 200 {
		t.Error(code)
	}
	if code := q.call(
		"release", &messagesv1.ReleaseRequest{Receipts: []string{got.GetMessages()[1].GetReceipt()}},
		&messagesv1.ReleaseResponse{},
	); code != 200 {
		t.Error(code)
	}
	if code := q.call("get", &messagesv1.GetRequest{Wait: wait()}, got); code != 200 || len(got.GetMessages()) != 1 ||
		got.GetMessages()[0].GetDeliveries() != 2 {
		t.Error(code, got)
	}
	if code := q.call(
		"reject", &messagesv1.RejectRequest{Receipts: []string{got.GetMessages()[0].GetReceipt()}, Detail: "why not"},
		&messagesv1.RejectResponse{},
	); code != 200 {
		t.Error(code)
	}
	if code := q.call("get", &messagesv1.GetRequest{Wait: wait(), DeadLetters: true}, got); code != 200 ||
		got.GetMessages()[0].GetDeadLetter().GetDetail() != "why not" {
		t.Error(code, got)
	}
	s := q.front.Statistics()
	if s.Puts.Count != 3 || s.Duplicates != 1 || s.RefusedPuts != 3 || s.Gets.Count != 4 || s.Compressions.Count == 0 ||
		s.Decompressions.Count != 1 || s.Wire.Wire < 12000 || s.Opened == 0 {
		t.Errorf("%+v", s)
	}
}

func TestRefusedRequests(t *testing.T) {
	q := start(t, store.Settings{})
	for name, test := range map[string]struct {
		method, path, body string
		headers            []string
		code               int
	}{
		"no token":         {"POST", "/v1/get", "{}", []string{"Authorization", ""}, 401},
		"wrong token":      {"POST", "/v1/message", "x", []string{"Authorization", "Bearer other"}, 401},
		"no JSON":          {"POST", "/v1/put", "x", nil, 400},
		"nothing to put":   {"POST", "/v1/put", "{}", nil, 400},
		"unknown field":    {"POST", "/v1/get", `{"limit":3}`, nil, 400},
		"long wait":        {"POST", "/v1/get", `{"wait":"3600s"}`, nil, 400},
		"many":             {"POST", "/v1/get", `{"maxMessages":257}`, nil, 400},
		"short visibility": {"POST", "/v1/get", `{"visibilityTimeout":"0.1s"}`, nil, 400},
		"negative delay":   {"POST", "/v1/release", `{"delay":"-1s"}`, nil, 400},
		"unknown path":     {"POST", "/v1/peek", "{}", nil, 404},
		"method":           {"GET", "/v1/get", "", nil, 405},
		"coding":           {"POST", "/v1/message", "x", []string{"Content-Encoding", "gzip"}, 400},
		"form without sum": {"POST", "/v1/message", "x", []string{"Content-Encoding", "zstd"}, 400},
		"form that is none": {
			"POST", "/v1/message", "x",
			[]string{
				"Content-Encoding", "zstd", "Lighterage-Length", "100", "Lighterage-Checksum", "0", "Lighterage-Engine", "software",
			},
			400,
		},
		"bomb": {
			"POST", "/v1/message", "x",
			[]string{
				"Content-Encoding", "zstd", "Lighterage-Length", "9999999", "Lighterage-Checksum", "0", "Lighterage-Engine",
				"software",
			},
			400,
		},
		"long":      {"POST", "/v1/message", strings.Repeat("x", maxMessage+1), nil, 400},
		"parameter": {"POST", "/v1/message/next?count=3", "", nil, 400},
		"receipt":   {"DELETE", "/v1/message/x", "", nil, 400},
	} {
		t.Run(name, func(t *testing.T) {
			q := &queue{t, q.front, q.service, q.server, q.js, q.address}
			res, body := q.ask(test.method, test.path, []byte(test.body), test.headers...)
			if res.StatusCode != test.code {
				t.Errorf("%d %s, want %d", res.StatusCode, body, test.code)
			}
		})
	}
	if s := q.front.Statistics(); s.FailedAuthentications != 2 || s.Puts.Count != 0 {
		t.Errorf("%+v", s)
	}
}

// TestRaw: one message at a time, plain or as it is stored.
func TestRaw(t *testing.T) {
	q := start(t, store.Settings{})
	if res, _ := q.ask("POST", "/v1/message/next", nil); res.StatusCode != http.StatusNoContent {
		t.Errorf("empty: %d", res.StatusCode)
	}
	plain := xml(12000)
	if res, body := q.ask(
		"POST", "/v1/message", plain, "Content-Type", "text/xml", "Lighterage-Key", "k", "Lighterage-Message-Id", "1",
		"Lighterage-Header-Customer", "7",
	); res.StatusCode != http.StatusCreated || !bytes.Contains(body, []byte(`"sequence"`)) {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	if res, _ := q.ask("POST", "/v1/message", plain, "Lighterage-Message-Id", "1"); res.StatusCode != http.StatusOK {
		t.Errorf("duplicate: %d", res.StatusCode)
	}
	next := "/v1/message/next?" + url.Values{"wait": {"1m"}, "visibility": {"1h"}}.Encode()
	stored, body := q.ask("POST", next, nil, "Accept-Encoding", "br, zstd;q=0.5")
	h := stored.Header
	if stored.StatusCode != http.StatusOK || h.Get("Content-Encoding") != "zstd" ||
		h.Get("Lighterage-Length") != "12000" || len(body) > 6000 || h.Get("Content-Type") != "text/xml" ||
		h.Get("Lighterage-Key") != "k" || h.Get("Lighterage-Message-Id") != "1" ||
		h.Get("Lighterage-Header-Customer") != "7" || h.Get("Lighterage-Deliveries") != "1" {
		t.Fatalf("%d %v, %d bytes", stored.StatusCode, h, len(body))
	}
	// As it is stored it can be put again.
	if res, answer := q.ask("POST", "/v1/message", body, "Content-Encoding", "zstd", "Lighterage-Length",
		h.Get("Lighterage-Length"),
		"Lighterage-Checksum", h.Get("Lighterage-Checksum"), "Lighterage-Engine",
		h.Get("Lighterage-Engine")); res.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", res.StatusCode, answer)
	}
	second, body := q.ask("POST", next, nil, "Accept-Encoding", "zstd;q=0")
	if second.StatusCode != http.StatusOK || !bytes.Equal(body, plain) || second.Header.Get("Content-Encoding") != "" {
		t.Errorf("%d %v", second.StatusCode, second.Header)
	}
	for range 2 { // it may be repeated
		if res, _ := q.ask(
			"DELETE", "/v1/message/"+h.Get("Lighterage-Receipt"), nil,
		); res.StatusCode != http.StatusNoContent {
			t.Errorf("acknowledged: %d", res.StatusCode)
		}
	}
	released := second.Header.Get("Lighterage-Receipt")
	if code := q.call(
		"release", &messagesv1.ReleaseRequest{Receipts: []string{released}}, &messagesv1.ReleaseResponse{},
	); code != 200 {
		t.Error(code)
	}
	if res, _ := q.ask("DELETE", "/v1/message/"+released, nil); res.StatusCode != http.StatusGone {
		t.Errorf("acknowledged after it was given back: %d", res.StatusCode)
	}
	if s := q.front.Statistics(); s.StoredFormGets != 1 || s.Gets.Count != 2 {
		t.Errorf("%+v", s)
	}
}

func TestFull(t *testing.T) {
	q := start(t, store.Settings{MaxMessages: 1})
	if res, _ := q.ask("POST", "/v1/message", []byte("a")); res.StatusCode != http.StatusCreated {
		t.Fatal(res.StatusCode)
	}
	if res, body := q.ask("POST", "/v1/message", []byte("b")); res.StatusCode != http.StatusInsufficientStorage ||
		!bytes.Contains(body, []byte("raise its limits")) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

// TestDamaged: a message that cannot be made plain is got as it is stored, and says so.
func TestDamaged(t *testing.T) {
	q := start(t, store.Settings{})
	m := nats.NewMsg("orders")
	m.Data = []byte("no frame")
	envelope.SetForm(m, message.Form{Codec: codec.Zstd, Class: codec.Software, Length: 100})
	if _, err := q.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	res, body := q.ask("POST", "/v1/message/next?wait=1m", nil)
	if res.StatusCode != http.StatusOK || string(body) != "no frame" || res.Header.Get("Lighterage-Error") == "" {
		t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
	}
	if s := q.front.Statistics(); s.Undecodable != 1 {
		t.Errorf("%+v", s)
	}
}

func TestGRPC(t *testing.T) {
	q := start(t, store.Settings{})
	conn, err := grpc.NewClient("passthrough:///"+q.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := messagesv1.NewMessageServiceClient(conn)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	plain := xml(50000)
	put, err := client.Put(ctx, &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{{Payload: plain}}})
	if err != nil || put.GetResults()[0].GetSequence() != 1 {
		t.Fatal(put, err)
	}
	got, err := client.Get(ctx, &messagesv1.GetRequest{Wait: wait(), Stored: true})
	if err != nil || len(got.GetMessages()) != 1 ||
		got.GetMessages()[0].GetMessage().GetStoredForm().GetLength() != 50000 {
		t.Fatal(got, err)
	}
	if out, err := client.Acknowledge(
		ctx, &messagesv1.AcknowledgeRequest{Receipts: []string{got.GetMessages()[0].GetReceipt()}},
	); err != nil || out.GetResults()[0] != messagesv1.ReceiptResult_RECEIPT_RESULT_DONE {
		t.Error(out, err)
	}
	if _, err := client.Get(t.Context(), &messagesv1.GetRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	if _, err := client.Put(ctx, &messagesv1.PutRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("nothing to put: %v", err)
	}
	if _, err := client.Put(
		ctx, &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{{Payload: make([]byte, 10<<20)}}},
	); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("too long: %v", err)
	}
	// More than a client of gRPC takes by default is never in one answer.
	for i := range 5 {
		if _, err := client.Put(
			ctx, &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{{Id: fmt.Sprint(i), Payload: xml(1 << 20)}}},
		); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; n < 5; {
		got, err := client.Get(ctx, &messagesv1.GetRequest{Wait: wait(), MaxMessages: 5})
		if err != nil || len(got.GetMessages()) == 0 {
			t.Fatal(got, err)
		}
		n += len(got.GetMessages())
	}
}
