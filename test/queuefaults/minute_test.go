// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/test/queuefaults"
)

// TestMinute breaks a queue of three and, beside it, a channel between two queues, for a minute, each way at least
// once. That is what runs with all other tests, on a machine that may do other things meanwhile: nothing is judged by
// how much was put, or how soon. A member may stand still there for longer than others wait for it without any fault,
// so that a leader may be deposed at any time.
func TestMinute(t *testing.T) {
	t.Run("three members", func(t *testing.T) {
		t.Parallel()
		q := newQueue(t, 3)
		l := beginAt(slow, q, q)
		now := time.Now()
		l.deposed = []queuefaults.Span{{From: now, To: now.Add(24 * time.Hour)}}
		l.consume()
		l.breaks([]fault{
			{name: "leader killed", breaks: killLeader}, {name: "leader disconnected", breaks: partLeader, deposes: true},
			{name: "followers killed", breaks: killFollowers, deposes: true},
			{name: "restarted one by one", breaks: roll},
		}, time.Minute)
	})
	t.Run("channel", func(t *testing.T) {
		t.Parallel()
		breakChannel(t, slow, 1, (*pair).kills, time.Minute)
	})
}

// killFollowers takes the majority from a leader. When they come back they may find each other before it, and elect one
// of them.
func killFollowers(ctx context.Context, q *queue, js jetstream.JetStream) {
	leader := q.leader(ctx, js)
	var killed []*member
	for _, m := range q.members {
		if m != leader {
			m.kill()
			killed = append(killed, m)
		}
	}
	time.Sleep(some(0, 3*time.Second))
	for _, m := range killed {
		m.start()
	}
}
