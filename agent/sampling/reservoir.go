// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package sampling

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// Reservoir keeps a sample of items of which it is not known how many will come. Each draws a key at random, and those
// with the smallest keys stay, as many as there is space for. So whether an item stays does not depend on when it came.
// It is safe for concurrent use.
type Reservoir struct {
	maxBytes int64
	maxItems int

	mu     sync.Mutex
	kept   kept
	bytes  int64
	bound  float64 // larger keys stay no more
	seen   Seen
	closed bool
}

// NewReservoir returns one that is empty.
func NewReservoir(maxBytes int64, maxItems int) *Reservoir {
	return &Reservoir{maxBytes: maxBytes, maxItems: maxItems, bound: math.Inf(1)}
}

// Draw returns a key for an item that begins, and whether it would stay as things are.
func (r *Reservoir) Draw() (key float64, stays bool) {
	key = rand.Float64()
	r.mu.Lock()
	defer r.mu.Unlock()
	return key, !r.closed && key < r.bound
}

// Pass notes an item of a length that is not kept, whatever its key.
func (r *Reservoir) Pass(length int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(length)
}

func (r *Reservoir) note(length int64) {
	if !r.closed {
		r.seen.Items++
		r.seen.Bytes += length
	}
}

// Add notes an item and keeps it, or a part of what was kept goes instead. The content is the reservoir's from now on.
func (r *Reservoir) Add(key float64, item Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(item.Length)
	if r.closed || key >= r.bound || len(item.Content) == 0 {
		return
	}
	heap.Push(&r.kept, keyed{key, item})
	r.bytes += int64(len(item.Content))
	for r.bytes > r.maxBytes || len(r.kept) > r.maxItems {
		gone := heap.Pop(&r.kept).(keyed)
		r.bytes -= int64(len(gone.item.Content))
		r.bound = gone.key
	}
}

// Close ends it and returns what was kept, in the order of the keys, and what was seen. It keeps nothing any more.
func (r *Reservoir) Close() ([]Item, Seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.kept, func(a, b keyed) int {
		if a.key < b.key {
			return -1
		}
		return 1
	})
	items := make([]Item, len(r.kept))
	for i, k := range r.kept {
		items[i] = k.item
	}
	r.closed, r.kept, r.bytes = true, nil, 0
	return items, r.seen
}

type keyed struct {
	key  float64
	item Item
}

// kept is a heap with the largest key first.
type kept []keyed

func (k kept) Len() int           { return len(k) }
func (k kept) Less(i, j int) bool { return k[i].key > k[j].key }
func (k kept) Swap(i, j int)      { k[i], k[j] = k[j], k[i] }
func (k *kept) Push(x any)        { *k = append(*k, x.(keyed)) }
func (k *kept) Pop() any {
	last := len(*k) - 1
	x := (*k)[last]
	(*k)[last] = keyed{}
	*k = (*k)[:last]
	return x
}
