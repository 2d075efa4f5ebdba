// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentpoll

import (
	"container/list"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lighterage/lighterage/controllers/agentclient"
)

// kind is a Poller without its type. What it has is guarded by the pool's mutex.
type kind struct {
	pool  *Pool
	name  string
	class Class
	// ask says as well whether the agent cannot take the configuration.
	ask     func(context.Context, agentclient.Target, Configuration) (answer any, unfit bool, err error)
	lacks   func(answer any, generation uint64) bool
	news    func(before, after any) bool
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	objects map[types.NamespacedName]*object
}

// object is one whose agents are asked.
type object struct {
	kind   *kind
	name   types.NamespacedName
	agents map[Target]*agent
	// since is when its progress was shown, or is as old as if it had been. place is where it stands in line for the
	// next turn; nil while it has a turn, from when its agents are asked until its progress is shown.
	since time.Time
	place *list.Element
	// due: its agents have been asked for the turn.
	due bool
	// credit of wakes for news, as of a time. owed: there was news and no credit, which the next turn makes up for.
	credit   float64
	credited time.Time
	owed     bool
	// config is what agents are to be given that lack it; nil: none does.
	config Configuration
}

// with calls do for an object that is known.
func (k *kind) with(name types.NamespacedName, do func(*object, time.Time)) {
	k.pool.mu.Lock()
	defer k.pool.mu.Unlock()
	if o := k.objects[name]; o != nil {
		do(o, time.Now())
	}
}

// observe returns the object with exactly these agents; nil when there are none.
func (k *kind) observe(name types.NamespacedName, targets []Target, now time.Time) *object {
	o := k.objects[name]
	if o == nil && len(targets) == 0 {
		return nil
	}
	if o == nil {
		o = &object{kind: k, name: name, agents: map[Target]*agent{}, since: now, credit: newsCredit, credited: now}
		k.objects[name] = o
		o.queueUp()
	}
	named := make(map[Target]bool, len(targets))
	for _, target := range targets {
		named[target] = true
		if o.agents[target] == nil {
			o.agents[target] = k.pool.add(o, target, now)
		}
	}
	for target, a := range o.agents {
		if !named[target] {
			delete(o.agents, target)
			k.pool.drop(a)
		}
	}
	if len(o.agents) == 0 {
		o.leaveLine()
		delete(k.objects, name)
		return nil
	}
	o.settle()
	return o
}

func (o *object) wake() {
	if o.kind.queue != nil {
		o.kind.queue.Add(reconcile.Request{NamespacedName: o.name})
	}
}

// tell wakes for news, or has the next turn do so when there was too much of it.
func (o *object) tell(now time.Time) {
	if o.spend(now) {
		o.wake()
	} else {
		o.owed = true
	}
}

// spend takes credit, and reports whether there was any.
func (o *object) spend(now time.Time) bool {
	o.credit = min(newsCredit, o.credit+float64(now.Sub(o.credited))/float64(o.turnInterval()))
	o.credited = now
	if o.credit < 1 && turnLeast[o.kind.class] > 0 {
		return false
	}
	o.credit--
	return true
}

// turnInterval is the time between two turns.
func (o *object) turnInterval() time.Duration {
	class := o.kind.class
	if turnLeast[class] == 0 {
		return pollLeast[class]
	}
	return max(turnLeast[class], time.Duration(o.kind.pool.lines[class].Len())*time.Second/runTurnsPerSecond)
}

func (o *object) queueUp() {
	if turnLeast[o.kind.class] > 0 {
		o.place = o.kind.pool.lines[o.kind.class].PushBack(o)
	}
}

func (o *object) leaveLine() {
	if o.place != nil {
		o.kind.pool.lines[o.kind.class].Remove(o.place)
		o.place = nil
	}
}

// shown ends the turn, if it has one, and goes to the end of the line.
func (o *object) shown(now time.Time) {
	o.leaveLine()
	o.since, o.due, o.owed = now, false, false
	for _, a := range o.agents {
		a.turn = false
	}
	o.queueUp()
}

// speaks reports whether there is anything that a turn could show.
func (o *object) speaks() bool {
	if o.owed {
		return true
	}
	for _, a := range o.agents {
		if a.lane() == answering && !a.heard.IsZero() {
			return true
		}
	}
	return false
}

// takeTurn has its agents asked that have said nothing for longer than fresh.
func (o *object) takeTurn(now time.Time, fresh time.Duration) {
	o.leaveLine()
	o.due = false
	for _, a := range o.agents {
		if a.asking || now.Sub(a.heard) > fresh && (a.lane() == answering || fresh == 0) {
			a.turn = true
			o.kind.pool.hurry(a, now)
		}
	}
	o.settle()
}

// settle wakes the reconciler for a turn when all agents that were asked for it have answered, or have not.
func (o *object) settle() {
	if o.place != nil || o.due || turnLeast[o.kind.class] == 0 {
		return
	}
	for _, a := range o.agents {
		if a.turn {
			return
		}
	}
	o.due = true
	o.wake()
}

// configure has agents given a configuration that lack it. One that did not answer yet may. It is not kept when nobody
// lacks it, since there may be thousands of objects.
func (o *object) configure(config Configuration, now time.Time) {
	generation := config.GetGeneration()
	fresh := o.config == nil || o.config.GetGeneration() != generation
	o.config = nil
	if generation == 0 {
		return
	}
	for _, a := range o.agents {
		switch lacks := o.kind.lacks(a.report, generation); {
		case lacks && fresh && a.lane() == answering:
			o.kind.pool.hurry(a, now)
			o.config = config
		case lacks || a.report == nil:
			o.config = config
		}
	}
}
