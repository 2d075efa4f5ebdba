// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"strings"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/table"
)

func ofDrill(d *v1alpha1.Drill, s *sheet) {
	s.section("Copy")
	if claim := d.Spec.Source.PersistentVolumeClaim; claim.ClaimName != "" {
		s.rowf("in", "claim %s, path %s, form %s", claim.ClaimName, cmp.Or(claim.Path, "/"), d.Spec.Source.Form)
	} else {
		from := d.Spec.Source.ObjectStore
		s.rowf("in", "ObjectStore %s, path %s", from.Name, cmp.Or(from.Path, "/"))
	}
	if e := d.Spec.Source.Encryption; e != nil {
		s.rowf("decrypted", "with the identities in Secret %s", e.IdentitySecretName)
	}
	by := "by what proves fastest, accelerators included"
	if d.Spec.Inflate == v1alpha1.InflateSoftware {
		by = "by software only"
	}
	switch d.Spec.Scrub {
	case "":
		s.row("restored", by)
	case v1alpha1.ScrubInflate:
		s.row("verified", "where it rests; everything is inflated "+by)
	default:
		s.row("verified", "where it rests, by its checksums; nothing is inflated")
	}
	if o := d.Spec.Objective; o != nil {
		s.section("Objective")
		if o.MaxAge != nil {
			s.row("copy at most", o.MaxAge.Duration.String()+" old")
		}
		if o.MaxDuration != nil {
			s.row("done within", o.MaxDuration.Duration.String())
		}
		if o.MinBytesPerSecond != nil {
			s.row("at least", table.Rate(o.MinBytesPerSecond.AsApproximateFloat64()))
		}
		if o.MaxCPUSecondsPerGiB != nil {
			s.row("at most", o.MaxCPUSecondsPerGiB.String()+" CPU seconds per GiB")
		}
	}
	if run := d.Status.Run; run != nil {
		title := "Last drill"
		if run.CompletionTime == nil {
			title = "Present drill"
		}
		s.section(title)
		s.rowf("drill", "%s%s", run.ID, since(when(&run.StartTime), when(run.CompletionTime)))
		s.row("by Transfer", d.Status.TransferName)
		s.at("copy is of", run.CopyTime)
		if run.Reason != "" {
			done := "restored"
			if d.Spec.Scrub != "" {
				done = "verified"
			}
			s.rowf(done, "%d files, %s, %s, %d attempts", run.Files, table.Bytes(run.Bytes),
				table.Rate(float64(run.BytesPerSecond)), run.Attempts)
			s.row("node", strings.TrimSuffix(run.Node+" ("+run.Architecture+")", " ()"))
		}
		if run.CPU != nil {
			s.row("CPU seconds per GiB", run.CPU.SecondsPerGiB)
		}
		if run.Decompression != nil {
			s.row("inflated", inflatedBy(run.Decompression))
		}
		if len(run.Findings) > 0 {
			s.section("What was found")
			for _, o := range run.Findings {
				s.rowf(o.What, "%d, for example %s", o.Count, strings.Join(o.Examples, ", "))
			}
		}
	}
	s.at("last recoverable", d.Status.LastRecoverableTime)
	if len(d.Status.History) > 1 {
		s.section("Drills before, newest first")
		s.row("DRILL", "RESULT", "DURATION", "BYTES", "CPU/GiB")
		for _, r := range d.Status.History[1:] {
			cpu, took := unknown, unknown
			if r.CPU != nil {
				cpu = cmp.Or(r.CPU.SecondsPerGiB, unknown)
			}
			if r.Duration != nil {
				took = r.Duration.Duration.String()
			}
			s.row(r.ID, r.Reason, took, table.Bytes(r.Bytes), cpu)
		}
	}
	if d.Spec.Schedule != nil && d.Status.Schedule != nil {
		s.section("Schedule")
		s.row("cron", d.Status.Schedule.Cron+" "+d.Status.Schedule.TimeZone)
		s.at("next time", d.Status.Schedule.NextTime)
		s.count("missed drills", d.Status.Schedule.MissedRuns)
	}
	if d.Status.TransferName != "" {
		s.next("see what is under way: kubectl lighterage explain transfer/%s -n %s", d.Status.TransferName, d.Namespace)
	} else {
		s.next("drill now: kubectl lighterage run drill/%s -n %s", d.Name, d.Namespace)
	}
}
