// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func newLane(path Path) *lane { return &lane{path: path, random: rand.New(rand.NewPCG(1, 1))} }

// Packets that arrive all at once leave at the speed of the link, until its queue is full.
func TestPass(t *testing.T) {
	l, now := newLane(Path{Mbits: 12, RTT: 100 * time.Millisecond}), time.Unix(0, 0)
	var last time.Time
	carried := 0
	for range 1000 {
		due, arrives := l.pass(now, mtu)
		if !arrives {
			break
		}
		carried++
		if gap := due.Sub(last); carried > 1 && gap != time.Millisecond {
			t.Fatalf("packet %d comes after %s", carried, gap)
		}
		last = due
	}
	// One millisecond for each packet of 1,500 bytes: those of 100 ms are in the queue, and one is being sent.
	if carried != 101 || last.Sub(now) != 151*time.Millisecond {
		t.Errorf("%d packets, the last after %s", carried, last.Sub(now))
	}
	if due, arrives := l.pass(now.Add(time.Second), mtu); !arrives || due.Sub(now) != 1051*time.Millisecond {
		t.Errorf("after a pause: %s %v", due.Sub(now), arrives)
	}
}

func TestLoss(t *testing.T) {
	l := newLane(Path{Mbits: 1000, RTT: time.Millisecond, Loss: 0.01})
	const packets = 100_000
	now := time.Unix(0, 0)
	for range packets {
		l.pass(now, 100)
		now = now.Add(time.Millisecond)
	}
	// Six standard deviations.
	if lost := float64(l.lost.Load()); math.Abs(lost-1000) > 6*math.Sqrt(990) || l.dropped.Load() > 0 {
		t.Errorf("%.0f lost, %d dropped", lost, l.dropped.Load())
	}
}
