// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// governor holds compression back. It is safe for concurrent use.
type governor struct {
	maxConcurrent int64
	active        atomic.Int64
	overCPU       atomic.Bool
}

// admit returns "" if another response may be compressed, which done has to follow;
// else why not.
func (g *governor) admit() policy.Reason {
	if g.overCPU.Load() {
		return CPUBudget
	}
	if n := g.active.Add(1); g.maxConcurrent > 0 && n > g.maxConcurrent {
		g.active.Add(-1)
		return Busy
	}
	return ""
}

func (g *governor) done() { g.active.Add(-1) }

// cpuInterval is how often the share of CPU is looked at: short enough to react, long
// enough for the clock of CPU time to be exact.
const cpuInterval = 250 * time.Millisecond

// watchCPU compares what this process uses of the processors with a share in percent
// until the context ends.
func (g *governor) watchCPU(ctx context.Context, percent int) {
	ticker := time.NewTicker(cpuInterval)
	defer ticker.Stop()
	w := cpuWatch{percent: percent, procs: runtime.GOMAXPROCS(0)}
	for {
		if used, err := processCPU(); err == nil {
			g.overCPU.Store(w.over(time.Now(), used))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func processCPU() (time.Duration, error) {
	user, system, err := meter.ProcessCPU()
	return user + system, err
}

// cpuWatch compares CPU time with time.
type cpuWatch struct {
	percent, procs int
	at             time.Time
	used           time.Duration
	last           bool
}

// over reports whether more than the share was used since the call before.
func (w *cpuWatch) over(now time.Time, used time.Duration) bool {
	if elapsed := now.Sub(w.at); !w.at.IsZero() && elapsed > 0 {
		w.last = (used-w.used)*100 > elapsed*time.Duration(w.procs*w.percent)
	}
	w.at, w.used = now, used
	return w.last
}
