// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package share

import (
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/policy"
)

// TestQuiet: agents with a lease leave the accelerator alone when the node agent expects it, and nothing is counted.
func TestQuiet(t *testing.T) {
	now := time.Unix(1e9, 0).Add(123 * time.Millisecond)
	for range 5 {
		begins := nextQuiet(now)
		if !begins.After(now) || begins.Sub(now) > quietEvery || isQuiet(begins.Add(-1)) || !isQuiet(begins) ||
			!isQuiet(begins.Add(quiet-1)) || isQuiet(begins.Add(quiet)) {
			t.Errorf("after %v quiet begins at %v", now, begins)
		}
		now = begins
	}
	a := NewAccount(func() time.Duration { return 0 }, func() time.Time { return now })
	if reason := a.Enter(false); reason != "" {
		t.Errorf("an agent without a lease: %s", reason)
	}
	a.grant(1e9, false)
	if reason := a.Enter(false); reason != policy.AcceleratorShare || a.drawn().Refused != 0 {
		t.Errorf("%q, refused %d", reason, a.drawn().Refused)
	}
	waited := time.Duration(0)
	a.sleep = func(d time.Duration) { now = now.Add(d); waited += d }
	if reason := a.Enter(true); reason != "" || waited != quiet {
		t.Errorf("a patient one: %q after %v", reason, waited)
	}
}

// TestDebt: a smaller share forgives nothing.
func TestDebt(t *testing.T) {
	now, spent := time.Unix(1e9, 0), time.Duration(0)
	a := NewAccount(func() time.Duration { return spent }, func() time.Time { return now })
	a.grant(1e8, false)
	spent = 500 * time.Millisecond
	a.grant(0, false)
	a.grant(1e8, false)
	now = now.Add(time.Second)
	if reason := a.Enter(false); reason == "" {
		t.Error("a debt of 5 seconds is paid after one")
	}
}

// TestFallingCapacity: when there is less to share, all have less, whoever draws first.
func TestFallingCapacity(t *testing.T) {
	m := newModel(t)
	for range 3 {
		m.agent(2)
	}
	m.run(5 * time.Second)
	for _, d := range m.broker.agents {
		d.wants = 1e9
	}
	m.broker.probes.scale = 0.5
	for who, d := range m.broker.agents {
		d.drew = m.now.Add(-interval)
		said := d.said
		said.Refused++
		if rate, _, _, err := m.broker.draw(who, said); err != nil || rate < 0.149e9 || rate > 0.151e9 {
			t.Errorf("a rate of %v of 0.45e9 for three, %v", rate, err)
		}
	}
}
