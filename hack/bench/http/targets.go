// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
)

// target is a bound that a measured figure should keep. Missing one fails nothing: the
// machine may have been busy.
type target struct {
	name            string
	measured, bound float64
	atMost          bool
	digits          int
	what            string
}

func (t target) rounded() float64 {
	scale := math.Pow(10, float64(t.digits))
	return math.Round(t.measured*scale) / scale
}

func (t target) ok() bool {
	if t.atMost {
		return t.rounded() <= t.bound
	}
	return t.rounded() >= t.bound
}

func (t target) verdict() string {
	if t.ok() {
		return "ok"
	}
	return "miss"
}

func (t target) limit() string {
	sign := ">="
	if t.atMost {
		sign = "<="
	}
	return fmt.Sprintf("%s%.*f", sign, t.digits, t.bound)
}

// line is what the command prints for a target.
func (t target) line() string {
	return fmt.Sprintf("target %s %.*f %s %s", t.name, t.digits, t.measured, t.limit(), t.verdict())
}

const ourName = "Lighterage"

// targets judges what was measured: at each size, and what is worst among them counts.
func (b *bench) targets() []target {
	var all []target
	for _, size := range b.sizes {
		k := func(name string, compressed bool) key { return key{name, "xml", size, "1.1", compressed} }
		ours := b.median(k(ourName, true), requestsOf)
		best, who := 0.0, ""
		for _, c := range b.all {
			if n := b.median(k(c.name, true), requestsOf); !c.ours && n > best {
				best, who = n, c.name
			}
		}
		if size >= 12000 {
			bound := 1.5
			if size >= 64000 {
				bound = 2
			}
			all = append(all, target{name: fmt.Sprintf("compressed-rate-%d", size), measured: ours / best, bound: bound, digits: 2,
				what: fmt.Sprintf("requests by second, compressed, %d bytes, by %s, the best of the others", size, who)})
		}
		if size < 20000 || size >= 64000 {
			bound := 0.75
			if size >= 64000 {
				bound = 1
			}
			all = append(all, target{name: fmt.Sprintf("plain-rate-%d", size), measured: b.median(
				k(ourName, false), requestsOf,
			) / b.median(k("nginx", false), requestsOf),
				bound: bound, digits: 2, what: fmt.Sprintf("requests by second, not compressed, %d bytes, by nginx", size)})
		}
		all = append(all, target{name: fmt.Sprintf("p99-%d", size), measured: b.median(k(ourName, true), p99Of) / b.median(k("nginx", true), p99Of), bound: 1, atMost: true, digits: 2,
			what: fmt.Sprintf("time of the slowest hundredth, compressed, %d bytes, by nginx", size)})
	}
	if held := b.memory[ourName]; len(held) > 2 {
		most := 0.0
		for _, n := range held {
			most = max(most, float64(n))
		}
		all = append(all, target{
			name: "memory-1000-connections", measured: most / (1 << 20), bound: 128, atMost: true, digits: 0,
			what: fmt.Sprintf("most MiB of memory with %d connections", manyConnections),
		})
	}
	return all
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
