// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/queue/envelope"
	queueclient "github.com/lighterage/lighterage/api/messages"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
	"github.com/lighterage/lighterage/test/queuefaults"
)

// grpcWay asks one member after the other: the next when one fails. It is for one client.
type grpcWay struct {
	members []messagesv1.MessageServiceClient
	at      int
}

func newGRPCWay(q *queue) *grpcWay {
	q.Helper()
	w := &grpcWay{}
	for _, m := range q.members {
		client, err := queueclient.New(
			m.address+":"+servicePort, queueclient.WithTLS(q.tls()), queueclient.WithToken(token),
		)
		if err != nil {
			q.Fatal(err)
		}
		q.Cleanup(func() { _ = client.Close() })
		w.members = append(w.members, client.Service())
	}
	return w
}

// tls is how clients know members.
func (q *queue) tls() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: q.roots, ServerName: q.server}
}

// ask asks a member, and goes to the next one after an error.
func (w *grpcWay) ask(ctx context.Context, f func(context.Context, messagesv1.MessageServiceClient) error) error {
	err := f(ctx, w.members[w.at])
	if err != nil {
		w.at = (w.at + 1) % len(w.members)
	}
	return err
}

func (w *grpcWay) put(ctx context.Context, messages []outgoing) (places []uint64, err error) {
	err = w.ask(ctx, func(ctx context.Context, c messagesv1.MessageServiceClient) error {
		response, err := c.Put(ctx, putRequest(messages))
		places = placesOf(response)
		return err
	})
	return places, err
}

func putRequest(messages []outgoing) *messagesv1.PutRequest {
	request := &messagesv1.PutRequest{}
	for _, m := range messages {
		request.Messages = append(request.Messages, &messagesv1.QueueMessage{
			Id: m.ID, Key: m.Key, Headers: map[string]string{numberHeader: strconv.FormatUint(m.Number, 10)}, Payload: m.payload,
		})
	}
	return request
}

func placesOf(response *messagesv1.PutResponse) []uint64 {
	var places []uint64
	for _, r := range response.GetResults() {
		places = append(places, r.GetSequence())
	}
	return places
}

func (w *grpcWay) get(ctx context.Context, count int, held time.Duration, dead bool) (got []incoming, err error) {
	err = w.ask(ctx, func(ctx context.Context, c messagesv1.MessageServiceClient) error {
		response, err := c.Get(ctx, &messagesv1.GetRequest{
			MaxMessages: uint32(count), Wait: durationpb.New(longPoll), VisibilityTimeout: durationpb.New(held),
			DeadLetters: dead,
		})
		if err != nil {
			return err
		}
		for _, m := range response.GetMessages() {
			if m.GetDamage() != "" {
				return errors.New(m.GetDamage()) // it comes again, and is missed if it stays so
			}
			in := incoming{receipt: m.GetReceipt(), dead: m.GetDeadLetter()}
			number, _ := strconv.ParseUint(m.GetMessage().GetHeaders()[numberHeader], 10, 64)
			in.Event = queuefaults.Event{
				ID: m.GetMessage().GetId(), Key: m.GetMessage().GetKey(), Number: number,
				Digest: sha256.Sum256(m.GetMessage().GetPayload()), Sequence: m.GetSequence(),
			}
			got = append(got, in)
		}
		return nil
	})
	return got, err
}

func (w *grpcWay) settle(ctx context.Context, v verb, receipts []string) (results []messagesv1.ReceiptResult,
	err error) {
	err = w.ask(ctx, func(ctx context.Context, c messagesv1.MessageServiceClient) error {
		var response interface {
			GetResults() []messagesv1.ReceiptResult
		}
		var err error
		switch r := settleRequest(v, receipts).(type) {
		case *messagesv1.AcknowledgeRequest:
			response, err = c.Acknowledge(ctx, r)
		case *messagesv1.ReleaseRequest:
			response, err = c.Release(ctx, r)
		case *messagesv1.ExtendRequest:
			response, err = c.Extend(ctx, r)
		case *messagesv1.RejectRequest:
			response, err = c.Reject(ctx, r)
		}
		if err == nil {
			results = response.GetResults()
		}
		return err
	})
	return results, err
}

func settleRequest(v verb, receipts []string) proto.Message {
	switch v {
	case release:
		return &messagesv1.ReleaseRequest{Receipts: receipts, Delay: durationpb.New(200 * time.Millisecond)}
	case extend:
		return &messagesv1.ExtendRequest{Receipts: receipts, VisibilityTimeout: durationpb.New(extension)}
	case reject:
		return &messagesv1.RejectRequest{Receipts: receipts, Detail: complaint}
	default:
		return &messagesv1.AcknowledgeRequest{Receipts: receipts}
	}
}

// httpWay does the same by HTTP: single messages and acknowledgements without JSON, the rest with it.
type httpWay struct {
	client  *http.Client
	members []string
	at      int
}

func newHTTPWay(q *queue) *httpWay {
	transport := &http.Transport{TLSClientConfig: q.tls(), TLSHandshakeTimeout: answerTime}
	q.Cleanup(transport.CloseIdleConnections)
	w := &httpWay{client: &http.Client{Transport: transport}}
	for _, m := range q.members {
		w.members = append(w.members, "https://"+m.address+":"+servicePort)
	}
	return w
}

// ask returns an answer whose status is below 300, and what it says.
func (w *httpWay) ask(
	ctx context.Context, method, path string, header map[string]string, body []byte,
) (h http.Header, code int, answer []byte, err error) {
	defer func() {
		if err != nil {
			w.at = (w.at + 1) % len(w.members)
		}
	}()
	request, err := http.NewRequestWithContext(ctx, method, w.members[w.at]+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := w.client.Do(request)
	if err != nil {
		return nil, 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices && response.StatusCode != http.StatusGone {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return response.Header, response.StatusCode, answer, err
}

func (w *httpWay) call(ctx context.Context, name string, request, response proto.Message) error {
	body, err := protojson.Marshal(request)
	if err != nil {
		return err
	}
	_, _, answer, err := w.ask(
		ctx, http.MethodPost, "/v1/"+name, map[string]string{"Content-Type": "application/json"}, body,
	)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(answer, response)
}

// ownHeader begins the names of a sender's own headers.
const ownHeader = "Lighterage-Header-"

func (w *httpWay) put(ctx context.Context, messages []outgoing) ([]uint64, error) {
	if len(messages) > 1 {
		response := &messagesv1.PutResponse{}
		err := w.call(ctx, "put", putRequest(messages), response)
		return placesOf(response), err
	}
	m := messages[0]
	header := map[string]string{envelope.IDHeader: m.ID, ownHeader + numberHeader: strconv.FormatUint(m.Number, 10)}
	if m.Key != "" {
		header[envelope.KeyHeader] = m.Key
	}
	_, _, answer, err := w.ask(ctx, http.MethodPost, "/v1/message", header, m.payload)
	if err != nil {
		return nil, err
	}
	result := &messagesv1.PutResult{}
	if err := protojson.Unmarshal(answer, result); err != nil {
		return nil, err
	}
	return []uint64{result.GetSequence()}, nil
}

func (w *httpWay) get(ctx context.Context, _ int, held time.Duration, dead bool) ([]incoming, error) {
	query := url.Values{"wait": {longPoll.String()}, "visibility": {held.String()}, "dead": {strconv.FormatBool(dead)}}
	h, code, payload, err := w.ask(ctx, http.MethodPost, "/v1/message/next?"+query.Encode(), nil, nil)
	if err != nil || code == http.StatusNoContent {
		return nil, err
	}
	if damage := h.Get("Lighterage-Error"); damage != "" {
		return nil, errors.New(damage)
	}
	number, _ := strconv.ParseUint(h.Get(ownHeader+numberHeader), 10, 64)
	sequence, err := strconv.ParseUint(h.Get("Lighterage-Sequence"), 10, 64)
	if err != nil {
		return nil, err
	}
	in := incoming{receipt: h.Get("Lighterage-Receipt"), Event: queuefaults.Event{
		ID: h.Get(envelope.IDHeader), Key: h.Get(envelope.KeyHeader), Number: number, Digest: sha256.Sum256(payload),
		Sequence: sequence,
	}}
	return []incoming{in}, nil
}

func (w *httpWay) settle(ctx context.Context, v verb, receipts []string) ([]messagesv1.ReceiptResult, error) {
	if v == acknowledge && len(receipts) == 1 {
		_, code, _, err := w.ask(ctx, http.MethodDelete, "/v1/message/"+receipts[0], nil, nil)
		if err != nil {
			return nil, err
		}
		if code == http.StatusGone {
			return []messagesv1.ReceiptResult{messagesv1.ReceiptResult_RECEIPT_RESULT_EXPIRED}, nil
		}
		return []messagesv1.ReceiptResult{messagesv1.ReceiptResult_RECEIPT_RESULT_DONE}, nil
	}
	response := &messagesv1.ReleaseResponse{} // all have the same field
	err := w.call(ctx, string(v), settleRequest(v, receipts), response)
	return response.GetResults(), err
}

// natsWay only puts: a queue has one reader.
type natsWay struct {
	js    jetstream.JetStream
	queue string
}

func newNATSWay(q *queue) *natsWay {
	q.Helper()
	_, js := q.connect("put")
	return &natsWay{js, q.name}
}

func (w *natsWay) put(ctx context.Context, messages []outgoing) (places []uint64, err error) {
	for _, m := range messages {
		out := nats.NewMsg(w.queue + "." + strings.TrimRight(m.ID, "-0123456789"))
		out.Data = m.payload
		out.Header.Set(nats.MsgIdHdr, m.ID)
		out.Header.Set(numberHeader, strconv.FormatUint(m.Number, 10))
		if m.Key != "" {
			out.Header.Set(envelope.KeyHeader, m.Key)
		}
		ack, err := w.js.PublishMsg(ctx, out)
		if err != nil {
			return places, err
		}
		places = append(places, ack.Sequence)
	}
	return places, nil
}
