// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func numbered(generation uint64, revision string) config {
	return &wirev1.HTTPConfig{Generation: generation, Revision: revision, ResetStatistics: "a"}
}

// send has a configuration come from the manager.
func (a *agent) send(t *testing.T, c config) codes.Code {
	t.Helper()
	encoded, err := wirev1.MarshalConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return status.Code(a.Set(t.Context(), encoded, &wirev1.HTTPConfig{}))
}

// TestSet: what the manager sends is in effect at once, and of it and the file the newer one counts.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent()
		a.Follow(t.Context(), a.service())
		synctest.Wait()
		for i, step := range []struct {
			file, sent          config
			code                codes.Code
			inEffect, says      string
			generation, refused uint64
			reloads             int
		}{
			// The file is of a manager that does not count.
			{nil, numbered(10, "10"), codes.OK, "10", "", 10, 0, 1},
			{numbered(0, "1"), nil, codes.OK, "10", "", 10, 0, 1},
			{nil, numbered(12, "12"), codes.OK, "12", "", 12, 0, 2},
			{nil, numbered(12, "12"), codes.OK, "12", "", 12, 0, 2},
			// It arrives late, and the one after it too.
			{numbered(10, "10"), nil, codes.OK, "12", "", 12, 0, 2},
			{numbered(12, "12"), nil, codes.OK, "12", "", 12, 0, 2},
			{nil, numbered(11, "11"), codes.FailedPrecondition, "12", "", 12, 0, 2},
			{nil, numbered(0, "0"), codes.InvalidArgument, "12", "", 12, 0, 2},
			// One that cannot be used is tried once, also when its file comes, and the file before does not take the
			// error away.
			{nil, numbered(13, "bad"), codes.InvalidArgument, "12", "bad is unusable", 12, 13, 3},
			{nil, numbered(13, "bad"), codes.InvalidArgument, "12", "bad is unusable", 12, 13, 3},
			{numbered(12, "12"), nil, codes.OK, "12", "bad is unusable", 12, 13, 3},
			{numbered(13, "bad"), nil, codes.OK, "12", "bad is unusable", 12, 13, 3},
			{nil, numbered(14, "14"), codes.OK, "14", "", 14, 0, 4},
			{numbered(13, "bad"), nil, codes.OK, "14", "", 14, 0, 4},
			// The manager is of an earlier release again.
			{numbered(0, "old"), nil, codes.OK, "old", "", 0, 0, 5},
			{numbered(0, "older"), nil, codes.OK, "older", "", 0, 0, 6},
		} {
			if step.sent != nil {
				if code := a.send(t, step.sent); code != step.code {
					t.Errorf("step %d: %v", i, code)
				}
			}
			if step.file != nil {
				a.change(step.file, nil)
			}
			s := a.Status()
			if s.Revision != step.inEffect || s.ConfigError != step.says || len(a.reloads) != step.reloads ||
				s.Configuration.GetGeneration() != step.generation || s.Configuration.GetRejected() != step.refused {
				t.Errorf("step %d: revision %q, error %q, %v, reloads %v", i, s.Revision, s.ConfigError, s.Configuration, a.reloads)
			}
		}
		a.send(t, &wirev1.HTTPConfig{Generation: 20, ResetStatistics: "b"})
		if a.resets != 1 {
			t.Errorf("counters were reset %d times", a.resets)
		}
	})
}

// TestSetInvalid: what no file could hold is rejected, and changes nothing.
func TestSetInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent()
		a.Follow(t.Context(), a.service())
		synctest.Wait()
		for name, encoded := range map[string][]byte{
			"nothing":    nil,
			"no JSON":    []byte("revision"),
			"wrong type": []byte(`{"generation": "5", "codings": 7}`),
			"critical":   []byte(`{"generation": "5", "critical": ["fromTheFuture"]}`),
			"too long":   append([]byte(`{"generation": "5"}`), bytes.Repeat([]byte(" "), wirev1.MaxSentConfig)...),
		} {
			if code := status.Code(a.Set(t.Context(), encoded, &wirev1.HTTPConfig{})); code != codes.InvalidArgument {
				t.Errorf("%s: %v", name, code)
			}
		}
		if s := a.Status(); s.Revision != "1" || len(a.reloads) > 0 {
			t.Errorf("revision %q, reloads %v", s.Revision, a.reloads)
		}
	})
}

// TestSetMeanwhile: an agent that starts, drains or is busy says so in time.
func TestSetMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent()
		if code := a.send(t, numbered(1, "1")); code != codes.Unavailable {
			t.Errorf("while it starts: %v", code)
		}
		ctx, end := context.WithCancel(t.Context())
		s := a.service()
		release := make(chan struct{})
		reload := s.Reload
		s.Reload = func(ctx context.Context, before, c config) error {
			<-release
			return reload(ctx, before, c)
		}
		a.Follow(ctx, s)
		synctest.Wait()
		encoded, err := wirev1.MarshalConfig(numbered(5, "5"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first is being put into effect, the second waits for that
			soon, cancel := context.WithTimeout(t.Context(), time.Second)
			if code := status.Code(a.Set(soon, encoded, &wirev1.HTTPConfig{})); code != codes.DeadlineExceeded {
				t.Errorf("while it is busy: %v", code)
			}
			cancel()
		}
		close(release)
		synctest.Wait()
		if s := a.Status(); s.Revision != "5" || !slices.Equal(a.reloads, []string{"1 to 5"}) {
			t.Errorf("revision %q, reloads %v", s.Revision, a.reloads)
		}
		end()
		synctest.Wait()
		if code := a.send(t, numbered(6, "6")); code != codes.Unavailable {
			t.Errorf("while it drains: %v", code)
		}
	})
}
