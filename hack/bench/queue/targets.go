// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// leastTarget is the size in bytes from which on there are targets.
const leastTarget = 12000

// target is a figure that has to be met.
type target struct {
	Name, What string
	Measured   float64
	Bound      float64
	Least      bool // Bound is the least, else the most
}

// OK reports whether it was.
func (t target) OK() bool {
	return t.Least && t.Measured >= t.Bound || !t.Least && t.Measured <= t.Bound
}

// Verdict says so.
func (t target) Verdict() string {
	if t.OK() {
		return "ok"
	}
	return "miss"
}

// Limit is the bound with its direction.
func (t target) Limit() string {
	if t.Least {
		return fmt.Sprintf(">=%.2f", t.Bound)
	}
	return fmt.Sprintf("<=%.2f", t.Bound)
}

// Line is what scripts read.
func (t target) Line() string {
	return fmt.Sprintf("target %s %.2f %s %s", t.Name, t.Measured, t.Limit(), t.Verdict())
}

// aim says what has to be met by a codec with messages of a size.
type aim struct {
	name, what string
	of         func(row) float64
	// beside whom.
	other string
	bound float64
	least bool
}

var memoryAims = []aim{
	{"puts", "puts a second by those of JetStream with S2", func(r row) float64 { return r.PutRate }, s2, 1.2, true},
	{"put-cpu", "CPU of a put by that of JetStream with S2", func(r row) float64 { return r.PutCPU }, s2, 0.8, false},
	{"gets", "gets a second by those of JetStream with S2", func(r row) float64 { return r.GetRate }, s2, 1.2, true},
	{"get-cpu", "CPU of a get by that of JetStream with S2", func(r row) float64 { return r.GetCPU }, s2, 0.8, false},
	{"stored", "stored bytes by those of plain JetStream", func(r row) float64 { return r.Stored }, plain, 0.5, false},
}

var diskAims = []aim{
	{"io", "bytes of files written and read, put and get, by those of plain JetStream", row.IO, plain, 0.5, false},
	{
		"disk-puts", "puts a second on the limited disk by those of plain JetStream",
		func(r row) float64 { return r.PutRate }, plain, 1.3, true,
	},
	{
		"disk-gets", "gets a second on the limited disk by those of plain JetStream",
		func(r row) float64 { return r.GetRate }, plain, 1.3, true,
	},
}

// meet returns the targets of a part. What was not measured has none.
func (a aim) meet(t table) []target {
	var all []target
	for _, size := range sizes {
		if size < leastTarget {
			continue
		}
		other, ok := t.row(size, a.other)
		if !ok || a.of(other) == 0 {
			continue
		}
		for _, name := range []string{deflate, zstd} {
			if own, ok := t.row(size, name); ok {
				all = append(all, target{
					fmt.Sprintf("%s-%s-%d", a.name, strings.TrimPrefix(name, "queue, "), size), a.what, a.of(own) / a.of(other),
					a.bound, a.least,
				})
			}
		}
	}
	return all
}
