// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"cmp"
	"slices"
)

// The bandwidth of a Peer, or of the cluster, is shared among the runs that there are: among their namespaces by weight,
// and equally among the runs of a namespace. What one cannot use goes to the others. A run has its Share until it is
// changed; the sum of all never exceeds the limit, as nobody is given more than what others have given back. A run begins
// with LeastBandwidth and has more when its agent answers: one that does not start takes nothing that others could use.

// enough is the part of its share, one in so many, by which that of a run must be wrong to be changed.
const enough = 10

// sharer is one that shares bandwidth.
type sharer struct {
	id, namespace, peer string
	// most that it can use.
	most int64
}

// ShareOf is what a run that holds a Share is to have; false: nothing limits it. It is what the run has already, unless
// that is wrong by more than a tenth, or others wait for it.
func (v View) ShareOf(id string) (share int64, limited bool) {
	at := slices.IndexFunc(v.Held, func(h Held) bool { return h.ID == id })
	if at < 0 || v.Held[at].Amounts[Share] == 0 {
		return 0, false
	}
	own := v.Held[at]
	free, scarce := int64(Unlimited), false
	h := v.enter(id, nil)
	sharers := v.sharers()
	for _, p := range v.line("", v.Waiting) {
		if p.Exceeded != nil && p.Exceeded.Resource == Share && !p.Exceeded.Part {
			sharers = append(sharers, sharer{p.ID, p.Namespace, p.Peer, *p.Request.Bandwidth})
			scarce = scarce || p.Exceeded.Kind == KindCluster || p.Peer == own.Peer
		}
	}
	for _, i := range h.covered(own.Peer) {
		if limit, limits := h.limits[i].Hard[Share]; limits {
			free, limited = min(free, limit-min(limit, h.used[i][Share])), true
		}
	}
	if !limited {
		return 0, false
	}
	now, target := own.Amounts[Share], v.targets(sharers)[id]
	scarce = scarce || now > free
	switch {
	case target < now && (now == Unlimited || scarce || now-target > now/enough):
		return target, true
	case target > now && !scarce && min(target, free)-now > now/enough:
		return min(target, free), true
	}
	return now, true
}

// ShareOrKeep is ShareOf, and what the run has where the view does not show that it holds anything: a view may be older
// than what is known of the run itself.
func (v View) ShareOrKeep(id string, has int64) int64 {
	if !slices.ContainsFunc(v.Held, func(h Held) bool { return h.ID == id }) {
		return has
	}
	share, _ := v.ShareOf(id)
	return share
}

// sharers are all that hold a Share.
func (v View) sharers() []sharer {
	var all []sharer
	for _, h := range v.Held {
		if h.Amounts[Share] == 0 {
			continue
		}
		all = append(all, sharer{h.ID, h.Namespace, h.Peer, cmp.Or(h.Most, Unlimited)})
	}
	return all
}

// targets are what sharers are to have. The limits of Peers are shared first, and that of the cluster last.
func (v View) targets(sharers []sharer) map[string]int64 {
	targets, to := map[string]int64{}, map[string][]sharer{"": sharers}
	for _, s := range sharers {
		targets[s.id] = max(s.most, LeastBandwidth)
		if s.peer != "" {
			to[s.peer] = append(to[s.peer], s)
		}
	}
	for _, kind := range []string{KindPeer, KindCluster} {
		for _, l := range v.Limits {
			limit, limited := l.Hard[Share]
			if !limited || !l.Shared || l.Kind != kind {
				continue
			}
			groups, names := map[string][]string{}, []string(nil)
			for _, s := range to[l.Peer] {
				if len(groups[s.namespace]) == 0 {
					names = append(names, s.namespace)
				}
				groups[s.namespace] = append(groups[s.namespace], s.id)
			}
			v.divide(limit, names, groups, targets)
		}
	}
	return targets
}

// divide divides a limit among namespaces, and what one gets among its runs. Each run has LeastBandwidth at least.
func (v View) divide(limit int64, names []string, groups map[string][]string, targets map[string]int64) {
	slices.Sort(names)
	for _, given := range v.parts(limit, names, groups, targets) {
		ids := slices.Sorted(slices.Values(groups[given.namespace]))
		wanted, equal := make([]int64, len(ids)), make([]int64, len(ids))
		for j, id := range ids {
			wanted[j], equal[j] = targets[id], 1
		}
		for j, share := range pour(given.amount, wanted, equal) {
			targets[ids[j]] = max(share, LeastBandwidth)
		}
	}
}

// part is what a namespace gets of a limit.
type part struct {
	namespace string
	amount    int64
}

// parts divides a limit among namespaces by weight. One whose runs need more than its part gets what they need, and the
// others get less for it.
func (v View) parts(limit int64, names []string, groups map[string][]string, targets map[string]int64) (parts []part) {
	for {
		wanted, weights := make([]int64, len(names)), make([]int64, len(names))
		for i, name := range names {
			weights[i] = weightOf(v.Weights, name)
			for _, id := range groups[name] {
				wanted[i] = add(wanted[i], targets[id])
			}
		}
		given, open, left := pour(limit, wanted, weights), []string(nil), limit
		var poured []part
		for i, name := range names {
			if least := int64(len(groups[name])) * LeastBandwidth; given[i] < least {
				parts, left = append(parts, part{name, least}), max(left-least, 0)
				continue
			}
			poured, open = append(poured, part{name, given[i]}), append(open, name)
		}
		if len(open) == len(names) {
			return append(parts, poured...)
		}
		limit, names = left, open
	}
}

// pour divides an amount by weights, so that nobody gets more than it wants and nothing is left that somebody wants, but
// for less than one for each.
func pour(amount int64, wanted, weights []int64) []int64 {
	given, open := make([]int64, len(wanted)), make([]int, len(wanted))
	for i := range open {
		open[i] = i
	}
	// Those that want the least for their weight are satisfied first.
	level := func(i int) float64 { return float64(wanted[i]) / float64(weights[i]) }
	slices.SortStableFunc(open, func(a, b int) int { return cmp.Compare(level(a), level(b)) })
	sum := 0.0
	for _, weight := range weights {
		sum += float64(weight)
	}
	for _, i := range open {
		fair := min(int64(float64(amount)*float64(weights[i])/max(sum, 1)), amount)
		given[i] = min(wanted[i], fair)
		amount -= given[i]
		sum -= float64(weights[i])
	}
	return given
}
