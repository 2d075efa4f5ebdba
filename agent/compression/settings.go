// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compression reads what an agent's configuration says of compression, for agents of every mode.
package compression

import (
	"fmt"
	"math"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Settings is a resolved CompressionPolicy.
type Settings struct {
	Policy policy.Settings
	// Codecs in order of preference.
	Codecs []codec.ID
	// Engines are the names of the software engines that may be used, in order of preference; empty: those that prove
	// fastest.
	Engines []string
}

// Read returns what a configuration says. An error is about a value that this agent does not know: its manager is
// newer.
func Read(c *wirev1.CompressionSettings) (Settings, error) {
	modes := map[wirev1.CompressionMode]policy.Mode{
		wirev1.CompressionMode_COMPRESSION_MODE_AUTO:   policy.Auto,
		wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS: policy.Always,
		wirev1.CompressionMode_COMPRESSION_MODE_NEVER:  policy.Never,
	}
	objectives := map[wirev1.CompressionObjective]policy.Objective{
		wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_COST:    policy.Cost,
		wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_ELAPSED: policy.Elapsed,
		wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_CPU:     policy.CPU,
		wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_BYTES:   policy.Bytes,
	}
	s := policy.Settings{
		Objective:        objectives[c.GetObjective()],
		Prices:           Prices(c.GetPrices()),
		Mode:             modes[c.GetMode()],
		Level:            Level(c.GetLevel()),
		HardwareMinSize:  size(c.GetHardwareMinSize()),
		SoftwareMinSize:  size(c.GetSoftwareMinSize()),
		SoftwareDisabled: c.GetSoftwareDisabled(),
		PreferHardware:   c.GetPreferHardware(),
	}
	if err := s.Validate(); err != nil {
		return Settings{}, fmt.Errorf("read compression settings: %w", err)
	}
	var ids []codec.ID
	for _, name := range c.GetCodecs() {
		id, err := codec.ParseID(name)
		if err != nil {
			return Settings{}, fmt.Errorf("read compression settings: %w", err)
		}
		ids = append(ids, id)
	}
	return Settings{Policy: s, Codecs: ids, Engines: c.GetSoftwareEngines()}, nil
}

// Prices of a configuration; the zero value where it has none.
func Prices(p *wirev1.Prices) policy.Prices {
	return policy.Prices{
		CPUHour: float64(p.GetCpuHourNanos()) / 1e9, NetworkGiB: float64(p.GetNetworkGibNanos()) / 1e9,
	}
}

// levels by their number on the wire.
var levels = map[wirev1.CompressionLevel]codec.Level{
	wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST:     codec.Fast,
	wirev1.CompressionLevel_COMPRESSION_LEVEL_BALANCED: codec.Balanced,
	wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH:     codec.High,
}

// Level of a configuration; the zero value, which is none, for one that this agent does not know.
func Level(l wirev1.CompressionLevel) codec.Level { return levels[l] }

// LevelToWire is the reverse of Level.
func LevelToWire(level codec.Level) wirev1.CompressionLevel {
	for wire, l := range levels {
		if l == level {
			return wire
		}
	}
	return wirev1.CompressionLevel_COMPRESSION_LEVEL_UNSPECIFIED
}

func size(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
