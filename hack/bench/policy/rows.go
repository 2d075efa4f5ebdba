// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

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
		for _, one := range c.fixed {
			if one.settings.Mode == policy.Never {
				value := one.value(o)
				r.None = &value
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

// regret is by how much Auto is worse than the best fixed choice. Of bytes, a hundredth of the data is as good as
// nothing.
func (r *row) regret() float64 {
	best, auto := r.Best.Value, r.Auto.Value
	if r.Objective == policy.Bytes || r.Objective == policy.Cost {
		least := 0.01 * float64(r.Size)
		if r.Objective == policy.Cost {
			least = least / (1 << 30) * prices.NetworkGiB
		}
		best, auto = max(best, least), max(auto, least)
	}
	return auto/best - 1
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
	slices.Sort(all)
	return all[len(all)/2], all[len(all)-1]
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
