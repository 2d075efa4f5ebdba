// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentpoll_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentpoll"
)

// patients are agents that end at a time, or are of an earlier release and do not wait for that.
type patients struct {
	agentpoll.Poller[*answer]
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	ends  time.Time
	early bool

	mu sync.Mutex
	// asked counts questions, waiting those that an agent waits with now, most the most of these.
	asked, waiting, most int
}

func (p *patients) answer(_ context.Context, target agentclient.Target) (*answer, error) {
	p.mu.Lock()
	p.asked++
	patience := target.Patience
	if p.early {
		patience = 0
	}
	if patience > 0 {
		p.waiting++
		p.most = max(p.most, p.waiting)
	}
	p.mu.Unlock()
	time.Sleep(time.Millisecond)
	if patience > 0 {
		time.Sleep(max(min(patience, time.Until(p.ends)), 0))
		p.mu.Lock()
		p.waiting--
		p.mu.Unlock()
	}
	if !time.Now().Before(p.ends) {
		return &answer{state: 1}, nil
	}
	return &answer{}, nil
}

// observe has n agents asked.
func (p *patients) observe(t *testing.T, class agentpoll.Class, n int) {
	pool := agentpoll.New(prometheus.NewRegistry())
	p.Poller = agentpoll.NewPoller(pool, agentpoll.Question[*answer]{
		Name: "test", Class: class, Ask: p.answer,
		News: func(before, after *answer) bool { return before.state != after.state },
	})
	p.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	if err := p.Source().Start(t.Context(), p.queue); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- pool.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		p.queue.ShutDown()
	})
	for i := range n {
		name := fmt.Sprint(i)
		p.Observe(types.NamespacedName{Namespace: "bank", Name: name},
			agentpoll.Target{Pod: types.UID(name), Target: agentclient.Target{Address: name}})
	}
}

// TestShortRun: its reconciler is woken when its agent ends, and not when it would be asked the next time.
func TestShortRun(t *testing.T) {
	for _, lasts := range []time.Duration{50 * time.Millisecond, 1500 * time.Millisecond, 7 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			p := &patients{ends: time.Now().Add(lasts)}
			p.observe(t, agentpoll.Runs, 1)
			for { // for the first answer, for turns, and for the news
				request, over := p.queue.Get()
				if over {
					t.Fatal("nobody says that it has ended")
				}
				seen := p.Observe(request.NamespacedName, agentpoll.Target{
					Pod: "0", Target: agentclient.Target{Address: "0"},
				})
				p.Shown(request.NamespacedName)
				p.queue.Done(request)
				if seen.Agents[0].Report.state == 1 {
					if late := time.Since(p.ends); late > 10*time.Millisecond {
						t.Errorf("a run of %s is known to have ended %s later", lasts, late)
					}
					if seen.Agents[0].Age > 0 {
						t.Errorf("what it answered at its end is taken to be %s old", seen.Agents[0].Age)
					}
					return
				}
			}
		})
	}
}

// TestPatience: agents are asked to wait while they are young, not too many of them at once, and those that do not wait
// are not asked more often for that.
func TestPatience(t *testing.T) {
	for name, test := range map[string]struct {
		class     agentpoll.Class
		early     bool
		agents    int
		questions int
		most      int
	}{
		"one":            {agentpoll.Runs, false, 1, 6 + 25, 1},
		"of before":      {agentpoll.Runs, true, 1, 2 + 30, 0},
		"many":           {agentpoll.Runs, false, 300, 32*5 + 300*2 + 60*50, 32},
		"one that stays": {agentpoll.Serving, false, 1, 2 + 20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &patients{ends: time.Now().Add(time.Hour), early: test.early}
				p.observe(t, test.class, test.agents)
				time.Sleep(time.Minute)
				p.mu.Lock()
				defer p.mu.Unlock()
				if p.most != test.most || p.asked > test.questions {
					t.Errorf("%d questions, up to %d of which waited at once; want at most %d, and %d", p.asked, p.most,
						test.questions, test.most)
				}
			})
		})
	}
}
