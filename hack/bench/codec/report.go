// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
)

//go:embed report.md.tmpl
var reportText string

// report is codec.md and codec.svg.
type report struct {
	*results
	bench   *bench
	targets []target
	took    time.Duration
	cores   int
}

func newReport(b *bench, r *results, took time.Duration) *report {
	cores := runtime.NumCPU()
	return &report{results: r, bench: b, targets: b.targets(r, cores), took: took, cores: cores}
}

func (r *report) write(ctx context.Context) error {
	out := r.bench.out
	parsed, err := template.New("report").Parse(reportText)
	if err != nil {
		return fmt.Errorf("read the report's template: %w", err)
	}
	var text strings.Builder
	if err := parsed.Execute(&text, map[string]any{
		"Command": r.bench.command, "Date": time.Now().UTC().Format("2006-01-02"), "MiB": r.bench.bytes >> 20,
		"Rounds": r.bench.rounds,
		"Least":  r.bench.least, "Cores": r.cores, "Machine": machine(ctx), "Busy": r.bench.busy,
		"Took":     r.took.Round(time.Second).String(),
		"Averaged": strings.Join(r.bench.ordinary(), ", "),
		"Targets":  r.targetTable(), "Compress": r.compressTable(true), "Limits": r.compressTable(false),
		"Inflate": r.inflateTable(),
		"Blocks":  r.blockTable(), "CoresTable": r.coresTable(), "Estimates": r.estimateTable(), "Modes": r.modeTable(),
		"Corpora": r.corporaTable(), "Hardware": r.hardwareTable(), "Engine": r.compressedBy(),
	}); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make the directory for results: %w", err)
	}
	for name, content := range map[string]string{"codec.md": text.String(), "codec.svg": draw(r.points())} {
		if err := os.WriteFile(filepath.Join(out, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("write the results: %w", err)
		}
	}
	return nil
}

// points are the means over the ordinary corpora, for the plot.
func (r *report) points() []point {
	var all []point
	for _, name := range r.contenders(true) {
		if slices.ContainsFunc(r.bench.loops, func(l loop) bool { return strings.HasPrefix(name, l.name()) }) {
			continue // as good as on our engine of the same library
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
	return geometricMean(speeds), geometricMean(ratios)
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

// machine names what it ran on, and the versions of what was compared.
func machine(ctx context.Context) string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	parts := []string{
		fmt.Sprintf("%d cores, %s, %s", runtime.NumCPU(), model, firstLine(ctx, "uname", "-sr")),
		runtime.Version() + " " + runtime.GOARCH, firstLine(ctx, "cc", "--version"),
	}
	if libraries := os.Getenv("LIGHTERAGE_LIBRARIES"); libraries != "" {
		parts = append(parts, "libraries: "+strings.ReplaceAll(libraries, "@", " "))
	}
	for _, command := range []string{"igzip", "pigz", "zstd"} {
		if path, err := exec.LookPath(command); err == nil {
			parts = append(parts, firstLine(ctx, path, "--version"))
		}
	}
	return strings.Join(parts, ". ")
}

// busy says what other work there was on the machine when it matters, "" when not.
func busy() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	var load float64
	if _, err := fmt.Sscan(string(text), &load); err != nil || load < 0.5 {
		return ""
	}
	return fmt.Sprintf(
		"Other work ran beside it: the load was %.1f when it began. What goes by the wall, all cores above all, means "+
			"little then.",
		load,
	)
}

func firstLine(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return filepath.Base(name) + " of an unknown version"
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return strings.Trim(strings.Join(strings.Fields(line), " "), "*. ")
}
