// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"errors"
	"testing"
	"time"

	"github.com/lighterage/lighterage/controllers/agentclient"
)

// TestRaises: an agent that refuses is asked again later, and nothing is kept of those that are gone.
func TestRaises(t *testing.T) {
	var r raises
	a, b := agentclient.Target{Address: "a"}, agentclient.Target{Address: "b"}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if r.wait(a, now) != 0 {
		t.Error("it has refused nothing yet")
	}
	refused := errors.New("no")
	r.note(a, now, refused)
	if got := r.wait(a, now.Add(10*time.Second)); got != limitRetry-10*time.Second {
		t.Errorf("wait %s", got)
	}
	if r.wait(b, now) != 0 || r.wait(a, now.Add(limitRetry)) != 0 {
		t.Error("it waits for another one, or for too long")
	}
	r.note(b, now.Add(limitRetry), refused)
	if len(r.failed) != 1 {
		t.Errorf("%v", r.failed)
	}
	r.note(b, now.Add(limitRetry), nil)
	if len(r.failed) != 0 {
		t.Errorf("%v", r.failed)
	}
}
