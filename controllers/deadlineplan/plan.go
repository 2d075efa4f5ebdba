// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deadlineplan says when work is done that a run has, and when, how and where a run with a deadline starts to
// cost least. It is pure.
//
// Where prices, windows and limits change at certain times only, what a run costs changes with its start in straight
// lines, whose ends are where its start or its end meets such a time. So these starts are all that is looked at.
package deadlineplan

import (
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/tariff"
	"github.com/lighterage/lighterage/controllers/windows"
)

const (
	// A run may wait if it is in time even if it takes MarginPart of what is expected longer, and MarginFixed for pods to
	// start, copies of the source and hooks. The soonest start needs no margin: it is as with strategy Soonest.
	MarginPart = 0.25
	// MarginFixed is the other part of the margin.
	MarginFixed = 5 * time.Minute
	// MaxBoundaries is how many times at which prices or windows change are looked at, the next ones first. Those after them
	// are looked at when the plan is made again.
	MaxBoundaries = 128
	// tolerance is by which part a start may cost more than the cheapest if it is earlier.
	tolerance = 0.01
)

// Option is a way in which a run could be made.
type Option struct {
	Objective v1alpha1.CompressionObjective
	// Selector has labels of the nodes; nil: any.
	Selector map[string]string
	Work     Work
	// CPU is what this cluster spends, and WireBytes what it is charged for. They are not negative.
	CPU       time.Duration
	WireBytes int64
	// Prices of CPU time on the nodes, and of bytes on the wire.
	Prices *tariff.Course
}

// Choice is an option at a start.
type Choice struct {
	// Option is its index.
	Option     int
	Start, End time.Time
	Cost       float64
}

// Question is what is asked.
type Question struct {
	Terms   Terms
	Now, By time.Time
	// Since is when the run was wanted, before Now if it has waited; zero: now.
	Since   time.Time
	Options []Option
	// Usual is the index of the option that is taken without a plan, Hurried that of the one with least time; -1: none.
	Usual, Hurried int
}

// Answer is what is planned, and what else could have been.
type Answer struct {
	Chosen Choice
	// Now is Usual at once, Hurried that option at once, Latest what is chosen at its last start, and Other the best of the
	// options with another selector. Those that do not exist are nil. The first two may be late.
	Now, Hurried, Latest, Other *Choice
}

// planner is a question with all that is looked at more than once.
type planner struct {
	Question
	// soonest is until when a start counts as not waiting: when an attempt could begin at the earliest since the run was
	// wanted. One that was put off for an option with a margin never begins with another one that has none.
	soonest  time.Time
	timeline []stretch
	tiers    [][]tier
}

// tier is a time with one price of an option. A time to that is zero is never.
type tier struct {
	from, to time.Time
	rates    tariff.Rates
}

// Choose answers; false: nothing is expected to be in time, so that a run is to start at once.
func Choose(q Question) (a Answer, ok bool) {
	p := &planner{Question: q}
	for s := range q.Terms.stretches(q.Now) {
		if p.timeline = append(p.timeline, s); !s.to.IsZero() && !s.to.Before(q.By) {
			break
		}
	}
	since := q.Since
	if since.IsZero() {
		since = q.Now
	}
	if p.soonest, ok = opens(q.Terms.stretches(since)); !ok {
		return Answer{}, false
	}
	p.soonest = p.soonest.Add(MarginFixed)
	for i, o := range q.Options {
		if like := slices.IndexFunc(q.Options[:i], func(l Option) bool { return l.Prices == o.Prices }); like >= 0 {
			p.tiers = append(p.tiers, p.tiers[like])
		} else {
			p.tiers = append(p.tiers, p.follow(o.Prices))
		}
	}
	boundaries := p.boundaries()
	var all []Choice
	for i := range q.Options {
		for _, start := range p.starts(i, boundaries) {
			if c, ok := p.choice(i, start); ok && !c.End.After(p.By) && p.inTime(c) {
				all = append(all, c)
			}
		}
	}
	if len(all) == 0 {
		return Answer{}, false
	}
	a.Chosen = best(all)
	chosen := a.Chosen.Option
	a.Now = p.known(q.Usual, q.Now)
	if q.Hurried != q.Usual {
		a.Hurried = p.known(q.Hurried, q.Now)
	}
	if start, ok := p.latest(p.widened(chosen), q.By.Add(-MarginFixed)); ok && start.After(a.Chosen.Start) {
		a.Latest = p.known(chosen, start.Truncate(time.Second))
	}
	others := slices.DeleteFunc(all, func(c Choice) bool {
		return maps.Equal(q.Options[c.Option].Selector, q.Options[chosen].Selector)
	})
	if len(others) > 0 {
		other := best(others)
		a.Other = &other
	}
	return a, true
}

// best is the first start of those that cost hardly more than the least, and what costs least of those at that time.
func best(all []Choice) Choice {
	least := math.Inf(1)
	for _, c := range all {
		least = min(least, c.Cost)
	}
	var chosen *Choice
	for i := range all {
		c := &all[i]
		if c.Cost > least*(1+tolerance) {
			continue
		}
		if chosen == nil || c.Start.Before(chosen.Start) || c.Start.Equal(chosen.Start) && c.Cost < chosen.Cost {
			chosen = c
		}
	}
	return *chosen
}

// follow are the prices from now until the deadline. Where there are too many, the deadline is brought forward to the
// last one, beyond which nothing is known.
func (p *planner) follow(prices *tariff.Course) (all []tier) {
	at := p.Now
	for range MaxBoundaries {
		rates, until := prices.At(at)
		if last := len(all) - 1; last >= 0 && all[last].rates == rates {
			all[last].to = until
		} else {
			all = append(all, tier{at, until, rates})
		}
		if until.IsZero() || !until.Before(p.By) {
			return all
		}
		at = until
	}
	p.By = at
	return all
}

// boundaries are the next times at which anything changes.
func (p *planner) boundaries() (all []time.Time) {
	for _, s := range p.timeline {
		all = append(all, s.from, s.to)
	}
	for _, tiers := range p.tiers {
		for _, t := range tiers {
			all = append(all, t.from, t.to)
		}
	}
	all = slices.DeleteFunc(all, func(t time.Time) bool { return !t.After(p.Now) || t.After(p.By) })
	slices.SortFunc(all, time.Time.Compare)
	all = slices.CompactFunc(all, time.Time.Equal)
	return all[:min(len(all), MaxBoundaries)]
}

// starts of an option: now, at a boundary, with its end at one, and the last one that is in time.
func (p *planner) starts(option int, boundaries []time.Time) []time.Time {
	all := append([]time.Time{p.Now}, boundaries...)
	for _, b := range boundaries {
		if start, ok := p.latest(p.Options[option].Work, b); ok {
			all = append(all, start.Truncate(time.Second))
		}
	}
	if start, ok := p.latest(p.widened(option), p.By.Add(-MarginFixed)); ok {
		all = append(all, start.Truncate(time.Second))
	}
	return all
}

// widened is the work of an option with the margin.
func (p *planner) widened(option int) Work {
	w := p.Options[option].Work
	return Work{
		Active:    time.Duration((1 + MarginPart) * float64(min(max(w.Active, 0), MostActive))),
		WireBytes: int64((1 + MarginPart) * float64(min(max(w.WireBytes, 0), math.MaxInt64/2))),
	}
}

// from are the stretches from a time on.
func (p *planner) from(start time.Time) iter.Seq[stretch] {
	return func(yield func(stretch) bool) {
		i, found := slices.BinarySearchFunc(p.timeline, start, func(s stretch, t time.Time) int { return s.from.Compare(t) })
		if !found && i > 0 {
			i--
		}
		for _, s := range p.timeline[i:] {
			if !s.to.IsZero() && !s.to.After(start) {
				continue
			}
			if s.from.Before(start) {
				s.from = start
			}
			if !yield(s) {
				return
			}
		}
	}
}

// latest is the last start of work that is done by a time; false: there is none any more.
func (p *planner) latest(work Work, by time.Time) (start time.Time, ok bool) {
	left := 1.0
	for i := len(p.timeline) - 1; i >= 0; i-- {
		s := p.timeline[i]
		to := s.to
		if to.IsZero() || to.After(by) {
			to = by
		}
		if !s.open || !to.After(s.from) {
			continue
		}
		whole := takes(work, s.limit)
		rest := time.Duration(left * float64(whole))
		if rest <= to.Sub(s.from) {
			return to.Add(-rest), true
		}
		left -= float64(to.Sub(s.from)) / float64(whole)
	}
	return time.Time{}, false
}

// inTime: a choice that ends in time does so with the margin, if it waits.
func (p *planner) inTime(c Choice) bool {
	if !c.Start.After(p.soonest) {
		return true
	}
	end, ok := carry(p.from(c.Start), p.widened(c.Option), nil)
	return ok && !end.Add(MarginFixed).After(p.By)
}

// opens is when an attempt may begin within stretches; false: in none.
func opens(all iter.Seq[stretch]) (time.Time, bool) {
	for s := range all {
		if s.open && windows.Begins(s.from, s.closes) {
			return s.from, true
		}
	}
	return time.Time{}, false
}

// choice is an option at a start, or where no attempt may begin then at the first time at which one may; false: it is
// in the past, or does not end.
func (p *planner) choice(option int, start time.Time) (c Choice, ok bool) {
	if start.Before(p.Now) {
		return c, false
	}
	c.Option = option
	if c.Start, ok = opens(p.from(start)); !ok {
		return c, false
	}
	o := &p.Options[option]
	c.End, ok = carry(p.from(c.Start), o.Work, func(from, to time.Time, part float64) {
		c.Cost += part * p.price(option, from, to)
	})
	return c, ok
}

// known is a choice, nil where there is none.
func (p *planner) known(option int, start time.Time) *Choice {
	if option < 0 {
		return nil
	}
	if c, ok := p.choice(option, start); ok {
		return &c
	}
	return nil
}

// price of all of an option's work if it were done evenly from one time to another. The last price that was looked at
// lasts.
func (p *planner) price(option int, from, to time.Time) (cost float64) {
	if !to.After(from) {
		to = from.Add(1)
	}
	o, tiers := &p.Options[option], p.tiers[option]
	i, _ := slices.BinarySearchFunc(tiers, from, func(t tier, at time.Time) int { return t.from.Compare(at) })
	for i = max(i-1, 0); i < len(tiers) && tiers[i].from.Before(to); i++ {
		t := &tiers[i]
		begin, end := t.from, t.to
		if begin.Before(from) {
			begin = from
		}
		if i == len(tiers)-1 || end.After(to) {
			end = to
		}
		if end.After(begin) {
			part := float64(end.Sub(begin)) / float64(to.Sub(from))
			cost += part * (t.rates.CPU(float64(o.CPU)) + t.rates.Network(float64(o.WireBytes)))
		}
	}
	return cost
}
