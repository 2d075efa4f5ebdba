// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// source is what lines are limited by.
type source struct{ peer, reason string }

type limiter struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	sources map[source]*limited
}

type limited struct {
	lines      *rate.Limiter
	suppressed int64
}

func newLimiter(c clock.PassiveClock) *limiter {
	return &limiter{clock: c, sources: map[source]*limited{}}
}

// allow reports whether a line may be written, and how many of the source were not since the last one that was.
func (l *limiter) allow(s source) (suppressed int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.sources[s]
	if of == nil {
		if len(l.sources) >= maxSources { // Peers that came and went; each starts over with its burst
			clear(l.sources)
		}
		of = &limited{lines: rate.NewLimiter(rate.Every(linesInterval), linesBurst)}
		l.sources[s] = of
	}
	if !of.lines.AllowN(l.clock.Now(), 1) {
		of.suppressed++
		return 0, false
	}
	suppressed, of.suppressed = of.suppressed, 0
	return suppressed, true
}
