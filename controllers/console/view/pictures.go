// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
	"github.com/lighterage/lighterage/controllers/table"
	"github.com/lighterage/lighterage/controllers/tariff"
)

// The parts of bars of what went which way, in the order of their colours.
const (
	byHardware = iota
	bySoftware
	asItWas
)

// picturing collects the pictures of an object. Sections of the report that they show are left out of the facts.
type picturing struct {
	now   time.Time
	all   []Table
	shown []string
}

func (p *picturing) add(f *figure) {
	if len(f.Rows) > 0 {
		p.all = append(p.all, f.done())
	}
}

// replaces notes that a picture shows a section whose title begins like this.
func (p *picturing) replaces(title string) { p.shown = append(p.shown, title) }

func (p *picturing) hides(title string) bool {
	for _, shown := range p.shown {
		if strings.HasPrefix(title, shown) {
			return true
		}
	}
	return false
}

// pictures of an object.
func pictures(object explain.Object, report *explain.Report, now time.Time) *picturing {
	p := &picturing{now: now}
	switch o := object.(type) {
	case *v1alpha1.Transfer:
		p.destinations(o)
		p.paths(o.Status.Compression)
		p.cost(o.Status.Cost)
		p.choices(report.Explanation)
		p.history(o.Status.History)
	case *v1alpha1.Delivery:
		p.paths(o.Status.Compression)
		p.inflated(o.Status.Decompression)
		p.cost(o.Status.Cost)
	case *v1alpha1.Drill:
		if o.Status.Run != nil {
			p.inflated(o.Status.Run.Decompression)
		}
		p.drills(o.Status.History)
	case *v1alpha1.TransferSet:
		p.members(o.Status.Members)
	case *v1alpha1.Queue:
		p.messages(o.Status.Statistics)
		p.paths(o.Status.Compression)
		p.cost(o.Status.Cost)
	case *v1alpha1.HTTPEndpoint:
		p.responses(o.Status.Statistics)
		p.paths(o.Status.Compression)
		p.cost(o.Status.Cost)
	case *v1alpha1.NodeProfile:
		p.engines(o.Status.Engines)
	case *v1alpha1.CompressionTrial:
		p.results(o.Status.Results)
	case *v1alpha1.Statement:
		p.statement(o)
	case *v1alpha1.DataQuota:
		p.quota(o)
	case *v1alpha1.Peer:
		p.traffic(o)
	}
	return p
}

// decimal is a number that status holds as text; 0 where it is none.
func decimal(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
		return 0
	}
	return value
}

func share(part, whole float64) string {
	if whole <= 0 {
		return unknown
	}
	return fmt.Sprintf("%.0f %%", part/whole*100)
}

// only is a bar that has this part alone.
func only(class int, value float64) []float64 {
	parts := make([]float64, class+1)
	parts[class] = value
	return parts
}

// paths shows what was compressed by what.
func (p *picturing) paths(c *v1alpha1.CompressionStatus) {
	if c == nil || c.UncompressedBytes <= 0 {
		return
	}
	f := newFigure("What compressed the data", nil, "Path", "#Bytes", "#Share", "#Operations+")
	for class, way := range []struct {
		name string
		did  v1alpha1.Operations
	}{{"by hardware", c.Hardware}, {"by software", c.Software}, {"stored as they were", c.Stored}} {
		bytes := float64(max(way.did.Bytes, 0))
		f.bar(only(class, bytes), way.name, table.Bytes(bytes), share(bytes, float64(c.UncompressedBytes)),
			fmt.Sprint(way.did.Operations))
	}
	before, after := float64(c.UncompressedBytes), float64(max(c.CompressedBytes, 0))
	f.bar(only(asItWas+1, before), "before compression", table.Bytes(before), "100 %", "")
	f.bar(only(asItWas+1, after), "after compression", table.Bytes(after), share(after, before), "").Marked = true
	p.add(f)
}

// inflated shows what inflated the data.
func (p *picturing) inflated(d *v1alpha1.DecompressionStatus) {
	if d == nil {
		return
	}
	whole := float64(max(d.Hardware.Bytes, 0)) + float64(max(d.Software.Bytes, 0))
	if whole == 0 {
		return
	}
	f := newFigure("What inflated the data", nil, "Path", "#Bytes", "#Share", "#Operations+")
	for _, way := range []struct {
		class int
		name  string
		did   v1alpha1.Operations
	}{
		{byHardware, "by hardware", d.Hardware}, {bySoftware, "by software", d.Software},
		{bySoftware, "of that, what hardware compressed", d.Fallback},
	} {
		bytes := float64(max(way.did.Bytes, 0))
		f.bar(only(way.class, bytes), way.name, table.Bytes(bytes), share(bytes, whole), fmt.Sprint(way.did.Operations))
	}
	p.add(f)
}

// choices shows what others would have taken: money where there are prices, or else CPU time.
func (p *picturing) choices(e *explain.Explanation) {
	if e == nil || e.Measured == nil || e.Decision == nil || len(e.Choices) == 0 {
		return
	}
	of, run, shown := "CPU time", e.Measured.TotalCPU, "CPU"
	pick := func(c *explain.Choice) *float64 { return c.CPU }
	if e.Measured.Money != nil {
		of, run, shown = "cost", e.Measured.Money, "COST"
		pick = func(c *explain.Choice) *float64 { return c.Money }
	}
	rows := e.Compared()
	columns := []string{"Choice"}
	for _, title := range rows[0][4 : len(rows[0])-1] {
		column := "#" + sentence(title)
		// Narrow pages show what the bars are of, and how it compares.
		if first, _, _ := strings.Cut(title, " "); first != shown && first != "COMPARED" {
			column += "+"
		}
		columns = append(columns, column)
	}
	f := newFigure("Alternatives by "+of+": the run as measured, others as estimated, for a GiB", nil,
		append(columns, "Remark+")...)
	value := func(v *float64) float64 {
		if v == nil {
			return 0
		}
		return *v
	}
	for i, cells := range rows[1:] {
		class, amount := bySoftware, value(run)
		if i > 0 {
			class, amount = asItWas, value(pick(&e.Choices[i-1]))
		}
		name := strings.TrimSuffix(strings.Join(cells[1:4], " "), " -")
		if cells[1] == "none" {
			name = "not compressed"
		}
		row := f.bar(only(class, amount), name, cells[4:]...)
		row.Marked = i == 0
	}
	p.add(f)
	if e.Best != "" {
		last := &p.all[len(p.all)-1]
		last.Notes = append(last.Notes, text("Of what is known, least "+e.Best+".").Text)
	}
}

// sentence writes a title in capitals as others are written. Currencies stay.
func sentence(title string) string {
	first, rest, _ := strings.Cut(title, " ")
	if first == "" {
		return title
	}
	return strings.TrimSpace(first[:1] + strings.ToLower(first[1:]) + " " + rest)
}

// cost shows what was paid, and what compression saved.
func (p *picturing) cost(c *v1alpha1.CostStatus) {
	if c == nil || c.Currency == "" {
		return
	}
	f := newFigure("Cost in "+text(c.Currency).Text+", and what compression saved", nil, "For", "#Amount")
	row := func(class int, name string, amount float64) { f.bar(only(class, amount), name, tariff.Money(amount)) }
	row(bySoftware, "CPU time", decimal(c.CPU))
	if c.Idle != "" {
		row(bySoftware, "of that, while nothing passed", decimal(c.Idle))
	}
	row(bySoftware, "network", decimal(c.Network))
	f.bar(only(asItWas+1, decimal(c.Saved)), "saved, not paid", cmp.Or(c.Saved, "0")).Marked = true
	p.add(f)
}

// history shows the last attempts by how long they took.
func (p *picturing) history(records []v1alpha1.AttemptRecord) {
	p.replaces("Last attempts")
	f := newFigure("History: last attempts by how long they took", nil, "Attempt", "#Took", "Result", "#Ended", "#Bytes+",
		"#Compressed to+", "#Resumed+", "Engine+", "Node+")
	for _, r := range records {
		took, ended, seconds := unknown, unknown, 0.0
		if r.Duration != nil {
			seconds = max(r.Duration.Seconds(), 0)
			took = r.Duration.Round(time.Second).String()
			if seconds < 10 {
				took = r.Duration.Round(10 * time.Millisecond).String()
			}
		}
		if r.CompletionTime != nil {
			ended = Age(p.now, r.CompletionTime.Time) + " ago"
		}
		row := f.bar(only(bySoftware, seconds), fmt.Sprintf("%s, %d", r.RunID, r.Attempt), took, cmp.Or(r.Reason, unknown),
			ended, table.Bytes(max(r.Bytes, 0)), table.Bytes(max(r.CompressedBytes, 0)), table.Bytes(max(r.ResumedBytes, 0)),
			cmp.Or(r.Engine, unknown), cmp.Or(r.Node, unknown))
		if r.Message != "" && r.Reason != v1alpha1.ReasonSucceeded {
			row.Why = text(r.Message).Text
		}
	}
	p.add(f)
}
