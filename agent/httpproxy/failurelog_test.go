// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lines is a log without times.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns what was logged since the last call.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return strings.TrimSuffix(l.text.String(), "\n")
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func TestFailureLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged lines
		log, l := logged.logger(), newFailureLog()
		expect := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := logged.take(); got != want {
				t.Errorf("logged:\n%s\nwant:\n%s", got, want)
			}
		}
		l.note(log.Warn, "broken", "error", "a")
		expect(0, "level=WARN msg=broken error=a")
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { l.note(log.Warn, "broken", "error", "b") })
		}
		wg.Wait()
		l.note(log.Error, "worse", "error", "c")
		expect(0, "level=ERROR msg=worse error=c")
		expect(failureInterval-time.Second, "")
		expect(time.Second, "level=WARN msg=broken error=b times=100")
		l.note(log.Warn, "broken", "error", "d")
		expect(0, "")
		expect(failureInterval, "level=WARN msg=broken error=d times=1")
		// After an interval of peace it is told at once again.
		expect(3*failureInterval, "")
		l.note(log.Warn, "broken", "error", "e")
		expect(0, "level=WARN msg=broken error=e")
		l.note(log.Warn, "broken", "error", "f")
		l.close()
		expect(0, "level=WARN msg=broken error=f times=1")
		l.note(log.Warn, "broken", "error", "g")
		expect(2*failureInterval, "level=WARN msg=broken error=g")
	})
}
