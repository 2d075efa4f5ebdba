// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package messages_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/api/messages"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

var errDown = status.Error(codes.Unavailable, "the member ends")

// lengths of the puts that were made.
func (f *fake) lengths() []int {
	var out []int
	for _, r := range f.made() {
		if put, ok := r.(*messagesv1.PutRequest); ok {
			out = append(out, len(put.GetMessages()))
		}
	}
	return out
}

// TestBatches: a call has at most 256 messages, 900 KiB unless it is one message, and one message of each key.
func TestBatches(t *testing.T) {
	t.Parallel()
	many := make([]messages.Message, 300)
	long := messages.Message{Payload: make([]byte, 600<<10)}
	for _, c := range []struct {
		name string
		put  []messages.Message
		want []int
	}{
		{"none", nil, nil},
		{"count", many, []int{256, 44}},
		{"bytes", []messages.Message{long, long, {}}, []int{1, 2}},
		{"one longer", []messages.Message{{Payload: make([]byte, 2<<20)}, {}}, []int{1, 1}},
		{"keys", []messages.Message{{Key: "a"}, {Key: "b"}, {}, {Key: "a"}, {Key: "a"}}, []int{3, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, client := client(t)
			stored, err := client.Put(t.Context(), c.put...)
			if err != nil || len(stored) != len(c.put) {
				t.Fatal(len(stored), err)
			}
			for i, s := range stored {
				if s.Sequence != uint64(i+1) || s.Duplicate {
					t.Errorf("message %d: %+v", i, s)
				}
			}
			if got := f.lengths(); !slices.Equal(got, c.want) {
				t.Errorf("calls of %v messages, want %v", got, c.want)
			}
		})
	}
}

// TestPutAgain: a put whose answer is lost is repeated for messages that have IDs, which are stored once.
func TestPutAgain(t *testing.T) {
	t.Parallel()
	f, client := client(t)
	f.after = func(call int, _ any) error {
		if call <= 2 {
			return errDown
		}
		return nil
	}
	stored, err := client.Put(t.Context(), messages.Message{ID: "1"}, messages.Message{ID: "2"})
	if err != nil ||
		!slices.Equal(stored, []messages.Stored{{Sequence: 1, Duplicate: true}, {Sequence: 2, Duplicate: true}}) {
		t.Error(stored, err)
	}
	if got := f.lengths(); !slices.Equal(got, []int{2, 2, 2}) || f.sequence != 2 {
		t.Errorf("calls of %v messages stored %d", got, f.sequence)
	}
}

// TestPutOnce: a put with a message that has no ID is not repeated, and may be stored.
func TestPutOnce(t *testing.T) {
	t.Parallel()
	f, client := client(t)
	f.after = func(int, any) error { return errDown }
	_, err := client.Put(t.Context(), messages.Message{ID: "1"}, messages.Message{})
	if !errors.Is(err, messages.ErrUnknown) || status.Code(err) != codes.Unavailable || len(f.made()) != 1 {
		t.Error(len(f.made()), err)
	}
	f.after, f.before = nil, func(int, any) error { return status.Error(codes.InvalidArgument, "no") }
	_, err = client.Put(t.Context(), messages.Message{})
	if errors.Is(err, messages.ErrUnknown) || status.Code(err) != codes.InvalidArgument || len(f.made()) != 2 {
		t.Error(len(f.made()), err)
	}
}

// TestPutResults: messages of which the Queue knows nothing are put again, and those alone; the error names the first
// that is not stored, and no further call is made.
func TestPutResults(t *testing.T) {
	t.Parallel()
	f, client := client(t)
	refused := messagesv1.PutRefusal_PUT_REFUSAL_UNKNOWN
	f.after = func(call int, response any) error {
		put, ok := response.(*messagesv1.PutResponse)
		if ok && call == 1 {
			put.Results[1] = &messagesv1.PutResult{Refused: refused, Error: "why"}
		}
		return nil
	}
	three := []messages.Message{{ID: "1", Key: "k"}, {ID: "2"}, {ID: "3", Key: "k"}}
	stored, err := client.Put(t.Context(), three...)
	if err != nil || len(stored) != 3 || stored[1] != (messages.Stored{Sequence: 2, Duplicate: true}) {
		t.Error(stored, err)
	}
	if got := f.lengths(); !slices.Equal(got, []int{2, 1, 1}) {
		t.Errorf("calls of %v messages", got)
	}
	for refusal, want := range map[messagesv1.PutRefusal]error{
		messagesv1.PutRefusal_PUT_REFUSAL_FULL:    messages.ErrFull,
		messagesv1.PutRefusal_PUT_REFUSAL_INVALID: messages.ErrInvalid,
	} {
		before := len(f.made())
		f.after = func(_ int, response any) error {
			response.(*messagesv1.PutResponse).Results[0] = &messagesv1.PutResult{Refused: refusal, Error: "why"}
			return nil
		}
		stored, err := client.Put(t.Context(), three...)
		var failed *messages.PutError
		if !errors.Is(err, want) || !errors.As(err, &failed) || failed.Index != 0 || failed.ID != "1" {
			t.Errorf("%v: %v", refusal, err)
		}
		if len(stored) != 2 || stored[0].Sequence != 0 || stored[1].Sequence != 2 || len(f.made()) != before+1 {
			t.Errorf("%v: %v after %d calls", refusal, stored, len(f.made())-before)
		}
	}
}

// TestRetriesEnd: with the context, with the client's patience, and at once after what does not go away.
func TestRetriesEnd(t *testing.T) {
	t.Parallel()
	f, impatient := client(t, messages.WithRetryFor(0))
	f.before = func(int, any) error { return errDown }
	if _, err := impatient.Get(t.Context(), messages.GetOptions{}); status.Code(err) != codes.Unavailable ||
		len(f.made()) != 1 {
		t.Error(len(f.made()), err)
	}
	f, patient := client(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.before = func(call int, _ any) error {
		if call == 3 {
			cancel()
		}
		return errDown
	}
	if _, err := patient.Get(ctx, messages.GetOptions{}); err == nil || len(f.made()) != 3 {
		t.Error(len(f.made()), err)
	}
	f.before = func(int, any) error { return status.Error(codes.FailedPrecondition, "the queue has another reader") }
	if _, err := patient.Get(t.Context(), messages.GetOptions{}); status.Code(err) != codes.FailedPrecondition ||
		len(f.made()) != 4 {
		t.Error(len(f.made()), err)
	}
	f.before = func(int, any) error { return status.Error(codes.ResourceExhausted, "too long") }
	if _, err := patient.Put(t.Context(), messages.Message{ID: "1"}); status.Code(err) != codes.ResourceExhausted ||
		errors.Is(err, messages.ErrUnknown) || len(f.made()) != 9 {
		t.Error(len(f.made()), err)
	}
}

// TestTrust: a certificate that is not trusted is an error at once, with its type; so is a wrong token.
func TestTrust(t *testing.T) {
	t.Parallel()
	f, _ := client(t)
	for name, config := range map[string]*tls.Config{
		"CA":   {RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12},
		"name": {RootCAs: f.roots, ServerName: "other", MinVersion: tls.VersionTLS12},
	} {
		c, err := messages.New(f.address, messages.WithTLS(config), messages.WithToken(token))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Put(t.Context(), messages.Message{ID: "1"})
		var unverified *tls.CertificateVerificationError
		if !errors.As(err, &unverified) || errors.Is(err, messages.ErrUnknown) || c.ConnectionError() == nil {
			t.Errorf("wrong %s: %v", name, err)
		}
		_ = c.Close()
	}
	_, wrong := client(t, messages.WithToken("other"))
	if _, err := wrong.Put(t.Context(), messages.Message{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("wrong token: %v", err)
	}
	none := errors.New("the file is gone")
	_, unread := client(t, messages.WithTokenSource(func(context.Context) (string, error) { return "", none }))
	if _, err := unread.Get(t.Context(), messages.GetOptions{}); err == nil {
		t.Error("a call without a token was answered")
	}
	if _, err := messages.New(":8443"); err == nil {
		t.Error("an address without a host is taken")
	}
}

// TestGetBounds: what was not asked for is not taken, from either side.
func TestGetBounds(t *testing.T) {
	t.Parallel()
	f, client := client(t)
	for _, n := range []int{-1, 257} {
		if _, err := client.Get(t.Context(), messages.GetOptions{Max: n}); err == nil {
			t.Errorf("max %d is taken", n)
		}
	}
	f.after = func(_ int, response any) error {
		response.(*messagesv1.GetResponse).Messages = make([]*messagesv1.ReceivedMessage, 2)
		for i := range 2 {
			response.(*messagesv1.GetResponse).Messages[i] = &messagesv1.ReceivedMessage{}
		}
		return nil
	}
	if got, err := client.Get(t.Context(), messages.GetOptions{Max: 1}); err == nil {
		t.Errorf("got %d messages", len(got))
	}
}

// TestSettle: any number of messages is settled; what is not confirmed is asked for again, and what expired is named.
func TestSettle(t *testing.T) {
	t.Parallel()
	f, client := client(t)
	in := make([]messages.Message, 300)
	for i := range in {
		in[i].ID = strconv.Itoa(i)
	}
	if _, err := client.Put(t.Context(), in...); err != nil {
		t.Fatal(err)
	}
	var held []*messages.Received
	for len(held) < len(in) {
		got, err := client.Get(t.Context(), messages.GetOptions{Max: 256})
		if err != nil || len(got) == 0 {
			t.Fatal(len(got), err)
		}
		held = append(held, got...)
	}
	if err := client.Extend(t.Context(), time.Minute, held...); err != nil || len(f.extended) != len(in) {
		t.Error(len(f.extended), err)
	}
	lost := true
	f.after = func(_ int, response any) error {
		answer, ok := response.(*messagesv1.AcknowledgeResponse)
		if ok && lost {
			lost = false
			answer.Results[7] = messagesv1.ReceiptResult_RECEIPT_RESULT_UNKNOWN
		}
		return nil
	}
	// The fake forgets at once what was acknowledged, so the repeated one is expired.
	err := client.Acknowledge(t.Context(), held...)
	var failed *messages.SettleError
	if !errors.Is(err, messages.ErrExpired) || !errors.As(err, &failed) || len(failed.Failed) != 1 ||
		failed.Failed[0].Message != held[7] {
		t.Error(err)
	}
	if len(f.held) != 0 {
		t.Errorf("%d messages are not acknowledged", len(f.held))
	}
	f.before = func(int, any) error { return status.Error(codes.PermissionDenied, "no") }
	if err := client.Release(t.Context(), 0, held[0]); !errors.Is(err, messages.ErrUnconfirmed) ||
		status.Code(err) != codes.PermissionDenied {
		t.Error(err)
	}
}

// TestConsume: what is handled is acknowledged, what fails comes again, and what is rejected becomes a dead letter.
func TestConsume(t *testing.T) {
	t.Parallel()
	f, client := client(t)
	if _, err := client.Put(
		t.Context(), messages.Message{ID: "good"}, messages.Message{ID: "fails once"}, messages.Message{ID: "bad"},
	); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.after = func(_ int, response any) error {
		if r, ok := response.(*messagesv1.AcknowledgeResponse); ok && r != nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.held) == 0 && len(f.ready) == 0 && len(f.dead) == 1 {
				cancel()
			}
		}
		return nil
	}
	var told atomic.Int64
	err := client.Consume(ctx, messages.ConsumeOptions{
		RedeliverAfter: -1, OnError: func(*messages.Received, error) { told.Add(1) },
	}, func(_ context.Context, m *messages.Received) error {
		switch {
		case m.ID == "bad":
			return messages.Rejected("it is bad")
		case m.ID == "fails once" && m.Deliveries == 1:
			return errors.New("no disk")
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || told.Load() != 1 {
		t.Errorf("%v, %d errors", err, told.Load())
	}
	if len(f.dead) != 1 || f.dead[0].GetDeadLetter().GetDetail() != "it is bad" || len(f.held)+len(f.ready) != 0 {
		t.Errorf("%d held, %d ready, dead: %v", len(f.held), len(f.ready), f.dead)
	}
}

// TestConsumeTogether: as many handlers run at once as are wanted, their messages stay theirs, and one whose message
// has expired is told so.
func TestConsumeTogether(t *testing.T) {
	t.Parallel()
	f, client := client(t)
	if _, err := client.Put(t.Context(), make([]messages.Message, 4)...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	running := make(chan *messages.Received, 4)
	expired := make(chan error, 4)
	ended := make(chan error, 1)
	go func() {
		ended <- client.Consume(
			ctx, messages.ConsumeOptions{Concurrency: 3, Visibility: 3 * time.Second},
			func(ctx context.Context, m *messages.Received) error {
				running <- m
				<-ctx.Done()
				expired <- context.Cause(ctx)
				return nil
			},
		)
	}()
	for range 3 {
		<-running
	}
	f.mu.Lock()
	if len(f.held) != 3 || len(f.ready) != 1 {
		t.Errorf("%d held, %d ready", len(f.held), len(f.ready))
	}
	clear(f.held) // their visibility ended
	f.mu.Unlock()
	for range 3 {
		if err := <-expired; !errors.Is(err, messages.ErrExpired) {
			t.Error(err)
		}
	}
	<-running // the fourth
	cancel()
	if err := <-expired; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestConsumeEnds: with what does not go away.
func TestConsumeEnds(t *testing.T) {
	t.Parallel()
	f, client := client(t)
	f.before = func(int, any) error { return status.Error(codes.PermissionDenied, "the token may not get") }
	err := client.Consume(t.Context(), messages.ConsumeOptions{}, func(context.Context,
		*messages.Received) error {
		return nil
	})
	if status.Code(err) != codes.PermissionDenied {
		t.Error(err)
	}
	if err := client.Consume(t.Context(), messages.ConsumeOptions{Visibility: time.Second}, nil); err == nil {
		t.Error("a visibility that cannot be extended in time is taken")
	}
}
