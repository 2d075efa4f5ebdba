// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// Bounds in percent.
const (
	medianBound   = 1
	worstBound    = 10
	overNoneBound = 3
)

// targets are in percent, of each part those cells that are not noise. Noise does not hide what is large: a cell whose
// whole interval is above the bound of the worst one counts there all the same. The interval of the median is that of
// the medians of all ends. Beside none each objective is judged by its own figure, as the regret is: who minimises CPU time
// or cost is not to spend more of it than sending everything as it is would, whatever time that takes.
func targets(rows []row) (all []harness.Target) {
	for _, p := range parts {
		all = append(all, p.targets(pick(rows, func(r row) bool { return r.of() == p }))...)
	}
	return all
}

func (p part) targets(rows []row) []harness.Target {
	if len(rows) == 0 {
		return nil
	}
	nothing := harness.Estimate{Value: math.NaN(), Low: math.NaN(), High: math.NaN()}
	middle, worst, over := nothing, nothing, nothing
	worstAt, overAt, noise := "", "", 0
	var regrets []harness.Estimate
	for i := range rows {
		r := &rows[i]
		e := percentOver(1+r.regret(), r.RegretInterval)
		if r.isNoise() {
			noise++
		} else {
			regrets = append(regrets, e)
		}
		if r.counts(e, worstBound) && !(e.Value <= worst.Value) {
			worst, worstAt = e, r.where()
		}
		if r.Network != 0 || r.None == nil {
			continue
		}
		e = percentOver(r.atLeast(r.Auto.Value)/r.atLeast(*r.None), r.OverNoneInterval)
		if r.counts(e, overNoneBound) && !(e.Value <= over.Value) {
			over, overAt = e, r.where()
		}
	}
	if len(regrets) > 0 {
		middle = harness.Estimate{
			Value: harness.MedianOf(regrets, func(e harness.Estimate) float64 { return e.Value }),
			Low:   harness.MedianOf(regrets, func(e harness.Estimate) float64 { return e.Low }),
			High:  harness.MedianOf(regrets, func(e harness.Estimate) float64 { return e.High }),
		}
	}
	name := func(what string) string { return fmt.Sprintf("policy-%s-%s-percent", p, what) }
	return []harness.Target{
		{Name: name("regret-median"), What: "median of the regrets", Measured: middle, Bound: medianBound, Digits: 2,
			Note: fmt.Sprintf("%d of %d are noise", noise, len(rows))},
		{Name: name("regret-worst"), What: "the worst regret", Measured: worst, Bound: worstBound, Digits: 2, Note: worstAt},
		{Name: name("unlimited-over-none"), Measured: over, Bound: overNoneBound, Digits: 2, Note: overAt,
			What: "by how much the figure of Auto's objective is worse than none's at worst, over an unlimited network"},
	}
}

// counts reports whether a figure of a row counts for a bound: it is not noise, or above the bound whatever of it is
// noise.
func (r *row) counts(e harness.Estimate, bound float64) bool { return !r.isNoise() || e.Low > bound }

// of is the part that a row is of.
func (r *row) of() part { return cmp.Or(r.Part, transfers) }

// where names the cell and the objective of a row.
func (r *row) where() string {
	text := r.Data
	if r.Unit > 0 {
		text += ", " + length(r.Unit)
	}
	text += ", " + r.Network.String()
	if r.of() == transfers {
		text += fmt.Sprintf(", %d core(s)", r.Cores)
	}
	return text + ", " + string(r.Objective)
}

// noise is by how many percent a choice may differ from itself, in the rows of which that was measured and in which
// time decides: the median and the most.
func noise(rows []row) (median, most float64) {
	var all []float64
	for i := range rows {
		if r := &rows[i]; r.Noise != nil && (r.Objective == policy.Elapsed || r.Objective == policy.CPU) {
			all = append(all, 100**r.Noise)
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	return harness.Median(all), slices.Max(all)
}
