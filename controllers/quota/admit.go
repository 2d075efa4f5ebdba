// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"cmp"
	"slices"
	"time"
)

// LeastBandwidth is the least that a run is granted, in bytes per second: what the API allows as a limit.
const LeastBandwidth = 256 << 10

// Held is what something holds that was admitted.
type Held struct {
	// ID is unique in the namespace: the object's UID.
	ID      string
	Amounts Amounts
}

// Request asks for something to be admitted.
type Request struct {
	// ID is that of Held. What it holds already is not counted against it: Amounts are what it will hold altogether.
	ID string
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

// before orders requests by who is first.
func (r Request) before(other Request) int {
	if r.Since.IsZero() != other.Since.IsZero() {
		if r.Since.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(r.Since.Compare(other.Since), r.Created.Compare(other.Created), cmp.Compare(r.Name, other.Name))
}

// View is what is known of a namespace.
type View struct {
	Limits []Limits
	Held   []Held
	// Waiting are those that were not admitted and still want to be.
	Waiting []Request
}

// Answer to a request.
type Answer struct {
	// Exceeded says why not; nil: granted.
	Exceeded *Exceeded
	// Bandwidth that is granted, in bytes per second. Unlimited where nothing limits it, and for a request without.
	Bandwidth int64
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
}

// Never reports whether it would not fit if nothing else were there.
func (e Exceeded) Never() bool { return e.Wanted > e.Limit }

// Decide answers a request. It answers the same for all who ask in the same situation.
func Decide(view View, request Request) Answer {
	// Most requests do not even fit beside what is held, and then nobody's place matters.
	if answer := view.enter(request.ID).admit(request); answer.Exceeded != nil {
		return answer
	}
	queue := slices.DeleteFunc(slices.Clone(view.Waiting), func(w Request) bool { return w.ID == request.ID })
	queue = append(queue, request)
	slices.SortStableFunc(queue, Request.before)
	hall := view.enter(request.ID)
	for _, r := range queue {
		answer := hall.admit(r)
		if r.ID == request.ID {
			return answer
		}
	}
	return Answer{}
}

// Next returns the IDs of those that wait and would be granted now, first come first.
func Next(view View) []string {
	queue := slices.Clone(view.Waiting)
	slices.SortStableFunc(queue, Request.before)
	hall := view.enter("")
	var ids []string
	for _, r := range queue {
		if hall.admit(r).Exceeded == nil {
			ids = append(ids, r.ID)
		}
	}
	return ids
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
	limits []Limits
	// used and kept are of the limits: what is held or granted, and what is kept for those before.
	used, kept []Amounts
	// slots is the smallest limit of running Transfers; Unlimited if there is none.
	slots int64
}

// enter counts what is held by all but one.
func (v View) enter(except string) *hall {
	held := slices.DeleteFunc(slices.Clone(v.Held), func(h Held) bool { return h.ID == except })
	h := &hall{limits: v.Limits, slots: Unlimited}
	for _, limits := range v.Limits {
		h.used = append(h.used, Used(limits.Hard, held))
		h.kept = append(h.kept, Amounts{})
		if slots, limited := limits.Hard[RunningTransfers]; limited {
			h.slots = min(h.slots, slots)
		}
	}
	return h
}

// admit grants a request, or keeps for it what it lacks.
func (h *hall) admit(r Request) Answer {
	bandwidth := h.bandwidth(r)
	if short := h.short(r, bandwidth); len(short) > 0 {
		h.keep(short)
		return Answer{Exceeded: &short[0].Exceeded}
	}
	for i, limits := range h.limits {
		for resource := range limits.Hard {
			h.used[i][resource] = add(h.used[i][resource], r.wants(resource, bandwidth))
		}
	}
	if bandwidth == 0 {
		bandwidth = Unlimited
	}
	return Answer{Bandwidth: bandwidth}
}

// wants is what a request needs of a resource, when it is to be granted that bandwidth.
func (r Request) wants(resource Resource, bandwidth int64) int64 {
	if resource == Bandwidth {
		return bandwidth
	}
	return r.Amounts[resource]
}

// shortage is a limit, by its index, that a request does not fit into.
type shortage struct {
	limits int
	Exceeded
}

// short are the limits that a request does not fit into, in the order of Resources.
func (h *hall) short(r Request, bandwidth int64) []shortage {
	var short []shortage
	for _, resource := range Resources {
		wanted := r.wants(resource, bandwidth)
		for i, limits := range h.limits {
			limit, limited := limits.Hard[resource]
			used := h.used[i][resource]
			if !limited || wanted == 0 || add(add(used, h.kept[i][resource]), wanted) <= limit {
				continue
			}
			short = append(short, shortage{limits: i, Exceeded: Exceeded{
				Kind: limits.Kind, Name: limits.Name, Resource: resource, Limit: limit, Used: used, Wanted: wanted,
				Behind: add(used, wanted) <= limit,
			}})
		}
	}
	return short
}

// keep keeps from those behind what a request lacks, unless it would never fit.
func (h *hall) keep(short []shortage) {
	if slices.ContainsFunc(short, func(s shortage) bool { return s.Never() }) {
		return
	}
	for _, s := range short {
		if s.Resource.ends() {
			h.kept[s.limits][s.Resource] = add(h.kept[s.limits][s.Resource], s.Wanted)
		}
	}
}

// bandwidth is what a request is to be granted: what it would use, but no more than there is at all. One without a
// limit of its own takes an equal share where running Transfers are limited, else what is left. 0: it uses none.
func (h *hall) bandwidth(r Request) int64 {
	if r.Bandwidth == nil {
		return 0
	}
	wanted := *r.Bandwidth
	for i, limits := range h.limits {
		limit, limited := limits.Hard[Bandwidth]
		if !limited {
			continue
		}
		most := limit
		if *r.Bandwidth == Unlimited && h.slots != Unlimited {
			most = limit / max(h.slots, 1)
		} else if *r.Bandwidth == Unlimited {
			most = limit - min(limit, add(h.used[i][Bandwidth], h.kept[i][Bandwidth]))
		}
		wanted = min(wanted, max(most, LeastBandwidth))
	}
	return wanted
}
