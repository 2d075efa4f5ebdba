// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"strings"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/table"
)

// maxAttemptRows is how many attempts of a history are shown.
const maxAttemptRows = 5

// What follows are parts of status that several kinds have.

func (s *sheet) run(r *v1alpha1.RunStatus) {
	if r == nil {
		return
	}
	s.section("Agent")
	s.rowf("run", "%s, attempt %d%s", r.ID, r.Attempt, since(when(r.StartTime), when(r.CompletionTime)))
	s.row("node", strings.TrimSuffix(r.Node+" ("+r.Architecture+")", " ()"))
	s.count("failures", int64(r.Failures))
	s.at("next attempt", r.NextAttemptTime)
}

// policy shows what is in force, and where it comes from.
func (s *sheet) policy(p *v1alpha1.PolicyStatus) {
	if p == nil {
		return
	}
	from := "built in"
	if p.Name != "" {
		from = policy.Title(p.IsLocal(), p.Name) + ", " + strings.ToLower(p.Source)
	}
	s.section("Policy in force: " + from + ", with what the spec sets itself")
	s.row("canary", canaryText(p.Canary))
	s.row("objective", string(p.Objective))
	s.row("mode", string(p.Mode))
	s.row("codecs", list(p.Codecs))
	s.row("level", string(p.Level))
	s.row("placement", string(p.Placement))
	s.row("hardware.minSize", minSize(p.HardwareMinSize))
	s.row("software.minSize", minSize(p.SoftwareMinSize))
	if p.SoftwareDisabled {
		s.row("software.disabled", "true")
	}
	s.row("software.engines", cmp.Or(list(p.SoftwareEngines), byMeasurement))
	if p.Prices != nil {
		s.row("prices", pricesText(*p.Prices))
	}
}

// compression shows what was decided, why, and with what outcome.
func (s *sheet) compression(c *v1alpha1.CompressionStatus, i *v1alpha1.DecompressionStatus) {
	if c == nil && i == nil {
		return
	}
	s.section("Compression")
	if d := decided(c, i); d != nil {
		if d.Engine == "" { // of a Delivery, which does not know it
			s.row("codec", d.Codec)
		} else {
			s.row("decision", own(d))
		}
		if d.Reason != "" {
			s.row("reason", d.Reason+": "+d.Sentence)
		}
		for _, count := range d.Reasons {
			s.rowf("", "%d x %s: %s", count.Operations, count.Reason, count.Sentence)
		}
		s.rowf("bytes", "%s before, %s after, ratio %s", table.Bytes(c.UncompressedBytes), table.Bytes(c.CompressedBytes),
			cmp.Or(c.Ratio, unknown))
		s.row("data", paths(d.Hardware, d.Software, d.Stored))
	}
	if i != nil {
		s.row("inflated", inflatedBy(i))
	}
}

// decisions shows what mode Auto does with classes of bodies or messages, and what the other choice would take. about is
// which they are, to is where connections lead whose rate is shown, and packed how the object compresses.
func (s *sheet) decisions(
	about, to string, d *v1alpha1.DecisionsStatus, packed *v1alpha1.CompressionStatus,
) {
	if d == nil {
		return
	}
	s.section("Decisions of mode Auto about " + about)
	s.row("objective", string(d.Objective))
	switch {
	case d.LinkBytesPerSecond > 0:
		s.row("network", table.Rate(float64(d.LinkBytesPerSecond))+" to "+to+", by the median")
	case d.DiskBytesPerSecond == 0:
		s.row("network", unknown+": everything that may be compressed is, until enough was sent")
	}
	if d.DiskBytesPerSecond > 0 {
		s.row("storage", table.Rate(float64(d.DiskBytesPerSecond))+", by the median")
	}
	if d.SendCPUSecondsPerGiB != "" {
		s.row("sending", d.SendCPUSecondsPerGiB+" CPU seconds per GiB")
	}
	if d.InflateCPUSecondsPerGiB != "" {
		s.row("inflating for readers", d.InflateCPUSecondsPerGiB+" CPU seconds per GiB")
	}
	s.regret(d)
	s.alternatives("Classes of "+about+": what is done, and the other choice", ofClasses(d, packed), "")
}

// regret shows what choices lose.
func (s *sheet) regret(d *v1alpha1.DecisionsStatus) {
	if text := regret(d); text != "" {
		s.row("regret", text)
	}
}

// regret says what choices lose, if it is known.
func regret(d *v1alpha1.DecisionsStatus) string {
	if d == nil || d.BestAlternative == "" {
		return ""
	}
	return fmt.Sprintf("%s %% (± %s) of what the objective %s asks for, against the best alternative for everything, %s; "+
		"%d measured", d.RegretPercent, d.RegretMarginPercent, d.Objective, d.BestAlternative, d.RegretSamples)
}

// spent shows what the work used and cost.
func (s *sheet) spent(cpu *v1alpha1.CPUStatus, used *v1alpha1.UsageStatus, cost *v1alpha1.CostStatus) {
	if cpu == nil && used == nil && cost == nil {
		return
	}
	s.section("Cost")
	if cpu != nil {
		s.row("CPU seconds per GiB", cpu.SecondsPerGiB)
	}
	if used != nil {
		s.row("used", wholeRun(used, nil))
	}
	if cost == nil {
		s.row("money", "not known: no Tariff applies, and the policy states no prices")
		return
	}
	s.rowf("money", "%s %s for CPU, %s for the network; compression saved %s", cost.Currency, cost.CPU, cost.Network,
		cost.Saved)
	if cost.Idle != "" {
		s.row("", cost.Idle+" of that for CPU is for the time in which nothing passed")
	}
	for _, p := range cost.Periods {
		s.row("charged", charged(p))
	}
}

// placement shows where agents are, why, and where else they could be.
func (s *sheet) placement(status *v1alpha1.PlacementStatus) {
	p := placement(status)
	if p == nil || p.Reason == "" {
		return
	}
	s.section("Placement")
	s.row("node", p.Node)
	s.row("why", p.Reason+": "+p.Sentence)
	for _, a := range p.Alternatives {
		s.rowf("not on "+a.Node, "%s: %s", a.Reason, a.Sentence)
	}
}

func (s *sheet) usedBy(title string, u *v1alpha1.UsedByStatus) {
	if u == nil || len(u.Objects) == 0 {
		return
	}
	s.section(title)
	for _, o := range u.Objects {
		s.row(o.Kind, fmt.Sprint(o.Count))
	}
	s.at("last run began", u.LastUseTime)
	s.rowf("bytes", "%s before compression, %s after, %s on the wire", table.Bytes(u.UncompressedBytes),
		table.Bytes(u.CompressedBytes), table.Bytes(u.WireBytes))
	s.row("CPU", strings.TrimPrefix(u.CPUSeconds+" s", " s"))
	for _, c := range u.Costs {
		s.rowf("cost", "%s %s for CPU, %s for the network; compression saved %s", c.Currency, c.CPU, c.Network, c.Saved)
	}
}

func (s *sheet) archive(in string, a *v1alpha1.QueueArchiveStatus) {
	if a == nil {
		return
	}
	s.section("Archive in the " + in)
	s.rowf("state", "up to sequence %d, %d messages behind", a.Sequence, a.Behind)
	s.at("complete at", a.LastTime)
	if a.LastError != nil {
		s.row("last error", a.LastError.Reason+": "+a.LastError.Message)
	}
}

// history shows how the last attempts ended.
func (s *sheet) history(records []v1alpha1.AttemptRecord) {
	if len(records) == 0 {
		return
	}
	s.section("Last attempts")
	for _, r := range records[:min(len(records), maxAttemptRows)] {
		end := ""
		if r.CompletionTime != nil {
			end = clock(r.CompletionTime.Time) + "  "
		}
		s.rowf(fmt.Sprintf("run %s attempt %d", r.RunID, r.Attempt), "%s%s", end,
			strings.TrimSuffix(r.Reason+": "+r.Message, ": "))
	}
}

func (s *sheet) omissions(all []v1alpha1.Omission) {
	if len(all) == 0 {
		return
	}
	s.section("What could not be kept")
	for _, o := range all {
		s.rowf(o.What, "%d, for example %s", o.Count, strings.Join(o.Examples, ", "))
	}
}

// tryOthers says how alternatives are measured where status has no figures of them.
func (s *sheet) tryOthers(namespace, source string) {
	s.next("what other engines and levels would cost is measured by a CompressionTrial in namespace %s with %s "+
		"(docs/how-to/trial.md)", namespace, source)
}
