// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/template"
	"time"
)

// Report is what a run writes.
type Report struct {
	// Name of the files, without .md and .svg.
	Name string
	// Template has, beside what it makes of Data, {{written}}, {{machine}} and {{targets}}.
	Template string
	Data     any
	Targets  []Target
	// Drawing is an SVG; empty: there is none.
	Drawing string
	// Versions of what was compared; empty ones are left out.
	Versions []string
}

// Publish writes a report and prints its targets.
func (r *Run) Publish(ctx context.Context, p Report) error {
	directory := r.Directory()
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return fmt.Errorf("make the directory for results: %w", err)
	}
	parsed, err := template.New(p.Name).Funcs(template.FuncMap{
		"written": r.written, "targets": func() string { return TargetTable(p.Targets) },
		"machine": func() string { return r.machine(ctx, p.Versions) },
	}).Parse(p.Template)
	if err != nil {
		return fmt.Errorf("read the template of %s: %w", p.Name, err)
	}
	var text strings.Builder
	if err := parsed.Execute(&text, p.Data); err != nil {
		return fmt.Errorf("write the report %s: %w", p.Name, err)
	}
	for ending, content := range map[string]string{".md": text.String(), ".svg": p.Drawing} {
		if content == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(directory, p.Name+ending), []byte(content), 0o644); err != nil {
			return fmt.Errorf("write the results: %w", err)
		}
	}
	Log("wrote %s to %s", p.Name, directory)
	PrintTargets(p.Targets)
	return nil
}

// PrintTargets prints a line for each.
func PrintTargets(targets []Target) {
	for _, t := range targets {
		fmt.Println(t.Line())
	}
}

// IsResult reports whether what is measured is one, to be published.
func (r *Run) IsResult() bool { return !r.Quick && !r.Partial }

// Directory is that for what is written.
func (r *Run) Directory() string {
	switch {
	case r.Out != "":
		return r.Out
	case r.IsResult():
		return "docs/results"
	default:
		return "dist/bench"
	}
}

// written says by what, when and in which time.
func (r *Run) written() string {
	command := "make bench-" + r.Name
	if r.Quick {
		command += " BENCH=quick"
	}
	text := fmt.Sprintf("Written by `"+command+"` on %s, which took %s.", time.Now().UTC().Format(time.DateOnly),
		time.Since(r.begun).Round(time.Second))
	if !r.IsResult() {
		text += " It is no result."
	}
	return text
}

// machine names what it ran on, the versions of what was compared, and what other work there was when it matters.
func (r *Run) machine(ctx context.Context, versions []string) string {
	parts := []string{
		fmt.Sprintf("Machine: %d cores, %s, %s", runtime.NumCPU(), processor(), Version(ctx, "uname", "-sr")),
		runtime.Version() + " " + runtime.GOARCH,
	}
	if libraries := os.Getenv("LIGHTERAGE_LIBRARIES"); libraries != "" {
		parts = append(parts, "libraries: "+strings.ReplaceAll(libraries, "@", " "))
	}
	parts = slices.DeleteFunc(append(parts, versions...), func(s string) bool { return s == "" })
	if r.busy >= 0.1 {
		parts = append(parts, fmt.Sprintf("Other work ran beside it: it kept %.1f cores busy when it began", r.busy))
	}
	return strings.Join(parts, ". ") + "."
}

// processor is its name.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "an unknown processor"
}

// Version is the first line that a command prints; empty when it is not installed.
func Version(ctx context.Context, name string, args ...string) string {
	if _, err := exec.LookPath(name); err != nil {
		return ""
	}
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil && line == "" {
		return filepath.Base(name) + " of an unknown version"
	}
	return strings.Trim(strings.Join(strings.Fields(line), " "), "*. ")
}

// busyNow is how many cores something else keeps busy. The load of the system would have what ended just before.
func busyNow() float64 {
	before, _, err := SystemCPU()
	if err != nil {
		return 0
	}
	begun := time.Now()
	time.Sleep(500 * time.Millisecond)
	after, _, err := SystemCPU()
	if err != nil {
		return 0
	}
	return (after - before).Seconds() / time.Since(begun).Seconds()
}
