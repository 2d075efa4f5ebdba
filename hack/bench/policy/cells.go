// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/test/corpus"
)

// speed of a network in Mbit/s, 0: unlimited.
type speed int

// slowest keeps one core so idle that a second one changes nothing.
const slowest speed = 10

func (s speed) String() string {
	if s == 0 {
		return "unlimited"
	}
	return fmt.Sprintf("%d Mbit/s", int(s))
}

// bytesPerSecond is 0 when unlimited.
func (s speed) bytesPerSecond() float64 { return float64(s) * 1e6 / 8 }

// kind is a corpus with about what zstd makes of it, to know how much of it to send.
type kind struct {
	corpus, shown string
	share         float64
	// hopeless data were compressed before, or are noise.
	hopeless bool
}

var kinds = []kind{
	{"records", "records", 0.56, false}, {"xml", "XML", 0.21, false}, {"json", "logs", 0.28, false},
	{"zeros", "zeros", 0.001, false},
	{"random", "random", 1, true}, {"gzip", "gzip'd", 1, true}, {"zstd", "zstd'd", 1, true},
}

// leastRounds are how many every cell has however long they take: one run shows what the machine did beside it.
const leastRounds = 3

// everybody takes part in so many rounds: of one there is no interval.
const everybody = 2

// longest is what one run may take: a choice that takes longer, as none does with zeros over a slow network, is not
// run.
const longest = 20 * time.Second

// grid is what to measure: cells of a best time, in rounds. After the first ones, which run every contender, more
// follow of those that are close to each other, until there were so many or they took longer than patience.
type grid struct {
	links    []speed
	kinds    []kind
	cores    []int
	best     time.Duration
	rounds   int
	patience time.Duration
}

var (
	fullGrid = grid{
		links: []speed{10, 100, 1000, 0}, kinds: kinds, cores: []int{1, 2}, best: 700 * time.Millisecond, rounds: 60,
		patience: 8 * time.Second,
	}
	quickGrid = grid{
		links: []speed{100, 0}, kinds: []kind{kinds[0], kinds[1], kinds[4]}, cores: []int{1, 2}, best: 500 * time.Millisecond,
		rounds: 3, patience: 8 * time.Second,
	}
)

// measured reports whether a network is measured with so many cores: where it is slow it alone decides.
func measured(link speed, cores int) bool { return link != slowest || cores == 1 }

// rows returns how many a whole run makes.
func (g grid) rows() (n int) {
	for _, link := range g.links {
		for _, cores := range g.cores {
			if measured(link, cores) {
				n += len(g.kinds) * len(objectives)
			}
		}
	}
	return n
}

// only returns the part of the grid that is asked for in the words of the flag.
func (g grid) only(what string) (grid, error) {
	if what == "" {
		return g, nil
	}
	for part := range strings.SplitSeq(what, "/") {
		if mbits, err := strconv.Atoi(part); err == nil {
			g.links = slices.DeleteFunc(slices.Clone(g.links), func(s speed) bool { return int(s) != mbits })
		} else {
			g.kinds = slices.DeleteFunc(slices.Clone(g.kinds), func(k kind) bool { return k.shown != part })
		}
	}
	if len(g.links) == 0 || len(g.kinds) == 0 {
		return g, fmt.Errorf("nothing in the grid is %q", what)
	}
	return g, nil
}

var (
	objectives = []policy.Objective{policy.Cost, policy.Elapsed, policy.CPU, policy.Bytes}
	prices     = policy.Prices{CPUHour: 0.031, NetworkGiB: 0.05}
)

// outcome is one run.
type outcome struct {
	elapsed, cpu, bytes float64
	choice              string
}

// contender is a way to send.
type contender struct {
	name     string
	settings policy.Settings
	codec    codec.ID
	runs     []outcome
}

// value is the median of what an objective makes of the runs.
func (c *contender) value(o policy.Objective) float64 { return harness.Median(c.values(o)) }

func (c *contender) values(o policy.Objective) []float64 {
	values := make([]float64, 0, len(c.runs))
	for _, r := range c.runs {
		switch o {
		case policy.Cost:
			values = append(values, r.cpu/3600*prices.CPUHour+r.bytes/(1<<30)*prices.NetworkGiB)
		case policy.CPU:
			values = append(values, r.cpu)
		case policy.Bytes:
			values = append(values, r.bytes)
		default:
			values = append(values, r.elapsed)
		}
	}
	return values
}

// cell is one network, kind of data and number of cores.
type cell struct {
	link  speed
	kind  kind
	cores int
	size  int64
	fixed []*contender
	// again sends everything as it is once more: what it differs from none by is the noise.
	again *contender
	auto  map[policy.Objective]*contender
}

// size returns how much to send so that the best takes about as long as it should.
func (g grid) size(c cell) int64 {
	rate := 300e6 * float64(c.cores)
	switch {
	case c.kind.corpus == "zeros":
		rate *= 5
	case c.kind.hopeless:
		rate *= 2
	}
	best := g.best.Seconds()
	if link := c.link.bytesPerSecond(); link > 0 {
		rate = min(rate, link/c.kind.share)
		// For there to be blocks to choose for, and CPU time that is not that of beginning.
		switch {
		case c.kind.hopeless:
		case c.link <= 10:
			best *= 6
		case c.link <= 100:
			best *= 2
		}
	}
	return max(min(int64(rate*best)>>20, 768), 3) << 20
}

// best returns the fixed choice that an objective likes best.
func (c *cell) best(o policy.Objective) *contender {
	return slices.MinFunc(c.fixed, func(a, b *contender) int { return cmp.Compare(a.value(o), b.value(o)) })
}

func (c cell) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %-8s %d cores %4d MiB:", c.link, c.kind.shown, c.cores, c.size>>20)
	for _, r := range c.rows(time.Now()) {
		fmt.Fprintf(&b, "  %s %+.1f %% (%s; best %s)", r.Objective, 100*r.regret(), r.Auto.Choice, r.Best.Choice)
	}
	return b.String()
}

// patience is longer where a run takes seconds, of which hardly any is CPU time, and where it takes a fraction of one:
// what the machine does beside it is more of that.
func (c *cell) patience(g grid) time.Duration {
	if c.link == 100 {
		return g.patience
	}
	return 2 * g.patience
}

// measure runs the contenders of a cell in turn.
func (p *pair) measure(ctx context.Context, c cell, g grid) (cell, error) {
	c.size = g.size(c)
	source := filepath.Join(p.work, "source")
	if err := fill(source, c.kind.corpus, c.size); err != nil {
		return c, err
	}
	if link := c.link.bytesPerSecond(); link == 0 || float64(c.size)/link < longest.Seconds() {
		never := policy.Settings{Mode: policy.Never, Level: codec.Fast}
		c.fixed = append(c.fixed, &contender{name: "none", settings: never})
		c.again = &contender{name: "none again", settings: never}
	}
	for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
		for _, level := range codec.Levels() {
			c.fixed = append(
				c.fixed,
				&contender{
					name: fmt.Sprintf("%v %v", id, level), codec: id, settings: policy.Settings{Mode: policy.Always, Level: level},
				},
			)
		}
	}
	c.auto = make(map[policy.Objective]*contender)
	all := slices.Clone(c.fixed)
	for _, o := range objectives {
		c.auto[o] = &contender{
			name:     "Auto " + string(o),
			settings: policy.Settings{Mode: policy.Auto, Level: codec.High, Objective: o, Prices: prices},
		}
		all = append(all, c.auto[o])
	}
	if c.again != nil {
		all = append(all, c.again)
	}
	// The first run of a cell pays for memory that its data take, and counts for nobody.
	if _, err := p.move(order{Source: source, Settings: c.fixed[1].settings, Codec: c.fixed[1].codec}); err != nil {
		return c, fmt.Errorf("%s over %s: %w", c.kind.shown, c.link, err)
	}
	start := time.Now()
	for round := range g.rounds {
		if round == everybody {
			start = time.Now()
		}
		if round >= leastRounds && time.Since(start) > c.patience(g) {
			break
		}
		for _, i := range harness.Order(round, len(all)) {
			contender := all[i]
			if c.settled(contender) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return c, err
			}
			got, err := p.move(order{Source: source, Settings: contender.settings, Codec: contender.codec})
			if err != nil {
				return c, fmt.Errorf("%s of %s over %s: %w", contender.name, c.kind.shown, c.link, err)
			}
			contender.runs = append(contender.runs, got)
		}
	}
	return c, nil
}

// settled reports whether more runs of a contender would tell nothing: it is far from the best by the objectives that
// time decides, and what decides the others is about the same in every run.
func (c *cell) settled(one *contender) bool {
	if len(one.runs) < everybody {
		return false
	}
	for _, o := range objectives {
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

// objective is that of Auto; empty: the choice is fixed.
func (c *contender) objective() policy.Objective { return c.settings.Objective }

// competes reports whether a contender is to be good by an objective: Auto by its own, a fixed choice by any.
func (c *contender) competes(o policy.Objective) bool {
	return c.objective() == "" || c.objective() == o
}

// fill makes a directory with so many bytes of a corpus.
func fill(dir, name string, size int64) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the data before: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make a directory for data: %w", err)
	}
	made, ok := corpus.ByName(name)
	if !ok {
		return fmt.Errorf("there is no corpus %q", name)
	}
	// Blocks are compressed by themselves, so that it does not matter that they come again.
	plain := made.Generate(int(min(size, 16<<20)))
	f, err := os.Create(filepath.Join(dir, "data"))
	if err != nil {
		return fmt.Errorf("make data: %w", err)
	}
	for left := size; left > 0; left -= int64(len(plain)) {
		if _, err := f.Write(plain[:min(left, int64(len(plain)))]); err != nil {
			_ = f.Close()
			return fmt.Errorf("write data: %w", err)
		}
	}
	return f.Close()
}
