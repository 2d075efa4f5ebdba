// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

// targets judges what was measured, at each size.
func (b *bench) targets() []harness.Target {
	var all []harness.Target
	if b.part.only != "" {
		return nil // nobody to compare with, perhaps
	}
	for _, size := range b.sizes {
		k := func(name string, compressed bool) key { return key{name, "xml", size, "1.1", compressed} }
		add := func(what, text, peer string, compressed bool, of func(turn) float64, bound float64, atLeast bool) {
			all = append(all, harness.Target{
				Name: fmt.Sprintf("%s-%d", what, size), Bound: bound, AtLeast: atLeast, Digits: 2,
				What:     fmt.Sprintf("%s, %d bytes, by %s", text, size, peer),
				Measured: harness.RatioOf(b.turns[k(ourName, compressed)], b.turns[k(peer, compressed)], of),
			})
		}
		if size >= 12000 {
			best := slices.MaxFunc(b.all, func(a, c *contender) int {
				rate := func(c *contender) float64 {
					if c.ours() {
						return 0
					}
					return b.median(k(c.name, true), requestsOf)
				}
				return cmp.Compare(rate(a), rate(c))
			})
			add("compressed-rate", "requests by second, compressed", best.name, true, requestsOf,
				bySize(size, 1, 64000, 1.5, 240000, 2), true)
		}
		if size <= 20000 || size >= 64000 {
			add("plain-rate", "requests by second, not compressed", "nginx", false, requestsOf,
				bySize(size, 0.75, 64000, 1), true)
		}
		slowest := bySize(size, 1.1, 5001, 1)
		add("p99", "time of the slowest hundredth, compressed", "nginx", true, p99Of, slowest, false)
		add("p99-plain", "time of the slowest hundredth, not compressed", "nginx", false, p99Of, slowest, false)
	}
	if held := b.memory[ourName]; len(held) > 2 {
		all = append(all, memoryTarget(held, fmt.Sprintf("with %d connections", manyConnections)))
	}
	return all
}

// bySize is the bound for a size: the first, or the last whose size is reached of those that follow, in pairs.
func bySize(size int, bound float64, from ...float64) float64 {
	for i := 0; i < len(from); i += 2 {
		if float64(size) >= from[i] {
			bound = from[i+1]
		}
	}
	return bound
}

// memoryTarget bounds the most memory that was held.
func memoryTarget(held []int64, when string) harness.Target {
	return harness.Target{
		Name: "memory-1000-connections", Measured: harness.Exactly(float64(slices.Max(held)) / (1 << 20)), Bound: 128,
		What: "most MiB of memory " + when,
	}
}

func mean(values []int64) float64 {
	var sum float64
	for _, v := range values {
		sum += float64(v)
	}
	return sum / float64(max(len(values), 1))
}

// breakEven returns the smallest measured size from which on, in all larger ones too,
// responses compressed by an engine cost less CPU than plain ones; 0 when there is none.
func (b *bench) breakEven(engine string) int {
	from := 0
	for _, size := range b.sizes {
		packed := b.median(key{engine, "xml", size, "1.1", true}, cpuOf)
		plain := b.median(key{ourName, "xml", size, "1.1", false}, cpuOf)
		switch {
		case packed >= plain:
			from = 0
		case from == 0:
			from = size
		}
	}
	return from
}
