// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package drillplan

import (
	"fmt"
	"slices"
	"strings"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// What a scrub finds, by the names that the agent gives it.
const (
	noChecksum   = "NoChecksum"
	indexTooLong = "IndexTooLong"
	changing     = "Changing"
)

// A flaw is what makes data that rest unfit, and what to do about it.
type flaw struct {
	what        []string
	reason, fix string
}

var flaws = []flaw{
	{[]string{"Damaged", "ObjectReplaced"}, v1alpha1.ReasonDataDamaged,
		"restore it from another copy, or remove it and run the Transfer that writes it"},
	{missing, v1alpha1.ReasonCopyIncomplete,
		"run the Transfer that writes the data, or restore what is missing"},
	{[]string{"IndexMissing", "IndexInvalid"}, v1alpha1.ReasonIndexUnusable,
		"make the index of a file or an archive that ends in .gz or .zst again with lighterage-cargo rebuild; that of a " +
			"prefix (.lighterage/index) is made by the Transfer that writes there, or, where there are archives, restored " +
			"from an earlier version"},
}

// isFlaw reports whether a finding makes data unfit.
func isFlaw(what string) bool {
	return slices.ContainsFunc(flaws, func(f flaw) bool { return slices.Contains(f.what, what) })
}

// Flawed is how much of what a drill looked at it found to be unfit: files, objects, archives or indexes.
func Flawed(run v1alpha1.DrillRecord) (count int64) {
	for _, o := range run.Findings {
		if isFlaw(o.What) {
			count += o.Count
		}
	}
	return count
}

// examine judges what a scrub found.
func (d *decision) examine(miss func(reason, format string, values ...any)) {
	run := d.drill.Status.Run
	for _, f := range flaws {
		for _, o := range run.Findings {
			if slices.Contains(f.what, o.What) && o.Count > 0 {
				miss(f.reason, "%s: %d, for example %q: %s", o.What, o.Count, strings.Join(o.Examples, ", "), f.fix)
			}
		}
	}
	if run.Files == 0 && Flawed(*run) == 0 {
		miss(v1alpha1.ReasonCopyIncomplete, "there is nothing of which the content can be verified%s; correct spec.source, or "+
			"run the Transfer that writes the data", others(run))
	}
}

// verified is the message of a scrub without flaws.
func verified(run *v1alpha1.DrillRecord, mode v1alpha1.ScrubMode) string {
	how := "by checksums of what rests"
	if mode == v1alpha1.ScrubInflate {
		how = "by inflating"
	}
	return fmt.Sprintf("drill %s verified %d files or objects, %d bytes as they rest, %s%s", run.ID, run.Files, run.Bytes,
		how, others(run))
}

// others tell how much was not verified for other reasons than flaws.
func others(run *v1alpha1.DrillRecord) string {
	said := ""
	for _, o := range run.Findings {
		switch o.What {
		case noChecksum:
			said += fmt.Sprintf("; %d have no checksum", o.Count)
		case indexTooLong:
			said += fmt.Sprintf("; %d have an index that is too long to be verified", o.Count)
		case changing:
			said += fmt.Sprintf("; %d changed each time they were read", o.Count)
		}
	}
	return said
}
