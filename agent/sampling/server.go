// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package sampling

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Limits bound what a server gives in a call, whatever it is asked for.
type Limits struct {
	Bytes int64
	Items int
	// Duration of a call beyond that for which it collects: for reading what is stored, and for giving out.
	Duration time.Duration
}

// NewServer returns a service that gives samples of a source, to one caller at a time.
func NewServer(source Source, limits Limits) wirev1.SamplerServer {
	return &server{source: source, limits: limits}
}

type server struct {
	wirev1.UnimplementedSamplerServer
	source Source
	limits Limits
	busy   atomic.Bool
}

func (s *server) Sample(q *wirev1.SampleRequest, stream wirev1.Sampler_SampleServer) error {
	r, err := s.request(q)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if !s.busy.CompareAndSwap(false, true) {
		return status.Error(codes.ResourceExhausted, ErrBusy.Error())
	}
	defer s.busy.Store(false)
	ctx, cancel := context.WithTimeout(stream.Context(), r.Duration+s.limits.Duration)
	defer cancel()
	seen, err := s.source.Sample(ctx, r, func(i Item) error {
		return stream.Send(&wirev1.SampleResponse{Answer: &wirev1.SampleResponse_Item{
			Item: &wirev1.SampleItem{Content: i.Content, Length: uint64(max(i.Length, 0))},
		}})
	})
	if err != nil {
		return statusOf(err)
	}
	return stream.Send(&wirev1.SampleResponse{Answer: &wirev1.SampleResponse_End{End: &wirev1.SampleEnd{
		Items: uint64(max(seen.Items, 0)), Bytes: uint64(max(seen.Bytes, 0)), Unreadable: uint64(max(seen.Unreadable, 0)),
	}}})
}

// request is what is asked for, within the limits.
func (s *server) request(q *wirev1.SampleRequest) (Request, error) {
	duration := q.GetDuration().AsDuration()
	switch {
	case q.GetMaxBytes() == 0 || q.GetMaxItems() == 0:
		return Request{}, errors.New("max_bytes and max_items have to be 1 or more")
	case q.GetDuration() != nil && (duration < MinDuration || duration > MaxDuration):
		return Request{}, fmt.Errorf("duration is %v: use %v to %v", duration, MinDuration, MaxDuration)
	}
	return Request{
		MaxBytes: int64(min(q.GetMaxBytes(), uint64(s.limits.Bytes))),
		MaxItems: int(min(uint64(q.GetMaxItems()), uint64(s.limits.Items))),
		Duration: duration, Seed: q.GetSeed(),
	}, nil
}

func statusOf(err error) error {
	if _, already := status.FromError(err); already {
		return err
	}
	code := codes.Internal
	switch {
	case errors.Is(err, ErrBusy):
		code = codes.ResourceExhausted
	case errors.Is(err, ErrNotReady):
		code = codes.Unavailable
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	return status.Error(code, err.Error())
}
