// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// TestTurns: who compresses or inflates waits for a turn, as long as the request lasts.
func TestTurns(t *testing.T) {
	s := &Service{turns: make(chan struct{}, 1)}
	end, err := s.turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.prepare(ended, []*messagesv1.QueueMessage{{}}); status.Code(err) != codes.Canceled {
		t.Errorf("a put without a turn: %v", err)
	}
	if err := s.plain(ended, nil, nil); status.Code(err) != codes.Canceled {
		t.Errorf("a get without a turn: %v", err)
	}
	end()
	if end, err = s.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	end()
}

// deadlines is an answer that notes those that it is given.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read = append(d.read, t)
	return nil
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write = append(d.write, t)
	return nil
}

// accounted is a context with an account of so much memory.
func accounted(ctx context.Context, w http.ResponseWriter, memory int64) (context.Context, *account) {
	a := &account{memory: semaphore.NewWeighted(memory), most: memory, control: http.NewResponseController(w)}
	return context.WithValue(ctx, accountKey{}, a), a
}

// TestSmallBodies: requests that are short are read also when others hold all memory.
func TestSmallBodies(t *testing.T) {
	s := &Service{options: Options{MaxPayload: 1 << 20}}
	for name, test := range map[string]struct {
		length, known int64
		refused       bool
	}{
		"short":                    {length: smallBody, known: smallBody},
		"long":                     {length: smallBody + 1, known: smallBody + 1, refused: true},
		"short, of unknown length": {length: smallBody, known: -1},
		"long, of unknown length":  {length: smallBody + 1, known: -1, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // who waits learns it at once
			ctx, a := accounted(ctx, w, 1<<20)
			if !a.memory.TryAcquire(1 << 20) {
				t.Fatal("no memory")
			}
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/acknowledge", io.LimitReader(zeros{}, test.length))
			r.ContentLength = test.known
			body, err := s.body(w, r)
			if test.refused && status.Code(err) != codes.Canceled || !test.refused && (err != nil ||
				int64(len(body)) != test.length) {
				t.Errorf("%d bytes, %v", len(body), err)
			}
		})
	}
}

// TestAnswersWait: what was got waits for memory only as long as who gave it out counts it; it is given back then.
func TestAnswersWait(t *testing.T) {
	s := &Service{turns: make(chan struct{}, 1), patience: time.Millisecond}
	ctx, a := accounted(t.Context(), httptest.NewRecorder(), 1<<20)
	if !a.memory.TryAcquire(1 << 20) {
		t.Fatal("no memory")
	}
	out := []*messagesv1.ReceivedMessage{{Message: &messagesv1.QueueMessage{Payload: make([]byte, smallBody+1)}}}
	if err := s.open(ctx, out, nil); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("while others hold all memory: %v", err)
	}
	s.patience = time.Hour
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.open(ended, out, nil); status.Code(err) != codes.Canceled {
		t.Errorf("when the client has gone: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestBodyDeadlines: what holds memory has to come and go soon; what does not has the server's own deadlines.
func TestBodyDeadlines(t *testing.T) {
	s := &Service{options: Options{MaxPayload: 8 << 20}}
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	ctx, a := accounted(t.Context(), w, 64<<20)
	between := func(what string, got, begun time.Time, after time.Duration) {
		t.Helper()
		if got.Before(begun.Add(after)) || got.After(time.Now().Add(after)) {
			t.Errorf("%s ends %v after it began, want %v", what, got.Sub(begun), after)
		}
	}
	request := func(length int) {
		t.Helper()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/put", strings.NewReader(strings.Repeat("x", length)))
		if body, err := s.body(w, r); err != nil || len(body) != length {
			t.Fatalf("%d bytes, %v", len(body), err)
		}
	}
	request(100)
	answering(ctx, 100)
	if len(w.read)+len(w.write) > 0 {
		t.Errorf("a short request has deadlines: %v, %v", w.read, w.write)
	}
	begun := time.Now()
	request(3 << 20)
	answering(ctx, 5<<20)
	if len(w.read) != 2 || len(w.write) != 1 {
		t.Fatalf("deadlines are %v, %v", w.read, w.write)
	}
	between("the body of the request", w.read[0], begun, bodyTimeout+3*time.Second)
	between("reading after it", w.read[1], begun, requestTimeout)
	between("the body of the answer", w.write[0], begun, bodyTimeout+5*time.Second)
	drop(ctx)
	if a.held != 0 || !a.memory.TryAcquire(64<<20) {
		t.Error("memory stays held")
	}
}

// TestRefusals: what is wrong is said, and by whom.
func TestRefusals(t *testing.T) {
	for text, test := range map[string]struct {
		err  error
		want messagesv1.PutRefusal
	}{
		"did not answer": {errors.New("lost"), messagesv1.PutRefusal_PUT_REFUSAL_UNKNOWN},
		"was not sent":   {fmt.Errorf("put: %w", jetstream.ErrTooManyStalledMsgs), messagesv1.PutRefusal_PUT_REFUSAL_UNKNOWN},
		"shorten":        {nats.ErrMaxPayload, messagesv1.PutRefusal_PUT_REFUSAL_INVALID},
		"is full": {&jetstream.APIError{ErrorCode: jetstreamerror.StoreFailed},
			messagesv1.PutRefusal_PUT_REFUSAL_FULL},
		"refuses": {&jetstream.APIError{ErrorCode: 10060}, messagesv1.PutRefusal_PUT_REFUSAL_INVALID},
	} {
		if got := refusal(test.err); got.GetRefused() != test.want || !strings.Contains(got.GetError(), text) {
			t.Errorf("%v is told as %v", test.err, got)
		}
	}
}
