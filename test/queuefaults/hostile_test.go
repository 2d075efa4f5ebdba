// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	stored "github.com/lighterage/lighterage/agent/queue/message"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// hostile are messages that a queue has to refuse: a few bytes that would be many when they are inflated, stated as
// they are, too short, and as long as the queue takes; what is no frame, a wrong checksum, and what is too long as it
// is.
func hostile(t *testing.T) map[string]*messagesv1.QueueMessage {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	const large = 256 << 20
	bomb := encoder.EncodeAll(make([]byte, large), nil)
	small := encoder.EncodeAll(make([]byte, 100_000), nil)
	form := func(payload []byte, length uint64) *messagesv1.QueueMessage {
		return &messagesv1.QueueMessage{
			Payload:    payload,
			StoredForm: &messagesv1.StoredForm{Codec: "zstd", EngineClass: "software", Length: length, Checksum: 1},
		}
	}
	if len(bomb) > maxMessage/2 {
		t.Fatalf("a bomb of %d bytes", len(bomb))
	}
	return map[string]*messagesv1.QueueMessage{
		"bomb":                        form(bomb, large),
		"bomb, shortened":             form(bomb, 100_000),
		"bomb, as much as is allowed": form(bomb, maxMessage),
		"no frame":                    form([]byte("no frame"), 100_000),
		"wrong checksum":              form(small, 100_000),
		"cut":                         form(small[:len(small)-1], 100_000),
		"longer than allowed":         {Payload: make([]byte, maxMessage+1)},
		"a dead letter":               {Id: "lighterage-dead.7", Payload: []byte("x")},
		"rollup":                      {Headers: map[string]string{"Nats-Rollup": "all"}, Payload: []byte("x")},
	}
}

// TestHostileClients: while some clients put and get, others put what has to be refused, many at once. Nothing of it is
// stored, the member keeps its memory, and the others see none of it.
func TestHostileClients(t *testing.T) {
	const clients, mostMemory = 16, int64(256 << 20)
	q := newQueue(t, 1)
	l := serve(q)
	messages := hostile(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var refused atomic.Int64
	var group sync.WaitGroup
	for i := range clients {
		conn, _ := q.connect(fmt.Sprintf("hostile %d", i))
		caller := newGRPCWay(q)
		group.Go(func() {
			for ctx.Err() == nil {
				for what, m := range messages {
					if i%2 == 0 {
						refused.Add(refusedByService(t, caller, what, m))
					} else {
						refused.Add(refusedByFront(t, conn, what, m))
					}
				}
			}
		})
	}
	group.Wait()
	if refused.Load() == 0 {
		t.Error("nothing was refused: nothing was tested")
	}
	l.judge()
	peak := q.members[0].peakMemory()
	t.Logf("%d messages were refused; the member had %d MiB of memory at most", refused.Load(), peak>>20)
	if peak > mostMemory {
		t.Errorf("the member had %d MiB of memory, which is more than %d", peak>>20, mostMemory>>20)
	}
}

// refusedByService puts a message by gRPC and returns 1 if it was refused. That no answer came is nobody's fault.
func refusedByService(t *testing.T, w *grpcWay, what string, m *messagesv1.QueueMessage) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out *messagesv1.PutResponse
	err := w.ask(ctx, func(ctx context.Context, c messagesv1.MessageServiceClient) (err error) {
		out, err = c.Put(ctx, &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{m}})
		return err
	})
	if err != nil {
		t.Logf("%s, by gRPC: %v", what, err)
		return 0
	}
	if r := out.GetResults()[0]; r.GetRefused() != messagesv1.PutRefusal_PUT_REFUSAL_INVALID || r.GetSequence() != 0 ||
		r.GetError() == "" {
		t.Errorf("%s, by gRPC: %v", what, r)
	}
	return 1
}

// refusedByFront puts it as a client of NATS.
func refusedByFront(t *testing.T, conn *nats.Conn, what string, m *messagesv1.QueueMessage) int64 {
	out := nats.NewMsg(queueName)
	out.Data = m.GetPayload()
	for name, value := range m.GetHeaders() {
		out.Header.Set(name, value)
	}
	if m.GetId() != "" {
		out.Header.Set(nats.MsgIdHdr, m.GetId())
	}
	if f := m.GetStoredForm(); f != nil {
		out.Header.Set(stored.CodecHeader, f.GetCodec())
		out.Header.Set(stored.EngineHeader, f.GetEngineClass())
		out.Header.Set(stored.LengthHeader, fmt.Sprint(f.GetLength()))
		out.Header.Set(stored.ChecksumHeader, fmt.Sprintf("%016x", f.GetChecksum()))
	}
	if int64(len(out.Data)) > conn.MaxPayload() {
		return 0 // the client's library does not send it
	}
	answer, err := conn.RequestMsg(out, patience)
	if err != nil {
		t.Logf("%s, by NATS: %v", what, err)
		return 0
	}
	var said struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &said); err != nil || said.Error == nil ||
		said.Error.Code != http.StatusBadRequest || said.Error.Description == "" {
		t.Errorf("%s, by NATS: %s", what, answer.Data)
	}
	return 1
}
