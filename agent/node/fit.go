// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math"
	"math/bits"
)

// regressors of what the network stack spends.
const regressors = 3

// observation is one run: how much there was of each regressor, and the seconds that it took.
type observation struct {
	x [regressors]float64
	y float64
}

// fit returns the coefficients, none of them negative, whose squared errors are least. Of so few it tries each subset.
func fit(all []observation) [regressors]float64 {
	var scale [regressors]float64
	for _, o := range all {
		for i, x := range o.x {
			scale[i] = max(scale[i], x)
		}
	}
	var best [regressors]float64
	least := squares(all, best)
	for subset := 1; subset < 1<<regressors; subset++ {
		found, ok := solve(all, uint(subset), scale)
		if !ok {
			continue
		}
		if s := squares(all, found); s < least {
			best, least = found, s
		}
	}
	return best
}

// squares of what coefficients do not explain.
func squares(all []observation, coefficients [regressors]float64) float64 {
	sum := 0.0
	for _, o := range all {
		left := o.y
		for i, c := range coefficients {
			left -= c * o.x[i]
		}
		sum += left * left
	}
	return sum
}

// solve is the fit with the regressors of a subset alone, by its normal equations. It fails where these depend on each
// other, or a coefficient would be negative.
func solve(all []observation, subset uint, scale [regressors]float64) ([regressors]float64, bool) {
	var used []int
	for i := range regressors {
		if subset&(1<<i) != 0 {
			if scale[i] == 0 {
				return [regressors]float64{}, false
			}
			used = append(used, i)
		}
	}
	n := bits.OnesCount(subset)
	var m [regressors][regressors + 1]float64
	for _, o := range all {
		for row, i := range used {
			for column, j := range used {
				m[row][column] += o.x[i] / scale[i] * o.x[j] / scale[j]
			}
			m[row][n] += o.x[i] / scale[i] * o.y
		}
	}
	for row := range n { // the matrix is positive: no pivoting
		if m[row][row] < 1e-9 {
			return [regressors]float64{}, false
		}
		for other := range n {
			if other == row {
				continue
			}
			factor := m[other][row] / m[row][row]
			for column := row; column <= n; column++ {
				m[other][column] -= factor * m[row][column]
			}
		}
	}
	var found [regressors]float64
	for row, i := range used {
		found[i] = m[row][n] / m[row][row] / scale[i]
		if found[i] < 0 || math.IsNaN(found[i]) || math.IsInf(found[i], 0) {
			return [regressors]float64{}, false
		}
	}
	return found, true
}
