// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/node"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// maxFigure is the rate in bytes per second above which no figure is believed.
const maxFigure = 1 << 40

// knownOn returns the figures for a machine, nil if they do not have all of it. They only choose between engines that
// all work: none is trusted because of them, and an accelerator is proved all the same.
func knownOn(host node.Host, all []*wirev1.HostFigures) *calibrate.Known {
	if host.Kernel == "" || host.CPUModel == "" {
		return nil
	}
	for _, figures := range all {
		if figures.GetKernel() == host.Kernel && figures.GetCpuModel() == host.CPUModel &&
			figures.GetVersion() == wirev1.Version {
			return known(figures.GetEngines())
		}
	}
	return nil
}

func known(engines []*wirev1.EngineFigures) *calibrate.Known {
	levels := map[wirev1.CompressionLevel]codec.Level{
		wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST:     codec.Fast,
		wirev1.CompressionLevel_COMPRESSION_LEVEL_BALANCED: codec.Balanced,
		wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH:     codec.High,
	}
	k := &calibrate.Known{
		Compress: make(map[string]map[codec.Level]calibrate.Figure), Inflate: make(map[string]calibrate.Figure),
	}
	for _, e := range engines {
		at := make(map[codec.Level]calibrate.Figure)
		for _, l := range e.GetLevels() {
			level, rate, compressed := levels[l.GetLevel()], l.GetBytesPerSecond(), l.GetCompressedBytesPerMib()
			if level != 0 && rate <= maxFigure && compressed > 0 && compressed <= math.MaxInt32 {
				at[level] = calibrate.Figure{
					BytesPerSecond: float64(rate), PlainBytes: 1 << 20, CompressedBytes: int64(compressed),
					WireBytes: min(int64(compressed), 1<<20),
				}
			}
		}
		k.Compress[e.GetName()] = at
		if rate := e.GetInflateBytesPerSecond(); rate <= maxFigure {
			k.Inflate[e.GetName()] = calibrate.Figure{BytesPerSecond: float64(rate), PlainBytes: 1 << 20}
		}
	}
	return k
}

// measuredBy says for the log whose figures chose between engines.
func (a *agent) measuredBy() string {
	if a.known == nil {
		return "this agent"
	}
	return "a node agent"
}
