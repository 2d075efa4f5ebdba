// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/serve"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

type config = *wirev1.HTTPConfig

// agent is one whose configuration tests change. It rejects revisions that begin with "bad".
type agent struct {
	*serve.Frame[config]

	mu      sync.Mutex
	next    config
	problem error // of reading it
	reloads []string
	counter int
	resets  int
}

func newAgent() *agent {
	a := &agent{next: &wirev1.HTTPConfig{Revision: "1", ResetStatistics: "a"}}
	a.Frame = serve.New(serve.Options[config]{Read: a.read, Log: slog.New(slog.DiscardHandler)})
	a.Begin(proto.CloneOf(a.next))
	return a
}

func (a *agent) read() (config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return proto.CloneOf(a.next), a.problem
}

// change sets what is read and waits until the frame has looked at it.
func (a *agent) change(c config, problem error) {
	a.mu.Lock()
	a.next, a.problem = c, problem
	a.mu.Unlock()
	time.Sleep(a.Interval)
	synctest.Wait()
}

func (a *agent) service() serve.Service[config] {
	return serve.Service[config]{
		Passed: func() uint64 { return 0 },
		Reload: func(_ context.Context, before, c config) error {
			a.reloads = append(a.reloads, before.GetRevision()+" to "+c.GetRevision())
			if strings.HasPrefix(c.GetRevision(), "bad") {
				return errors.New(c.GetRevision() + " is unusable")
			}
			return nil
		},
		ResetStatistics: func(time.Time) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.counter, a.resets = 0, a.resets+1
		},
	}
}

// TestFollow: each configuration is tried once, the last good one stays in effect, and what is wrong is told until it
// is fixed.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent()
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var looked []string
		s := a.service()
		s.Look = func(_ context.Context, c config) { looked = append(looked, c.GetRevision()) }
		a.Follow(ctx, s)
		for i, step := range []struct {
			revision string
			problem  error
			inEffect string
			says     string
			reloads  int
		}{
			{"1", nil, "1", "", 0},
			{"2", nil, "2", "", 1},
			{"bad", nil, "2", "bad is unusable", 2},
			{"bad", nil, "2", "bad is unusable", 2},
			{"", errors.New("no file"), "2", "no file", 2},
			{"bad", nil, "2", "bad is unusable", 3},
			{"2", nil, "2", "", 3},
			{"bad", nil, "2", "bad is unusable", 4},
			{"3", nil, "3", "", 5},
			{"3", nil, "3", "", 5},
		} {
			a.change(&wirev1.HTTPConfig{Revision: step.revision, ResetStatistics: "a"}, step.problem)
			if s := a.Status(); s.Revision != step.inEffect || s.ConfigError != step.says || len(a.reloads) != step.reloads ||
				len(looked) != i+1 || looked[i] != step.inEffect {
				t.Errorf("step %d: revision %q, error %q, reloads %v, looks %v", i, s.Revision, s.ConfigError, a.reloads, looked)
			}
		}
		if want := []string{"1 to 2", "2 to bad", "2 to bad", "2 to bad", "2 to 3"}; !slices.Equal(a.reloads, want) {
			t.Errorf("reloads %v", a.reloads)
		}
		if a.resets != 0 {
			t.Errorf("counters were reset %d times", a.resets)
		}
	})
}

// TestReset: no report has counters of before a reset under the name of what comes after it, or the other way.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent()
		a.Follow(t.Context(), a.service())
		a.counter = 5
		made := 0
		type report struct {
			reset   string
			counter int
		}
		got := serve.Report(a.Frame, func(reset string) report {
			a.mu.Lock()
			r := report{reset, a.counter}
			a.mu.Unlock()
			if made++; made == 1 {
				a.change(&wirev1.HTTPConfig{Revision: "2", ResetStatistics: "b"}, nil)
			}
			return r
		})
		if got != (report{"b", 0}) || made != 2 || a.resets != 1 {
			t.Errorf("%+v, made %d times, %d resets", got, made, a.resets)
		}
		if cpu := a.CPU(); cpu.GetIdleNanos() > cpu.GetSendNanos() {
			t.Errorf("more idle than spent: %v", cpu)
		}
	})
}

// TestDrain: clients get as long as the configuration says, and those that stay longer are no failure.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent()
		for want, timeout := range map[time.Duration]*durationpb.Duration{
			30 * time.Second: nil, time.Hour: durationpb.New(time.Hour),
		} {
			a.Begin(&wirev1.HTTPConfig{DrainTimeout: timeout})
			begun := time.Now()
			err := a.Drain(func(ctx context.Context, patience time.Duration) error {
				if patience != want {
					t.Errorf("patience %v, want %v", patience, want)
				}
				<-ctx.Done()
				return ctx.Err()
			})
			if took := time.Since(begun); err != nil || took != want {
				t.Errorf("after %v: %v", took, err)
			}
		}
		failed := errors.New("it is broken")
		if err := a.Drain(func(context.Context, time.Duration) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("%v is not told", err)
		}
	})
}

func TestHealthHandler(t *testing.T) {
	var problem error
	h := serve.HealthHandler(func() error { return problem })
	for _, problem = range []error{nil, serve.ErrNotServing} {
		for path, want := range map[string]bool{"/livez": true, "/readyz": problem == nil} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if ok := w.Code == http.StatusOK; ok != want || !ok && !strings.Contains(w.Body.String(), problem.Error()) {
				t.Errorf("%s with %v: %d %s", path, problem, w.Code, w.Body)
			}
		}
	}
}
