// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/table"
	"github.com/lighterage/lighterage/controllers/usage"
)

// unknown stands in tables for what is not known.
const unknown = "?"

// WriteText writes an explanation for people.
func (e *Explanation) WriteText(to io.Writer) error {
	var out bytes.Buffer
	for i, section := range e.Tables() {
		if i > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(table.Printable(section.Title) + "\n" + section.Rows.Text("  "))
	}
	e.writeChoices(&out)
	bullets(&out, "Notes", e.Notes)
	if _, err := to.Write(out.Bytes()); err != nil {
		return fmt.Errorf("writing the explanation: %w", err)
	}
	return nil
}

// Tables are all that there is to say but the choices and the notes.
func (e *Explanation) Tables() []Section {
	all := []Section{e.runTable()}
	if e.Policy != nil {
		all = append(all, e.policyTable())
	}
	if e.Decision != nil {
		all = append(all, e.decisionTable())
	}
	if e.Measured != nil {
		all = append(all, e.measuredTable())
	}
	return all
}

func (e *Explanation) runTable() Section {
	var rows table.Rows
	rows.Addf("run", "%s, attempt %d%s", e.Run.ID, e.Run.Attempt, since(e.Run.Start, e.Run.Completion))
	if e.Stalled != "" {
		about := ""
		if e.NextRun {
			about = "another run cannot begin, and what follows is of the one before: "
		}
		rows.Add("stalled", about+e.Stalled)
	}
	rows.Add("route", strings.TrimSuffix(cmp.Or(e.Run.Route, unknown)+" to "+e.Run.Peer, " to "))
	if p := e.Run.DataPath; p != nil {
		rows.Add("data path", pathText(p))
	}
	node := cmp.Or(e.Run.Node, "not placed yet")
	if e.Run.Architecture != "" {
		node += " (" + e.Run.Architecture + ")"
	}
	rows.Add("node", node)
	if p := e.Placement; p != nil && p.Reason != "" {
		rows.Add("placement", p.Reason+": "+p.Sentence)
		for _, a := range p.Alternatives {
			with := ""
			if a.Engine != "" {
				with = " (" + a.Engine + ")"
			}
			rows.Addf("  not on", "%s%s: %s: %s", a.Node, with, a.Reason, a.Sentence)
		}
	}
	return Section{Title: "Transfer " + e.Transfer + ": " + cmp.Or(e.Phase, "phase unknown"), Rows: rows}
}

// pathText is empty where the path is not known.
func pathText(p *v1alpha1.DataPath) string {
	if p == nil {
		return ""
	}
	text := fmt.Sprintf("%s (%s)", p.Type, p.Reason)
	if p.CongestionControl != "" {
		text += ", " + p.CongestionControl
	}
	if p.RoundTripTime != nil {
		text += ", round-trip time " + p.RoundTripTime.Duration.String()
	}
	return text
}

func (e *Explanation) policyTable() Section {
	found := map[string]string{"Named": "named by the Transfer", "Default": "the default of the cluster"}[e.Policy.Source]
	title := "Policy of the run: built in, for no CompressionPolicy applied"
	if e.Policy.Name != "" {
		title = fmt.Sprintf("Policy of the run: %s, %s", policy.Title(e.Policy.Kind != "", e.Policy.Name),
			cmp.Or(found, e.Policy.Source))
	}
	var rows table.Rows
	for _, v := range e.Policy.Values {
		rows.Add(v.Name, cmp.Or(v.Value, unknown), "from "+v.Origin)
	}
	return Section{Title: title, Rows: rows}
}

func (e *Explanation) decisionTable() Section {
	d := e.Decision
	var rows table.Rows
	rows.Add("reason", d.Reason+": "+d.Sentence)
	for _, c := range d.Reasons {
		said := ": " + c.Sentence
		if c.Reason == d.Reason {
			said = "" // right above
		}
		rows.Addf("", "%d x %s%s", c.Operations, c.Reason, said)
	}
	rows.Add("data", paths(d.Hardware, d.Software, d.Stored))
	if d.Decompression != nil {
		rows.Add("inflated", inflatedBy(d.Decompression))
	}
	if s := e.Samples; s != nil {
		text := fmt.Sprintf("%d blocks predicted and compressed, %d of them in vain", s.Blocks, s.Wasted)
		if s.MeanErrorPercent != "" {
			text += fmt.Sprintf("; predictions were off by %s %% of the uncompressed size on average", s.MeanErrorPercent)
		}
		rows.Add("samples", text+fmt.Sprintf("; %d of %d probes of what seemed hopeless did shrink", s.Missed, s.Probes))
	}
	if text := regret(d.Auto); text != "" {
		rows.Add("regret", text)
	}
	return Section{Title: "Decision" + e.soFar() + ": " + own(d), Rows: rows}
}

func paths(hardware, software, stored v1alpha1.Operations) string {
	return fmt.Sprintf("%s by hardware, %s by software, %s stored as they were", table.Bytes(hardware.Bytes),
		table.Bytes(software.Bytes), table.Bytes(stored.Bytes))
}

func inflatedBy(i *v1alpha1.DecompressionStatus) string {
	text := fmt.Sprintf("%s by hardware, %s by software, of which %s by fallback from hardware",
		table.Bytes(i.Hardware.Bytes), table.Bytes(i.Software.Bytes), table.Bytes(i.Fallback.Bytes))
	if i.Reason != "" {
		text += " (" + i.Reason + ")"
	}
	return text
}

func own(d *Decision) string {
	if d.Codec == none || d.Codec == "" {
		return "not compressed"
	}
	return strings.TrimSuffix(fmt.Sprintf("%s by %s at level %s", d.Codec, d.Engine, d.Level), " at level ")
}

func (e *Explanation) soFar() string {
	if e.Running {
		return " so far"
	}
	return ""
}

func (e *Explanation) measuredTable() Section {
	m := e.Measured
	var rows table.Rows
	ratio := ""
	if m.Ratio != nil {
		ratio = fmt.Sprintf(", ratio %.2f", *m.Ratio)
	}
	rows.Addf("bytes", "%s before, %s after%s", table.Bytes(m.UncompressedBytes), table.Bytes(m.CompressedBytes), ratio)
	if m.Elapsed != nil {
		rows.Add("elapsed", seconds(m.Elapsed))
	}
	if m.BytesPerSecond != nil {
		text := table.Rate(*m.BytesPerSecond) + " of uncompressed data"
		if m.WireBytesPerSecond != nil {
			text += ", " + table.Rate(*m.WireBytesPerSecond) + " on the wire"
		}
		rows.Add("goodput", text)
	}
	if m.SendCPU != nil {
		text := "sender " + seconds(m.SendCPU) + " (compressing " + seconds(m.CompressCPU) + ")"
		if usage.OneProcess(v1alpha1.Route(e.Run.Route)) {
			text = "one agent on both sides " + seconds(m.SendCPU) + " (compressing " + seconds(m.CompressCPU) + ", inflating " +
				seconds(m.DecompressCPU) + ")"
		} else {
			text += ", receiver " + seconds(m.ReceiveCPU) + " (inflating " + seconds(m.DecompressCPU) + ")"
		}
		if e.Run.Route != string(v1alpha1.RoutePod) {
			text += ", network stack " + seconds(m.NetworkCPU)
			if m.NetworkCPU != nil {
				text += " (an estimate)"
			}
		}
		rows.Add("CPU", text+", together "+seconds(m.TotalCPU))
	}
	if m.Cost != nil {
		rows.Addf(
			"cost", "%s %s for CPU, %s for the network; compression saved %s", m.Cost.Currency, m.Cost.CPU, m.Cost.Network,
			m.Cost.Saved,
		)
		for _, p := range m.Cost.Periods {
			rows.Add("  charged", charged(p))
		}
	}
	if e.Run.Attempt > 1 && m.RunUsage != nil {
		rows.Add(fmt.Sprintf("all %d attempts", e.Run.Attempt), wholeRun(m.RunUsage, m.RunCost))
	}
	return Section{Title: "Measured" + e.soFar(), Rows: rows}
}

// wholeRun sums up all attempts.
func wholeRun(used *v1alpha1.UsageStatus, cost *v1alpha1.CostStatus) string {
	var parts []string
	for _, side := range []struct {
		name string
		cpu  *v1alpha1.CPUUsage
	}{{"sender", used.Send}, {"receiver", used.Receive}} {
		if side.cpu != nil {
			parts = append(parts, side.name+" "+seconds(decimal(side.cpu.ProcessSeconds)))
		}
	}
	parts = append(parts, table.Bytes(used.WireBytes)+" on the wire")
	if cost != nil {
		parts = append(parts, fmt.Sprintf("%s %s for CPU, %s for the network; compression saved %s",
			cost.Currency, cost.CPU, cost.Network, cost.Saved))
	}
	return strings.Join(parts, ", ")
}

// charged is a part of the cost, with the prices that were in force and where they come from.
func charged(p v1alpha1.CostPeriod) string {
	at := "several earlier prices in " + p.Prices.Currency
	if p.Prices.Source != v1alpha1.PricesOfSeveral {
		at = fmt.Sprintf(
			"%s from %s %q, generation %d", pricesText(p.Prices), p.Prices.Source, p.Prices.Name, p.Prices.Generation,
		)
	}
	if p.StartTime != nil {
		at += ", since " + clock(p.StartTime.Time)
	}
	return fmt.Sprintf("%s s of CPU for %s and %s for %s, at %s",
		p.CPUSeconds, p.CPU, table.Bytes(p.WireBytes), p.Network, at)
}

func (e *Explanation) writeChoices(out *bytes.Buffer) {
	if len(e.Choices) == 0 || e.Measured == nil {
		return
	}
	fmt.Fprint(out, "\nAlternatives: the run as measured, and estimates of others, for a GiB\n")
	out.WriteString(Legible(e.Compared()).Text("  "))
	if e.Best != "" {
		fmt.Fprintf(out, "Of what is known, least %s.\n", table.Printable(e.Best))
	}
	bullets(out, "Estimates assume", e.Assumptions)
}

// Compared is the table of Alternatives of the run, which is the first, and of its Choices, in their order.
func (e *Explanation) Compared() table.Rows {
	currency := ""
	if e.Measured.Cost != nil {
		currency = e.Measured.Cost.Currency
	}
	return Alternatives(e.alternatives(), currency)
}

// alternatives are the run, and its Choices compared with it.
func (e *Explanation) alternatives() []Alternative {
	m, d, plain := e.Measured, e.Decision, float64(e.Measured.UncompressedBytes)
	each := func(value *float64) *float64 {
		if value == nil || plain <= 0 {
			return nil
		}
		return new(*value / plain * (1 << 30))
	}
	took := m.Elapsed
	if m.BytesPerSecond != nil {
		took = new(plain / *m.BytesPerSecond)
	}
	ratio := m.Ratio
	if m.CompressedBytes > 0 {
		ratio = positive(plain / float64(m.CompressedBytes)) // status rounds it
	}
	all := []Alternative{{
		For: "this run", Codec: d.Codec, Engine: d.Engine, Level: d.Level, Ratio: ratio, Compress: each(m.CompressCPU),
		CPU: each(m.TotalCPU), Elapsed: each(took), Money: each(m.Money), Chosen: true, Remark: e.ends(e.Run.Completion),
	}}
	for _, c := range e.Choices {
		a := Alternative{
			Codec: c.Codec, Engine: c.Engine, Level: c.Level, Compress: each(c.compress), CPU: each(c.CPU),
			Elapsed: each(c.Elapsed), Money: each(c.Money), AtLeast: c.AtLeast, Remark: e.ends(c.End),
		}
		switch {
		case c.Bytes != nil:
			a.Ratio = positive(plain / *c.Bytes)
		case c.SampleRatio != nil && c.SampleBytesPerSecond != nil:
			a.Sample, a.Ratio, a.Compress = true, c.SampleRatio, positive((1<<30) / *c.SampleBytesPerSecond)
			a.Remark = strings.TrimPrefix(a.Remark+"; by the agents' sample", "; ")
		}
		if c.Excluded != "" {
			a.Remark = strings.TrimPrefix(a.Remark+"; not open to this run: "+c.Excluded, "; ")
		}
		all = append(all, a)
	}
	if e.objective != "" {
		compare(all, all[0].by(e.objective), e.objective)
	}
	return all
}

// ends is when a choice ends, and whether that is too late; empty without a deadline.
func (e *Explanation) ends(at *time.Time) string {
	switch {
	case at == nil || e.Deadline == nil:
		return ""
	case at.After(e.Deadline.Time.Time):
		return "ends " + clock(*at) + ", late"
	}
	return "ends " + clock(*at)
}

func known(least, text string) string {
	if text == unknown {
		return text
	}
	return least + text
}

func bullets(out *bytes.Buffer, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", title)
	for _, line := range lines {
		fmt.Fprintf(out, "  - %s\n", table.Printable(line))
	}
}

func since(start, completion *time.Time) string {
	text := ""
	if start != nil {
		text += ", from " + clock(*start)
	}
	if completion != nil {
		text += " to " + clock(*completion)
	}
	return text
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
