// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// tableOf is how the contenders of a field did.
type tableOf struct {
	field
	tree    treeSize
	results []result
}

// result returns that of a contender, if it was measured.
func (t tableOf) result(name string) (r result, measured bool) {
	i := slices.IndexFunc(t.results, func(r result) bool { return r.name == name })
	if i < 0 {
		return result{}, false
	}
	return t.results[i], true
}

// copies is the table that is usual for statistics of copies: our own cases alone, with the CPU time of either side.
func (t tableOf) copies() string {
	var b strings.Builder
	b.WriteString("| case | elapsed s | bytes transmitted | send CPU s | receive CPU s |\n|---|---|---|---|---|\n")
	for _, c := range []struct{ name, contender string }{
		{"none", oursNone}, {"zstd Fast", oursZstd}, {"deflate Fast", oursFast}, {"deflate Balanced", oursBalanced},
	} {
		if r, measured := t.result(c.contender); measured {
			fmt.Fprintf(
				&b, "| %s | %.2f | %d | %.2f | %.2f |\n", c.name, r.wall.Seconds(), r.wire, r.send.Seconds(), r.receive.Seconds(),
			)
		}
	}
	b.WriteString("| deflate on the accelerator (z15 or later) | | | | |\n")
	return b.String()
}

func (t tableOf) String() string {
	var b strings.Builder
	fmt.Fprintf(
		&b, "%s: %s (%d files, %d links, %d directories, %.0f MB)\n\n", t.name, t.about, t.tree.files, t.tree.links,
		t.tree.directories, float64(t.tree.bytes)/1e6,
	)
	b.WriteString(
		"| contender | wall s (least to most) | MB/s | system CPU s | CPU s per GB | bytes on the wire | send CPU s | " +
			"receive CPU s |\n|---|---|---|---|---|---|---|---|\n",
	)
	for _, r := range t.results {
		fmt.Fprintf(&b, "| %s | %.2f (%.2f to %.2f) | %.0f | %.2f | %.2f | %s | %s | %s |\n", r.name, r.wall.Seconds(), r.minWall.Seconds(), r.maxWall.Seconds(),
			r.throughput, r.cpu.Seconds(), r.perGB, known(r.wire, "%d", r.wire), known(
				r.send, "%.2f", r.send.Seconds(),
			), known(r.receive, "%.2f", r.receive.Seconds()))
	}
	return b.String()
}

// known formats a figure, or says that there is none.
func known[T int64 | time.Duration](there T, format string, figure any) string {
	if there == 0 {
		return "-"
	}
	return fmt.Sprintf(format, figure)
}

func sorted[T int64 | time.Duration](samples []sample, of func(sample) T) []T {
	values := make([]T, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values
}

// report writes transfer.md and transfer.svg.
func report(out string, runs int, tables []tableOf, met []target) error {
	var text strings.Builder
	fmt.Fprintf(&text, `# Moving trees: Lighterage beside rsync and tar

Written by `+"`make bench-transfer`"+
		` on %s. From memory to memory (tmpfs) over loopback; medians of %d runs, the contenders in turn.
CPU is that of the whole system, all that is not idle in /proc/stat, so it counts the network stack and, for us, the gateway
between the agents; send and receive CPU are what our two agents account for themselves.

rsync speaks to a daemon without TLS. Ours is TLS 1.3 throughout and syncs at the end; with verify None every block and every piece of a
file is checked against a digest as it comes, as rsync does, and with verify Digest, the default, all that was written is read back besides.

`, time.Now().UTC().Format("2006-01-02"), runs)
	for i, table := range tables {
		fmt.Fprintf(&text, "## %s\n\n%s\n", strings.ToUpper(table.name[:1])+table.name[1:], table)
		if i == 0 {
			text.WriteString("![The same as bars](transfer.svg)\n\n")
			fmt.Fprintf(
				&text,
				"Our cases alone, with verify None:\n\n%s\nThe row of the accelerator stays empty until somebody has run this on "+
					"such a machine.\n\n",
				table.copies(),
			)
		}
	}
	text.WriteString("## Targets\n\nRatios of ours to the peer's, in this run.\n\n```\n")
	for _, t := range met {
		fmt.Fprintln(&text, t)
	}
	fmt.Fprintf(&text, "```\n\nMachine: %s. %s. %s. %s. %s.\n", machine(), runtime.Version(), firstLine("rsync", "--version"), firstLine("igzip", "--version"),
		firstLine("socat", "-V"))
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // documents
		return fmt.Errorf("make the directory for results: %w", err)
	}
	for name, content := range map[string]string{"transfer.md": text.String(), "transfer.svg": plot(tables[0].results)} {
		if err := os.WriteFile(filepath.Join(out, name), []byte(content), 0o644); err != nil { //nolint:gosec // documents
			return fmt.Errorf("write the results: %w", err)
		}
	}
	return nil
}

func machine() string {
	model := "unknown CPU"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores, %s, %s", runtime.NumCPU(), model, firstLine("uname", "-sr"))
}

func firstLine(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output() //nolint:gosec // a benchmark's own arguments
	if err != nil {
		return name + " unknown"
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	return strings.Join(strings.Fields(string(line)), " ")
}

// plot draws wall time and CPU time as bars.
func plot(results []result) string {
	const width, left, barWidth, row = 920, 310, 480, 56
	longest := 0.0
	for _, r := range results {
		longest = max(longest, r.wall.Seconds(), r.cpu.Seconds())
	}
	height := 70 + row*len(results)
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="14">
<rect width="%d" height="%d" fill="#fff"/>
<rect x="%d" y="20" width="14" height="14" fill="#0969da"/><text x="%d" y="32">wall s</text>
<rect x="%d" y="20" width="14" height="14" fill="#d4a72c"/><text x="%d" y="32">CPU s, whole system</text>
`, width, height, width, height, left, left+20, left+90, left+110)
	for i, r := range results {
		y := 52 + row*i
		fmt.Fprintf(
			&svg, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", left-12, y+25,
			strings.ReplaceAll(r.name, "&", "&amp;"),
		)
		for j, bar := range []struct {
			seconds float64
			fill    string
		}{{r.wall.Seconds(), "#0969da"}, {r.cpu.Seconds(), "#d4a72c"}} {
			length := bar.seconds / longest * barWidth
			fmt.Fprintf(&svg, `<rect x="%d" y="%d" width="%.1f" height="18" fill="%s"/><text x="%.1f" y="%d" font-size="12">%.2f</text>`+"\n",
				left, y+j*21, length, bar.fill, left+length+6, y+j*21+14, bar.seconds)
		}
	}
	svg.WriteString("</svg>\n")
	return svg.String()
}
