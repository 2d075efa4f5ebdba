// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import "context"

// TakeTurns keeps everybody from compressing and inflating until what it returns is called.
func (s *Service) TakeTurns() (free func()) {
	for range cap(s.turns) {
		s.turns <- struct{}{}
	}
	return func() {
		for range cap(s.turns) {
			<-s.turns
		}
	}
}

// Leaving is the context of a client who goes when memory is asked for.
func Leaving(ctx context.Context) context.Context {
	ctx, leave := context.WithCancel(ctx)
	return leaving{ctx, leave}
}

type leaving struct {
	context.Context //nolint:containedctx // It is one.
	leave           context.CancelFunc
}

// Value implements context.Context.
func (l leaving) Value(key any) any {
	if key == (accountKey{}) {
		l.leave()
	}
	return l.Context.Value(key)
}

// Requests is how many are served.
func (s *Service) Requests() int { return len(s.requests) }

// TakeRequests keeps everybody from being served until what it returns is called. Nobody may be served.
func (s *Service) TakeRequests() (free func()) {
	for range cap(s.requests) {
		s.requests <- struct{}{}
	}
	return func() {
		for range cap(s.requests) {
			<-s.requests
		}
	}
}
