// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// maxAllowance bounds what messages are inflated to and not written to clients yet, in bytes, of all
// connections together.
const maxAllowance = 64 << 20

// allowance bounds memory that connections share. Half of it is for connections that hold none yet:
// those whose clients are slow, and so hold some for long, leave it to the others.
type allowance struct {
	first, more *semaphore.Weighted
	half        int64
}

func newAllowance(size int64) *allowance {
	return &allowance{first: semaphore.NewWeighted(size / 2), more: semaphore.NewWeighted(size / 2), half: size / 2}
}

// grant is what was taken of an allowance; the zero grant is nothing.
type grant struct {
	of *semaphore.Weighted
	n  int64
}

// take waits until there are so many bytes for a connection that holds none, or the context ends. Who asks
// for more than there can be has all, alone. What is held is written, or its client cut, within a
// bounded time, so that the wait ends.
func (a *allowance) take(ctx context.Context, n int) (grant, error) {
	g := grant{a.first, min(int64(n), a.half)}
	if err := g.of.Acquire(ctx, g.n); err != nil {
		return grant{}, err
	}
	return g, nil
}

// try takes so many bytes for a connection that holds some, if they are there.
func (a *allowance) try(n int) (grant, bool) {
	g := grant{a.more, min(int64(n), a.half)}
	return g, g.of.TryAcquire(g.n)
}

// end gives it back. It reports whether there was any.
func (g grant) end() bool {
	if g.of == nil {
		return false
	}
	g.of.Release(g.n)
	return true
}
