// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package control is what an agent shows to its manager: the report while it runs, and the termination message at the
// end.
package control

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// maxPatience bounds for how long a question waits.
const maxPatience = 10 * time.Second

// Reporter says how far an agent is. It is safe for concurrent use and cheap, and every report is the caller's to keep.
type Reporter interface {
	Report() *wirev1.Report
}

// Options of the service.
type Options struct {
	Reporter Reporter
	// Pause ends the agent. It returns at once; nil: the agent cannot be paused.
	Pause func()
	// Limit changes how many bytes per second the agent writes at most, 0 for any; nil: it has no such limit.
	Limit func(bytesPerSecond uint64) error
	// Ended is closed when the report is final, or the server is about to stop. Until then a question may wait; nil: no
	// question waits.
	Ended <-chan struct{}
}

// NewServer returns the service that hands out a reporter's reports and takes what the manager wants.
func NewServer(o Options) wirev1.AgentServer {
	return NewServerOf(func(context.Context) Options { return o })
}

// NewServerOf is NewServer for an agent with several reporters: find returns those that a call is about.
func NewServerOf(find func(context.Context) Options) wirev1.AgentServer {
	return &server{find: find}
}

type server struct {
	wirev1.UnimplementedAgentServer
	find func(context.Context) Options
}

func (s *server) SetBandwidthLimit(
	ctx context.Context, in *wirev1.SetBandwidthLimitRequest,
) (*wirev1.SetBandwidthLimitResponse, error) {
	limit := s.find(ctx).Limit
	if limit == nil {
		return nil, status.Error(codes.FailedPrecondition, "this agent has no limit of bandwidth")
	}
	if err := limit(in.GetBandwidthLimit()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &wirev1.SetBandwidthLimitResponse{}, nil
}

func (s *server) Pause(ctx context.Context, _ *wirev1.PauseRequest) (*wirev1.PauseResponse, error) {
	pause := s.find(ctx).Pause
	if pause == nil {
		return nil, status.Error(codes.FailedPrecondition, "this agent cannot be paused")
	}
	pause()
	return &wirev1.PauseResponse{}, nil
}

func (s *server) GetReport(ctx context.Context, in *wirev1.GetReportRequest) (*wirev1.GetReportResponse, error) {
	of := s.find(ctx)
	if patience := min(in.GetPatience().AsDuration(), maxPatience); patience > 0 && of.Ended != nil {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-of.Ended:
		case <-timer.C:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	return &wirev1.GetReportResponse{Report: of.Reporter.Report()}, nil
}
