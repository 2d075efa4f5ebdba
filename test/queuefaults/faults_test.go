// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/test/queuefaults"
)

// belated is by how much later than that of the stream a leader of a consumer may hear that there is another.
const belated = 10 * time.Second

// fault is one way to break a queue. Break returns when all is whole again but for the time that members need.
type fault struct {
	name   string
	breaks func(ctx context.Context, q *queue, js jetstream.JetStream)
	// deposes: a leader does not know that others elect another.
	deposes bool
}

// some is a random duration.
func some(least, most time.Duration) time.Duration { return least + rand.N(most-least) }

func (q *queue) any() *member { return q.members[rand.IntN(len(q.members))] }

func killOne(_ context.Context, q *queue, _ jetstream.JetStream) { restart(q.any(), (*member).kill) }

func killLeader(ctx context.Context, q *queue, js jetstream.JetStream) {
	restart(q.leader(ctx, js), (*member).kill)
}

func restart(m *member, end func(*member)) {
	end(m)
	time.Sleep(some(0, 3*time.Second))
	m.start()
}

// killAll is a power cut of all nodes, but for what had not reached the disks.
func killAll(_ context.Context, q *queue, _ jetstream.JetStream) {
	for _, m := range q.members {
		m.kill()
	}
	for _, m := range q.members {
		m.start()
	}
}

// freezeLeader for longer than others wait for it, so that there are two for a moment.
func freezeLeader(ctx context.Context, q *queue, js jetstream.JetStream) {
	m := q.leader(ctx, js)
	m.signal(syscall.SIGSTOP)
	time.Sleep(some(time.Second, 12*time.Second))
	m.signal(syscall.SIGCONT)
}

// partLeader cuts the leader off from the others, but not from clients.
func partLeader(ctx context.Context, q *queue, js jetstream.JetStream) { q.part(q.leader(ctx, js)) }

func (q *queue) part(m *member) {
	var heals []func()
	for _, other := range q.members {
		if other != m {
			heals = append(heals, m.deafTo(other), other.deafTo(m))
		}
	}
	time.Sleep(some(2*time.Second, 12*time.Second))
	for _, heal := range heals {
		heal()
	}
}

// deafen: the leader is heard, and hears nobody.
func deafen(ctx context.Context, q *queue, js jetstream.JetStream) {
	m := q.leader(ctx, js)
	var heals []func()
	for _, other := range q.members {
		if other != m {
			heals = append(heals, m.deafTo(other))
		}
	}
	time.Sleep(some(2*time.Second, 12*time.Second))
	for _, heal := range heals {
		heal()
	}
}

func partAll(_ context.Context, q *queue, _ jetstream.JetStream) {
	var heals []func()
	for _, m := range q.members {
		for _, other := range q.members {
			if m != other {
				heals = append(heals, m.deafTo(other))
			}
		}
	}
	time.Sleep(some(2*time.Second, 8*time.Second))
	for _, heal := range heals {
		heal()
	}
}

func fillLeader(ctx context.Context, q *queue, js jetstream.JetStream) { fill(q.leader(ctx, js)) }

func fillOne(_ context.Context, q *queue, _ jetstream.JetStream) { fill(q.any()) }

func fill(m *member) {
	ctx, cancel := context.WithTimeout(context.Background(), some(time.Second, 4*time.Second))
	defer cancel()
	m.fill(ctx)
}

// loseVolume takes what a member has while the others have all, for one loss is what three members are for.
func loseVolume(ctx context.Context, q *queue, js jetstream.JetStream) {
	if err := q.awaitCurrent(ctx, js); err != nil {
		q.Error(err)
	}
	restart(q.any(), func(m *member) {
		m.kill()
		m.empty()
	})
}

// roll restarts one member after the other, as a StatefulSet does.
func roll(_ context.Context, q *queue, _ jetstream.JetStream) {
	for i := len(q.members) - 1; i >= 0; i-- {
		m := q.members[i]
		m.stop()
		m.start()
		if err := m.awaitReady(); err != nil {
			q.Error(err)
		}
	}
}

var (
	oneMember = []fault{
		{name: "kill -9", breaks: killOne}, {name: "volume full", breaks: fillOne},
		{name: "stopped for a while", breaks: freezeLeader}, {name: "restarted", breaks: roll},
	}
	threeMembers = []fault{
		{name: "leader killed", breaks: killLeader}, {name: "volume of the leader full", breaks: fillLeader},
		{name: "leader disconnected", breaks: partLeader, deposes: true},
		{name: "volume lost", breaks: loseVolume}, {name: "restarted one by one", breaks: roll},
		{name: "leader stopped for a while", breaks: freezeLeader, deposes: true},
		{name: "all killed", breaks: killAll}, {name: "member killed", breaks: killOne},
		{name: "volume of a member full", breaks: fillOne},
		{name: "all disconnected from each other", breaks: partAll, deposes: true},
		{name: "leader hears nobody", breaks: deafen, deposes: true},
	}
)

// TestOneMember breaks a queue of one member, each way at least once.
func TestOneMember(t *testing.T) {
	q := newQueue(t, 1)
	l := begin(q, q)
	l.consume()
	l.breaks(oneMember, duration(t, 15*time.Second))
}

// TestThreeMembers breaks a queue of three.
func TestThreeMembers(t *testing.T) {
	q := newQueue(t, 3)
	l := begin(q, q)
	l.consume()
	l.breaks(threeMembers, duration(t, 45*time.Second))
}

// breaks breaks the queue that messages are put into in one way after the other, each at least once, while clients put
// and get, and judges what they saw.
func (l *load) breaks(faults []fault, duration time.Duration) {
	l.Helper()
	if err := l.awaitDictionaries(1); err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(l.Context(), duration)
	defer cancel()
	begun := time.Now()
	broken := make(map[string]int)
	queues := []*queue{l.to}
	if l.from != l.to {
		queues = append(queues, l.from)
	}
	for i := 0; (ctx.Err() == nil || i < len(faults)) && !l.Failed(); i++ {
		f := faults[i%len(faults)]
		time.Sleep(some(500*time.Millisecond, time.Second))
		l.Logf("%6.1f s: %s", time.Since(begun).Seconds(), f.name)
		begin := time.Now()
		f.breaks(context.Background(), l.to, l.to.admin())
		healed := time.Now()
		for _, q := range queues {
			if err := q.awaitReady(); err != nil {
				l.Error(err)
			}
			if err := q.awaitCurrent(context.Background(), q.admin()); err != nil {
				l.Error(err)
			}
		}
		if l.from != l.to {
			if err := l.flows(); err != nil {
				l.Error(err)
			}
		}
		if f.deposes {
			l.deposed = append(l.deposed, queuefaults.Span{From: begin, To: time.Now().Add(belated)})
		}
		broken[f.name]++
		l.Logf(
			"         broken for %.1f s, whole after %.1f s more", healed.Sub(begin).Seconds(), time.Since(healed).Seconds(),
		)
	}
	l.Logf("%d members in %.0f s: %v", len(l.to.members), time.Since(begun).Seconds(), broken)
	l.Logf("%d dictionaries were put into use meanwhile", l.to.dictionaries())
	if err := l.awaitDictionaries(2); err != nil {
		l.Error(err)
	}
	l.judge()
}
