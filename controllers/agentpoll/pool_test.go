// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentpoll_test

import (
	"context"
	"errors"
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

// timeout of a question to an agent that does not answer.
const timeout = 1500 * time.Millisecond

// answer of an agent: its state is news, how far it is is not.
type answer struct{ state, progress int }

// fleet are agents, by address, the reconciler that looks after them, and what both did. Each agent is an object's of
// its own, unless observe names several.
type fleet struct {
	*testing.T
	agentpoll.Poller[*answer]
	registry *prometheus.Registry
	stop     func()
	// write is called with what the reconciler sees.
	write func(name types.NamespacedName, seen agentpoll.Observed[*answer])

	mu      sync.Mutex
	objects map[types.NamespacedName][]agentpoll.Target
	silent  map[string]bool
	states  map[string]int
	// restless: each says something else each time.
	restless bool
	asked    map[string][]time.Time
	kept     map[string]bool
	looks    map[types.NamespacedName]int
	shown    map[types.NamespacedName]time.Time
	writes   []time.Time
	oldest   time.Duration
}

// start runs a pool with a reconciler that writes when it is due, until the test ends.
func start(t *testing.T, class agentpoll.Class) *fleet {
	f := &fleet{
		T: t, registry: prometheus.NewRegistry(), objects: map[types.NamespacedName][]agentpoll.Target{},
		silent: map[string]bool{},
		states: map[string]int{}, asked: map[string][]time.Time{}, kept: map[string]bool{},
		looks: map[types.NamespacedName]int{},
		shown: map[types.NamespacedName]time.Time{},
	}
	pool := agentpoll.New(f.registry)
	f.add(pool, class)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- pool.Start(ctx) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait() // for the reconciler
	})
	t.Cleanup(f.stop)
	return f
}

// add adds a kind of objects and its reconciler.
func (f *fleet) add(pool *agentpoll.Pool, class agentpoll.Class) {
	f.Poller = agentpoll.NewPoller(pool, agentpoll.Question[*answer]{
		Name: class.String(), Class: class, Ask: f.answer,
		News: func(before, after *answer) bool { return before.state != after.state },
	})
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](),
		workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: class.String()})
	if err := f.Source().Start(f.Context(), queue); err != nil {
		f.Fatal(err)
	}
	var working sync.WaitGroup
	poller := f.Poller
	working.Go(func() {
		for {
			request, over := queue.Get()
			if over {
				return
			}
			f.reconcile(poller, request.NamespacedName)
			queue.Done(request)
		}
	})
	f.Cleanup(func() { queue.ShutDown(); working.Wait() })
}

func (f *fleet) reconcile(poller agentpoll.Poller[*answer], name types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks[name]++
	seen := poller.Observe(name, f.objects[name]...)
	if f.write != nil {
		f.write(name, seen)
	}
	if seen.Due {
		now := time.Now()
		f.oldest = max(f.oldest, now.Sub(f.shown[name]))
		f.shown[name] = now
		f.writes = append(f.writes, now)
		poller.Shown(name)
	}
}

func (f *fleet) answer(ctx context.Context, target agentclient.Target) (*answer, error) {
	f.mu.Lock()
	f.asked[target.Address] = append(f.asked[target.Address], time.Now())
	f.kept[target.Address] = target.Soon
	silent, said := f.silent[target.Address], &answer{
		state: f.states[target.Address], progress: len(f.asked[target.Address]),
	}
	if f.restless {
		said.state = said.progress
	}
	f.mu.Unlock()
	if silent {
		select {
		case <-time.After(timeout):
		case <-ctx.Done():
		}
		return nil, errors.New("no answer")
	}
	time.Sleep(2 * time.Millisecond)
	return said, nil
}

// observe has the object's agents asked.
func (f *fleet) observe(object string, agents ...string) types.NamespacedName {
	name := types.NamespacedName{Namespace: "bank", Name: object}
	var targets []agentpoll.Target
	for _, agent := range agents {
		targets = append(targets, agentpoll.Target{Pod: types.UID(agent), Target: agentclient.Target{Address: agent}})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects[name], f.shown[name] = targets, time.Now()
	f.Observe(name, targets...)
	return name
}

// run observes n objects with an agent each.
func (f *fleet) run(n int) {
	for i := range n {
		f.observe(fmt.Sprint(i), fmt.Sprint(i))
	}
}

// change is something that happens to agents.
func (f *fleet) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// questions counts those to agents that answer, and forgets them.
func (f *fleet) questions() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for agent, times := range f.asked {
		if !f.silent[agent] {
			n += len(times)
		}
	}
	clear(f.asked)
	return n
}

// most of the times that are within a second.
func most(times []time.Time) (n int) {
	first := 0
	for i := range times {
		for times[i].Sub(times[first]) >= time.Second {
			first++
		}
		n = max(n, i-first+1)
	}
	return n
}

// TestTurns: progress is shown at most 16 times a second however many runs there are, and is as young as that allows.
func TestTurns(t *testing.T) {
	for _, test := range []struct {
		runs   int
		oldest time.Duration
	}{
		{1, 8 * time.Second}, {100, 12 * time.Second}, {2000, 130 * time.Second}, {4000, 260 * time.Second},
		{10000, 640 * time.Second},
	} {
		t.Run(fmt.Sprint(test.runs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, agentpoll.Runs)
				f.run(test.runs)
				period := 5*time.Minute + 3*test.oldest/2
				time.Sleep(period)
				f.stop()
				perSecond := float64(len(f.writes)) / period.Seconds()
				t.Logf(
					"%.1f a second, at most %d in one, the oldest %s, %d questions", perSecond, most(f.writes), f.oldest,
					f.questions(),
				)
				if f.oldest > test.oldest || f.oldest < 5*time.Second {
					t.Errorf("the oldest progress was %s, want at most %s", f.oldest, test.oldest)
				}
				if n := most(f.writes); n > 20 {
					t.Errorf("%d writes within a second", n)
				}
				if least := min(float64(test.runs)/8, 14); perSecond < least {
					t.Errorf("%.1f writes a second, want at least %.1f", perSecond, least)
				}
			})
		})
	}
}

// TestTurnsAreShared: objects that serve get what runs leave, which is something.
func TestTurnsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		pool := agentpoll.New(registry)
		fleets := map[agentpoll.Class]*fleet{}
		for _, class := range []agentpoll.Class{agentpoll.Runs, agentpoll.Serving} {
			f := start(t, class)
			f.stop()
			f.add(pool, class)
			f.run(2000)
			fleets[class] = f
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- pool.Start(ctx) }()
		time.Sleep(20 * time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		runs, serving := float64(len(fleets[agentpoll.Runs].writes))/1200, float64(len(fleets[agentpoll.Serving].writes))/1200
		if runs < 15 || runs > 16.5 || serving < 3 || runs+serving > 20.5 {
			t.Errorf("%.1f writes a second of runs and %.1f of others", runs, serving)
		}
	})
}

// TestSilentAgents: they are asked less and less often, and others as often as before.
func TestSilentAgents(t *testing.T) {
	for _, runs := range []int{10, 250, 4000} {
		t.Run(fmt.Sprint(runs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, agentpoll.Runs)
				f.run(runs)
				settle, period := 5*time.Minute, 15*time.Minute
				time.Sleep(settle)
				f.questions()
				time.Sleep(period)
				all := f.questions()
				f.change(func() {
					for i := range runs / 5 {
						f.silent[fmt.Sprint(5*i)] = true
					}
				})
				time.Sleep(period)
				f.mu.Lock()
				silent := 0
				for i := range runs / 5 {
					silent = max(silent, len(f.asked[fmt.Sprint(5*i)]))
				}
				f.mu.Unlock()
				others := f.questions()
				if want := all * 4 / 5; others < want*9/10 || others > want*12/10 {
					t.Errorf("%d questions to the four fifths that answer, want about %d", others, want)
				}
				if silent > 5+15 {
					t.Errorf("%d questions to an agent that does not answer in a quarter of an hour", silent)
				}
			})
		})
	}
}

// TestWakes: a reconciler is woken for an answer that is the first, for news, when an agent falls silent, when it
// answers again, and for a turn, and for nothing else.
func TestWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, agentpoll.Runs)
		var due, told int
		var last agentpoll.Observation[*answer]
		f.write = func(_ types.NamespacedName, seen agentpoll.Observed[*answer]) {
			last = seen.Agents[0]
			if told++; seen.Due {
				due++
			}
		}
		expect := func(what string, wantTold, wantDue int) {
			t.Helper()
			f.mu.Lock()
			defer f.mu.Unlock()
			if told != wantTold || due != wantDue {
				t.Fatalf("%s: %d wakes, %d of them for a turn, want %d and %d", what, told, due, wantTold, wantDue)
			}
			told, due = 0, 0
		}
		f.observe("ledger", "10.0.0.1")
		time.Sleep(time.Second)
		expect("the first answer", 1, 0)
		f.mu.Lock()
		if !last.Asked || last.Report == nil || last.Silent || last.Err != nil {
			t.Errorf("%+v", last)
		}
		f.mu.Unlock()
		time.Sleep(time.Minute)
		expect("a minute", 12, 12)
		f.change(func() { f.states["10.0.0.1"]++ })
		time.Sleep(2500 * time.Millisecond)
		f.change(func() {
			if told-due != 1 {
				t.Errorf("%d wakes for news", told-due)
			}
			told, due = 0, 0
			f.silent["10.0.0.1"] = true
		})
		time.Sleep(9 * time.Second)
		f.change(func() { told, due = 0, 0 })
		time.Sleep(time.Minute)
		expect("it falls silent", 1, 0)
		f.change(func() {
			if !last.Silent || last.Err == nil || last.Report == nil {
				t.Errorf("%+v", last)
			}
			f.silent["10.0.0.1"] = false
		})
		time.Sleep(time.Minute)
		f.change(func() {
			if told == 0 || told != due || last.Silent || last.Err != nil {
				t.Errorf("%d wakes, %d of them for turns: %+v", told, due, last)
			}
		})
	})
}

// TestTooMuchNews: an agent that says something else each time has its object looked at as often as others.
func TestTooMuchNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, agentpoll.Runs)
		f.change(func() { f.restless = true })
		f.run(800)
		time.Sleep(10 * time.Minute)
		f.change(func() { clear(f.looks) })
		time.Sleep(10 * time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		for name, looks := range f.looks {
			// A turn and a wake for news, every 50 s.
			if looks > 2*12+2 {
				t.Fatalf("%s was looked at %d times in ten minutes", name, looks)
			}
		}
	})
}

// TestConnections: they are worth keeping for agents that are asked often.
func TestConnections(t *testing.T) {
	for runs, kept := range map[int]bool{1: true, 400: true, 1000: false} {
		synctest.Test(t, func(t *testing.T) {
			f := start(t, agentpoll.Runs)
			f.run(runs)
			time.Sleep(2 * time.Minute)
			f.stop()
			if f.kept["0"] != kept {
				t.Errorf("of %d: kept: %v", runs, f.kept["0"])
			}
		})
	}
}

// TestForget: agents that are not named any more are not asked any more, nor those of an object that is gone.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, agentpoll.Serving)
		name := f.observe("orders", "a", "b", "c")
		gone := f.observe("gone", "d")
		time.Sleep(time.Minute)
		f.observe("orders", "b")
		f.change(func() { delete(f.objects, gone) })
		f.Forget(gone)
		// A question that is under way ends.
		time.Sleep(time.Second)
		f.questions()
		f.change(func() { clear(f.looks) })
		time.Sleep(time.Minute)
		f.mu.Lock()
		if len(f.asked) != 1 || len(f.asked["b"]) == 0 || f.looks[gone] > 0 || f.looks[name] == 0 {
			t.Errorf("asked %v, looked at %v", f.asked, f.looks)
		}
		f.mu.Unlock()
		if seen := f.Observe(
			gone, agentpoll.Target{Pod: "d", Target: agentclient.Target{Address: "d"}},
		); seen.Agents[0].Asked {
			t.Error("what was known of an agent that was forgotten is still known")
		}
		// Another pod has the address now.
		if seen := f.Observe(
			name, agentpoll.Target{Pod: "e", Target: agentclient.Target{Address: "b"}},
		); seen.Agents[0].Asked {
			t.Error("what another pod said counts for this one")
		}
	})
}

// TestRefresh: all agents are asked at once, and the reconciler is woken when all have answered or have not.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, agentpoll.Serving)
		f.change(func() { f.silent["c"] = true })
		name := f.observe("orders", "a", "b", "c")
		time.Sleep(5 * time.Minute)
		// Not while one of them is being asked.
		for len(f.questionsOf("c")) == 0 {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		var seen agentpoll.Observed[*answer]
		f.change(func() {
			clear(f.looks)
			f.write = func(_ types.NamespacedName, now agentpoll.Observed[*answer]) { seen = now }
		})
		before := time.Now()
		f.Refresh(name)
		time.Sleep(timeout - 10*time.Millisecond)
		f.mu.Lock()
		if f.looks[name] != 0 {
			t.Error("woken before all have been asked")
		}
		f.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.looks[name] != 1 || len(seen.Agents) != 3 {
			t.Fatalf("looked at %d times: %+v", f.looks[name], seen)
		}
		for _, one := range seen.Agents[:2] {
			if one.Age > time.Since(before) {
				t.Errorf("%+v is from before", one)
			}
		}
		if !seen.Agents[2].Silent {
			t.Errorf("%+v", seen.Agents[2])
		}
	})
}

func (f *fleet) questionsOf(agent string) []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	times := f.asked[agent]
	delete(f.asked, agent)
	return times
}

// TestStart: the first questions to many agents are spread, and all are asked within a minute.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, agentpoll.Runs)
		f.run(8000)
		time.Sleep(time.Second)
		if n := f.questions(); n > 250 {
			t.Errorf("%d questions in the first second", n)
		}
		time.Sleep(time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.looks) < 8000 {
			t.Errorf("%d of 8000 answered within a minute", len(f.looks))
		}
		if families, err := f.registry.Gather(); err != nil || len(families) != 3 {
			t.Errorf("%d families of metrics, %v", len(families), err)
		}
	})
}
