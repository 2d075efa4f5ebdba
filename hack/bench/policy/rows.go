// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// row is what a cell says of one objective. Rows are kept in policy.json, so that a network can be measured again
// without the others.
type row struct {
	// Part is empty in results of Transfers alone, of an earlier time.
	Part      part             `json:"part,omitempty"`
	Network   speed            `json:"megabitsPerSecond"` // 0: unlimited
	Cores     int              `json:"cores"`
	Data      string           `json:"data"`
	Unit      int              `json:"unitBytes,omitempty"` // of a message or body
	Size      int64            `json:"bytes"`
	Objective policy.Objective `json:"objective"`
	// Auto and Best are medians: of mode Auto with what most blocks got, and of the fixed choice that is best.
	Auto figure `json:"auto"`
	Best figure `json:"best"`
	// None is that of sending everything as it is; absent: it was not run.
	None *float64 `json:"none,omitempty"`
	// Noise is by which share a fixed choice may differ from itself, and Rounds how often that was measured; absent: that
	// was not measured.
	Noise  *float64 `json:"noise,omitempty"`
	Rounds int      `json:"rounds,omitempty"`
	// RegretInterval and OverNoneInterval are the 95 % intervals of Auto by Best, and by None; absent: one run each.
	RegretInterval   *[2]float64 `json:"regretInterval,omitempty"`
	OverNoneInterval *[2]float64 `json:"overNoneInterval,omitempty"`
	// Measured is the day.
	Measured string `json:"measured"`
}

// figure is what an objective made of the runs of a choice: seconds, bytes or USD.
type figure struct {
	Value  float64 `json:"value"`
	Choice string  `json:"choice"`
}

// rows returns a row for each objective.
func (c *cell) rows(now time.Time) []row {
	all := make([]row, 0, len(c.objectives))
	for _, o := range c.objectives {
		auto, best := c.auto[o], c.best(o)
		r := row{
			Part: c.part, Network: c.link, Cores: c.cores, Data: c.kind.shown, Unit: c.unit, Size: c.size, Objective: o,
			Measured: now.UTC().Format(time.DateOnly),
			Auto:     figure{auto.value(o), auto.mostly()}, Best: figure{best.value(o), best.name},
		}
		r.RegretInterval = r.interval(auto, best)
		for _, one := range c.fixed {
			if one.settings.Mode == policy.Never {
				value := one.value(o)
				r.None, r.OverNoneInterval = &value, r.interval(auto, one)
			}
		}
		if noise := c.noise(o); !math.IsInf(noise, 1) {
			r.Noise, r.Rounds = &noise, len(c.again.runs)
		}
		all = append(all, r)
	}
	return all
}

// mostly is what most runs chose.
func (c *contender) mostly() string {
	n := map[string]int{}
	for _, r := range c.runs {
		n[r.choice]++
	}
	return slices.MaxFunc(c.runs, func(a, b outcome) int {
		return cmp.Or(cmp.Compare(n[a.choice], n[b.choice]), cmp.Compare(b.choice, a.choice))
	}).choice
}

// isNoise reports whether a choice differs from itself by so much that a regret says little.
func (r *row) isNoise() bool { return r.Noise != nil && !(*r.Noise < quiet) }

// regret is by how much Auto is worse than the best fixed choice.
func (r *row) regret() float64 { return r.atLeast(r.Auto.Value)/r.atLeast(r.Best.Value) - 1 }

// atLeast is a figure, or what is as good as nothing: of bytes, a hundredth of the data.
func (r *row) atLeast(figure float64) float64 { return atLeast(r.Objective, r.Size, figure) }

func atLeast(o policy.Objective, size int64, figure float64) float64 {
	nothing := 0.01 * float64(size)
	switch o {
	case policy.Bytes:
		return max(figure, nothing)
	case policy.Cost:
		return max(figure, nothing/(1<<30)*prices.NetworkGiB)
	}
	return figure
}

// ratio of two contenders in the same rounds.
func ratio(o policy.Objective, size int64, ours, theirs []float64) harness.Estimate {
	floored := func(figures []float64) []float64 {
		all := slices.Clone(figures)
		for i := range all {
			all[i] = atLeast(o, size, all[i])
		}
		return all
	}
	return harness.Ratio(floored(ours), floored(theirs))
}

// interval of the quotient of two contenders.
func (r *row) interval(ours, theirs *contender) *[2]float64 {
	e := ratio(r.Objective, r.Size, ours.values(r.Objective), theirs.values(r.Objective))
	if math.IsInf(e.High, 1) {
		return nil
	}
	return &[2]float64{e.Low, e.High}
}

// percentOver is by how many percent a quotient is above 1.
func percentOver(quotient float64, interval *[2]float64) harness.Estimate {
	e := harness.Estimate{Value: 100 * (quotient - 1), Low: math.Inf(-1), High: math.Inf(1)}
	if interval != nil {
		e.Low, e.High = 100*(interval[0]-1), 100*(interval[1]-1)
	}
	return e
}

// none is what sending everything as it is took, empty when it was not run.
func (r *row) none() string {
	if r.None == nil {
		return ""
	}
	return short(r.Objective, *r.None)
}

// merge puts rows in the place of those of the same cell and objective, in the order of the grid.
func merge(have, measured []row) []row {
	all := slices.DeleteFunc(slices.Clone(have), func(old row) bool {
		return slices.ContainsFunc(measured, func(r row) bool { return r.compare(old) == 0 })
	})
	all = append(all, measured...)
	slices.SortFunc(all, row.compare)
	return all
}

// compare orders rows as the grid does: by part, cores, network, length, kind of data and objective.
func (r row) compare(other row) int {
	kind := func(name string) int { return slices.IndexFunc(kinds, func(k kind) bool { return k.shown == name }) }
	links := fullGrid[0].links
	return cmp.Or(
		cmp.Compare(slices.Index(parts, r.of()), slices.Index(parts, other.of())),
		cmp.Compare(r.Cores, other.Cores),
		cmp.Compare(slices.Index(links, r.Network), slices.Index(links, other.Network)),
		cmp.Compare(r.Unit, other.Unit),
		cmp.Compare(kind(r.Data), kind(other.Data)),
		cmp.Compare(slices.Index(objectives, r.Objective), slices.Index(objectives, other.Objective)),
	)
}

const rowsFile = "policy.json"

// readRows returns what was measured before; nothing when there is no such file.
func readRows(dir string) ([]row, error) {
	text, err := os.ReadFile(filepath.Join(dir, rowsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what was measured before: %w", err)
	}
	var rows []row
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("read what was measured before, %s: %w", rowsFile, err)
	}
	return rows, nil
}

// keepRows writes one row on a line, for differences to be read.
func keepRows(dir string, rows []row) error {
	text := []byte("[\n")
	for i := range rows {
		line, err := json.Marshal(&rows[i])
		if err != nil {
			return fmt.Errorf("write what was measured: %w", err)
		}
		text = append(append(text, line...), ',', '\n')
	}
	text = append(text[:max(len(text)-2, 1)], "\n]\n"...)
	if err := os.WriteFile(filepath.Join(dir, rowsFile), text, 0o644); err != nil { //nolint:gosec // a document
		return fmt.Errorf("write what was measured: %w", err)
	}
	return nil
}
