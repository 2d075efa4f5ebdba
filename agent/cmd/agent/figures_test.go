// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/node"
	"github.com/lighterage/lighterage/agent/policy"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// figuresOf are figures of all engines of this build that no machine has.
func figuresOf(host node.Host) *wirev1.HostFigures {
	figures := &wirev1.HostFigures{Kernel: host.Kernel, CpuModel: host.CPUModel, Version: wirev1.Version}
	for _, e := range engines.All() {
		f := &wirev1.EngineFigures{Name: e.Name(), InflateBytesPerSecond: 3e11}
		for _, level := range []wirev1.CompressionLevel{1, 2, 3} {
			f.Levels = append(f.Levels, &wirev1.LevelFigure{
				Level: level, BytesPerSecond: 2e11, CompressedBytesPerMib: 1 << 18,
			})
		}
		figures.Engines = append(figures.Engines, f)
	}
	return figures
}

// TestFiguresOfNodeAgents: an agent takes the figures of machines like its own, of its own release.
func TestFiguresOfNodeAgents(t *testing.T) {
	host := node.Host{Kernel: "6.1.0", CPUModel: "IBM/S390 machine 3931"}
	figures := figuresOf(host)
	others := figuresOf(node.Host{Kernel: "6.2.0", CPUModel: host.CPUModel})
	if known := knownOn(host, []*wirev1.HostFigures{others, figures}); known == nil ||
		known.Compress["go"][codec.Fast].BytesPerSecond != 2e11 || known.Compress["go"][codec.Fast].Ratio() != 4 ||
		known.Inflate["go"].BytesPerSecond != 3e11 {
		t.Errorf("%+v", known)
	}
	for name, all := range map[string][]*wirev1.HostFigures{
		"nothing": nil, "another kernel": {others},
		"another processor": {figuresOf(node.Host{Kernel: host.Kernel, CPUModel: "another"})},
		"another release": {func() *wirev1.HostFigures {
			old := proto.CloneOf(figures)
			old.Version = "0.0.1"
			return old
		}()},
	} {
		if known := knownOn(host, all); known != nil {
			t.Errorf("%s: %+v", name, known)
		}
	}
	nameless := node.Host{Kernel: host.Kernel}
	if known := knownOn(nameless, []*wirev1.HostFigures{figuresOf(nameless)}); known != nil {
		t.Errorf("a machine that does not say what it is: %+v", known)
	}
	// What cannot be is not known.
	for _, e := range figures.GetEngines() {
		e.InflateBytesPerSecond = math.MaxUint64
		e.Levels[0].BytesPerSecond, e.Levels[1].CompressedBytesPerMib = math.MaxUint64, math.MaxUint64
		e.Levels[2].Level = 77
	}
	known := knownOn(host, []*wirev1.HostFigures{figures})
	if len(known.Compress["go"]) > 0 || len(known.Inflate) > 0 {
		t.Errorf("%+v", known)
	}
}

// TestEnginesByFigures: with figures of all engines nothing is measured.
func TestEnginesByFigures(t *testing.T) {
	host := node.Host{Kernel: "6.1.0", CPUModel: "a processor"}
	var log lines
	a := &agent{
		log: slog.New(slog.NewJSONHandler(&log, nil)), known: knownOn(host, []*wirev1.HostFigures{figuresOf(host)}),
	}
	got := a.encoders(t.Context(), compression.Settings{
		Policy: policy.Settings{Mode: policy.Auto, Level: codec.Balanced}, Codecs: []codec.ID{codec.Deflate, codec.Zstd},
	})
	software := 0
	for _, way := range got.plan.Ways {
		if way.Option.Class != codec.Software {
			continue
		}
		software++
		if way.CompressRate != 2e11 || way.Ratio != 4 {
			t.Errorf("%+v was measured", way)
		}
	}
	inflate := a.decoders(t.Context())
	if len(engines.Default().ForCodec(codec.Deflate)) > 1 && inflate.rates[codec.Deflate] != 3e11 {
		t.Errorf("inflating was measured: %v", inflate.rates)
	}
	if software != 4 || strings.Count(log.String(), `"measuredBy":"a node agent"`) != 2 {
		t.Errorf("%d ways of software\n%s", software, log.String())
	}
}

// TestAgentTakesFigures: the figures in a configuration reach the choice.
func TestAgentTakesFigures(t *testing.T) {
	if node.ReadHost().CPUModel == "" {
		t.Skip("this machine does not say what it is")
	}
	for want, figures := range map[string][]*wirev1.HostFigures{
		`"measuredBy":"a node agent"`: {figuresOf(node.ReadHost())}, `"measuredBy":"this agent"`: nil,
	} {
		r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS)
		r.config.Send.Figures = figures
		code, _, log := r.run(t.Context(), t)
		if code != exitOK || strings.Count(log, want) != 2 {
			t.Errorf("exit code %d, want %s twice\n%s", code, want, log)
		}
		r.arrived(t)
	}
}

// BenchmarkStart is what choosing engines for both directions costs an agent when it starts.
func BenchmarkStart(b *testing.B) {
	host := node.Host{Kernel: "6.1.0", CPUModel: "a processor"}
	settings := compression.Settings{
		Policy: policy.Settings{Mode: policy.Auto, Level: codec.Fast}, Codecs: []codec.ID{codec.Deflate},
	}
	for name, figures := range map[string][]*wirev1.HostFigures{"measured": nil, "known": {figuresOf(host)}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				a := &agent{log: slog.New(slog.DiscardHandler), known: knownOn(host, figures)}
				a.encoders(b.Context(), settings)
				a.decoders(b.Context())
			}
		})
	}
}
