// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"

	"github.com/lighterage/lighterage/agent/codec"
)

// Objective is what mode Auto minimises.
type Objective string

const (
	// Cost is money for CPU time of both sides and for bytes on the wire, at the prices.
	Cost Objective = "Cost"
	// Elapsed is the time until everything has arrived.
	Elapsed Objective = "Elapsed"
	// CPU is the CPU time of both sides, that for moving bytes included.
	CPU Objective = "CPU"
	// Bytes is the bytes on the wire.
	Bytes Objective = "Bytes"
)

// Prices are in one currency, whichever it is.
type Prices struct {
	// CPUHour is the price of one core for one hour, NetworkGiB that of one GiB on the
	// wire.
	CPUHour, NetworkGiB float64
}

// usable reports whether anything can be reckoned with the prices.
func (p Prices) usable() bool { return positive(p.CPUHour) || positive(p.NetworkGiB) }

// Option is one way to send a block. The zero value sends it as it is.
type Option struct {
	// Codec is 0 when the block travels as it is.
	Codec codec.ID
	Class codec.Class
	Level codec.Level
}

// Stored reports whether the option is to send a block as it is.
func (o Option) Stored() bool { return o.Codec == 0 || o.Codec == codec.None }

// Way is an option to compress that is open to a sender, with what is known of it
// before it was tried on the data: what an engine did on a sample on this machine,
// and what the peer says of itself. What is not positive and finite counts as not
// known, and an ordinary engine of the codec and level is assumed.
type Way struct {
	Option
	// CompressRate and InflateRate are bytes of plain data for each second of CPU time,
	// here and at the peer.
	CompressRate, InflateRate float64
	// Ratio is plain by compressed bytes.
	Ratio float64
}

// ordinary is what engines do on one core of a machine of about 2023 with the
// built-in sample (docs/decisions/015-choice-of-engines.md): megabytes a second and
// ratio. It only stands in where nothing was measured, and the first blocks correct it.
func ordinary(o Option) Way {
	const mb = 1e6
	w := Way{Option: o, InflateRate: 500 * mb}
	if o.Codec == codec.Zstd {
		w.InflateRate = 1000 * mb
	}
	switch {
	case o.Class == codec.Hardware:
		w.CompressRate, w.InflateRate, w.Ratio = 3000*mb, 500*mb, 2.8
	case o.Codec == codec.Zstd && o.Level <= codec.Fast:
		w.CompressRate, w.Ratio = 350*mb, 3.3
	case o.Codec == codec.Zstd && o.Level == codec.Balanced:
		w.CompressRate, w.Ratio = 250*mb, 3.4
	case o.Codec == codec.Zstd:
		w.CompressRate, w.Ratio = 70*mb, 3.6
	case o.Level <= codec.Fast:
		w.CompressRate, w.Ratio = 300*mb, 3.0
	case o.Level == codec.Balanced:
		w.CompressRate, w.Ratio = 100*mb, 3.35
	default:
		w.CompressRate, w.Ratio = 50*mb, 3.5
	}
	return w
}

// known returns the way with nothing left open.
func (w Way) known() Way {
	usual := ordinary(w.Option)
	if !positive(w.CompressRate) {
		w.CompressRate = usual.CompressRate
	}
	if !positive(w.InflateRate) {
		w.InflateRate = usual.InflateRate
	}
	if !positive(w.Ratio) {
		w.Ratio = usual.Ratio
	}
	return w
}

func positive(f float64) bool { return f > 0 && !math.IsInf(f, 1) }

// sound returns a figure within bounds, and the first bound for what is no number.
func sound(f, least, most float64) float64 {
	if math.IsNaN(f) {
		return least
	}
	return min(max(f, least), most)
}
