// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"sync"
	"sync/atomic"
)

// part is something that is built from the cluster and shared by all who ask for it, so it must not be changed by any
// of them. The first one who asks after a change builds it again; everyone who asks after that change waits for it, so
// nobody decides by what was before.
type part[T any] struct {
	build   func(context.Context) (T, error)
	changes atomic.Uint64
	built   atomic.Pointer[version[T]]
	turn    sync.Mutex
}

// version of a part, built after so many changes.
type version[T any] struct {
	changes uint64
	value   T
}

// changed: what the part is built from is different now, and is in the cache.
func (p *part[T]) changed() { p.changes.Add(1) }

func (p *part[T]) get(ctx context.Context) (T, error) {
	if v := p.built.Load(); v != nil && v.changes == p.changes.Load() {
		return v.value, nil
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	changes := p.changes.Load()
	if v := p.built.Load(); v != nil && v.changes == changes {
		return v.value, nil
	}
	value, err := p.build(ctx)
	if err == nil {
		p.built.Store(&version[T]{changes: changes, value: value})
	}
	return value, err
}
