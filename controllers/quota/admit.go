// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// LeastBandwidth is the least that a run is granted, in bytes per second: what the API allows as a limit.
const LeastBandwidth = 256 << 10

// Held is what something holds that was admitted.
type Held struct {
	// ID is unique in the namespace: the object's UID.
	ID string
	// Namespace and Peer, empty for this cluster, say which limits it counts against.
	Namespace, Peer string
	Amounts         Amounts
	// Most is the largest Share that it can use; 0: any.
	Most int64
}

// Request asks for something to be admitted.
type Request struct {
	// ID is that of Held. What it holds already is not counted against it: Amounts are what it will hold altogether.
	ID string
	// Namespace and Peer are those of Held.
	Namespace, Peer string
	// Priority orders the requests of a namespace, before Since does.
	Priority int32
	// Since is when it began to wait; zero: it does not wait yet, and comes after all that do.
	Since time.Time
	// Created and Name order those that began to wait at the same time.
	Created time.Time
	Name    string
	// Amounts that it needs, bandwidth excepted.
	Amounts Amounts
	// Bandwidth that it would use, nil for one that uses none. Unlimited: it has no limit of its own, and takes a
	// share.
	Bandwidth *int64
}

// before orders the requests of a namespace by who is first.
func (r Request) before(other Request) int {
	return cmp.Or(cmp.Compare(other.Priority, r.Priority), r.older(other))
}

// older orders requests by who has waited for longer.
func (r Request) older(other Request) int {
	if r.Since.IsZero() != other.Since.IsZero() {
		if r.Since.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(r.Since.Compare(other.Since), r.Created.Compare(other.Created),
		cmp.Compare(r.Namespace, other.Namespace), cmp.Compare(r.Name, other.Name))
}

// View is what is known of a namespace, or, where something is shared, of all.
type View struct {
	Limits []Limits
	// Weights of namespaces that have another than Weight.
	Weights map[string]int64
	Held    []Held
	// Waiting are those that were not admitted and still want to be.
	Waiting []Request
}

// Answer to a request.
type Answer struct {
	// Exceeded says why not; nil: granted.
	Exceeded *Exceeded
	// Bandwidth that is granted, in bytes per second. Unlimited where nothing limits it, and for a request without.
	Bandwidth int64
	// Share that it begins with, the least there is; 0: no Peer limits bandwidth, nor does the cluster.
	Share int64
}

// Exceeded is the limit that something does not fit into.
type Exceeded struct {
	// Kind and Name of the object that has the limit.
	Kind, Name string
	Resource   Resource
	// Limit, what of it is Used by others, and what was Wanted.
	Limit, Used, Wanted int64
	// Behind is true when there would be enough, but for others that have waited for longer.
	Behind bool
	// Part is true when it would not fit into the part of its namespace, whose runs take that.
	Part bool
	// Place from 1 on among the Waiting that exceed the same limit; 0 where more than mostPlaces wait.
	Place, Waiting int
}

// Never reports whether it would not fit if nothing else were there.
func (e Exceeded) Never() bool { return e.Wanted > e.Limit }

// mostPlaces bounds what is counted for the place of a request, and how many requests of a namespace are looked at.
const mostPlaces = 1000

// Decide answers a request. It answers the same for all who ask in the same situation.
func Decide(view View, request Request) Answer {
	others := slices.DeleteFunc(slices.Clone(view.Waiting), func(w Request) bool { return w.ID == request.ID })
	// Most requests do not even fit beside what is held, and then nobody's place matters.
	answer := view.enter(request.ID, append(others, request)).admit(request)
	if answer.Exceeded != nil && len(others) >= mostPlaces {
		return answer
	}
	line := view.line(request.ID, append(others, request))
	of := slices.IndexFunc(line, func(p placed) bool { return p.ID == request.ID })
	answer = line[of].Answer
	if answer.Exceeded != nil && len(others) < mostPlaces {
		answer.Exceeded.Place, answer.Exceeded.Waiting = place(line, of)
	}
	return answer
}

// place among those that exceed the same limit, and how many they are.
func place(line []placed, of int) (place, waiting int) {
	for i, p := range line {
		if p.Exceeded == nil || !p.Exceeded.same(*line[of].Exceeded) {
			continue
		}
		waiting++
		if i <= of {
			place++
		}
	}
	return place, waiting
}

// same reports whether it is about the same limit.
func (e Exceeded) same(other Exceeded) bool {
	return e.Kind == other.Kind && e.Name == other.Name && e.Resource == other.Resource
}

// Position is that of one that waits.
type Position struct {
	// Granted: it would be granted now.
	Granted bool
	// Place and Waiting are those of Exceeded.
	Place, Waiting int
}

// Positions are those of all that wait and are looked at, by their IDs.
func (v View) Positions() map[string]Position {
	line := v.line("", v.Waiting)
	positions := make(map[string]Position, len(line))
	waiting := map[Exceeded]int{}
	limit := func(e *Exceeded) Exceeded { return Exceeded{Kind: e.Kind, Name: e.Name, Resource: e.Resource} }
	for _, p := range line {
		at := Position{Granted: p.Exceeded == nil}
		if !at.Granted && len(v.Waiting) <= mostPlaces {
			waiting[limit(p.Exceeded)]++
			at.Place = waiting[limit(p.Exceeded)]
		}
		positions[p.ID] = at
	}
	for _, p := range line {
		if at := positions[p.ID]; at.Place > 0 {
			at.Waiting = waiting[limit(p.Exceeded)]
			positions[p.ID] = at
		}
	}
	return positions
}

// Next returns the IDs of those that wait and would be granted now, first come first.
func Next(view View) []string {
	var ids []string
	for _, p := range view.line("", view.Waiting) {
		if p.Exceeded == nil {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// placed is a request with its answer.
type placed struct {
	Request
	Answer
}

// line admits requests one after the other. Those of a namespace come by priority and then by age. Among namespaces
// that have the least of what is shared for their weight comes first, and of several the one whose request is older:
// none has a second run before each of the others that could has its first. Of a namespace, no more than mostPlaces are
// looked at, and the one that is decided.
func (v View) line(except string, queue []Request) []placed {
	groups := map[string][]Request{}
	for _, r := range queue {
		groups[r.Namespace] = append(groups[r.Namespace], r)
	}
	names := slices.Sorted(maps.Keys(groups))
	for _, name := range names {
		slices.SortStableFunc(groups[name], Request.before)
		groups[name] = front(groups[name], except)
	}
	h, line := v.enter(except, queue), make([]placed, 0, len(queue))
	taken := map[string]float64{} // by the first of each, which nothing changes but an admission of the namespace
	for _, name := range names {
		taken[name] = h.taken(groups[name][0])
	}
	before := func(a, b string) int {
		return cmp.Or(cmp.Compare(taken[a], taken[b]), groups[a][0].older(groups[b][0]))
	}
	slices.SortFunc(names, before)
	for len(names) > 0 {
		name := names[0]
		r := groups[name][0]
		line = append(line, placed{r, h.admit(r)})
		if groups[name] = groups[name][1:]; len(groups[name]) == 0 {
			names = names[1:]
			continue
		}
		taken[name] = h.taken(groups[name][0])
		to, _ := slices.BinarySearchFunc(names[1:], name, before)
		copy(names, names[1:to+1])
		names[to] = name
	}
	return line
}

// front are the first of a queue, and the one with the ID wherever it stands.
func front(queue []Request, id string) []Request {
	if len(queue) <= mostPlaces {
		return queue
	}
	first, rest := queue[:mostPlaces:mostPlaces], queue[mostPlaces:]
	if at := slices.IndexFunc(rest, func(r Request) bool { return r.ID == id }); at >= 0 {
		return append(first, rest[at])
	}
	return first
}

// Used is what is held of all that hard limits.
func Used(hard Amounts, held []Held) Amounts {
	used := Amounts{}
	for resource, limit := range hard {
		used[resource] = 0
		for _, h := range held {
			used[resource] = add(used[resource], of(h.Amounts[resource], limit))
		}
	}
	return used
}

// hall is where those that wait are admitted, one after the other.
type hall struct {
	limits  []Limits
	weights map[string]int64
	// own are the limits, by index, of each namespace; shared those of all.
	own    map[string][]int
	shared []int
	// sharing are those of shared that cover something that goes to a Peer.
	sharing map[string][]int
	// used and kept are of the limits: what is held or granted, and what is kept for those before.
	used, kept []Amounts
	// runs of each namespace that count against a limit that is shared, with those that something is kept for.
	runs []map[string]int64
	// shares are those of runs that have a part of the bandwidth of a limit that is shared.
	shares []map[string]int64
	// weight of all namespaces together that have a part of the bandwidth of a limit, or want one.
	weight []int64
}

// enter counts what is held by all but one, and who is in the queue.
func (v View) enter(except string, queue []Request) *hall {
	h := &hall{limits: v.Limits, weights: v.Weights, own: map[string][]int{}, sharing: map[string][]int{}}
	for i, limits := range v.Limits {
		used := Amounts{}
		for resource := range limits.Hard {
			used[resource] = 0
		}
		h.used, h.kept = append(h.used, used), append(h.kept, Amounts{})
		h.runs, h.shares = append(h.runs, map[string]int64{}), append(h.shares, map[string]int64{})
		if limits.Shared {
			h.shared = append(h.shared, i)
		} else {
			h.own[limits.Namespace] = append(h.own[limits.Namespace], i)
		}
	}
	for _, held := range v.Held {
		if held.ID == except {
			continue
		}
		for _, i := range h.covering(held.Namespace, held.Peer) {
			for resource, limit := range h.limits[i].Hard {
				h.used[i][resource] = add(h.used[i][resource], of(held.Amounts[resource], limit))
			}
			h.runs[i][held.Namespace] += held.Amounts[RunningTransfers]
			if held.Amounts[Share] > 0 {
				h.shares[i][held.Namespace]++
			}
		}
	}
	h.weigh(queue)
	return h
}

// weigh sums up the weights of the namespaces that share bandwidth.
func (h *hall) weigh(queue []Request) {
	h.weight = make([]int64, len(h.limits))
	if len(h.shared) == 0 {
		return
	}
	type member struct {
		limits    int
		namespace string
	}
	counted := map[member]bool{}
	count := func(i int, namespace string) {
		if _, limited := h.limits[i].Hard[Share]; limited && !counted[member{i, namespace}] {
			counted[member{i, namespace}] = true
			h.weight[i] += weightOf(h.weights, namespace)
		}
	}
	for _, i := range h.shared {
		for namespace := range h.shares[i] {
			count(i, namespace)
		}
	}
	for j := range queue {
		if queue[j].Bandwidth == nil {
			continue
		}
		for _, i := range h.covered(queue[j].Peer) {
			count(i, queue[j].Namespace)
		}
	}
}

// full reports whether a namespace that has a run has no room for another one in its part of the bandwidth of a limit.
// Without that, many runs with LeastBandwidth would take what belongs to namespaces of more weight.
func (h *hall) full(i int, namespace string) bool {
	runs := h.shares[i][namespace]
	return runs > 0 && float64((runs+1)*LeastBandwidth)*float64(h.weight[i]) >
		float64(h.limits[i].Hard[Share])*float64(weightOf(h.weights, namespace))
}

// covering are the limits that something counts against.
func (h *hall) covering(namespace, peer string) []int {
	own := h.own[namespace]
	if len(h.shared) == 0 {
		return own
	}
	return slices.Concat(own, h.covered(peer))
}

// covered are the limits that are shared by what goes to a Peer.
func (h *hall) covered(peer string) []int {
	all, known := h.sharing[peer]
	if !known {
		for _, i := range h.shared {
			if h.limits[i].covers("", peer) {
				all = append(all, i)
			}
		}
		h.sharing[peer] = all
	}
	return all
}

// taken is how much of what is shared the namespace of a request has for its weight: the largest part of a limit.
func (h *hall) taken(r Request) float64 {
	weight, taken := weightOf(h.weights, r.Namespace), 0.0
	for _, i := range h.covered(r.Peer) {
		taken = max(taken, float64(h.runs[i][r.Namespace])/float64(h.limits[i].runs())/float64(weight))
	}
	return taken
}

// admit grants a request, or keeps for it what it lacks.
func (h *hall) admit(r Request) Answer {
	bandwidth := h.bandwidth(r)
	covering := h.covering(r.Namespace, r.Peer)
	if short := h.short(r, bandwidth, covering); len(short) > 0 {
		h.keep(r, short)
		first := max(slices.IndexFunc(short, func(s shortage) bool { return s.Part }), 0)
		return Answer{Exceeded: &short[first].Exceeded}
	}
	share := int64(0)
	for _, i := range covering {
		for resource := range h.limits[i].Hard {
			wanted := r.wants(resource, bandwidth)
			if resource == Share {
				share = wanted
			}
			h.used[i][resource] = add(h.used[i][resource], wanted)
		}
		h.runs[i][r.Namespace] += r.Amounts[RunningTransfers]
		if r.Bandwidth != nil {
			h.shares[i][r.Namespace]++
		}
	}
	if bandwidth == 0 {
		bandwidth = Unlimited
	}
	return Answer{Bandwidth: bandwidth, Share: share}
}

// wants is what a request needs of a resource, when it is to be granted that bandwidth.
func (r Request) wants(resource Resource, bandwidth int64) int64 {
	switch {
	case resource == Bandwidth:
		return bandwidth
	case resource == Share && r.Bandwidth != nil:
		return LeastBandwidth
	}
	return r.Amounts[resource]
}

// shortage is a limit, by its index, that a request does not fit into.
type shortage struct {
	limits int
	Exceeded
}

// short are the limits that a request does not fit into, in the order of Resources.
func (h *hall) short(r Request, bandwidth int64, covering []int) []shortage {
	var short []shortage
	for _, resource := range Resources {
		wanted := r.wants(resource, bandwidth)
		for _, i := range covering {
			limits := h.limits[i]
			limit, limited := limits.Hard[resource]
			if !limited || wanted == 0 {
				continue
			}
			used, part := h.used[i][resource], resource == Share && h.full(i, r.Namespace)
			if !part && add(add(used, h.kept[i][resource]), wanted) <= limit {
				continue
			}
			short = append(short, shortage{limits: i, Exceeded: Exceeded{
				Kind: limits.Kind, Name: limits.Name, Resource: resource, Limit: limit, Used: used, Wanted: wanted,
				Behind: !part && add(used, wanted) <= limit, Part: part,
			}})
		}
	}
	return short
}

// keep keeps from those behind what a request lacks, unless it would never fit, or not before others of its namespace
// end.
func (h *hall) keep(r Request, short []shortage) {
	if slices.ContainsFunc(short, func(s shortage) bool { return s.Never() || s.Part }) {
		return
	}
	counted := map[int]bool{}
	for _, s := range short {
		if !counted[s.limits] {
			counted[s.limits] = true
			h.runs[s.limits][r.Namespace] += r.Amounts[RunningTransfers]
		}
		if s.Resource.ends() {
			h.kept[s.limits][s.Resource] = add(h.kept[s.limits][s.Resource], s.Wanted)
		}
		if s.Resource == Share {
			h.shares[s.limits][r.Namespace]++
		}
	}
}

// bandwidth is what a request is to be granted: what it would use, but no more than there is at all. One without a
// limit of its own takes an equal share where running Transfers are limited, else what is left. 0: it uses none.
func (h *hall) bandwidth(r Request) int64 {
	if r.Bandwidth == nil {
		return 0
	}
	wanted, slots := *r.Bandwidth, int64(Unlimited)
	for _, i := range h.own[r.Namespace] {
		if limit, limited := h.limits[i].Hard[RunningTransfers]; limited {
			slots = min(slots, limit)
		}
	}
	for _, i := range h.own[r.Namespace] {
		limit, limited := h.limits[i].Hard[Bandwidth]
		if !limited {
			continue
		}
		most := limit
		if *r.Bandwidth == Unlimited && slots != Unlimited {
			most = limit / max(slots, 1)
		} else if *r.Bandwidth == Unlimited {
			most = limit - min(limit, add(h.used[i][Bandwidth], h.kept[i][Bandwidth]))
		}
		wanted = min(wanted, max(most, LeastBandwidth))
	}
	return wanted
}
