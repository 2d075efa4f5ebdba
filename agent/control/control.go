// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package control is what an agent shows to its manager: the report while it runs, and the termination message at the
// end.
package control

import (
	"context"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Reporter says how far an agent is. It is safe for concurrent use and cheap, and every report is the caller's to keep.
type Reporter interface {
	Report() *wirev1.Report
}

// NewServer returns the service that hands out a reporter's reports. pause, which must return at once, ends the agent.
func NewServer(r Reporter, pause func()) wirev1.AgentServer {
	return NewServerOf(func(context.Context) Reporter { return r }, pause)
}

// NewServerOf is NewServer for an agent with several reporters: find returns the one that a call is about.
func NewServerOf(find func(context.Context) Reporter, pause func()) wirev1.AgentServer {
	return &server{find: find, pause: pause}
}

type server struct {
	wirev1.UnimplementedAgentServer
	find  func(context.Context) Reporter
	pause func()
}

func (s *server) Pause(context.Context, *wirev1.PauseRequest) (*wirev1.PauseResponse, error) {
	s.pause()
	return &wirev1.PauseResponse{}, nil
}

func (s *server) GetReport(ctx context.Context, _ *wirev1.GetReportRequest) (*wirev1.GetReportResponse, error) {
	return &wirev1.GetReportResponse{Report: s.find(ctx).Report()}, nil
}
