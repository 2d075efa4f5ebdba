// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"sync"
	"time"
)

// failureInterval is how often at most the same message is logged.
const failureInterval = 10 * time.Second

// failureLog logs what may go wrong with every request: the first time at once, and then
// in intervals how often it went wrong since, with the last of the reasons. It is safe
// for concurrent use.
type failureLog struct {
	mu sync.Mutex
	// held are by message, of which there are few.
	held   map[string]*heldBack
	closed bool
}

// heldBack is what was not logged in the interval that runs.
type heldBack struct {
	timer *time.Timer
	log   func(message string, args ...any)
	args  []any // of the last
	times int
}

func newFailureLog() *failureLog { return &failureLog{held: make(map[string]*heldBack)} }

// note logs by a method of a logger, or holds back.
func (l *failureLog) note(log func(message string, args ...any), message string, args ...any) {
	l.mu.Lock()
	if h := l.held[message]; h != nil {
		h.log, h.args = log, args
		h.times++
		l.mu.Unlock()
		return
	}
	if !l.closed {
		l.held[message] = &heldBack{timer: time.AfterFunc(failureInterval, func() { l.next(message) })}
	}
	l.mu.Unlock()
	log(message, args...)
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
	said.tell(message)
}

func (h *heldBack) tell(message string) { h.log(message, append(h.args, "times", h.times)...) }

// close logs what was held back.
func (l *failureLog) close() {
	l.mu.Lock()
	held := l.held
	l.held, l.closed = make(map[string]*heldBack), true
	l.mu.Unlock()
	for message, h := range held {
		h.timer.Stop()
		if h.times > 0 {
			h.tell(message)
		}
	}
}
