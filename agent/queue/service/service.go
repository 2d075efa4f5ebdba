// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/queue/dispatch"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/ids"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

const (
	// DefaultVisibility is how long a client has a message if nobody says otherwise.
	DefaultVisibility = 30 * time.Second

	// maxRequests bounds how many requests are served at once, waiting gets among them.
	maxRequests = 2048
	// memory bounds what the bodies of requests and answers take at once in bytes, unless the
	// longest takes more.
	memory = 64 << 20
	// putTimeout is how long the stream may take to store a message.
	putTimeout = 10 * time.Second
	// turnsPerCPU bounds how many requests compress or inflate at once.
	turnsPerCPU = 2
)

// Options of a Service.
type Options struct {
	// Queue is the name of the queue, and the subject under which messages are put.
	Queue string
	// Conn has all rights in the store.
	Conn  *nats.Conn
	Front *front.Front
	// IDs of messages that have left the queue, which the server may have forgotten; nil: they are not kept.
	IDs ids.Keeper
	// Quota of ids that the server remembers; nil: as many as clients like.
	Quota *ids.Quota
	Hub   *dispatch.Hub
	// MaxPayload is the longest message with its headers in bytes, as it is stored.
	MaxPayload int
	// Visibility is how long a client has a message that does not say; 0: DefaultVisibility.
	Visibility time.Duration
	Log        *slog.Logger
}

// Service is a messagesv1.MessageServiceServer. It is safe for concurrent use.
type Service struct {
	messagesv1.UnimplementedMessageServiceServer
	options    Options
	js         jetstream.JetStream
	visibility atomic.Int64
	requests   chan struct{}
	turns      chan struct{}   // a place for each request that compresses or inflates
	draining   context.Context //nolint:containedctx // Gets do not wait when it has ended.
	drain      context.CancelFunc
	memory     *semaphore.Weighted
	most       int64         // that memory may be asked for at once
	patience   time.Duration // is how long an answer waits for memory
}

// New returns a service that does not serve yet.
func New(o Options) (*Service, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	js, err := jetstream.New(o.Conn, jetstream.WithPublishAsyncTimeout(putTimeout))
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	s := &Service{
		options: o, js: js, requests: make(chan struct{}, maxRequests),
		turns: make(chan struct{}, turnsPerCPU*runtime.GOMAXPROCS(0)), patience: dispatch.AnswerPatience,
	}
	s.draining, s.drain = context.WithCancel(context.Background())
	s.most = max(memory, 2*int64(s.maxBody()))
	s.memory = semaphore.NewWeighted(s.most)
	s.SetVisibility(o.Visibility)
	return s, nil
}

// SetVisibility changes how long a client has a message that does not say.
func (s *Service) SetVisibility(d time.Duration) {
	if d == 0 {
		d = DefaultVisibility
	}
	s.visibility.Store(int64(d))
}

// maxBody is the longest request in bytes.
func (s *Service) maxBody() int { return s.options.MaxPayload + 1<<20 }

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// duration reads one of a request.
func duration(name string, d *durationpb.Duration, absent, least, most time.Duration) (time.Duration, error) {
	if d == nil {
		return absent, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, invalid("%s: %v", name, err)
	}
	if v := d.AsDuration(); v >= least && v <= most {
		return v, nil
	}
	return 0, invalid("%s is %v: use %v to %v", name, d.AsDuration(), least, most)
}

// visibilityOf reads that of a request.
func (s *Service) visibilityOf(d *durationpb.Duration) (time.Duration, error) {
	return duration(
		"visibility_timeout", d, time.Duration(s.visibility.Load()), dispatch.MinVisibility, dispatch.MaxVisibility,
	)
}

// Get implements messagesv1.MessageServiceServer.
func (s *Service) Get(ctx context.Context, r *messagesv1.GetRequest) (*messagesv1.GetResponse, error) {
	return s.get(ctx, r, func(*messagesv1.QueueMessage) bool { return r.GetStored() })
}

// get gets messages and makes those plain that are not wanted as they are stored.
func (s *Service) get(
	ctx context.Context, r *messagesv1.GetRequest, stored func(*messagesv1.QueueMessage) bool,
) (*messagesv1.GetResponse, error) {
	if r.GetMaxMessages() > dispatch.MaxBatch {
		return nil, invalid("max_messages is %d: use up to %d", r.GetMaxMessages(), dispatch.MaxBatch)
	}
	wait, err := duration("wait", r.GetWait(), 0, 0, dispatch.MaxWait)
	if err != nil {
		return nil, err
	}
	visibility, err := s.visibilityOf(r.GetVisibilityTimeout())
	if err != nil {
		return nil, err
	}
	out, err := s.wait(ctx, int(max(r.GetMaxMessages(), 1)), visibility, wait, r.GetDeadLetters())
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx, out, stored); err != nil {
		s.options.Hub.Unget(out) //nolint:contextcheck // Who asked may have gone.
		return nil, err
	}
	session(ctx).Count(0, int64(len(out)), 0)
	return &messagesv1.GetResponse{Messages: out}, nil
}

// wait waits for messages until the service drains.
func (s *Service) wait(
	ctx context.Context, count int, visibility, wait time.Duration, dead bool,
) ([]*messagesv1.ReceivedMessage, error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(s.draining, stop)() //nolint:contextcheck // It is another reason to end.
	out, err := s.options.Hub.Get(waiting, count, visibility, wait, dead)
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return nil, status.Error(codes.Unavailable, "this member of the queue ends: ask again, and another answers")
	}
	if err != nil {
		return nil, statusOf(err)
	}
	return out, nil
}

// open holds memory for an answer and makes messages plain.
func (s *Service) open(
	ctx context.Context, out []*messagesv1.ReceivedMessage, stored func(*messagesv1.QueueMessage) bool,
) error {
	length := 0
	for _, m := range out {
		length += max(len(m.GetMessage().GetPayload()), int(m.GetMessage().GetStoredForm().GetLength()))
	}
	// For so long they are counted by who gave them out.
	waiting, stop := context.WithTimeout(ctx, s.patience)
	err := hold(waiting, length)
	stop()
	switch {
	case err != nil && ctx.Err() == nil:
		return status.Error(
			codes.ResourceExhausted,
			"clients that take their answers slowly hold all memory that there is for answers: ask again later",
		)
	case err != nil:
		return err
	}
	if err := s.plain(ctx, out, stored); err != nil {
		return err
	}
	answering(ctx, length)
	return nil
}

// turn waits until a request may compress or inflate. What it returns ends that.
func (s *Service) turn(ctx context.Context) (end func(), err error) {
	select {
	case s.turns <- struct{}{}:
		return func() { <-s.turns }, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// statusOf says an error of the hub in the words of gRPC.
func statusOf(err error) error {
	switch {
	case errors.Is(err, dispatch.ErrTaken):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, dispatch.ErrBusy):
		return status.Error(codes.ResourceExhausted, err.Error())
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	default:
		return status.Error(codes.Unavailable, err.Error())
	}
}

// Acknowledge implements messagesv1.MessageServiceServer.
func (s *Service) Acknowledge(ctx context.Context, r *messagesv1.AcknowledgeRequest) (*messagesv1.AcknowledgeResponse,
	error) {
	if err := checkReceipts(r.GetReceipts()); err != nil {
		return nil, err
	}
	return &messagesv1.AcknowledgeResponse{Results: s.acknowledge(ctx, r.GetReceipts())}, nil
}

// acknowledge acknowledges messages.
func (s *Service) acknowledge(ctx context.Context, receipts []string) []messagesv1.ReceiptResult {
	results := s.options.Hub.Acknowledge(ctx, receipts)
	done := int64(0)
	for _, r := range results {
		if r == messagesv1.ReceiptResult_RECEIPT_RESULT_DONE {
			done++
		}
	}
	session(ctx).Count(0, 0, done)
	return results
}

// Release implements messagesv1.MessageServiceServer.
func (s *Service) Release(ctx context.Context, r *messagesv1.ReleaseRequest) (*messagesv1.ReleaseResponse, error) {
	delay, err := duration("delay", r.GetDelay(), 0, 0, dispatch.MaxVisibility)
	if err != nil {
		return nil, err
	}
	if err := checkReceipts(r.GetReceipts()); err != nil {
		return nil, err
	}
	return &messagesv1.ReleaseResponse{Results: s.options.Hub.Release(ctx, r.GetReceipts(), delay)}, nil
}

// Extend implements messagesv1.MessageServiceServer.
func (s *Service) Extend(ctx context.Context, r *messagesv1.ExtendRequest) (*messagesv1.ExtendResponse, error) {
	visibility, err := s.visibilityOf(r.GetVisibilityTimeout())
	if err != nil {
		return nil, err
	}
	if err := checkReceipts(r.GetReceipts()); err != nil {
		return nil, err
	}
	return &messagesv1.ExtendResponse{Results: s.options.Hub.Extend(ctx, r.GetReceipts(), visibility)}, nil
}

// Reject implements messagesv1.MessageServiceServer.
func (s *Service) Reject(ctx context.Context, r *messagesv1.RejectRequest) (*messagesv1.RejectResponse, error) {
	if err := envelope.CheckText("detail", r.GetDetail()); err != nil {
		return nil, invalid("%v", err)
	}
	if err := checkReceipts(r.GetReceipts()); err != nil {
		return nil, err
	}
	return &messagesv1.RejectResponse{Results: s.options.Hub.Reject(ctx, r.GetReceipts(), r.GetDetail())}, nil
}

func checkReceipts(receipts []string) error {
	if len(receipts) > dispatch.MaxBatch {
		return invalid("%d receipts: use up to %d", len(receipts), dispatch.MaxBatch)
	}
	return nil
}
