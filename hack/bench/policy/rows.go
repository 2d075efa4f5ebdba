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
	Network   speed            `json:"megabitsPerSecond"` // 0: unlimited
	Cores     int              `json:"cores"`
	Data      string           `json:"data"`
	Size      int64            `json:"bytes"`
	Objective policy.Objective `json:"objective"`
	// Auto and Best are medians: of mode Auto with what most blocks got, and of the fixed choice that is best.
	Auto figure `json:"auto"`
	Best figure `json:"best"`
	// None is that of sending everything as it is; absent: it was not run.
	None *float64 `json:"none,omitempty"`
	// Again is the same once more, which tells the noise.
	Again *float64 `json:"noneAgain,omitempty"`
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
	all := make([]row, 0, len(objectives))
	for _, o := range objectives {
		auto, best := c.auto[o], c.best(o)
		r := row{
			Network: c.link, Cores: c.cores, Data: c.kind.shown, Size: c.size, Objective: o,
			Measured: now.UTC().Format(time.DateOnly),
			Auto:     figure{auto.value(o), auto.runs[0].choice}, Best: figure{best.value(o), best.name},
		}
		r.RegretInterval = r.interval(auto, best)
		for _, one := range c.fixed {
			if one.settings.Mode == policy.Never {
				value := one.value(o)
				r.None, r.OverNoneInterval = &value, r.interval(auto, one)
			}
		}
		if c.again != nil {
			value := c.again.value(o)
			r.Again = &value
		}
		all = append(all, r)
	}
	return all
}

// regret is by how much Auto is worse than the best fixed choice.
func (r *row) regret() float64 { return r.atLeast(r.Auto.Value)/r.atLeast(r.Best.Value) - 1 }

// atLeast is a figure, or what is as good as nothing: of bytes, a hundredth of the data.
func (r *row) atLeast(figure float64) float64 {
	nothing := 0.01 * float64(r.Size)
	switch r.Objective {
	case policy.Bytes:
		return max(figure, nothing)
	case policy.Cost:
		return max(figure, nothing/(1<<30)*prices.NetworkGiB)
	}
	return figure
}

// interval of the quotient of two contenders.
func (r *row) interval(ours, theirs *contender) *[2]float64 {
	figures := func(c *contender) []float64 {
		all := c.values(r.Objective)
		for i := range all {
			all[i] = r.atLeast(all[i])
		}
		return all
	}
	e := harness.Ratio(figures(ours), figures(theirs))
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

// targets are in percent. The interval of the median is that of the medians of all ends.
func targets(rows []row) []harness.Target {
	if len(rows) == 0 {
		return nil
	}
	var regrets []harness.Estimate
	var over harness.Estimate
	for i := range rows {
		r := &rows[i]
		regrets = append(regrets, percentOver(1+r.regret(), r.RegretInterval))
		if r.Network == 0 && r.Objective == policy.Elapsed && r.hopeless() && r.None != nil {
			if e := percentOver(r.Auto.Value / *r.None, r.OverNoneInterval); e.Value > over.Value {
				over = e
			}
		}
	}
	median := func(of func(harness.Estimate) float64) float64 { return harness.MedianOf(regrets, of) }
	worst := slices.MaxFunc(regrets, func(a, b harness.Estimate) int { return cmp.Compare(a.Value, b.Value) })
	return []harness.Target{
		{Name: "policy-regret-median-percent", What: "median of all regrets", Bound: 2, Digits: 2,
			Measured: harness.Estimate{
				Value: median(func(e harness.Estimate) float64 { return e.Value }),
				Low:   median(func(e harness.Estimate) float64 { return e.Low }),
				High:  median(func(e harness.Estimate) float64 { return e.High }),
			}},
		{Name: "policy-regret-worst-percent", What: "the worst regret", Measured: worst, Bound: 10, Digits: 2},
		{Name: "policy-incompressible-over-none-percent", Measured: over, Bound: 3, Digits: 2,
			What: "how much longer Auto takes than none at worst, with data that do not shrink over an unlimited network"},
	}
}

// noise is by how many percent what one choice took differs from what it took again, in the rows in which time decides:
// the median and the most.
func noise(rows []row) (median, most float64) {
	var all []float64
	for i := range rows {
		r := &rows[i]
		if r.None != nil && r.Again != nil && (r.Objective == policy.Elapsed || r.Objective == policy.CPU) {
			all = append(all, 100*math.Abs(*r.Again / *r.None - 1))
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	return harness.Median(all), slices.Max(all)
}

// hopeless reports whether the data do not shrink.
func (r *row) hopeless() bool {
	return slices.ContainsFunc(kinds, func(k kind) bool { return k.shown == r.Data && k.hopeless })
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

// compare orders rows as the grid does: by cores, network, kind of data and objective.
func (r row) compare(other row) int {
	kind := func(name string) int { return slices.IndexFunc(kinds, func(k kind) bool { return k.shown == name }) }
	return cmp.Or(
		cmp.Compare(r.Cores, other.Cores),
		cmp.Compare(slices.Index(fullGrid.links, r.Network), slices.Index(fullGrid.links, other.Network)),
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
