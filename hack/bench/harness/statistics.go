// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"math"
	"slices"
)

// Median returns the middle of the values, or the mean of the two in the middle; NaN of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// MedianOf is the median of a figure of samples; 0 of none.
func MedianOf[T any](samples []T, figure func(T) float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	return Median(figures(samples, figure))
}

func figures[T any](samples []T, figure func(T) float64) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = figure(s)
	}
	return values
}

// GeometricMean is the mean of ratios and speeds: twice as fast here and half as fast there is the same.
func GeometricMean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(values)))
}

// Estimate is a figure with the interval in which it lies by 95 %.
type Estimate struct{ Value, Low, High float64 }

// Exactly is a figure that was counted, or measured once for what it was then: it has no interval.
func Exactly(value float64) Estimate { return Estimate{value, value, value} }

// Times is the estimate of a multiple.
func (e Estimate) Times(factor float64) Estimate {
	return Estimate{e.Value * factor, e.Low * factor, e.High * factor}
}

// Inverse is the estimate of one by it.
func (e Estimate) Inverse() Estimate { return Estimate{1 / e.Value, 1 / e.High, 1 / e.Low} }

// Ratio compares what two contenders took in the same rounds: the median of the quotients, and an interval of Student's
// t of their logarithms, which are compared because a quotient and its inverse say the same. One round says nothing
// about what another would give: the interval is everything then.
func Ratio(ours, theirs []float64) Estimate {
	n := min(len(ours), len(theirs))
	quotients, logs := make([]float64, n), make([]float64, n)
	for i := range n {
		quotients[i] = ours[i] / theirs[i]
		logs[i] = math.Log(quotients[i])
	}
	value := Median(quotients)
	low, high := interval(logs)
	return Estimate{Value: value, Low: min(value, math.Exp(low)), High: max(value, math.Exp(high))}
}

// Share compares as Ratio does what may be 0 or below, such as a difference that is smaller than its noise. Its interval
// is that of the quotients themselves, which have no logarithm.
func Share(ours, theirs []float64) Estimate {
	quotients := make([]float64, min(len(ours), len(theirs)))
	for i := range quotients {
		quotients[i] = ours[i] / theirs[i]
	}
	value := Median(quotients)
	low, high := interval(quotients)
	return Estimate{Value: value, Low: min(value, low), High: max(value, high)}
}

// RatioOf is that of a figure of samples.
func RatioOf[T any](ours, theirs []T, figure func(T) float64) Estimate {
	return Ratio(figures(ours, figure), figures(theirs, figure))
}

// MeanRatio is the geometric mean of ratios that were measured on different data. Its interval is as if those of all
// were independent.
func MeanRatio(all []Estimate) Estimate {
	value := GeometricMean(figures(all, func(e Estimate) float64 { return e.Value }))
	var low, high float64
	for _, e := range all {
		low += math.Pow(math.Log(e.Value/e.Low), 2)
		high += math.Pow(math.Log(e.High/e.Value), 2)
	}
	n := float64(len(all))
	return Estimate{value, value * math.Exp(-math.Sqrt(low)/n), value * math.Exp(math.Sqrt(high)/n)}
}

// interval is that of the mean by Student's t.
func interval(values []float64) (low, high float64) {
	n := float64(len(values))
	if n < 2 {
		return math.Inf(-1), math.Inf(1)
	}
	var mean, squares float64
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	half := student(len(values)-1) * math.Sqrt(squares/(n-1)/n)
	return mean - half, mean + half
}

// student is the quantile of Student's t for 95 % on both sides, by degrees of freedom: from a table, and for more of
// them by the first terms of the expansion about the normal distribution's.
func student(freedom int) float64 {
	table := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228}
	if freedom <= len(table) {
		return table[freedom-1]
	}
	const z = 1.959964
	return z + (z*z*z+z)/(4*float64(freedom)) + (5*z*z*z*z*z+16*z*z*z+3*z)/(96*float64(freedom)*float64(freedom))
}
