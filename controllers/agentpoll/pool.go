// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentpoll

import (
	"container/heap"
	"container/list"
	"context"
	"hash/fnv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Pool asks the agents of all kinds. It runs in the manager that leads.
type Pool struct {
	metrics *collectors
	// changed is for the loop to look again.
	changed chan struct{}
	asking  sync.WaitGroup

	mu sync.Mutex
	// queues have the agents that are not being asked, the one to be asked next first; underWay counts the others.
	queues   [laneCount]agentHeap
	underWay [laneCount]int
	agents   [classCount]int
	kinds    []*kind
	// lines have the objects that wait for a turn, the one with the oldest progress first.
	lines [classCount]*list.List
	// patient counts the questions under way that wait for a run's end.
	patient int
	// nextTurn is when the next turn may be had by anybody, nextRunTurn by a run; nextFirst is for first questions,
	// nextPatient for those that wait.
	nextTurn, nextRunTurn, nextFirst, nextPatient time.Time
}

// agent is one that is asked.
type agent struct {
	object *object
	target Target
	// next is when to ask it; index is its place in the queue, -1 while it is in none.
	next   time.Time
	index  int
	asking bool
	gone   bool
	asked  bool
	// since is when it was first to be asked. hasty: it answers at once, whatever patience there is.
	since    time.Time
	hasty    bool
	turn     bool
	report   any
	heard    time.Time
	err      error
	failures int
	// vain is when the first of the questions was asked that were in vain since.
	vain   time.Time
	silent bool
	// unfit is the generation of a configuration that it did not take and is not given again; 0: there is none.
	unfit uint64
}

// New returns a Pool that asks when it is started. It registers its metrics.
func New(registry prometheus.Registerer) *Pool {
	p := &Pool{changed: make(chan struct{}, 1)}
	for class := range p.lines {
		p.lines[class] = list.New()
	}
	p.metrics = newCollectors(registry, p)
	return p
}

// NeedLeaderElection is of manager.LeaderElectionRunnable.
func (p *Pool) NeedLeaderElection() bool { return true }

// Start is of manager.Runnable: it asks until the context ends, and then waits for questions that are under way.
func (p *Pool) Start(ctx context.Context) error {
	defer p.asking.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-p.changed:
		}
		timer.Reset(p.step(ctx, time.Now()))
	}
}

// step does what is due, and returns for how long nothing else is.
func (p *Pool) step(ctx context.Context, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.giveTurns(now)
	for l := range p.queues {
		queue := &p.queues[l]
		for queue.Len() > 0 && p.underWay[l] < atOnce[l] {
			first := (*queue)[0]
			if first.next.After(now) {
				next = earlier(next, first.next)
				break
			}
			p.start(ctx, first)
		}
	}
	if next.IsZero() {
		return time.Hour // until something changes
	}
	return next.Sub(now)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// giveTurns gives turns to those whose progress is oldest, and returns when the next one may be given; zero for never.
// Runs go first, and leave something.
func (p *Pool) giveTurns(now time.Time) time.Time {
	var next time.Time
	for class, line := range p.lines {
		for line.Len() > 0 {
			first, _ := line.Front().Value.(*object)
			at := later(first.since.Add(turnLeast[class]), p.nextTurn)
			if Class(class) == Runs {
				at = later(at, p.nextRunTurn)
			}
			if at.After(now) {
				next = earlier(next, at)
				break
			}
			if !first.speaks() {
				first.shown(now)
				continue
			}
			p.nextTurn = now.Add(time.Second / turnsPerSecond)
			if Class(class) == Runs {
				// They catch up on what others delayed.
				const step = time.Second / runTurnsPerSecond
				p.nextRunTurn = later(p.nextRunTurn, now.Add(-step)).Add(step)
			}
			first.takeTurn(now, pollLeast[class])
		}
	}
	return next
}

func (p *Pool) start(ctx context.Context, a *agent) {
	l, k := a.lane(), a.object.kind
	heap.Remove(&p.queues[l], a.index)
	p.underWay[l]++
	a.asking = true
	before, target, config := a.report, a.target.Target, a.object.config
	if config != nil && config.GetGeneration() == a.unfit {
		config = nil
	}
	target.Soon = p.interval(k.class) <= soon
	if a.young(time.Now()) && p.patient < mostPatient {
		target.Patience = patience
		p.patient++
	}
	p.asking.Go(func() {
		asked := time.Now()
		report, unfit, err := k.ask(ctx, target, config)
		if ctx.Err() != nil {
			return
		}
		news := err == nil && before != nil && k.news(before, report)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.underWay[l]--
		a.asking = false
		if target.Patience > 0 {
			p.patient--
			a.hasty = err == nil && time.Since(asked) < target.Patience*9/10
		}
		if unfit {
			a.unfit = config.GetGeneration()
		}
		p.look()
		p.metrics.count(k.name, err)
		if a.gone {
			return
		}
		now := time.Now()
		switch {
		case err == nil && target.Patience > 0: // It was made after it was asked for.
			a.answered(report, now, now, news)
		case err == nil:
			a.answered(report, asked, now, news)
		default:
			a.failed(err, asked, now)
		}
		heap.Push(&p.queues[a.lane()], a)
		a.turn = false
		a.object.settle()
	})
}

// young reports whether the next question to an agent is to wait for its end: the shorter a run is, the more it matters
// to learn of that at once.
func (a *agent) young(now time.Time) bool {
	return a.object.kind.class == Runs && a.report != nil && !a.hasty && a.failures == 0 && now.Sub(a.since) < youth
}

func (a *agent) lane() lane {
	if a.failures > 0 {
		return failing
	}
	return answering
}

func (a *agent) answered(report any, asked, now time.Time, news bool) {
	first := a.report == nil
	pause := a.object.kind.pool.interval(a.object.kind.class)
	if first {
		// Those that came at once do not come at once again.
		pause = time.Duration(float64(pause) * a.fraction())
	}
	again := a.silent
	a.report, a.heard, a.asked, a.next = report, asked, true, now.Add(pause)
	a.failures, a.vain, a.err, a.silent = 0, time.Time{}, nil, false
	pool := a.object.kind.pool
	// A manager that starts has many that seem young.
	if next := later(now, pool.nextPatient); a.young(next) && pool.patient < mostPatient && next.Before(a.next) {
		a.next, pool.nextPatient = next, next.Add(patientSpacing)
	}
	switch {
	case again && a.object.place != nil && a.object.spend(now):
		// What was shown meanwhile is that it is silent.
		a.object.takeTurn(now, pollLeast[a.object.kind.class])
	case first || again || news:
		a.object.tell(now)
	}
}

func (a *agent) failed(err error, asked, now time.Time) {
	if a.failures == 0 {
		a.vain = asked
	}
	first, was := !a.asked, a.silent
	a.err, a.asked, a.silent = err, true, now.Sub(a.vain) >= Grace
	pause := min(retryFirst<<min(a.failures, 16), max(retryLast, a.object.kind.pool.interval(a.object.kind.class)))
	a.failures++
	a.next = now.Add(pause)
	if first || a.silent && !was {
		a.object.tell(now)
	}
}

// fraction of an interval, at least a tenth, that is the agent's own.
func (a *agent) fraction() float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(a.target.Pod))
	return 0.1 + 0.9*float64(h.Sum32())/(1<<32)
}

// interval is the time between two questions to an agent of a class that answers.
func (p *Pool) interval(class Class) time.Duration {
	return max(pollLeast[class], time.Duration(p.agents[class])*time.Second/time.Duration(questionsPerSecond[class]))
}

func (p *Pool) add(o *object, target Target, now time.Time) *agent {
	a := &agent{object: o, target: target, next: later(now, p.nextFirst), since: now}
	p.nextFirst = a.next.Add(firstSpacing)
	p.agents[o.kind.class]++
	heap.Push(&p.queues[answering], a)
	p.look()
	return a
}

func (p *Pool) drop(a *agent) {
	a.gone = true
	p.agents[a.object.kind.class]--
	if !a.asking {
		heap.Remove(&p.queues[a.lane()], a.index)
	}
}

// hurry has an agent asked now.
func (p *Pool) hurry(a *agent, now time.Time) {
	if !a.asking {
		a.next = now
		heap.Fix(&p.queues[a.lane()], a.index)
		p.look()
	}
}

// look has the loop look again.
func (p *Pool) look() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// agentHeap is of container/heap.
type agentHeap []*agent

func (h agentHeap) Len() int           { return len(h) }
func (h agentHeap) Less(i, j int) bool { return h[i].next.Before(h[j].next) }
func (h agentHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is of heap.Interface.
func (h *agentHeap) Push(x any) {
	a, _ := x.(*agent)
	a.index = len(*h)
	*h = append(*h, a)
}

// Pop is of heap.Interface.
func (h *agentHeap) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return a
}
