// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpagent

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// garbage is how much the heap may grow between two collections, in bytes. With few
	// connections little lives, and collecting whenever that doubled would take more CPU
	// than the requests.
	garbage = 32 << 20
	// With many connections the heap grows less far than Go would let it: what a proxy
	// holds is mostly theirs, and there may be many proxies on a node.
	minPercent, maxPercent = 50, 1600
)

// collectLazily adjusts the collector to what lives, until the context ends.
func collectLazily(ctx context.Context) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	before := debug.SetGCPercent(maxPercent)
	defer debug.SetGCPercent(before)
	percent := maxPercent
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		metrics.Read(sample)
		if want := gcPercent(sample[0].Value.Uint64()); want != percent {
			percent = want
			debug.SetGCPercent(percent)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// gcPercent is by how much the heap may grow when so many bytes live, in steps of 50 so
// that it does not change all the time.
func gcPercent(live uint64) int {
	percent := garbage * 100 / max(live, 1)
	return int(min(max(percent/50*50, minPercent), maxPercent))
}
