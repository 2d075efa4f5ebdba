// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/classes"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func members(n int) *wirev1.QueueConfig {
	c := &wirev1.QueueConfig{RouteAddress: ":6222"}
	for range n {
		c.Members = append(c.Members, &wirev1.QueueMember{RouteAddress: "orders.example:6223"})
	}
	return c
}

func TestWay(t *testing.T) {
	external := &wirev1.QueueConfig{
		Members: members(1).GetMembers(), External: &wirev1.QueueExternal{Servers: []string{"nats://a:4333", "nats://b"}},
	}
	for name, c := range map[string]struct {
		config *wirev1.QueueConfig
		stored float64
		want   adapt.Way
	}{
		"one member": {members(1), 0, adapt.Way{Rest: 1, Inflate: 2, Local: true, Stored: true, Unpriced: true}},
		"one member, readers take what is stored": {
			members(1), 1, adapt.Way{Sends: 1, Rest: 1, Local: true, Stored: true, Unpriced: true},
		},
		"three members":    {members(3), 0, adapt.Way{Sends: 4, Rest: 1, Inflate: 2, Stored: true, Unpriced: true}},
		"external servers": {external, 0, adapt.Way{Sends: 1, Rest: 1, Inflate: 2, Unpriced: true}},
	} {
		if got := way(c.config, 1, 2, c.stored); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if reaches(members(1)) != nil {
		t.Error("one member reaches others")
	}
	match := reaches(members(3))
	for _, ports := range [][2]int{{6222, 50000}, {50000, 6223}} {
		if !match(ports[0], ports[1]) {
			t.Errorf("%v is no route", ports)
		}
	}
	if match(4222, 50000) {
		t.Error("a client is taken for a member")
	}
	if match := reaches(external); !match(50000, 4333) || !match(50000, 4222) || match(4222, 50000) {
		t.Error("external servers")
	}
}

// TestChannelsMeasure: a byte is sent here, and received and written at the other end. Within the cluster it costs only
// CPU time.
func TestChannelsMeasure(t *testing.T) {
	const send, write, inflate = 1, 0.25, 3
	to := func(own bool) *sending { return &sending{classes: classes.New("orders", true, nil), own: own} }
	toPeer, toOwn := to(false), to(true)
	x := &channels{sending: []*sending{toPeer, toOwn}}
	x.measure(1000, send, write, inflate)
	for name, c := range map[string]struct {
		of           *sending
		objective    policy.Objective
		asIs, packed float64
	}{
		"CPU":                     {toPeer, policy.CPU, 2.25, 5 + 3 + 2.25/2},
		"CPU within the cluster":  {toOwn, policy.CPU, 2.25, 5 + 3 + 2.25/2},
		"Cost":                    {toPeer, policy.Cost, 2.25 + 100, 5 + 3 + 2.25/2 + 50},
		"Cost within the cluster": {toOwn, policy.Cost, 2.25, 5 + 3 + 2.25/2},
	} {
		// A second costs 1, and a byte 100.
		prices := policy.Prices{CPUHour: 3600, NetworkGiB: 100 << 30}
		c.of.classes.Classes.Set(policy.Serving{Objective: c.objective, Prices: prices}, false)
		asIs := c.of.classes.Value(policy.Spent{Plain: 1, Wire: 1})
		packed := c.of.classes.Value(
			policy.Spent{Plain: 1, Wire: 0.5, CPU: 5, Inflate: c.of.classes.Inflate(policy.Option{})},
		)
		if asIs != c.asIs || packed != c.packed {
			t.Errorf("%s: %g as it is and %g compressed, want %g and %g", name, asIs, packed, c.asIs, c.packed)
		}
	}
}

// TestCrowded: it changes neither by little, nor back by little.
func TestCrowded(t *testing.T) {
	now := false
	for _, step := range []struct {
		share float64
		want  bool
	}{{0, false}, {0.5, false}, {0.51, true}, {0.45, true}, {0.39, false}, {0.45, false}} {
		if now = crowded(now, step.share); now != step.want {
			t.Errorf("at %g: %t", step.share, now)
		}
	}
}

func TestReaders(t *testing.T) {
	none := meter.Snapshot{}
	if storedShare(none, 0) != 0 || inflating(none) != usualInflate || average(none) != 0 {
		t.Error("of nothing")
	}
	s := meter.Snapshot{Software: meter.Count{Operations: 30, Bytes: 10 << 20}, CPU: 10 * time.Millisecond}
	if got := storedShare(s, 10); got != 0.25 {
		t.Errorf("%g are taken as they are stored", got)
	}
	if got, want := inflating(s), 0.01/(10<<20); got != want {
		t.Errorf("%g s for a byte, want %g", got, want)
	}
}

// TestRate: what more bytes take is told from what a sync takes; a volume that takes none says nothing.
func TestRate(t *testing.T) {
	v := newVolumeSyncs(t.TempDir())
	now := time.Time{}
	took := []time.Duration{0, 7 * time.Millisecond, 0, 7*time.Millisecond + rateBytes*10*time.Nanosecond}
	v.now = func() time.Time {
		now = now.Add(took[0])
		took = took[1:]
		return now
	}
	byte, cpu, ok := v.rate()
	if !ok || byte < 9.99e-9 || byte > 10.01e-9 || cpu < 0 || cpu > 1e-6 {
		t.Errorf("%g s and %g CPU seconds for a byte, %t", byte, cpu, ok)
	}
	if info, err := os.Stat(filepath.Join(filepath.Dir(v.path), rateName)); err != nil || info.Size() != rateBytes {
		t.Errorf("the probe's file: %v, %v", info, err)
	}
	missing := newVolumeSyncs(filepath.Join(t.TempDir(), "missing"))
	if _, _, ok := missing.rate(); ok {
		t.Error("of a directory that is not there")
	}
	if _, _, ok := (*volumeSyncs)(nil).rate(); ok {
		t.Error("of no volume")
	}
}
