// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package share

import (
	"container/heap"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec/servicetime"
	"github.com/lighterage/lighterage/agent/transport"
)

// accelerator is one that serves calls one at a time, in the order in which they come, by a clock of events.
type accelerator struct {
	now    time.Time
	free   time.Time // when it has served all calls that came
	events events
}

type event struct {
	at   time.Time
	turn int
	do   func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].turn < e[j].turn
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

var turns int

func (a *accelerator) after(d time.Duration, do func()) {
	turns++
	heap.Push(&a.events, event{a.now.Add(d), turns, do})
}

// call has a call served that takes so long when nothing is in its way, and returns how long it takes.
func (a *accelerator) call(takes time.Duration) time.Duration {
	if a.free.Before(a.now) {
		a.free = a.now
	}
	a.free = a.free.Add(takes)
	return a.free.Sub(a.now)
}

func (a *accelerator) run(d time.Duration) {
	for end := a.now.Add(d); len(a.events) > 0 && a.events[0].at.Before(end); {
		e := heap.Pop(&a.events).(event)
		a.now = e.at
		e.do()
	}
}

const (
	callTakes, otherWork, inSoftware = 150 * time.Microsecond, 30 * time.Microsecond, 8 * time.Millisecond
	probeTakes                       = 10 * time.Microsecond
)

// user is a process with threads that compress as much as they can.
type user struct {
	account *Account // nil: it is not an agent
	served  time.Duration
}

func (a *accelerator) use(threads int, account *Account, meter *servicetime.Meter) *user {
	u := &user{account: account}
	var work func()
	work = func() {
		if u.account != nil && u.account.Enter(false) != "" {
			a.after(inSoftware+otherWork, work)
			return
		}
		took := a.call(callTakes)
		u.served += callTakes
		a.after(took, func() {
			if meter != nil {
				meter.Add(servicetime.Deflate, 1<<20, took, a.now)
			}
			a.after(otherWork, work)
		})
	}
	for i := range threads {
		a.after(time.Duration(i)*10*time.Microsecond, work)
	}
	return u
}

// model is a node on which agents share an accelerator.
type model struct {
	*accelerator
	broker *Broker
	agents int
	// slow counts seconds in which the accelerator was held to be contended.
	slow int
}

func newModel(t *testing.T) *model {
	t.Helper()
	m := &model{accelerator: &accelerator{now: time.Unix(1e9, 0)}}
	var err error
	m.broker, err = NewBroker(BrokerOptions{ReservedPercent: 10, Now: func() time.Time { return m.now }})
	if err != nil {
		t.Fatal(err)
	}
	var probe func()
	probe = func() { // as Broker.Probe and Prober do by the machine's clock
		until, least := m.now.Add(quiet-settles), time.Duration(0)
		var try func(int)
		try = func(n int) {
			left := until.Sub(m.now)
			if n == 0 || left < probeTime {
				m.broker.probed(least)
				m.after(nextQuiet(m.now).Add(settles).Sub(m.now), probe)
				return
			}
			took := m.call(probeTakes)
			if clipped := min(took, left); least == 0 || clipped < least {
				least = clipped
			}
			m.after(took+probeGap, func() { try(n - 1) })
		}
		try(probeTries)
	}
	m.after(nextQuiet(m.now).Add(settles).Sub(m.now), probe)
	var look func()
	look = func() {
		if m.broker.Sharing().GetContended() {
			m.slow++
		}
		m.after(time.Second, look)
	}
	m.after(time.Second, look)
	return m
}

// agent adds one of a namespace of its own, which draws each second.
func (m *model) agent(threads int) *user {
	meter := &servicetime.Meter{}
	account := NewAccount(meter.Total, func() time.Time { return m.now })
	who := transport.ShareCaller{Namespace: fmt.Sprint("ns", m.agents), Kind: "transfer", Name: "t"}
	m.agents++
	var draw func()
	draw = func() {
		if rate, contended, _, err := m.broker.draw(who, account.drawn()); err == nil {
			account.grant(rate, contended)
		}
		m.after(interval, draw)
	}
	m.after(time.Duration(m.agents)*137*time.Millisecond, draw)
	return m.use(threads, account, meter)
}

// parts are what users have of the accelerator in a time, after a while.
func (m *model) parts(d time.Duration, users ...*user) []float64 {
	m.run(5 * time.Second)
	begun := make([]time.Duration, len(users))
	for i, u := range users {
		begun[i] = u.served
	}
	m.slow = 0
	m.run(d)
	parts := make([]float64, len(users))
	for i, u := range users {
		parts[i] = float64(u.served-begun[i]) / float64(d)
	}
	return parts
}

// TestThreads: an agent with many threads, whose calls wait for each other, has all of an accelerator that nobody else
// wants but what is reserved, and is not held to be others.
func TestThreads(t *testing.T) {
	for _, threads := range []int{1, 2, 4, 8, 16} {
		m := newModel(t)
		got := m.parts(30*time.Second, m.agent(threads))[0]
		if got < 0.8 || got > 0.91 || m.slow > 0 {
			t.Errorf("%d threads have %.2f of the accelerator, contended in %d seconds", threads, got, m.slow)
		}
	}
}

// TestUnequalThreads: agents of equal weight have equal parts of an accelerator, whatever their threads.
func TestUnequalThreads(t *testing.T) {
	for _, threads := range [][]int{{1, 8}, {4, 4}, {1, 16}, {2, 2, 2, 2}, {1, 4, 16}} {
		m := newModel(t)
		users := make([]*user, len(threads))
		for i, n := range threads {
			users[i] = m.agent(n)
		}
		got := m.parts(30*time.Second, users...)
		for _, part := range got {
			if want := 0.9 / float64(len(got)); math.Abs(part-want) > 0.1*want || m.slow > 0 {
				t.Errorf("%v threads have %.3f of the accelerator, contended in %d seconds", threads, got, m.slow)
				break
			}
		}
	}
}

// TestOthers: agents make way for those who are no agents and keep the accelerator busy, and use it again after that.
func TestOthers(t *testing.T) {
	m := newModel(t)
	agent := m.agent(8)
	m.run(5 * time.Second)
	other := m.use(8, nil, nil)
	if got := m.parts(60*time.Second, agent, other); m.slow < 50 || got[0] > 0.15 || got[1] < 0.8 {
		t.Errorf("%.2f of the accelerator beside others, contended in %d seconds", got, m.slow)
	}
	other.account = NewAccount(func() time.Duration { return 0 }, func() time.Time { return m.now })
	other.account.until, other.account.rate = m.now.Add(time.Hour), 0 // it stops
	m.run(20 * time.Second)
	if got := m.parts(20*time.Second, agent); m.slow > 0 || got[0] < 0.8 {
		t.Errorf("%.2f of the accelerator after others, contended in %d seconds", got, m.slow)
	}
}
