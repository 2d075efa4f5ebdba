// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

const (
	// leastRounds are how many every cell has however long they take: one run shows what the machine did beside it.
	leastRounds = 3
	// everybody takes part in so many rounds: of one there is no interval.
	everybody = 2
	// longest is what one run may take: a choice that takes longer, as none does with zeros over a slow network, is not
	// run.
	longest = 20 * time.Second
	// quiet is the noise from which on a cell is noise.
	quiet = 0.02
)

// cell is one network, kind of data, length and number of cores.
type cell struct {
	part       part
	link       speed
	kind       kind
	cores      int
	unit       int   // bytes of a message or body; 0: there are blocks
	size       int64 // bytes of all, as they are
	objectives []policy.Objective
	fixed      []*contender
	auto       map[policy.Objective]*contender
	// again is one of the fixed choices once more, which is as quick as any: what the two differ by is the noise.
	again, twice *contender
}

// cell returns one of a section that has not been measured.
func (s section) cell(link speed, k kind, cores, unit int) cell {
	c := cell{part: s.part, link: link, kind: k, cores: cores, unit: unit, objectives: s.objectives}
	c.size = s.size(c)
	c.fixed, c.auto = s.contenders()
	if link := link.bytesPerSecond(); link > 0 && float64(c.size)/link >= longest.Seconds() {
		c.fixed = c.fixed[1:]
	}
	return c
}

// size returns how much to send so that the best takes about as long as it should.
func (s section) size(c cell) int64 {
	rate := 300e6 * float64(c.cores)
	switch {
	case c.part == messages && c.unit < 16<<10:
		rate = 60e6
	case c.part == messages:
		rate = 150e6
	case c.part == bodies && c.unit < 16<<10:
		rate = 60e6
	case c.part == bodies:
		rate = 250e6
	case c.kind.corpus == "zeros":
		rate *= 5
	case c.kind.hopeless:
		rate *= 2
	}
	best := s.best.Seconds()
	if link := c.link.bytesPerSecond(); link > 0 {
		rate = min(rate, link/c.kind.share)
		// For there to be blocks to choose for, and CPU time that is not that of beginning.
		switch {
		case c.kind.hopeless, c.unit > 0:
		case c.link <= 10:
			best *= 6
		case c.link <= 100:
			best *= 2
		}
	}
	if unit := int64(c.unit); unit > 0 {
		return max(int64(rate*best)/unit, leastUnits) * unit
	}
	return max(min(int64(rate*best)>>20, 768), 3) << 20
}

// leastUnits are how many messages or bodies a run has.
const leastUnits = 64

// best returns the fixed choice that an objective likes best.
func (c *cell) best(o policy.Objective) *contender {
	return slices.MinFunc(c.fixed, func(a, b *contender) int { return cmp.Compare(a.value(o), b.value(o)) })
}

func (c *cell) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s, %s, %s, %d cores, %d MiB, %d rounds:", c.part, c.kind.shown, length(c.unit), c.link, c.cores,
		c.size>>20, len(c.twice.runs))
	for _, r := range c.rows(time.Now()) {
		fmt.Fprintf(&b, "  %s %+.1f %% (%s; best %s; noise %s)", r.Objective, 100*r.regret(), r.Auto.Choice, r.Best.Choice,
			r.noise())
	}
	return b.String()
}

// each returns a line for every contender, with the medians of its runs.
func (c *cell) each() string {
	var b strings.Builder
	all := append(slices.Clone(c.fixed), c.again)
	for _, o := range c.objectives {
		all = append(all, c.auto[o])
	}
	for _, one := range all {
		fmt.Fprintf(&b, "\n  %-20s %2d runs  %.3f s  %.3f s of CPU  %.2f MB  %s", one.name, len(one.runs),
			one.value(policy.Elapsed), one.value(policy.CPU), one.value(policy.Bytes)/1e6, one.runs[0].choice)
	}
	return b.String()
}

// length names that of messages or bodies.
func length(unit int) string {
	if unit == 0 {
		return "blocks"
	}
	return harness.Grouped(unit) + " bytes"
}

// take has the contenders of a cell take turns.
func (c *cell) take(ctx context.Context, l limits, run func(*contender) (outcome, error)) error {
	all := slices.Clone(c.fixed)
	for _, o := range c.objectives {
		all = append(all, c.auto[o])
	}
	begin, start := time.Now(), time.Now()
	for round := range l.rounds {
		if round == everybody {
			start = time.Now()
		}
		if round >= leastRounds && (time.Since(start) > l.patience || time.Since(begin) >= l.least && c.isQuiet()) {
			break
		}
		for _, i := range harness.Order(round, len(all)) {
			one := all[i]
			if c.settled(one) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			got, err := run(one)
			if err != nil {
				return fmt.Errorf("%s of %s over %s: %w", one.name, c.kind.shown, c.link, err)
			}
			one.runs = append(one.runs, got)
		}
		if round == 0 {
			c.twice = c.best(policy.Elapsed)
			c.again = &contender{name: c.twice.name + " again", settings: c.twice.settings, codec: c.twice.codec}
			all = append(all, c.again)
		}
	}
	return nil
}

// settled reports whether more runs of a contender would tell nothing: it is far from the best by the objectives that
// time decides, and what decides the others is about the same in every run.
func (c *cell) settled(one *contender) bool {
	if len(one.runs) < everybody || one == c.twice || one == c.again {
		return false
	}
	for _, o := range c.objectives {
		if !one.competes(o) {
			continue
		}
		switch {
		case o == policy.Bytes, o == policy.Cost && one.value(policy.CPU)/3600*prices.CPUHour < 0.1*one.value(policy.Cost):
		case one.objective() != "" || one.value(o) < 1.3*c.best(o).value(o):
			return false
		}
	}
	return true
}

// noise is by how much a choice may differ from itself in what an objective makes of it: the end of the 95 % interval
// of the quotient that is farther from 1. It is infinite until there were two rounds of both.
func (c *cell) noise(o policy.Objective) float64 {
	if c.again == nil || len(c.again.runs) < everybody {
		return math.Inf(1)
	}
	// The other one began a round earlier.
	e := ratio(o, c.size, c.again.values(o), c.twice.values(o)[1:])
	return max(1-e.Low, e.High-1)
}

func (c *cell) isQuiet() bool {
	return !slices.ContainsFunc(c.objectives, func(o policy.Objective) bool { return !(c.noise(o) < quiet) })
}
