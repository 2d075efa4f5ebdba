// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Memories are what a controller remembers of each object, by its UID. They are lost with the manager. One object is
// looked after by one goroutine at a time.
type Memories[T any] struct {
	mu  sync.Mutex
	all map[types.UID]*T
	ids map[types.NamespacedName]types.UID
}

// NewMemories returns what is to be filled yet.
func NewMemories[T any]() *Memories[T] {
	return &Memories[T]{all: map[types.UID]*T{}, ids: map[types.NamespacedName]types.UID{}}
}

// Of returns what is remembered, which is nothing at first. What was of an earlier object of that name is forgotten.
func (m *Memories[T]) Of(name types.NamespacedName, uid types.UID) *T {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.ids[name]; old != uid {
		delete(m.all, old)
	}
	m.ids[name] = uid
	if m.all[uid] == nil {
		m.all[uid] = new(T)
	}
	return m.all[uid]
}

// Forget returns the UID of what was remembered under a name, empty if there was nothing.
func (m *Memories[T]) Forget(name types.NamespacedName) types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := m.ids[name]
	delete(m.all, uid)
	delete(m.ids, name)
	return uid
}
