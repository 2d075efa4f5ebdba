// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/policy"
)

// report writes policy.md and policy.svg.
func report(dir string, rows []row, met []target) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# What mode Auto loses against the best fixed choice

Written by `+"`make bench-policy`"+` on %s (`+"`PART=10`"+
		` measures one network again). Two agents, TLS 1.3 between them, from memory to memory, over a virtual network whose
speed a token bucket holds. The receiver writes over a file that is there: finding pages for a new one takes a virtual machine longer than most choices differ by. Each runs on a core of its own (1 core), or both on the same two (2 cores; not over
the slowest network, which leaves one idle). Auto may choose between deflate and zstd at all levels (`+"`level: High`"+
		`); a fixed choice is one codec and level
for all blocks, or none. All of a cell ran in turn after one run that counts for nobody, in three to %d rounds
without those of which more runs would tell nothing; medians. Where nothing stands below none it would have taken longer than %v. CPU is that of both processes, cost is at USD %g for a core's hour and USD %g for a GiB on the wire.

Regret is by how many percent Auto's figure is worse than that of the fixed choice that is best in that cell; below 0 it is better. Of bytes and
cost, a hundredth of the data is as good as nothing.

![Regret of all cells](policy.svg)

## Targets

`+"```\n", time.Now().UTC().Format(time.DateOnly), fullGrid.rounds, longest, prices.CPUHour, prices.NetworkGiB)
	for _, t := range met {
		fmt.Fprintln(&b, t)
	}
	b.WriteString("```\n")
	median, most := noise(rows)
	fmt.Fprintf(
		&b,
		"\nNoise: none stood in every cell twice. Its seconds and its CPU time differed from themselves by %.1f %% in the "+
			"median, and by %.1f %% at most.\n",
		median, most,
	)
	var last [2]int
	for i := range rows {
		r := &rows[i]
		if at := [2]int{int(r.Network), r.Cores}; at != last {
			last = at
			fmt.Fprintf(&b, "\n## %s, %d core(s)\n\nMeasured %s.\n\n| data | MiB | objective | Auto | most blocks | best "+
				"fixed | its figure | none | regret, %% |\n|---|---|---|---|---|---|---|---|---|\n",
				r.Network, r.Cores, days(rows, r))
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s | %s | %.1f |\n", r.Data, r.Size>>20, r.Objective, short(r.Objective, r.Auto.Value), r.Auto.Choice,
			r.Best.Choice, short(r.Objective, r.Best.Value), r.none(), 100*r.regret())
	}
	b.WriteString(`
## Simulation: an accelerator, and networks that are not here

Nothing here was measured. The policy's own code decides in a simulated transfer of ` + fmt.Sprint(simulatedBlocks) +
		` MiB between two systems of ` + fmt.Sprint(simulatedCores) + ` cores each. What
sending, receiving and compressing take is from published figures of IBM Connect:Direct for z/OS with a data set of 9 GB: bytes of the z15's
accelerator and of zlib in software, CPU time of zlib and, because none is published for the z15 that could be compared, of the z13's card. That moving
bytes takes half of its CPU time for the data and half for what is on the wire is assumed.

` + simulate())
	fmt.Fprintf(&b, "\nMachine: %d cores, %s, %s.\n", runtime.NumCPU(), processor(), runtime.Version())
	if err := os.WriteFile(
		filepath.Join(dir, "policy.md"), []byte(b.String()), 0o644,
	); err != nil { //nolint:gosec // a document
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.WriteFile(
		filepath.Join(dir, "policy.svg"), []byte(heatMap(rows)), 0o644,
	); err != nil { //nolint:gosec // a document
		return fmt.Errorf("write the map: %w", err)
	}
	return nil
}

// days says when the cells of a row's network and number of cores were measured.
func days(rows []row, of *row) string {
	var all []string
	for i := range rows {
		if r := &rows[i]; r.Network == of.Network && r.Cores == of.Cores && !slices.Contains(all, r.Measured) {
			all = append(all, r.Measured)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " and ")
}

// short is a value with a unit, small costs included.
func short(o policy.Objective, v float64) string {
	if o == policy.Cost {
		return fmt.Sprintf("%.5f USD", v)
	}
	if o == policy.Bytes {
		return fmt.Sprintf("%.2f MB", v/1e6)
	}
	return fmt.Sprintf("%.3f s", v)
}

// processor names the machine's.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
