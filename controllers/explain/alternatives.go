// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"strings"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/table"
)

// Alternative is a way in which data went, or could have gone. It has the same figures whatever data are: those of a
// Transfer, bodies, messages, or the sample of a CompressionTrial. Figures are for a GiB of uncompressed data; those
// that are nil are not known.
type Alternative struct {
	// For is which of the data, or the link that they are for; empty: all.
	For string
	// Codec is none where nothing is compressed.
	Codec, Engine, Level string
	// Ratio is uncompressed divided by compressed bytes, of all data that For names.
	Ratio *float64
	// Compress is the CPU time of compressing, CPU that of both sides with all that moving the data takes, in seconds.
	Compress, CPU *float64
	// Elapsed in seconds.
	Elapsed *float64
	// Money for CPU time and bytes.
	Money *float64
	// Sample: Ratio and Compress are of the sample that agents carry, since nothing is known of the data.
	Sample bool
	// AtLeast: CPU and Money are a least.
	AtLeast bool
	// More is by how many percent more of what the objective asks for it takes than what is Chosen.
	More *float64
	// Chosen: it was done, or is recommended.
	Chosen bool
	// Remark is what else there is to say.
	Remark string
}

// titles of the columns of Alternatives; that of money is followed by the currency.
var titles = []string{
	"FOR", "CODEC", "ENGINE", "LEVEL", "RATIO", "COMPRESS CPU", "CPU", "ELAPSED", "COST", "COMPARED", "REMARK",
}

const costColumn = 8

// Alternatives is the table of all that could be chosen, after a row of titles. Its columns are always the same.
func Alternatives(all []Alternative, currency string) table.Rows {
	head := append([]string{}, titles...)
	head[costColumn] = strings.TrimSpace(head[costColumn] + " " + currency)
	rows := table.Rows{head}
	for _, a := range all {
		least := ""
		if a.AtLeast {
			least = ">= "
		}
		more := unknown
		switch {
		case a.Chosen:
			more = "chosen"
		case a.More != nil:
			more = fmt.Sprintf("%+.1f %%", *a.More)
		}
		ratio := unknown
		if a.Ratio != nil {
			ratio = fmt.Sprintf("%.2f", *a.Ratio)
		}
		rows.Add(a.For, cmp.Or(a.Codec, none), cmp.Or(a.Engine, "-"), cmp.Or(a.Level, "-"), ratio, seconds(a.Compress),
			known(least, seconds(a.CPU)), seconds(a.Elapsed), known(least, money(a.Money)), more, a.Remark)
	}
	return rows
}

// Legible is the table without the columns that say nothing of any row.
func Legible(rows table.Rows) table.Rows {
	if len(rows) == 0 {
		return rows
	}
	var kept []int
	for column := range rows[0] {
		for _, cells := range rows[1:] {
			if cell := cells[column]; cell != "" && cell != unknown && cell != "-" {
				kept = append(kept, column)
				break
			}
		}
	}
	legible := make(table.Rows, 0, len(rows))
	for _, cells := range rows {
		line := make([]string, 0, len(kept))
		for _, column := range kept {
			line = append(line, cells[column])
		}
		legible = append(legible, line)
	}
	return legible
}

// alternatives adds the table to a report.
func (s *sheet) alternatives(title string, all []Alternative, currency string) {
	if len(all) == 0 {
		return
	}
	s.section(title + ", for a GiB")
	last := &s.report.Sections[len(s.report.Sections)-1]
	last.Rows, last.titled = Alternatives(all, currency), true
}

// OfResults are what a CompressionTrial measured and predicts, link by link, and the currency.
func OfResults(t *v1alpha1.CompressionTrial) (all []Alternative, currency string) {
	status := &t.Status
	objective := v1alpha1.ObjectiveElapsed
	if p := status.Policy; p != nil {
		objective = cmp.Or(p.Objective, objective)
		if p.Prices != nil {
			currency = p.Prices.Currency
		}
	}
	for i, link := range status.Links {
		ofLink, least := []Alternative{}, (*float64)(nil)
		for _, r := range status.Results {
			if r.Problem != "" || i >= len(r.Predictions) {
				continue
			}
			p := r.Predictions[i]
			a := Alternative{
				For: link.Name, Codec: r.Codec, Engine: r.Engine, Level: r.Level, Ratio: positiveDecimal(r.Ratio),
				Compress: decimal(r.CompressSecondsPerGiB), CPU: decimal(p.CPUSecondsPerGiB),
				Elapsed: decimal(p.SecondsPerGiB), Money: decimal(p.CostPerGiB), Chosen: recommended(status, i, &r),
			}
			if a.Chosen {
				least = a.by(objective)
			}
			ofLink = append(ofLink, a)
		}
		compare(ofLink, least, objective)
		all = append(all, ofLink...)
	}
	for _, r := range status.Results {
		if r.Problem == "" && len(r.Predictions) > 0 && len(status.Links) > 0 {
			continue
		}
		a := Alternative{
			For: "any link", Codec: r.Codec, Engine: r.Engine, Level: r.Level, Ratio: positiveDecimal(r.Ratio),
			Compress: decimal(r.CompressSecondsPerGiB),
		}
		if r.Problem != "" {
			a.Remark = "no figures: " + r.Problem
		}
		all = append(all, a)
	}
	return all, currency
}

func recommended(status *v1alpha1.CompressionTrialStatus, link int, r *v1alpha1.TrialResult) bool {
	if status.Recommendation == nil || link >= len(status.Recommendation.Choices) {
		return false
	}
	c := &status.Recommendation.Choices[link]
	return c.Codec == r.Codec && c.Engine == r.Engine && c.Level == r.Level
}

// by is the figure that an objective minimises; nil where it is not known, or a least.
func (a *Alternative) by(objective v1alpha1.CompressionObjective) *float64 {
	switch {
	case objective == v1alpha1.ObjectiveBytes && a.Ratio != nil && !a.Sample:
		return new(1 / *a.Ratio)
	case objective == v1alpha1.ObjectiveBytes,
		a.AtLeast && (objective == v1alpha1.ObjectiveCost || objective == v1alpha1.ObjectiveCPU):
		return nil
	case objective == v1alpha1.ObjectiveCost:
		return a.Money
	case objective == v1alpha1.ObjectiveCPU:
		return a.CPU
	}
	return a.Elapsed
}

// compare sets by how much more than chosen the alternatives take.
func compare(all []Alternative, chosen *float64, objective v1alpha1.CompressionObjective) {
	for i := range all {
		if value := all[i].by(objective); value != nil && chosen != nil && *chosen > 0 {
			all[i].More = new(100 * (*value / *chosen - 1))
		}
	}
}

// ofClasses are what mode Auto does with each class of bodies or messages, and the other choice. packed says how most
// of what is compressed was.
func ofClasses(d *v1alpha1.DecisionsStatus, packed *v1alpha1.CompressionStatus) []Alternative {
	var all []Alternative
	for _, c := range d.Classes {
		compressed := Alternative{
			For: cmp.Or(c.Content, unknown) + " " + c.Size, Codec: c.Codec, Ratio: positiveDecimal(c.Ratio),
			Compress: decimal(c.CompressCPUSecondsPerGiB),
		}
		if packed != nil && packed.Codec == c.Codec {
			compressed.Engine, compressed.Level = packed.Engine, packed.Level
		}
		plain := Alternative{For: compressed.For, Codec: none, Ratio: new(1.0), Compress: new(0.0)}
		chosen, other := compressed, plain
		if c.Choice == v1alpha1.ClassUncompressed {
			chosen, other = plain, compressed
		}
		chosen.Chosen, other.More = true, signed(c.OtherPercent)
		chosen.Remark = fmt.Sprintf("%d of %s", c.Operations, table.Bytes(c.Bytes))
		for _, why := range []string{c.Reason, map[bool]string{true: "not everywhere"}[c.Choice == v1alpha1.ClassMixed]} {
			if why != "" {
				chosen.Remark = why + "; " + chosen.Remark
			}
		}
		if c.Trials > 0 {
			other.Remark = fmt.Sprintf("%d tried", c.Trials)
		}
		all = append(all, chosen, other)
	}
	return all
}
