// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package drillplan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
)

// missing are the omissions of a Transfer that are of files of the copy: they are not restored. All others are of
// attributes, or of files that are restored in another way.
var missing = []string{"ObjectMissing", "ObjectName", "PathTooLong"}

// maxAttempts of a restore.
const maxAttempts = 3

// TransferName is the name of the Transfers of a Drill, one at a time. The UID in it keeps others from having one of
// this name before.
func TransferName(drill *v1alpha1.Drill) string {
	return attempt.StagedName("drill", drill)
}

// Transfer restores the copy for the drill that status names, or verifies it where it rests.
func Transfer(drill *v1alpha1.Drill) *v1alpha1.Transfer {
	return &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: drill.Namespace, Name: TransferName(drill),
			Labels: map[string]string{
				v1alpha1.DrillLabel: string(drill.UID), v1alpha1.RunLabel: drill.Status.Run.ID,
			},
			OwnerReferences: []metav1.OwnerReference{agentpod.OwnerReference("Drill", drill)},
		},
		Spec: v1alpha1.TransferSpec{
			Source:      source(drill.Spec.Source),
			Destination: destination(drill.Spec),
			Include:     slices.Clone(drill.Spec.Include),
			Inflate:     drill.Spec.Inflate,
			Verify:      v1alpha1.VerifyDigest,
			MaxAttempts: maxAttempts,
		},
	}
}

func source(of v1alpha1.DrillSource) v1alpha1.TransferSource {
	if of.PersistentVolumeClaim.ClaimName != "" {
		return v1alpha1.TransferSource{
			PersistentVolumeClaim: of.PersistentVolumeClaim, Form: of.Form, Encryption: of.Encryption,
		}
	}
	return v1alpha1.TransferSource{ObjectStore: &of.ObjectStore, Encryption: of.Encryption}
}

func destination(spec v1alpha1.DrillSpec) v1alpha1.TransferDestination {
	if spec.Scrub != "" {
		return v1alpha1.TransferDestination{Scrub: spec.Scrub}
	}
	return v1alpha1.TransferDestination{Ephemeral: spec.Volume.DeepCopy()}
}

// fill notes what a Transfer has done in the record of the drill.
func (d *decision) fill(t *v1alpha1.Transfer) {
	run := d.drill.Status.Run
	if p := t.Status.Progress; p != nil {
		run.Files, run.Bytes, run.BytesPerSecond = p.Files, p.Bytes, p.BytesPerSecond
	}
	run.CPU, run.Decompression = t.Status.CPU.DeepCopy(), t.Status.Decompression.DeepCopy()
	if r := t.Status.Run; r != nil {
		run.CopyTime, run.Attempts = r.CopyTime.DeepCopy(), r.Attempt
		run.Node, run.Architecture = r.Node, r.Architecture
	}
	if d.drill.Spec.Scrub != "" {
		run.Findings = nil
		for i := range t.Status.Omissions {
			run.Findings = append(run.Findings, *t.Status.Omissions[i].DeepCopy())
		}
	}
}

// judge ends a drill whose Transfer has restored or verified everything that it found.
func (d *decision) judge() {
	t, run := d.facts.Transfer, d.drill.Status.Run
	d.fill(t)
	if t.Status.Run != nil {
		run.CompletionTime = t.Status.Run.CompletionTime.DeepCopy()
	}
	if run.CompletionTime == nil {
		now := metav1.NewTime(d.facts.Now)
		run.CompletionTime = &now
	}
	var reason string
	var misses []string
	miss := func(why, format string, values ...any) {
		if reason == "" {
			reason = why
		}
		misses = append(misses, fmt.Sprintf(format, values...))
	}
	if d.drill.Spec.Scrub != "" {
		d.examine(miss)
	} else {
		d.count(miss)
	}
	d.measure(miss)
	if reason != "" {
		d.end(reason, strings.Join(misses, "; "))
		return
	}
	if d.drill.Spec.Scrub != "" {
		d.end(v1alpha1.ReasonVerified, verified(run, d.drill.Spec.Scrub))
		return
	}
	written := "at a time that no index says"
	if run.CopyTime != nil {
		written = "at " + run.CopyTime.UTC().Format(time.RFC3339)
	}
	d.end(v1alpha1.ReasonRecovered, fmt.Sprintf(
		"drill %s restored and verified %d files, %d bytes, of the copy that was written %s", run.ID, run.Files, run.Bytes,
		written))
}

// count looks for files of the copy that were not restored.
func (d *decision) count(miss func(reason, format string, values ...any)) {
	for _, o := range d.facts.Transfer.Status.Omissions {
		if slices.Contains(missing, o.What) && o.Count > 0 {
			miss(v1alpha1.ReasonCopyIncomplete, "%d files cannot be restored (%s), for example %q: run the Transfer that "+
				"writes the copy, or restore the objects", o.Count, o.What, strings.Join(o.Examples, ", "))
		}
	}
	if d.drill.Status.Run.Files == 0 {
		miss(v1alpha1.ReasonCopyIncomplete, "the copy has no file that spec.include lets through, so nothing is proved; "+
			"correct spec.include, or run the Transfer that writes the copy")
	}
}

// measure compares the drill with the objective.
func (d *decision) measure(miss func(reason, format string, values ...any)) {
	objective, run := d.drill.Spec.Objective, d.drill.Status.Run
	if objective == nil {
		return
	}
	if most := objective.MaxAge; most != nil {
		switch {
		case run.CopyTime == nil:
			miss(v1alpha1.ReasonCopyTimeUnknown, "there is no index that says when the copy was written; have a Transfer "+
				"write it, or remove spec.objective.maxAge")
		case run.CompletionTime.Sub(run.CopyTime.Time) > most.Duration:
			miss(v1alpha1.ReasonCopyTooOld, "the copy was written at %s, which is longer ago than %s (spec.objective.maxAge); "+
				"look at the Transfer that writes it", run.CopyTime.UTC().Format(time.RFC3339), most.Duration)
		}
	}
	took := run.CompletionTime.Sub(run.StartTime.Time)
	if most := objective.MaxDuration; most != nil && took > most.Duration {
		miss(v1alpha1.ReasonRestoreTooSlow, "the drill took %s, and spec.objective.maxDuration is %s", took, most.Duration)
	}
	if least := objective.MinBytesPerSecond; least != nil && run.BytesPerSecond < least.Value() {
		miss(v1alpha1.ReasonRestoreTooSlow, "the rate was %d bytes each second, and spec.objective.minBytesPerSecond is %s",
			run.BytesPerSecond, least)
	}
	if most := objective.MaxCPUSecondsPerGiB; most != nil {
		took := CPUSecondsPerGiB(*run)
		switch {
		case took < 0 && run.Bytes > 0:
			miss(v1alpha1.ReasonRestoreTooCostly, "the agent reported no CPU time, which spec.objective.maxCPUSecondsPerGiB is "+
				"about; update the operator, or remove it")
		case took > most.AsApproximateFloat64():
			miss(v1alpha1.ReasonRestoreTooCostly, "the drill took %s seconds of CPU time for each GiB, and "+
				"spec.objective.maxCPUSecondsPerGiB is %s", run.CPU.SecondsPerGiB, most)
		}
	}
}

// CPUSecondsPerGiB is what a drill took; -1: nobody knows.
func CPUSecondsPerGiB(run v1alpha1.DrillRecord) float64 {
	if run.CPU == nil {
		return -1
	}
	took, err := strconv.ParseFloat(run.CPU.SecondsPerGiB, 64)
	if err != nil {
		return -1
	}
	return took
}
