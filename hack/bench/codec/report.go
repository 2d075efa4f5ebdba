// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"context"
	_ "embed"
	"runtime"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

//go:embed report.md.tmpl
var reportText string

// report is codec.md and codec.svg.
type report struct {
	*results
	bench *bench
	cores int
}

func newReport(b *bench, r *results) *report {
	return &report{results: r, bench: b, cores: runtime.NumCPU()}
}

func (r *report) whole(ctx context.Context) harness.Report {
	versions := []string{harness.Version(ctx, "cc", "--version")}
	for _, command := range []string{"igzip", "pigz", "zstd"} {
		versions = append(versions, harness.Version(ctx, command, "--version"))
	}
	return harness.Report{
		Name: "codec", Template: reportText, Targets: r.bench.targets(r.results, r.cores), Drawing: draw(r.points()),
		Versions: versions,
		Data: map[string]any{
			"Rounds": r.bench.rounds, "Averaged": strings.Join(r.bench.ordinary(), ", "),
			"Compress": r.compressTable(true), "Limits": r.compressTable(false), "Inflate": r.inflateTable(),
			"Blocks": r.blockTable(), "CoresTable": r.coresTable(), "Estimates": r.estimateTable(), "Modes": r.modeTable(),
			"Corpora": r.corporaTable(), "Hardware": r.hardwareTable(), "Engine": r.compressedBy(),
		},
	}
}

// points are the means over the ordinary corpora, for the plot.
func (r *report) points() []point {
	var all []point
	for _, name := range r.contenders(true) {
		if slices.ContainsFunc(r.bench.loops, func(l loop) bool { return strings.HasPrefix(name, l.name()) }) {
			continue // as good as on our engine of the same library
		}
		if slices.Contains(olderNames, name) {
			continue
		}
		speed, ratio := r.means(name)
		p := point{label: name, speed: speed, ratio: ratio, family: r.family(name)}
		if p.family != peer {
			p.joins = name[:strings.LastIndex(name, " ")]
		}
		all = append(all, p)
	}
	return all
}

// contenders are the names in the order in which they were measured.
func (r *report) contenders(ordinary bool) []string {
	var names []string
	for _, found := range r.compress {
		if slices.Contains(r.bench.ordinary(), found.corpus) == ordinary && !slices.Contains(names, found.contender) {
			names = append(names, found.contender)
		}
	}
	return names
}

func (r *report) means(contender string) (speed, ratio float64) {
	var speeds, ratios []float64
	for _, corpus := range r.bench.ordinary() {
		if found, ok := find(r.compress, contender, corpus); ok {
			speeds = append(speeds, found.speed())
			ratios = append(ratios, found.ratio())
		}
	}
	return harness.GeometricMean(speeds), harness.GeometricMean(ratios)
}

// compressedBy names what the estimate is compared with and tries with.
func (r *report) compressedBy() string {
	if len(r.decisions.compressed) == 0 {
		return "no engine"
	}
	return r.decisions.compressed[0].contender
}

// family says whose point it is: an engine's codec, or a peer.
func (r *report) family(contender string) family {
	for _, s := range r.bench.settings(codec.High) {
		if s.name() == contender {
			if s.engine.Codec() == codec.Zstd {
				return oursZstd
			}
			return oursDeflate
		}
	}
	return peer
}
