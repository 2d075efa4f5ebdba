// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/lighterage/lighterage/agent/codec"
)

// target is a bound that a measured figure should keep. Missing one fails nothing:
// the machine may have been busy.
type target struct {
	name     string
	measured float64
	bound    float64
	atMost   bool // else at least
	percent  bool
	digits   int
	// what is compared and where it was worst.
	what, worst string
}

func (t target) ok() bool {
	if t.atMost {
		return t.rounded() <= t.bound
	}
	return t.rounded() >= t.bound
}

// rounded is the figure as it is printed, so that nobody reads "0.95, at least 0.95,
// miss".
func (t target) rounded() float64 {
	scale := math.Pow(10, float64(t.digits))
	if t.percent {
		scale *= 100
	}
	return math.Round(t.measured*scale) / scale
}

func (t target) verdict() string {
	if t.ok() {
		return "ok"
	}
	return "miss"
}

func (t target) figure(f float64) string {
	if t.percent {
		return fmt.Sprintf("%.*f%%", t.digits, 100*f)
	}
	return fmt.Sprintf("%.*f", t.digits, f)
}

func (t target) limit() string {
	sign := ">="
	if t.atMost {
		sign = "<="
	}
	return sign + t.figure(t.bound)
}

// line is what the command prints for a target.
func (t target) line() string {
	return fmt.Sprintf("target %s %s %s %s", t.name, t.figure(t.measured), t.limit(), t.verdict())
}

// spread sums up the figures of several corpora.
type spread struct {
	values []float64
	worst  float64
	where  string
	// high says that more is worse.
	high bool
}

func (s *spread) add(where string, value float64) {
	if len(s.values) == 0 || (value > s.worst) == s.high {
		s.worst, s.where = value, where
	}
	s.values = append(s.values, value)
}

func (s *spread) fill(t target) target {
	t.measured = geometricMean(s.values)
	t.worst = fmt.Sprintf("%s on %s", t.figure(s.worst), s.where)
	return t
}

// find returns the result of a contender on a corpus.
func find(results []result, contender, corpus string) (result, bool) {
	for _, r := range results {
		if r.contender == contender && r.corpus == corpus {
			return r, true
		}
	}
	return result{}, false
}

// against compares two contenders over the ordinary corpora.
func (b *bench) against(results []result, ours, theirs string) (speed, ratio spread) {
	ratio.high = true
	for _, corpus := range b.ordinary() {
		a, okA := find(results, ours, corpus)
		c, okC := find(results, theirs, corpus)
		if okA && okC {
			speed.add(corpus, a.faster(c))
			ratio.add(corpus, a.ratio()/c.ratio())
		}
	}
	return speed, ratio
}

// targets judges what was measured. What this machine could not measure, for want of
// a program or a library, is not among them.
func (b *bench) targets(r *results, cores int) []target {
	var all []target
	if fast, ok := b.preferred(codec.Deflate, codec.Fast); ok {
		if speed, ratio := b.against(r.compress, fast.name(), "igzip -1"); len(speed.values) > 0 {
			all = append(all,
				speed.fill(
					target{name: "deflate-fast-vs-igzip", bound: 0.95, digits: 2, what: fast.name() + " by `igzip -1`, speed"},
				),
				ratio.fill(
					target{
						name: "deflate-fast-ratio-vs-igzip", bound: 1, atMost: true, digits: 3,
						what: fast.name() + " in blocks of 1 MiB by `igzip -1` in one piece, compressed size",
					},
				))
		}
	}
	if speed, _ := b.against(r.compress, "zlib-ng Balanced", "zlib-ng in C Balanced"); len(speed.values) > 0 {
		all = append(
			all,
			speed.fill(
				target{
					name: "balanced-vs-c-loop", bound: 0.95, digits: 2,
					what: "zlib-ng Balanced by a loop in C over zlib-ng at the same level, speed",
				},
			),
		)
	}
	if t, ok := coresTarget(r, cores); ok {
		all = append(all, t)
	}
	if t, ok := b.inflateTarget(r); ok {
		all = append(all, t)
	}
	all = append(all, b.decisionTargets(r)...)
	allocations := target{
		name: "allocs-per-block", atMost: true, what: "objects allocated for a block by any engine or by frame",
		worst: "none allocates",
	}
	for _, a := range r.allocations {
		if a.objects > allocations.measured {
			allocations.measured, allocations.worst = a.objects, a.name
		}
	}
	return append(all, allocations)
}

// decisionTargets bound what deciding costs. What the estimate costs on noise is part
// of what random data cost.
func (b *bench) decisionTargets(r *results) []target {
	var all []target
	estimates := spread{high: true}
	for i, e := range r.decisions.estimates {
		if slices.Contains(b.ordinary(), e.corpus) {
			estimates.add(e.corpus, 1/e.faster(r.decisions.compressed[i]))
		}
	}
	if len(estimates.values) > 0 {
		t := estimates.fill(target{name: "estimate-cost", bound: 0.02, atMost: true, percent: true, digits: 1,
			what: "the estimate of a block by " + r.decisions.compressed[0].contender + " of it, CPU; the worst corpus counts"})
		t.measured = estimates.worst
		all = append(all, t)
	}
	for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
		random, beyond := spread{high: true}, spread{high: true}
		for _, m := range r.decisions.modes {
			if m.auto.corpus == "random" && m.setting.engine.Codec() == id {
				random.add(m.setting.name(), 1/m.auto.faster(m.always))
				beyond.add(m.setting.name(), m.beyond())
			}
		}
		for _, t := range []struct {
			spread
			name, what string
		}{
			{
				random, "random-cost-",
				"a block of random data in mode Auto, its checksum included, by one in mode Always, CPU; the worst level counts",
			},
			{beyond, "random-decision-", "the same, both without what the block costs in mode Never"},
		} {
			if len(t.values) > 0 {
				filled := t.fill(
					target{name: t.name + id.String(), bound: 0.1, atMost: true, percent: true, digits: 1, what: t.what},
				)
				filled.measured = t.worst
				all = append(all, filled)
			}
		}
	}
	return all
}

// coresTarget is stated for two cores; on more the same share of the ideal counts.
func coresTarget(r *results, cores int) (target, bool) {
	var scaling spread
	for _, c := range r.cores {
		name := c.name + " compressing " + c.corpus
		if c.inflate {
			name = c.name + " inflating " + c.corpus
		}
		scaling.add(name, c.scaling())
	}
	if cores < 2 || len(scaling.values) == 0 {
		return target{}, false
	}
	return scaling.fill(target{
		name: "all-cores-vs-one", bound: 1.85 / 2 * float64(cores), digits: 2,
		what: fmt.Sprintf("%d cores by one, wall time", cores),
	}), true
}

// inflateTarget compares the fastest of our deflate engines, which is what an agent
// measures and takes, with the fastest of the others, each by its mean: who is fastest
// on each corpus by itself is partly chance.
func (b *bench) inflateTarget(r *results) (target, bool) {
	var names []string
	for _, e := range b.engines {
		if e.Codec() == codec.Deflate {
			names = append(names, e.Name())
		}
	}
	ofFast := slices.DeleteFunc(slices.Clone(r.inflate), func(f result) bool {
		return f.codec != codec.Deflate || f.level != codec.Fast
	})
	ours := fastest(ofFast, names)
	theirs := fastest(ofFast, append([]string{"igzip -d"}, b.loopNames()...))
	if ours == "" || theirs == "" {
		return target{}, false
	}
	speed, _ := b.against(ofFast, ours, theirs)
	return speed.fill(target{
		name: "inflate-vs-fastest", bound: 0.95, digits: 2,
		what: fmt.Sprintf(
			"%s inflating what was deflated at Fast by %s, the fastest of `igzip -d` and the loops in C, speed", ours, theirs,
		),
	}), true
}

// fastest returns the contender with the highest mean speed, "" when none took part.
func fastest(results []result, names []string) string {
	best, found := 0.0, ""
	for _, name := range names {
		if speed := mean(results, name, result.speed); speed > best { // not when it is NaN
			best, found = speed, name
		}
	}
	return found
}

func (b *bench) loopNames() []string {
	var names []string
	for _, l := range b.loops {
		names = append(names, l.name())
	}
	return names
}
