// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"fmt"
	"slices"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// spread sums up the figures of several corpora.
type spread struct {
	values []harness.Estimate
	worst  harness.Estimate
	where  string
	// high says that more is worse.
	high bool
}

func (s *spread) add(where string, value harness.Estimate) {
	if len(s.values) == 0 || (value.Value > s.worst.Value) == s.high {
		s.worst, s.where = value, where
	}
	s.values = append(s.values, value)
}

// mean makes it what a target is about, and worst where it is worst.
func (s *spread) mean(t harness.Target) harness.Target {
	t.Measured = harness.MeanRatio(s.values)
	t.Note = t.Figure(s.worst.Value) + " on " + s.where
	return t
}

func (s *spread) theWorst(t harness.Target) harness.Target {
	t = s.mean(t)
	t.Measured = s.worst
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
			ratio.add(corpus, harness.Exactly(a.ratio()/c.ratio()))
		}
	}
	return speed, ratio
}

// targets judges what was measured. What this machine could not measure, for want of
// a program or a library, is not among them.
func (b *bench) targets(r *results, cores int) []harness.Target {
	var all []harness.Target
	if fast, ok := b.preferred(codec.Deflate, codec.Fast); ok {
		if speed, ratio := b.against(r.compress, fast.name(), "igzip -1"); len(speed.values) > 0 {
			all = append(all, speed.mean(faster("deflate-fast-vs-igzip", 0.95, fast.name()+" by `igzip -1`, speed")),
				ratio.mean(harness.Target{
					Name: "deflate-fast-ratio-vs-igzip", Bound: 1, Digits: 3,
					What: fast.name() + " in blocks of 1 MiB by `igzip -1` in one piece, compressed size",
				}))
		}
	}
	if speed, _ := b.against(r.compress, "zlib-ng Balanced", "zlib-ng in C Balanced"); len(speed.values) > 0 {
		all = append(all, speed.mean(faster("balanced-vs-c-loop", 0.95,
			"zlib-ng Balanced by a loop in C over zlib-ng at the same level, speed")))
	}
	if t, ok := coresTarget(r, cores); ok {
		all = append(all, t)
	}
	if t, ok := b.inflateTarget(r); ok {
		all = append(all, t)
	}
	all = append(all, b.decisionTargets(r)...)
	allocations := harness.Target{
		Name: "allocs-per-block", What: "objects allocated for a block by any engine or by frame", Note: "none allocates",
	}
	for _, a := range r.allocations {
		if a.objects > allocations.Measured.Value {
			allocations.Measured, allocations.Note = harness.Exactly(a.objects), a.name
		}
	}
	return append(all, allocations)
}

func faster(name string, bound float64, what string) harness.Target {
	return harness.Target{Name: name, What: what, Bound: bound, AtLeast: true, Digits: 2}
}

// decisionTargets bound what deciding costs. What the estimate costs on noise is part
// of what random data cost.
func (b *bench) decisionTargets(r *results) []harness.Target {
	var all []harness.Target
	cost := func(s spread, name, what string, bound float64) {
		if len(s.values) > 0 {
			all = append(all, s.theWorst(
				harness.Target{Name: name, What: what, Bound: bound, Percent: true, Digits: 1},
			))
		}
	}
	estimates := spread{high: true}
	for i, e := range r.decisions.estimates {
		if slices.Contains(b.ordinary(), e.corpus) {
			estimates.add(e.corpus, e.faster(r.decisions.compressed[i]).Inverse())
		}
	}
	if len(r.decisions.compressed) > 0 {
		cost(estimates, "estimate-cost", "the estimate of a block by "+r.decisions.compressed[0].contender+
			" of it, CPU; the worst corpus counts", 0.02)
	}
	for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
		random, beyond := spread{high: true}, spread{high: true}
		for _, m := range r.decisions.modes {
			if m.auto.corpus == "random" && m.setting.engine.Codec() == id {
				random.add(m.setting.name(), m.auto.faster(m.always).Inverse())
				beyond.add(m.setting.name(), m.beyond())
			}
		}
		cost(random, "random-cost-"+id.String(), "a block of random data in mode Auto, its checksum included, by one in "+
			"mode Always, CPU; the worst level counts", 0.1)
		cost(beyond, "random-decision-"+id.String(), "the same, both without what the block costs in mode Never", 0.1)
	}
	return all
}

// coresTarget is stated for two cores; on more the same share of the ideal counts.
func coresTarget(r *results, cores int) (harness.Target, bool) {
	var scaling spread
	for _, c := range r.cores {
		name := c.name + " compressing " + c.corpus
		if c.inflate {
			name = c.name + " inflating " + c.corpus
		}
		scaling.add(name, c.scaling())
	}
	if cores < 2 || len(scaling.values) == 0 {
		return harness.Target{}, false
	}
	what := fmt.Sprintf("%d cores by one, wall time", cores)
	return scaling.mean(faster("all-cores-vs-one", 1.85/2*float64(cores), what)), true
}

// inflateTarget compares the fastest of our deflate engines, which is what an agent
// measures and takes, with the fastest of the others, each by its mean: who is fastest
// on each corpus by itself is partly chance.
func (b *bench) inflateTarget(r *results) (harness.Target, bool) {
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
		return harness.Target{}, false
	}
	speed, _ := b.against(ofFast, ours, theirs)
	return speed.mean(faster("inflate-vs-fastest", 0.95, fmt.Sprintf(
		"%s inflating what was deflated at Fast by %s, the fastest of `igzip -d` and the loops in C, speed", ours, theirs,
	))), true
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
