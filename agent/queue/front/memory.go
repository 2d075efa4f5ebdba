// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

const (
	// maxInflatedBytes bounds what messages are inflated to and not written to clients yet, of all connections together.
	maxInflatedBytes = 64 << 20
	// furtherShare of it is for connections that hold some already, of which each holds at most maxHeld.
	furtherShare = 4
	maxHeld      = 4 << 20
)

// memory bounds memory that connections share. Whoever holds none waits for some, in turn. Whoever holds some gets more
// only if that is free at once, and of a part of its own, so that a few that take slowly do not hold all of it.
type memory struct {
	first, further *semaphore.Weighted
	size           int64 // of first
	waiting        atomic.Int32
}

func newMemory(size int64) *memory {
	further := size / furtherShare
	return &memory{
		first: semaphore.NewWeighted(size - further), further: semaphore.NewWeighted(further), size: size - further,
	}
}

// account is what one connection holds of it. One goroutine takes, and one gives back.
type account struct {
	memory *memory
	held   atomic.Int64
	freed  chan struct{}
}

// grant is a piece of it.
type grant struct {
	of *semaphore.Weighted
	n  int64
}

func newAccount(m *memory) *account { return &account{memory: m, freed: make(chan struct{}, 1)} }

// take waits for n bytes until the context ends. Who asks for more than there can be waits for all.
func (a *account) take(ctx context.Context, n int) (grant, error) {
	m, g := a.memory, grant{n: int64(n)}
	for a.held.Load() > 0 && g.of == nil {
		if a.held.Load()+g.n <= maxHeld && m.further.TryAcquire(g.n) {
			g.of = m.further
			break
		}
		select {
		case <-a.freed:
		case <-ctx.Done():
			return grant{}, ctx.Err()
		}
	}
	if g.of == nil {
		if g.of, g.n = m.first, min(g.n, m.size); !m.first.TryAcquire(g.n) {
			m.waiting.Add(1)
			defer m.waiting.Add(-1)
			if err := m.first.Acquire(ctx, g.n); err != nil {
				return grant{}, err
			}
		}
	}
	a.held.Add(g.n)
	return g, nil
}

// give gives a piece back.
func (a *account) give(g grant) {
	a.held.Add(-g.n)
	g.of.Release(g.n)
	select {
	case a.freed <- struct{}{}:
	default:
	}
}

// delays reports whether others wait for memory while this connection holds some.
func (a *account) delays() bool { return a.held.Load() > 0 && a.memory.waiting.Load() > 0 }
