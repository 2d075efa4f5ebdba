// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/quota"
)

// shared are limits of a Peer; "": of the cluster.
func shared(peer string, hard quota.Amounts) quota.Limits {
	l := quota.OfCluster(hard)
	if peer != "" {
		l.Kind, l.Name, l.Peer = quota.KindPeer, peer, peer
	}
	return l
}

// network has Transfers of several namespaces to several Peers, with what each is limited to itself.
type network struct {
	view    quota.View
	waiting map[string]quota.Request
	now     int
}

func (n *network) look() quota.View {
	view := n.view
	view.Held = slices.Clone(view.Held)
	view.Waiting = nil
	for _, id := range slices.Sorted(maps.Keys(n.waiting)) {
		view.Waiting = append(view.Waiting, n.waiting[id])
	}
	return view
}

func (n *network) want(id, namespace, peer string, most int64, priority int32) {
	n.now++
	n.waiting[id] = quota.Request{
		ID: id, Name: id, Namespace: namespace, Peer: peer, Priority: priority,
		Since: start.Add(time.Duration(n.now) * time.Second), Amounts: quota.Amounts{quota.RunningTransfers: 1},
		Bandwidth: &most,
	}
}

// admit asks for one that waits, as a reconciler does.
func (n *network) admit(id string) quota.Answer {
	r := n.waiting[id]
	answer := quota.Decide(n.look(), r)
	if answer.Exceeded == nil {
		delete(n.waiting, id)
		held := quota.Held{ID: id, Namespace: r.Namespace, Peer: r.Peer, Most: *r.Bandwidth, Amounts: quota.Amounts{
			quota.RunningTransfers: 1, quota.Share: answer.Share, quota.Bandwidth: answer.Bandwidth,
		}}
		n.view.Held = append(n.view.Held, held)
	}
	return answer
}

func (n *network) settle(r *rand.Rand) bool {
	changed := false
	for _, id := range shuffled(r, slices.Sorted(maps.Keys(n.waiting))) {
		changed = n.admit(id).Exceeded == nil || changed
	}
	for _, at := range r.Perm(len(n.view.Held)) {
		held := n.view.Held[at]
		share, limited := n.look().ShareOf(held.ID)
		if limited && share != held.Amounts[quota.Share] {
			held.Amounts = maps.Clone(held.Amounts)
			held.Amounts[quota.Share] = share
			n.view.Held[at], changed = held, true
		}
	}
	return changed
}

func shuffled(r *rand.Rand, ids []string) []string {
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

// TestSharedLimits: whatever comes and goes, in whatever order the reconcilers look, no limit is exceeded, nothing is
// left free that somebody waits for, everybody's turn comes, and what runs comes to rest.
func TestSharedLimits(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 22))
		peers, namespaces := []string{"west", "east", ""}, []string{"bank", "shop", "lab"}
		n := &network{waiting: map[string]quota.Request{}}
		n.view.Weights = map[string]int64{"bank": 1 + r.Int64N(400)}
		n.view.Limits = []quota.Limits{
			shared("", quota.Amounts{quota.RunningTransfers: 4 + r.Int64N(6), quota.Share: (4 + r.Int64N(100)) * mi}),
			shared("west", quota.Amounts{quota.RunningTransfers: 1 + r.Int64N(4)}),
			shared("east", quota.Amounts{quota.Share: (1 + r.Int64N(50)) * mi / 2}),
			{Kind: "DataQuota", Name: "team", Namespace: "lab", Hard: quota.Amounts{quota.RunningTransfers: 2}},
		}
		for i := range 30 {
			most := int64(quota.Unlimited)
			if r.IntN(2) == 0 {
				most = quota.LeastBandwidth + r.Int64N(20*mi)
			}
			n.want(fmt.Sprint("t", i), namespaces[r.IntN(3)], peers[r.IntN(3)], most, 0)
			if r.IntN(3) == 0 && len(n.view.Held) > 0 {
				at := r.IntN(len(n.view.Held))
				n.view.Held = slices.Delete(slices.Clone(n.view.Held), at, at+1)
			}
			n.settle(r)
			n.check(t, seed)
		}
		// Nothing more comes: each that waits has its turn, and in the end nothing changes any more.
		for rounds := 0; len(n.waiting) > 0; rounds++ {
			if rounds > 200 {
				t.Fatalf("seed %d: %d still wait", seed, len(n.waiting))
			}
			n.settle(r)
			n.check(t, seed)
			if len(n.view.Held) > 0 {
				n.view.Held = n.view.Held[1:]
			}
		}
		for rounds := 0; n.settle(r); rounds++ {
			if rounds > 20 {
				t.Fatalf("seed %d: the shares do not come to rest", seed)
			}
		}
	}
}

// check looks at limits, and at whether something waits that could run.
func (n *network) check(t *testing.T, seed uint64) {
	t.Helper()
	view := n.look()
	full := func(request quota.Request) bool {
		for _, l := range view.Limits {
			if l.Shared && l.Peer != "" && l.Peer != request.Peer || !l.Shared && l.Namespace != request.Namespace {
				continue
			}
			runs := int64(0)
			for _, h := range view.Held {
				if l.Shared && (l.Peer == "" || l.Peer == h.Peer) || !l.Shared && l.Namespace == h.Namespace {
					runs++
				}
			}
			if slots, limited := l.Hard[quota.RunningTransfers]; limited && runs >= slots {
				return true
			}
			wire, limited := l.Hard[quota.Share]
			if limited && ((runs+1)*quota.LeastBandwidth > wire || n.partTaken(view, l, request.Namespace)) {
				return true
			}
		}
		return false
	}
	for _, l := range view.Limits {
		used := quota.Amounts{}
		for _, h := range view.Held {
			if l.Shared && (l.Peer == "" || l.Peer == h.Peer) || !l.Shared && l.Namespace == h.Namespace {
				used[quota.RunningTransfers]++
				used[quota.Share] += h.Amounts[quota.Share]
			}
		}
		for resource, limit := range l.Hard {
			if used[resource] > limit {
				t.Fatalf("seed %d: %s %s: %d of %d %s", seed, l.Kind, l.Name, used[resource], limit, resource)
			}
		}
	}
	// After the agents have given back what they must, and others have taken it, only full limits make others wait.
	later := &network{view: view, waiting: maps.Clone(n.waiting), now: n.now}
	r := rand.New(rand.NewPCG(seed, 1))
	for range 20 {
		if !later.settle(r) {
			break
		}
	}
	view = later.look()
	for _, request := range later.waiting {
		if !full(request) {
			t.Fatalf("seed %d: %s waits for nothing: %+v", seed, request.ID, *quota.Decide(view, request).Exceeded)
		}
	}
}

// partTaken reports whether a namespace has runs and no room for another one in its part of the bandwidth.
func (n *network) partTaken(view quota.View, l quota.Limits, namespace string) bool {
	runs := map[string]int64{}
	for _, h := range view.Held {
		if l.Peer == "" || l.Peer == h.Peer {
			runs[h.Namespace]++
		}
	}
	for _, w := range view.Waiting {
		if l.Peer == "" || l.Peer == w.Peer {
			runs[w.Namespace] += 0
		}
	}
	sum, own := int64(0), int64(quota.Weight)
	for other := range runs {
		weight, has := view.Weights[other]
		if !has {
			weight = quota.Weight
		}
		if sum += weight; other == namespace {
			own = weight
		}
	}
	return runs[namespace] > 0 && (runs[namespace]+1)*quota.LeastBandwidth*sum > l.Hard[quota.Share]*own
}

// TestManyRunsTakeNoBandwidth: a namespace has the part of its weight, however many Transfers others have.
func TestManyRunsTakeNoBandwidth(t *testing.T) {
	for name, c := range map[string]struct {
		weights map[string]int64
		others  []string
		want    int64 // of the one run of a
	}{
		"against a namespace of little weight": {
			weights: map[string]int64{"a": 10000, "b": 1}, others: []string{"b"}, want: 100*mi - quota.LeastBandwidth,
		},
		"against an equal one":  {others: []string{"b"}, want: 50 * mi},
		"against several of it": {others: []string{"b", "c", "d"}, want: 25 * mi},
	} {
		n := &network{waiting: map[string]quota.Request{}}
		n.view.Limits, n.view.Weights = []quota.Limits{shared("west", quota.Amounts{quota.Share: 100 * mi})}, c.weights
		for i := range 400 / len(c.others) {
			for _, other := range c.others {
				n.want(fmt.Sprint(other, i), other, "west", quota.Unlimited, 0)
			}
		}
		n.want("a", "a", "west", quota.Unlimited, 0)
		r := rand.New(rand.NewPCG(1, 22))
		n.admit("a")
		for rounds := 0; n.settle(r); rounds++ {
			if rounds > 20 {
				t.Fatalf("%s: the shares do not come to rest", name)
			}
		}
		got, runs := int64(0), map[string]int{}
		for _, h := range n.view.Held {
			if runs[h.Namespace]++; h.ID == "a" {
				got = h.Amounts[quota.Share]
			}
		}
		if got < c.want-c.want/10 {
			t.Errorf("%s: the run of a has %d, want %d; runs %v", name, got, c.want, runs)
		}
	}
}

// TestWeights: of namespaces that all want more than they have, each has its part of the runs, but for one run, and
// each has one before another has two.
func TestWeights(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 7))
		slots := 3 + r.Int64N(30)
		n := &network{waiting: map[string]quota.Request{}}
		n.view.Weights = map[string]int64{"a": 100, "b": 100 + r.Int64N(300), "c": 50}
		n.view.Limits = []quota.Limits{shared("west", quota.Amounts{quota.RunningTransfers: slots})}
		for i := range 40 {
			for _, namespace := range []string{"c", "a", "b"} {
				n.want(fmt.Sprint(namespace, i), namespace, "west", quota.Unlimited, 0)
			}
		}
		n.settle(r)
		n.settle(r)
		for end := range 50 {
			runs := map[string]int64{}
			for _, h := range n.view.Held {
				runs[h.Namespace]++
			}
			if int64(len(n.view.Held)) != slots {
				t.Fatalf("seed %d: %d of %d run", seed, len(n.view.Held), slots)
			}
			for x, w := range n.view.Weights {
				for y, v := range n.view.Weights {
					if end == 0 && (runs[x]-1)*v > runs[y]*w {
						t.Fatalf("seed %d: %v of %d with weights %v", seed, runs, slots, n.view.Weights)
					}
				}
				if runs[x] == 0 {
					t.Fatalf("seed %d: %s starves: %v", seed, x, runs)
				}
			}
			// The oldest of its namespace ends, and another one of it asks again.
			gone := n.view.Held[0]
			n.view.Held = slices.Clone(n.view.Held[1:])
			n.want(fmt.Sprint(gone.ID, "-", end), gone.Namespace, "west", quota.Unlimited, 0)
			n.settle(r)
		}
	}
}

// TestPriorities: within a namespace the higher one goes first; it takes nothing from another namespace.
func TestPriorities(t *testing.T) {
	n := &network{waiting: map[string]quota.Request{}}
	n.view.Limits = []quota.Limits{shared("west", quota.Amounts{quota.RunningTransfers: 1})}
	n.want("shop-1", "shop", "west", quota.Unlimited, 0)
	n.want("bank-low", "bank", "west", quota.Unlimited, 0)
	n.want("bank-high", "bank", "west", quota.Unlimited, 1_000_000)
	var order []string
	for len(n.waiting) > 0 {
		next := quota.Next(n.look())
		if len(next) != 1 {
			t.Fatalf("%v may go on at once", next)
		}
		n.view.Held = nil
		n.admit(next[0])
		order = append(order, next[0])
		n.view.Held = nil
	}
	if want := []string{"shop-1", "bank-high", "bank-low"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

// TestShareOf has cases of one Peer with 100Mi.
func TestShareOf(t *testing.T) {
	west := []quota.Limits{shared("west", quota.Amounts{quota.Share: 100 * mi})}
	has := func(id, namespace string, share, most int64) quota.Held {
		return quota.Held{
			ID: id, Namespace: namespace, Peer: "west", Most: most,
			Amounts: quota.Amounts{quota.RunningTransfers: 1, quota.Share: share},
		}
	}
	waits := quota.Request{
		ID: "w", Name: "w", Namespace: "shop", Peer: "west", Since: start, Bandwidth: ptr.To[int64](quota.Unlimited),
		Amounts: quota.Amounts{quota.RunningTransfers: 1},
	}
	for name, c := range map[string]struct {
		held    []quota.Held
		waiting []quota.Request
		weights map[string]int64
		want    int64 // of a
	}{
		"alone":                 {held: []quota.Held{has("a", "bank", 10*mi, quota.Unlimited)}, want: 100 * mi},
		"alone, with a limit":   {held: []quota.Held{has("a", "bank", 10*mi, 30*mi)}, want: 30 * mi},
		"began before the caps": {held: []quota.Held{has("a", "bank", quota.Unlimited, quota.Unlimited)}, want: 100 * mi},
		"nearly right":          {held: []quota.Held{has("a", "bank", 95*mi, quota.Unlimited)}, want: 95 * mi},
		"nothing is free": {
			held: []quota.Held{has("a", "bank", 10*mi, quota.Unlimited), has("b", "shop", 90*mi, quota.Unlimited)}, want: 10 * mi,
		},
		"the other uses little": {
			held: []quota.Held{has("a", "bank", 50*mi, quota.Unlimited), has("b", "shop", 20*mi, 20*mi)}, want: 80 * mi,
		},
		"by weight": {
			held:    []quota.Held{has("a", "bank", 100*mi-256<<10, quota.Unlimited), has("b", "shop", 256<<10, quota.Unlimited)},
			weights: map[string]int64{"bank": 300}, want: 75 * mi,
		},
		"another waits": {
			held:    []quota.Held{has("a", "bank", 100*mi, quota.Unlimited)},
			waiting: []quota.Request{waits}, want: 50 * mi,
		},
		"another waits, and it has its own part already": {
			held:    []quota.Held{has("a", "bank", 50*mi, quota.Unlimited), has("b", "lab", 50*mi, quota.Unlimited)},
			waiting: []quota.Request{waits}, want: 100 * mi / 3,
		},
	} {
		view := quota.View{Limits: west, Held: c.held, Waiting: c.waiting, Weights: c.weights}
		if got, limited := view.ShareOf("a"); !limited || got != c.want {
			t.Errorf("%s: %d, %t, want %d", name, got, limited, c.want)
		}
	}
	if _, limited := (quota.View{Held: []quota.Held{has("a", "bank", 1, 1)}}).ShareOf("a"); limited {
		t.Error("limited by nothing")
	}
}

// TestPlaces: those that wait are told their place among those that wait for the same.
func TestPlaces(t *testing.T) {
	n := &network{waiting: map[string]quota.Request{}}
	n.view.Limits = []quota.Limits{
		shared("west", quota.Amounts{quota.RunningTransfers: 1}), shared("east", quota.Amounts{quota.RunningTransfers: 0}),
	}
	n.view.Held = []quota.Held{{
		ID: "x", Namespace: "bank", Peer: "west", Amounts: quota.Amounts{quota.RunningTransfers: 1},
	}}
	n.want("a", "bank", "west", quota.Unlimited, 0)
	n.want("b", "shop", "west", quota.Unlimited, 0)
	n.want("c", "shop", "east", quota.Unlimited, 0)
	n.want("d", "bank", "west", quota.Unlimited, 0)
	positions := n.look().Positions()
	// Shop has no run yet.
	for id, want := range map[string]int{"b": 1, "a": 2, "d": 3} {
		e := n.admit(id).Exceeded
		if e == nil || e.Place != want || e.Waiting != 3 || e.Kind != quota.KindPeer || e.Name != "west" {
			t.Errorf("%s: %+v, want place %d", id, e, want)
		}
		if at := positions[id]; at.Granted || at.Place != want || at.Waiting != 3 {
			t.Errorf("%s: %+v", id, at)
		}
	}
	if e := n.admit("c").Exceeded; e == nil || !e.Never() || e.Name != "east" {
		t.Errorf("c: %+v", e)
	}
}

// TestSharesBegin: a run has little of what is free before its agent answers, and nothing of what is not limited.
func TestSharesBegin(t *testing.T) {
	n := &network{waiting: map[string]quota.Request{}}
	n.view.Limits = []quota.Limits{shared("west", quota.Amounts{quota.Share: 100 * mi})}
	n.want("a", "bank", "west", quota.Unlimited, 0)
	n.want("b", "bank", "east", quota.Unlimited, 0)
	for id, want := range map[string]int64{"a": quota.LeastBandwidth, "b": 0} {
		if answer := n.admit(id); answer.Exceeded != nil || answer.Share != want {
			t.Errorf("%s: %+v", id, answer)
		}
	}
	if share, _ := n.look().ShareOf("a"); share != 100*mi {
		t.Errorf("the run of a is to have %d", share)
	}
}

// TestManyWait: of a namespace with very many that wait, the one that is decided is looked at all the same.
func TestManyWait(t *testing.T) {
	n := &network{waiting: map[string]quota.Request{}}
	n.view.Limits = []quota.Limits{
		shared("west", quota.Amounts{quota.RunningTransfers: 0}), shared("east", quota.Amounts{quota.RunningTransfers: 2}),
	}
	for i := range 1200 {
		n.want(fmt.Sprint("t", i), "bank", "west", quota.Unlimited, 0)
	}
	n.want("last", "bank", "east", quota.Unlimited, 0)
	n.want("first", "shop", "east", quota.Unlimited, 0)
	positions := n.look().Positions()
	if at := positions["t0"]; at.Granted || at.Place != 0 {
		t.Errorf("%+v", at)
	}
	if at, seen := positions["t1100"]; seen {
		t.Errorf("it is looked at: %+v", at)
	}
	for _, id := range []string{"last", "first"} {
		if e := n.admit(id).Exceeded; e != nil {
			t.Errorf("%s: %+v", id, e)
		}
	}
	if e := n.admit("t1100").Exceeded; e == nil || e.Name != "west" || e.Place != 0 {
		t.Errorf("%+v", e)
	}
}

// TestPlaceIsOfTheLimit: the limit that a refusal names is the one that its place is about.
func TestPlaceIsOfTheLimit(t *testing.T) {
	n := &network{waiting: map[string]quota.Request{}}
	n.view.Limits = []quota.Limits{
		shared("", quota.Amounts{quota.Share: quota.LeastBandwidth}), shared("west", quota.Amounts{quota.RunningTransfers: 1}),
	}
	n.view.Held = []quota.Held{{ID: "x", Namespace: "shop", Amounts: quota.Amounts{
		quota.RunningTransfers: 1, quota.Share: quota.LeastBandwidth,
	}}}
	n.want("a", "lab", "west", 0, 0)
	first := n.waiting["a"]
	first.Bandwidth = nil
	n.waiting["a"] = first
	n.want("b", "bank", "west", quota.Unlimited, 0)
	if e := n.admit("b").Exceeded; e == nil || e.Name != "west" || e.Place != 1 || e.Waiting != 1 {
		t.Errorf("%+v", e)
	}
}

// TestStrays: a pod that looks as if it outlived its Transfer takes nothing from other namespaces.
func TestStrays(t *testing.T) {
	view := quota.View{
		Limits: []quota.Limits{
			shared("west", quota.Amounts{quota.RunningTransfers: 1}), shared("", quota.Amounts{quota.RunningTransfers: 1}),
			{Kind: "DataQuota", Name: "team", Namespace: "bank", Hard: quota.Amounts{quota.RunningTransfers: 1}},
		},
		Held: []quota.Held{{
			ID: "pod", Namespace: "bank", Peer: quota.Stray, Amounts: quota.Amounts{quota.RunningTransfers: 1},
		}},
	}
	wants := quota.Request{
		ID: "new", Namespace: "shop", Peer: "west", Amounts: quota.Amounts{quota.RunningTransfers: 1},
	}
	if e := quota.Decide(view, wants).Exceeded; e != nil {
		t.Errorf("another namespace: %+v", e)
	}
	wants.Namespace = "bank"
	if e := quota.Decide(view, wants).Exceeded; e == nil || e.Name != "team" {
		t.Errorf("its own namespace: %+v", e)
	}
}

func TestLimitsOfObjects(t *testing.T) {
	peer := &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "west"}}
	if _, limited := quota.OfPeer(peer); limited {
		t.Error("a Peer without limits has some")
	}
	peer.Spec.Limits = &v1alpha1.PeerLimits{
		RunningTransfers: ptr.To[int32](3), Bandwidth: ptr.To(resource.MustParse("10Mi")),
	}
	l, limited := quota.OfPeer(peer)
	if !limited || !l.Shared || l.Peer != "west" || l.Hard[quota.RunningTransfers] != 3 || l.Hard[quota.Share] != 10*mi {
		t.Errorf("%+v", l)
	}
	weighs := func(namespace string, weight *int32) v1alpha1.DataQuota {
		return v1alpha1.DataQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: v1alpha1.DataQuotaSpec{Weight: weight},
		}
	}
	got := quota.Weights([]v1alpha1.DataQuota{
		weighs("bank", ptr.To[int32](300)), weighs("bank", ptr.To[int32](200)), weighs("bank", nil), weighs("shop", nil),
	})
	if !maps.Equal(got, map[string]int64{"bank": 200}) {
		t.Errorf("weights %v", got)
	}
}

// TestShareOrKeep: a run that a view does not show keeps what it has; one that it shows has what ShareOf says.
func TestShareOrKeep(t *testing.T) {
	const has = 5 << 20
	view := quota.View{Limits: []quota.Limits{quota.OfCluster(quota.Amounts{quota.Share: 8 << 20})}}
	if got := view.ShareOrKeep("own", has); got != has {
		t.Errorf("not shown: %d, want %d", got, has)
	}
	view.Held = []quota.Held{{ID: "own", Namespace: "bank", Amounts: quota.Amounts{quota.Share: has}}}
	if want, limited := view.ShareOf("own"); !limited || want == has || view.ShareOrKeep("own", has) != want {
		t.Errorf("shown: %d, want %d", view.ShareOrKeep("own", has), want)
	}
	view.Limits = nil
	if got := view.ShareOrKeep("own", has); got != 0 {
		t.Errorf("shown without a limit: %d, want 0", got)
	}
}
