// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policytest

import (
	"math"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
)

func option(id codec.ID, level codec.Level) policy.Option {
	return policy.Option{Codec: id, Class: codec.Software, Level: level}
}

// Options are all ways to compress in software.
func Options() []policy.Option {
	var all []policy.Option
	for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
		for _, level := range codec.Levels() {
			all = append(all, option(id, level))
		}
	}
	return all
}

// effects makes a table of MB/s and ratios at Fast, Balanced and High: deflate, then zstd.
func effects(inflateDeflate, inflateZstd float64, figures [6][2]float64) map[policy.Option]Effect {
	m := map[policy.Option]Effect{}
	for i, o := range Options() {
		inflate := inflateDeflate
		if o.Codec == codec.Zstd {
			inflate = inflateZstd
		}
		m[o] = Effect{Compress: 1 / (figures[i][0] * 1e6), Wire: min(1, 1/figures[i][1]), Inflate: 1 / (inflate * 1e6)}
	}
	return m
}

// Kinds are the kinds of data of the corpus as one core of a Xeon was measured to compress
// them (docs/decisions/010-zstd.md, docs/results/codec.md).
func Kinds() []Data {
	return []Data{
		{
			"xml", 0.21,
			effects(900, 1500, [6][2]float64{{620, 4.1}, {130, 5.0}, {60, 5.3}, {639, 4.77}, {366, 5.21}, {107, 5.70}}),
		},
		{
			"json", 0.29,
			effects(800, 1400, [6][2]float64{{560, 3.2}, {110, 3.6}, {50, 3.8}, {505, 3.61}, {275, 3.74}, {91, 4.03}}),
		},
		{
			"records", 0.58,
			effects(500, 1000, [6][2]float64{{330, 1.70}, {70, 1.80}, {30, 1.85}, {359, 1.77}, {201, 1.87}, {71, 1.91}}),
		},
		{
			"zeros", 0.003,
			effects(
				2500, 9000, [6][2]float64{{1500, 200}, {350, 900}, {300, 1000}, {5000, 20000}, {4500, 20000}, {3000, 20000}},
			),
		},
		{
			"packed", 0.95,
			effects(600, 1500, [6][2]float64{{330, 1.03}, {60, 1.05}, {40, 1.05}, {600, 1.02}, {400, 1.04}, {90, 1.06}}),
		},
		{"noise", 1, effects(3000, 9000, [6][2]float64{{400, 1}, {60, 1}, {40, 1}, {1300, 1}, {1300, 1}, {300, 1}})},
	}
}

// Here is two agents as they were measured: see agent/policy for what the figures mean.
func Here(cores int, link float64) World {
	w := World{
		Cores: cores, PeerCores: cores, Crowding: 1, Link: link, Buffer: 2 << 20,
		SendPlain: 0.35e-9, SendWire: 0.9e-9, ReceivePlain: 1.0e-9, ReceiveWire: 1.2e-9,
	}
	if link > 0 {
		// Packets that arrive one by one: measured over 10, 100 and 1000 Mbit/s.
		waking := 28e-9 / (1 + math.Sqrt(link/0.4e6)*link/12.5e6)
		w.SendWire += waking / 2
		w.ReceiveWire += waking / 2
	}
	return w
}

// Measured are the ways that calibration would report: those of another kind of data.
func Measured() []policy.Way {
	rates := [6][2]float64{{484, 3.01}, {124, 3.34}, {54, 3.48}, {390, 3.33}, {276, 3.43}, {80, 3.54}}
	var ways []policy.Way
	for i, o := range Options() {
		inflate := 848e6
		if o.Codec == codec.Zstd {
			inflate = 1489e6
		}
		ways = append(ways, policy.Way{Option: o, CompressRate: rates[i][0] * 1e6, Ratio: rates[i][1], InflateRate: inflate})
	}
	return ways
}
