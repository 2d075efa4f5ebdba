// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lighterage/lighterage/controllers/quota"
)

const mi = 1 << 20

var start = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func limits(name string, hard quota.Amounts) quota.Limits {
	return quota.Limits{Kind: "DataQuota", Name: name, Hard: hard}
}

// run holds one run with that bandwidth; 0: one that goes through no network.
func run(id string, bandwidth int64) quota.Held {
	return quota.Held{ID: id, Amounts: quota.Amounts{quota.RunningTransfers: 1, quota.Bandwidth: bandwidth}}
}

// wants asks for one run with that bandwidth, waiting since so many seconds after the start; 0: it goes through no
// network.
func wants(id string, bandwidth int64, since int) quota.Request {
	r := quota.Request{
		ID: id, Name: id, Since: start.Add(time.Duration(since) * time.Second),
		Amounts: quota.Amounts{quota.RunningTransfers: 1},
	}
	if bandwidth != 0 {
		r.Bandwidth = &bandwidth
	}
	return r
}

// asks is wants of one that has not waited yet.
func asks(id string, bandwidth int64) quota.Request {
	r := wants(id, bandwidth, 0)
	r.Since = time.Time{}
	return r
}

func TestDecide(t *testing.T) {
	slots := limits("slots", quota.Amounts{quota.RunningTransfers: 2})
	wire := limits("wire", quota.Amounts{quota.Bandwidth: 100 * mi})
	both := limits("both", quota.Amounts{quota.RunningTransfers: 4, quota.Bandwidth: 100 * mi})
	for name, c := range map[string]struct {
		view      quota.View
		request   quota.Request
		bandwidth int64          // that is granted
		exceeded  quota.Exceeded // zero: granted
	}{
		"no limits":                 {quota.View{}, asks("a", quota.Unlimited), quota.Unlimited, quota.Exceeded{}},
		"no limits, one of its own": {quota.View{}, asks("a", 5*mi), 5 * mi, quota.Exceeded{}},
		"a slot is free": {
			quota.View{Limits: []quota.Limits{slots}, Held: []quota.Held{run("x", 1)}}, asks("a", quota.Unlimited),
			quota.Unlimited, quota.Exceeded{},
		},
		"the last slot is its own already": {
			quota.View{Limits: []quota.Limits{slots}, Held: []quota.Held{run("x", 1), run("a", 1)}}, asks("a", 5), 5,
			quota.Exceeded{},
		},
		"all slots are taken": {
			quota.View{Limits: []quota.Limits{slots}, Held: []quota.Held{run("x", 1), run("y", 1)}}, asks("a", 5), 0,
			quota.Exceeded{Kind: "DataQuota", Name: "slots", Resource: quota.RunningTransfers, Limit: 2, Used: 2, Wanted: 1},
		},
		"more is used than allowed": {
			quota.View{Limits: []quota.Limits{slots}, Held: []quota.Held{run("x", 1), run("y", 1), run("z", 1)}}, asks("a", 5),
			0, quota.Exceeded{Kind: "DataQuota", Name: "slots", Resource: quota.RunningTransfers, Limit: 2, Used: 3, Wanted: 1},
		},
		"another has waited for the slot": {
			quota.View{
				Limits: []quota.Limits{slots}, Held: []quota.Held{run("x", 1)}, Waiting: []quota.Request{wants("b", 5, 1)},
			},
			asks("a", 5), 0,
			quota.Exceeded{Kind: "DataQuota", Name: "slots", Resource: quota.RunningTransfers, Limit: 2, Used: 2, Wanted: 1},
		},
		"it has waited for longer": {
			quota.View{
				Limits: []quota.Limits{slots}, Held: []quota.Held{run("x", 1)},
				Waiting: []quota.Request{wants("b", 5, 2), wants("a", 5, 1)},
			},
			wants("a", 5, 1), 5, quota.Exceeded{},
		},
		"names order those of one moment": {
			quota.View{
				Limits: []quota.Limits{slots}, Held: []quota.Held{run("x", 1)},
				Waiting: []quota.Request{wants("b", 5, 1), wants("a", 5, 1)},
			},
			wants("b", 5, 1), 0,
			quota.Exceeded{Kind: "DataQuota", Name: "slots", Resource: quota.RunningTransfers, Limit: 2, Used: 2, Wanted: 1},
		},
		"bandwidth of its own": {
			quota.View{Limits: []quota.Limits{wire}, Held: []quota.Held{run("x", 40*mi)}}, asks("a", 60*mi), 60 * mi,
			quota.Exceeded{},
		},
		"bandwidth that is not left": {
			quota.View{Limits: []quota.Limits{wire}, Held: []quota.Held{run("x", 41*mi)}}, asks("a", 60*mi), 0,
			quota.Exceeded{
				Kind: "DataQuota", Name: "wire", Resource: quota.Bandwidth, Limit: 100 * mi, Used: 41 * mi, Wanted: 60 * mi,
			},
		},
		"a limit above all there is": {
			quota.View{Limits: []quota.Limits{wire}}, asks("a", 500*mi), 100 * mi, quota.Exceeded{},
		},
		"no limit of its own: what is left": {
			quota.View{Limits: []quota.Limits{wire}, Held: []quota.Held{run("x", 41*mi)}}, asks("a", quota.Unlimited), 59 * mi,
			quota.Exceeded{},
		},
		"no limit of its own: a share": {
			quota.View{Limits: []quota.Limits{both}, Held: []quota.Held{run("x", 60*mi)}}, asks("a", quota.Unlimited), 25 * mi,
			quota.Exceeded{},
		},
		"shares of two quotas": {
			quota.View{Limits: []quota.Limits{slots, wire}}, asks("a", quota.Unlimited), 50 * mi, quota.Exceeded{},
		},
		"a share that is not left": {
			quota.View{Limits: []quota.Limits{both}, Held: []quota.Held{run("x", 80*mi)}}, asks("a", quota.Unlimited), 0,
			quota.Exceeded{
				Kind: "DataQuota", Name: "both", Resource: quota.Bandwidth, Limit: 100 * mi, Used: 80 * mi, Wanted: 25 * mi,
			},
		},
		"nothing is left": {
			quota.View{Limits: []quota.Limits{wire}, Held: []quota.Held{run("x", 100*mi)}}, asks("a", quota.Unlimited), 0,
			quota.Exceeded{
				Kind: "DataQuota", Name: "wire", Resource: quota.Bandwidth, Limit: 100 * mi, Used: 100 * mi,
				Wanted: quota.LeastBandwidth,
			},
		},
		"one from before the limit has all": {
			quota.View{Limits: []quota.Limits{wire}, Held: []quota.Held{run("x", quota.Unlimited)}}, asks("a", mi), 0,
			quota.Exceeded{
				Kind: "DataQuota", Name: "wire", Resource: quota.Bandwidth, Limit: 100 * mi, Used: 100 * mi, Wanted: mi,
			},
		},
		"no network needs no bandwidth": {
			quota.View{Limits: []quota.Limits{wire}, Held: []quota.Held{run("x", 100*mi)}}, asks("a", 0), quota.Unlimited,
			quota.Exceeded{},
		},
		"none are allowed": {
			quota.View{Limits: []quota.Limits{limits("none", quota.Amounts{quota.RunningTransfers: 0})}}, asks("a", 5), 0,
			quota.Exceeded{Kind: "DataQuota", Name: "none", Resource: quota.RunningTransfers, Limit: 0, Wanted: 1},
		},
		"the stricter of two": {
			quota.View{Limits: []quota.Limits{both, slots}, Held: []quota.Held{run("x", 1), run("y", 1)}}, asks("a", 5), 0,
			quota.Exceeded{Kind: "DataQuota", Name: "slots", Resource: quota.RunningTransfers, Limit: 2, Used: 2, Wanted: 1},
		},
		"bandwidth is kept for the one ahead": {
			quota.View{
				Limits: []quota.Limits{wire}, Held: []quota.Held{run("x", 50*mi)}, Waiting: []quota.Request{wants("b", 80*mi, 1)},
			},
			asks("a", 20*mi), 0,
			quota.Exceeded{
				Kind: "DataQuota", Name: "wire", Resource: quota.Bandwidth, Limit: 100 * mi, Used: 50 * mi, Wanted: 20 * mi,
				Behind: true,
			},
		},
		"one that needs none goes past it": {
			quota.View{
				Limits: []quota.Limits{both}, Held: []quota.Held{run("x", 50*mi)}, Waiting: []quota.Request{wants("b", 80*mi, 1)},
			},
			asks("a", 0), quota.Unlimited, quota.Exceeded{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer := quota.Decide(c.view, c.request)
			if answer.Exceeded != nil { // TestPlaces is about these
				answer.Exceeded.Place, answer.Exceeded.Waiting = 0, 0
			}
			switch {
			case c.exceeded == quota.Exceeded{}:
				if answer.Exceeded != nil || answer.Bandwidth != c.bandwidth {
					t.Errorf("%+v %+v, want a grant of %d", answer.Exceeded, answer, c.bandwidth)
				}
			case answer.Exceeded == nil || *answer.Exceeded != c.exceeded:
				t.Errorf("%+v, want %+v", answer.Exceeded, c.exceeded)
			}
		})
	}
}

// TestQueuesKeepNothing: storage does not come free by itself, so a Queue that does not fit keeps nothing from one that
// does.
func TestQueuesKeepNothing(t *testing.T) {
	queue := func(id string, bytes int64, since int) quota.Request {
		return quota.Request{
			ID: id, Since: start.Add(time.Duration(since) * time.Second), Amounts: quota.Amounts{quota.QueueBytes: bytes},
		}
	}
	view := quota.View{
		Limits:  []quota.Limits{limits("q", quota.Amounts{quota.QueueBytes: 100})},
		Held:    []quota.Held{{ID: "x", Amounts: quota.Amounts{quota.QueueBytes: 50}}},
		Waiting: []quota.Request{queue("large", 80, 1), queue("huge", 800, 2), queue("small", 30, 3), queue("next", 30, 4)},
	}
	if got := quota.Next(view); !slices.Equal(got, []string{"small"}) {
		t.Errorf("next are %v", got)
	}
	if answer := quota.Decide(view, queue("large", 80, 1)); answer.Exceeded == nil || answer.Exceeded.Never() {
		t.Errorf("80 of 50: %+v", answer.Exceeded)
	}
	if answer := quota.Decide(view, queue("huge", 800, 2)); answer.Exceeded == nil || !answer.Exceeded.Never() {
		t.Errorf("800 of 100: %+v", answer.Exceeded)
	}
	// Growth counts what it holds already once.
	if answer := quota.Decide(view, queue("x", 100, 0)); answer.Exceeded != nil {
		t.Errorf("growth from 50 to 100 of 100: %+v", answer.Exceeded)
	}
}

// TestNobodyStarves plays many runs of several sizes that come faster than they can go, each admitted only as Decide
// says, and expects that limits hold at all times and that all run, in order.
func TestNobodyStarves(t *testing.T) {
	random := rand.New(rand.NewPCG(14, 5))
	hard := quota.Amounts{quota.RunningTransfers: 3, quota.Bandwidth: 100 * mi}
	view := quota.View{Limits: []quota.Limits{limits("q", hard)}}
	const all = 400
	started, onWire := map[string]int{}, make([]bool, all)
	for step := 0; len(started) < all; step++ {
		if step > 20*all {
			t.Fatalf("after %d steps %d of %d have run; waiting: %+v", step, len(started), all, view.Waiting)
		}
		if step < all {
			id := fmt.Sprintf("run-%03d", step)
			bandwidth := []int64{0, 10 * mi, 90 * mi, 100 * mi, 300 * mi, quota.Unlimited}[random.IntN(6)]
			onWire[step] = bandwidth > 0
			view.Waiting = append(view.Waiting, wants(id, bandwidth, step))
		}
		if len(view.Held) > 0 && random.IntN(2) == 0 {
			i := random.IntN(len(view.Held))
			view.Held = slices.Delete(view.Held, i, i+1)
		}
		for _, id := range quota.Next(view) {
			i := slices.IndexFunc(view.Waiting, func(r quota.Request) bool { return r.ID == id })
			request := view.Waiting[i]
			answer := quota.Decide(view, request)
			if answer.Exceeded != nil {
				t.Fatalf("Next names %s, and Decide says %+v", id, answer.Exceeded)
			}
			bandwidth := answer.Bandwidth
			if request.Bandwidth == nil {
				bandwidth = 0
			}
			view.Waiting = slices.Delete(view.Waiting, i, i+1)
			view.Held = append(view.Held, run(id, bandwidth))
			started[id] = len(started)
		}
		for resource, used := range quota.Used(hard, view.Held) {
			if used > hard[resource] {
				t.Fatalf("%d %s are used of %d", used, resource, hard[resource])
			}
		}
	}
	// First come, first served; but those that need no bandwidth may go past those that wait for it.
	for _, wire := range []bool{true, false} {
		last := -1
		for came := range all {
			if onWire[came] == wire {
				if at := started[fmt.Sprintf("run-%03d", came)]; at < last {
					t.Errorf("run %d, which came later, started before as number %d", came, at)
				} else {
					last = at
				}
			}
		}
	}
}

// TestOrderDoesNotMatter: the answer does not depend on the order in which a list comes.
func TestOrderDoesNotMatter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	view := quota.View{
		Limits: []quota.Limits{limits("q", quota.Amounts{quota.RunningTransfers: 4, quota.Bandwidth: 50 * mi})},
		Held:   []quota.Held{run("x", mi)},
	}
	for i := range 12 {
		view.Waiting = append(view.Waiting, wants(fmt.Sprint(i), int64(i%5)*10*mi, i/3))
	}
	first := quota.Next(view)
	for range 100 {
		random.Shuffle(len(view.Waiting), func(i, j int) {
			view.Waiting[i], view.Waiting[j] = view.Waiting[j], view.Waiting[i]
		})
		if got := quota.Next(view); !slices.Equal(got, first) {
			t.Fatalf("%v, and in another order %v", first, got)
		}
	}
}
