// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
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

// section is what is measured of one kind of object: cells of a best time, in rounds.
type section struct {
	part  part
	links []speed
	kinds []kind
	cores []int
	// units are the bytes of messages and bodies; one of 0: blocks.
	units []int
	// levels of fixed choices. Auto has the last of them.
	levels     []codec.Level
	objectives []policy.Objective
	best       time.Duration
	limits
}

// part is a kind of object that decides in mode Auto.
type part string

const (
	transfers part = "transfers"
	messages  part = "messages"
	bodies    part = "bodies"
)

var parts = []part{transfers, messages, bodies}

// limits of a cell. After the first rounds, which run every contender, more follow of those that are close to each
// other, until a choice beside itself makes no noise and the cell took as long as it should, or until there were so
// many or they took longer than patience.
type limits struct {
	rounds          int
	least, patience time.Duration
}

// grid is what to measure.
type grid []section

var (
	objectives = []policy.Objective{policy.Cost, policy.Elapsed, policy.CPU, policy.Bytes}
	prices     = policy.Prices{CPUHour: 0.031, NetworkGiB: 0.05}

	cellLimits = limits{rounds: 60, least: 5 * time.Second, patience: 40 * time.Second}
	// A message or body has more neighbours on the machine: clients, gateways and backends.
	servedLimits = limits{rounds: 60, least: 5 * time.Second, patience: 75 * time.Second}
	quickLimits  = limits{rounds: leastRounds, patience: 8 * time.Second}
)

// served is a section of messages or bodies. Those who decide about them choose between the policy's level and nothing.
func served(p part, units []int, links []speed, l limits) section {
	return section{
		part: p, links: links, kinds: []kind{kinds[1], kinds[4]}, cores: []int{2}, units: units,
		levels: []codec.Level{codec.Fast}, objectives: []policy.Objective{policy.Cost, policy.Elapsed},
		best: 400 * time.Millisecond, limits: l,
	}
}

var (
	servedLinks  = []speed{100, 1000, 0}
	messageUnits = []int{3_000, 70_000}
	bodyUnits    = []int{12_000, 240_000}

	fullGrid = grid{
		{
			part: transfers, links: []speed{10, 100, 1000, 0}, kinds: kinds, cores: []int{1, 2}, units: []int{0},
			levels: codec.Levels(), objectives: objectives, best: 700 * time.Millisecond, limits: cellLimits,
		},
		served(messages, messageUnits, servedLinks, servedLimits),
		served(bodies, bodyUnits, servedLinks, servedLimits),
	}
	quickGrid = grid{
		{
			part: transfers, links: []speed{100, 0}, kinds: []kind{kinds[0], kinds[1], kinds[4]}, cores: []int{1, 2},
			units: []int{0}, levels: codec.Levels(), objectives: objectives, best: 500 * time.Millisecond, limits: quickLimits,
		},
		served(messages, messageUnits, []speed{100, 0}, quickLimits),
		served(bodies, bodyUnits, []speed{100, 0}, quickLimits),
	}
)

// measured reports whether a network is measured with so many cores: where it is slow it alone decides.
func measured(link speed, cores int) bool { return link != slowest || cores == 1 }

// rows returns how many a whole run makes.
func (g grid) rows() (n int) {
	for _, s := range g {
		for _, link := range s.links {
			for _, cores := range s.cores {
				if measured(link, cores) {
					n += len(s.kinds) * len(s.units) * len(s.objectives)
				}
			}
		}
	}
	return n
}

// only returns what the words of the flag ask for: parts, networks and kinds of data, each of which leaves out others
// of its sort.
func (g grid) only(what string) (grid, error) {
	if what == "" {
		return g, nil
	}
	g = slices.Clone(g)
	for word := range strings.SplitSeq(what, "/") {
		if slices.Contains(parts, part(word)) {
			g = slices.DeleteFunc(g, func(s section) bool { return s.part != part(word) })
			continue
		}
		mbits, err := strconv.Atoi(word)
		for i := range g {
			if err == nil {
				g[i].links = pick(g[i].links, func(s speed) bool { return int(s) == mbits })
			} else {
				g[i].kinds = pick(g[i].kinds, func(k kind) bool { return k.shown == word })
			}
		}
	}
	g = slices.DeleteFunc(g, func(s section) bool { return len(s.links) == 0 || len(s.kinds) == 0 })
	if len(g) == 0 {
		return g, fmt.Errorf("nothing in the grid is %q: name transfers, messages or bodies, a network such as 100 or 0, "+
			"kinds of data such as XML, or several of these with / between them", what)
	}
	return g, nil
}

func pick[T any](all []T, wanted func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !wanted(one) })
}
