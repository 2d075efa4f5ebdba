// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentpoll

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/lighterage/lighterage/controllers/agentclient"
)

// Target is an agent.
type Target struct {
	// Pod tells agents apart that have the same address one after the other.
	Pod types.UID
	agentclient.Target
}

// Observation is what is known of an agent.
type Observation[R any] struct {
	// Asked is false until the first question was answered, or was not.
	Asked bool
	// Report is the last answer, which nobody may change; the zero value before there is one. Age is how long ago the
	// question was asked.
	Report R
	Age    time.Duration
	// Err is why the last question was in vain; nil if it was not. Silent: questions have been in vain for Grace or
	// longer.
	Err    error
	Silent bool
}

// Observed is what is known of an object's agents.
type Observed[R any] struct {
	// Agents are in the order in which they were named.
	Agents []Observation[R]
	// Due: it is the object's turn to show progress, until Shown is called.
	Due bool
}

// Poller gives reconcilers of one kind what agents said last. No method waits for an agent. It is safe for concurrent
// use.
type Poller[R any] interface {
	// Observe has the object's agents asked from now on, and no others, and returns what is known of them.
	Observe(object types.NamespacedName, agents ...Target) Observed[R]
	// Shown says that the object's status shows what Observe returned last.
	Shown(object types.NamespacedName)
	// Configure has the object's agents given a configuration by Question.Configure that lack it, as soon as they
	// answer, until another one is named. Those that are known to answer are asked now.
	Configure(object types.NamespacedName, config Configuration)
	// Refresh has the object's agents asked now. Its reconciler is woken when all have answered, or have not.
	Refresh(object types.NamespacedName)
	// Forget has no agents of the object asked any more.
	Forget(object types.NamespacedName)
	// Source wakes reconcilers. It is for one controller.
	Source() source.Source
}

// Configuration of agents. Of two, the one of the higher generation is newer; that of generation 0 is not sent.
type Configuration interface {
	proto.Message
	GetGeneration() uint64
}

// Question is what is asked.
type Question[R any] struct {
	// Name of it in metrics.
	Name  string
	Class Class
	// Ask must return within seconds.
	Ask func(ctx context.Context, target agentclient.Target) (R, error)
	// News reports whether an answer may change a phase or a condition that followed from the one before. It is pure.
	News func(before, after R) bool
	// Lacks reports whether an agent that gave this answer is to be given the configuration of a generation. It is
	// pure. Configure gives it, within seconds. nil: agents are never given any.
	Lacks     func(answer R, generation uint64) bool
	Configure func(ctx context.Context, target agentclient.Target, config Configuration) error
}

// NewPoller returns a Poller that asks a question in a pool.
func NewPoller[R any](pool *Pool, q Question[R]) Poller[R] {
	k := &kind{
		pool: pool, name: q.Name, class: q.Class, objects: map[types.NamespacedName]*object{},
		ask: func(ctx context.Context, target agentclient.Target, config Configuration) (any, bool, error) {
			answer, err := q.Ask(ctx, target)
			if err != nil || config == nil || !q.Lacks(answer, config.GetGeneration()) {
				return answer, false, err
			}
			// An agent that does not take it says so in what it answers now, or gets it by the kubelet.
			given := q.Configure(ctx, target, config)
			pool.metrics.countGiven(q.Name, given)
			answer, err = q.Ask(ctx, target)
			unfit := errors.Is(given, agentclient.ErrRejected) || errors.Is(given, agentclient.ErrIncompatible)
			return answer, unfit, err
		},
		lacks: func(answer any, generation uint64) bool {
			said, ok := answer.(R)
			return ok && q.Lacks(said, generation)
		},
		news: func(before, after any) bool {
			was, _ := before.(R)
			is, _ := after.(R)
			return q.News(was, is)
		},
	}
	pool.mu.Lock()
	defer pool.mu.Unlock()
	pool.kinds = append(pool.kinds, k)
	return &poller[R]{kind: k}
}

type poller[R any] struct{ kind *kind }

func (p *poller[R]) Observe(name types.NamespacedName, targets ...Target) Observed[R] {
	pool := p.kind.pool
	pool.mu.Lock()
	defer pool.mu.Unlock()
	now := time.Now()
	o := p.kind.observe(name, targets, now)
	if o == nil {
		return Observed[R]{}
	}
	observed := Observed[R]{Due: o.due}
	for _, target := range targets {
		a := o.agents[target]
		report, _ := a.report.(R)
		observed.Agents = append(
			observed.Agents, Observation[R]{Asked: a.asked, Report: report, Age: now.Sub(a.heard), Err: a.err, Silent: a.silent},
		)
	}
	return observed
}

func (p *poller[R]) Shown(name types.NamespacedName) { p.kind.with(name, (*object).shown) }

func (p *poller[R]) Configure(name types.NamespacedName, config Configuration) {
	p.kind.with(name, func(o *object, now time.Time) { o.configure(config, now) })
}

func (p *poller[R]) Refresh(name types.NamespacedName) {
	p.kind.with(name, func(o *object, now time.Time) { o.takeTurn(now, 0) })
}

func (p *poller[R]) Forget(name types.NamespacedName) { p.Observe(name) }

func (p *poller[R]) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		p.kind.pool.mu.Lock()
		defer p.kind.pool.mu.Unlock()
		p.kind.queue = queue
		return nil
	})
}
