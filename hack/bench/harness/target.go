// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"math"
	"strings"
)

// Target is a bound that a measured figure should keep. Missing one fails nothing: the machine may have been busy.
type Target struct {
	Name, What string
	// Measured has a Value that is NaN where nothing could be measured, which misses every bound.
	Measured Estimate
	Bound    float64
	// AtLeast says that the bound is the least, else it is the most.
	AtLeast bool
	Percent bool
	Digits  int
	// Note says more, such as where it was worst.
	Note string
}

// OK reports whether the whole interval keeps the bound, as it is shown: nobody shall read "0.95 >=0.95 miss".
func (t Target) OK() bool {
	if t.AtLeast {
		return t.rounded(t.Measured.Low) >= t.Bound
	}
	return t.rounded(t.Measured.High) <= t.Bound
}

func (t Target) rounded(f float64) float64 {
	scale := math.Pow(10, float64(t.Digits))
	if t.Percent {
		scale *= 100
	}
	return math.Round(f*scale) / scale
}

// Verdict is ok or miss.
func (t Target) Verdict() string {
	if t.OK() {
		return "ok"
	}
	return "miss"
}

// Figure shows one as the target's are shown.
func (t Target) Figure(f float64) string {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return "-"
	case t.Percent:
		return fmt.Sprintf("%.*f%%", t.Digits, 100*f)
	}
	return fmt.Sprintf("%.*f", t.Digits, f)
}

// Limit is the bound with its direction.
func (t Target) Limit() string {
	if t.AtLeast {
		return ">=" + t.Figure(t.Bound)
	}
	return "<=" + t.Figure(t.Bound)
}

// Line is what scripts read.
func (t Target) Line() string {
	return fmt.Sprintf("target %s %s %s %s", t.Name, t.Figure(t.Measured.Value), t.Limit(), t.Verdict())
}

// interval is empty where there is none, because there is nothing to be unsure of.
func (t Target) interval() string {
	if math.IsInf(t.Measured.High, 1) {
		return "one round"
	}
	low, high := t.Figure(t.Measured.Low), t.Figure(t.Measured.High)
	if low == high {
		return ""
	}
	return low + " to " + high
}

// TargetTable shows all.
func TargetTable(targets []Target) string {
	var rows [][]string
	notes := false
	for _, t := range targets {
		rows = append(rows,
			[]string{t.Name, t.What, t.Figure(t.Measured.Value), t.interval(), t.Limit(), t.Verdict(), t.Note})
		notes = notes || t.Note != ""
	}
	head := []string{"target", "what", "measured", "95 % interval", "bound", "", "worst"}
	if !notes {
		head = head[:len(head)-1]
	}
	return Table(head, rows)
}

// Table makes one of Markdown, of as many columns as it has heads. Those with figures alone are aligned to the right.
func Table(head []string, rows [][]string) string {
	var out strings.Builder
	line := func(cells []string) { out.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(head)
	out.WriteString("|")
	for i := range head {
		if isFigures(rows, i) {
			out.WriteString("---:|")
		} else {
			out.WriteString("---|")
		}
	}
	out.WriteString("\n")
	for _, row := range rows {
		line(row[:len(head)])
	}
	return out.String()
}

func isFigures(rows [][]string, column int) bool {
	some := false
	for _, row := range rows {
		if row[column] != "" && !strings.ContainsAny(row[column][:1], "0123456789-+.") {
			return false
		}
		some = some || row[column] != ""
	}
	return some
}

// Grouped writes a whole number with commas.
func Grouped[T int | int64 | float64](n T) string {
	s := fmt.Sprintf("%.0f", float64(n))
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
