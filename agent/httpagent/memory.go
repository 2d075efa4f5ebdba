// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpagent

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// garbage is how much the heap may grow between two collections, in bytes. With few
	// connections little lives, and collecting whenever that doubled would take more CPU
	// than the requests.
	garbage = 32 << 20
	// With many connections the heap grows less far than Go would let it: what a proxy
	// holds is mostly theirs, and there may be many proxies on a node. With few, the
	// percentage stands for garbage: Go's smallest heap is 4 MiB times that.
	minPercent, maxPercent = 50, garbage / (4 << 20) * 100

	// When many bodies are under way at once, the collector works harder to stay below a
	// limit of all that Go holds: not much more than what lives, and in bytes at least
	// smallLimit, which leaves space for the program's own pages in 128 MiB.
	smallLimit = 100 << 20
	limitSteps = 8 << 20
)

// collectLazily adjusts the collector to what lives after each collection, until the
// context ends: what a thousand new connections hold is not to be multiplied by what was
// right for none.
func collectLazily(ctx context.Context) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percentBefore, limitBefore := debug.SetGCPercent(maxPercent), debug.SetMemoryLimit(-1)
	defer debug.SetGCPercent(percentBefore)
	defer debug.SetMemoryLimit(limitBefore)
	percent, limit := maxPercent, limitBefore
	for {
		collected := nextCollection()
		metrics.Read(sample)
		live := sample[0].Value.Uint64()
		if want := gcPercent(live); want != percent {
			percent = want
			debug.SetGCPercent(percent)
		}
		// Who runs the agent may have set a limit that is lower (GOMEMLIMIT).
		if want := min(memoryLimit(live), limitBefore); want != limit {
			limit = want
			debug.SetMemoryLimit(limit)
		}
		select {
		case <-ctx.Done():
			return
		case <-collected:
		}
	}
}

// nextCollection returns a channel that is closed when garbage was collected.
func nextCollection() <-chan struct{} {
	collected := make(chan struct{})
	// Not so small that Go would put it together with something that lives.
	sentinel := new([64]byte)
	runtime.AddCleanup(sentinel, func(c chan struct{}) { close(c) }, collected)
	return collected
}

// gcPercent is by how much the heap may grow when so many bytes live, in steps of 50 so
// that it does not change all the time.
func gcPercent(live uint64) int {
	percent := garbage * 100 / max(live, 1)
	return int(min(max(percent/50*50, minPercent), maxPercent))
}

// memoryLimit is what the collector tries to stay below when so many bytes live, in steps.
func memoryLimit(live uint64) int64 {
	return int64(max(smallLimit, (live*5/4+garbage)/limitSteps*limitSteps))
}
