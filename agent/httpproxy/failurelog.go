// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// failureInterval is how often at most the same message is logged.
const failureInterval = 10 * time.Second

// failureLog logs what may go wrong with every request: the first time at once, and then
// in intervals how often it went wrong since, with the last of the reasons. It is safe
// for concurrent use.
type failureLog struct {
	log *slog.Logger

	mu sync.Mutex
	// held are by message, of which there are few.
	held   map[string]*heldBack
	closed bool
}

// heldBack is what was not logged in the interval that runs.
type heldBack struct {
	timer *time.Timer
	level slog.Level
	args  []any // of the last
	times int
}

func newFailureLog(log *slog.Logger) *failureLog {
	return &failureLog{log: log, held: make(map[string]*heldBack)}
}

func (l *failureLog) note(level slog.Level, message string, args ...any) {
	l.mu.Lock()
	if h := l.held[message]; h != nil {
		h.level, h.args = level, args
		h.times++
		l.mu.Unlock()
		return
	}
	if !l.closed {
		l.held[message] = &heldBack{timer: time.AfterFunc(failureInterval, func() { l.next(message) })}
	}
	l.mu.Unlock()
	l.log.Log(context.Background(), level, message, args...)
}

// next ends an interval, and begins another one if something was held back.
func (l *failureLog) next(message string) {
	l.mu.Lock()
	h := l.held[message]
	if h == nil {
		l.mu.Unlock()
		return // closed meanwhile
	}
	if h.times == 0 {
		delete(l.held, message)
		l.mu.Unlock()
		return
	}
	said := *h
	h.times = 0
	h.timer.Reset(failureInterval)
	l.mu.Unlock()
	said.tell(l.log, message)
}

func (h *heldBack) tell(log *slog.Logger, message string) {
	log.Log(context.Background(), h.level, message, append(h.args, "times", h.times)...)
}

// close logs what was held back.
func (l *failureLog) close() {
	l.mu.Lock()
	held := l.held
	l.held, l.closed = make(map[string]*heldBack), true
	l.mu.Unlock()
	for message, h := range held {
		h.timer.Stop()
		if h.times > 0 {
			h.tell(l.log, message)
		}
	}
}
