// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pipeline has several goroutines work on jobs whose order counts.
package pipeline

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// slot is a job that is used again for later ones.
type slot[J any] struct {
	job  J
	done chan struct{}
}

// Run does work on jobs, on so many workers, that produce fills until it returns false, and hands them to consume
// in their order. Neither produce nor consume is called twice at once. There are two jobs for each worker at most. One
// worker works in the caller's goroutine.
func Run[J any](
	ctx context.Context, workers int, produce func(*J) (bool, error), work func(worker int, job *J) error,
	consume func(*J) error,
) error {
	if workers <= 1 {
		var job J
		for {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if more, err := produce(&job); err != nil || !more {
				return err
			}
			if err := work(0, &job); err != nil {
				return err
			}
			if err := consume(&job); err != nil {
				return err
			}
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	free, ordered := make(chan *slot[J], 2*workers), make(chan *slot[J], 2*workers)
	todo := make(chan *slot[J])
	for range cap(free) {
		free <- &slot[J]{done: make(chan struct{}, 1)}
	}
	group.Go(func() error {
		defer close(todo)
		defer close(ordered)
		for {
			s, err := receive(ctx, free)
			if err != nil {
				return err
			}
			if more, err := produce(&s.job); err != nil || !more {
				return err
			}
			select {
			case todo <- s:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			ordered <- s // which has space for all
		}
	})
	for worker := range workers {
		group.Go(func() error {
			for s := range todo {
				if err := work(worker, &s.job); err != nil {
					return err
				}
				s.done <- struct{}{}
			}
			return nil
		})
	}
	group.Go(func() error {
		for s := range ordered {
			if _, err := receive(ctx, s.done); err != nil {
				return err
			}
			if err := consume(&s.job); err != nil {
				return err
			}
			free <- s
		}
		return nil
	})
	return group.Wait()
}

func receive[T any](ctx context.Context, from <-chan T) (value T, err error) {
	select {
	case value = <-from:
		return value, nil
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}
