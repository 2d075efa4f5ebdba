// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestMinute breaks a queue of three and, beside it, a channel between two queues, for a minute, each way at least once. That is what runs with
// all other tests, on a machine that may do other things meanwhile: nothing is judged by how much was put, or how soon.
func TestMinute(t *testing.T) {
	t.Run("three members", func(t *testing.T) {
		t.Parallel()
		q := newQueue(t, 3)
		l := beginAt(slow, q, q)
		l.consume()
		l.breaks([]fault{
			{name: "leader killed", breaks: killLeader}, {name: "leader cut off", breaks: partLeader, deposes: true}, {name: "followers killed", breaks: killFollowers}, {name: "restarted one by one", breaks: roll},
		}, time.Minute)
	})
	t.Run("channel", func(t *testing.T) {
		t.Parallel()
		breakChannel(t, slow, 1, (*pair).kills, time.Minute)
	})
}

// killFollowers takes the majority from a leader.
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
