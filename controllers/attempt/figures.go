// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// maxHosts is of how many kinds of machines an agent is told the figures, which are some KiB each. Agents on others
// measure.
const maxHosts = 8

// Levels on the wire.
var Levels = map[v1alpha1.CompressionLevel]wirev1.CompressionLevel{
	v1alpha1.CompressionFast:     wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
	v1alpha1.CompressionBalanced: wirev1.CompressionLevel_COMPRESSION_LEVEL_BALANCED,
	v1alpha1.CompressionHigh:     wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH,
}

// Know tells the agent what node agents of its image measured, so that it need not measure its engines where it finds
// itself on a machine of the same kind, and on what path its connections are to be.
func (a *Attempt) Know(profiles map[string]v1alpha1.NodeProfileStatus) {
	figures := hostFigures(profiles, a.spec.Image.Name)
	switch config := a.spec.Config.(type) {
	case *wirev1.SendConfig:
		config.Figures, config.DataPath = figures, a.spec.Image.DataPath
	case *wirev1.HandOffConfig:
		config.Send.Figures = figures
	case *wirev1.LocalConfig:
		config.Send.Figures = figures
	case *wirev1.ReceiveConfig:
		config.Figures, config.DataPath = figures, a.spec.Image.DataPath
	}
}

// kind is what figures belong to.
type kind struct{ kernel, model, version string }

// hostFigures are those of the kinds of machines that most nodes are of, one set of figures for each: the newest.
func hostFigures(profiles map[string]v1alpha1.NodeProfileStatus, image string) []*wirev1.HostFigures {
	nodes := make(map[kind][]string)
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		p := profiles[name]
		if p.AgentImage == image && p.Kernel != "" && p.CPUModel != "" && p.MeasuredTime != nil && len(p.Engines) > 0 {
			k := kind{p.Kernel, p.CPUModel, p.AgentVersion}
			nodes[k] = append(nodes[k], name)
		}
	}
	kinds := slices.SortedFunc(maps.Keys(nodes), func(a, b kind) int {
		return cmp.Or(
			cmp.Compare(len(nodes[b]), len(nodes[a])), cmp.Compare(a.kernel, b.kernel), cmp.Compare(a.model, b.model),
			cmp.Compare(a.version, b.version),
		)
	})
	var all []*wirev1.HostFigures
	for _, k := range kinds[:min(len(kinds), maxHosts)] {
		newest := slices.MaxFunc(nodes[k], func(a, b string) int {
			return profiles[a].MeasuredTime.Compare(profiles[b].MeasuredTime.Time)
		})
		all = append(all, &wirev1.HostFigures{
			Kernel: k.kernel, CpuModel: k.model, Version: k.version, Engines: engineFigures(profiles[newest].Engines),
		})
	}
	return all
}

func engineFigures(engines []v1alpha1.EngineProfile) []*wirev1.EngineFigures {
	var all []*wirev1.EngineFigures
	for _, e := range engines {
		figures := &wirev1.EngineFigures{
			Name: e.Name, InflateBytesPerSecond: uint64(max(e.DecompressBytesPerSecond, 0)),
		}
		for _, l := range e.Levels {
			ratio, err := strconv.ParseFloat(l.Ratio, 64)
			if err != nil || math.IsNaN(ratio) || ratio < 0.5 || l.CompressBytesPerSecond <= 0 {
				continue // the agent measures
			}
			figures.Levels = append(figures.Levels, &wirev1.LevelFigure{
				Level: Levels[l.Level], BytesPerSecond: uint64(l.CompressBytesPerSecond),
				CompressedBytesPerMib: uint64((1 << 20) / ratio),
			})
		}
		all = append(all, figures)
	}
	return all
}
