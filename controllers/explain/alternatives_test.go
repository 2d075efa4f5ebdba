// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
	"github.com/lighterage/lighterage/controllers/table"
)

// cellsOf are those of a column in the rows of a table, empty where it has no such column.
func cellsOf(rows table.Rows, title string) (cells []string) {
	i := slices.Index(rows[0], title)
	for _, row := range rows[1:] {
		if i < 0 {
			cells = append(cells, "")
			continue
		}
		cells = append(cells, row[i])
	}
	return cells
}

// TestOneTable: alternatives of each kind are in the same columns.
func TestOneTable(t *testing.T) {
	decisions := &v1alpha1.DecisionsStatus{Objective: v1alpha1.ObjectiveElapsed, Classes: []v1alpha1.ClassDecision{
		{
			Content: "json", Size: "<64Ki", Codec: "deflate", Choice: v1alpha1.ClassUncompressed, Reason: "NetworkFaster",
			Operations: 69, Bytes: 4500000, Ratio: "3.28", CompressCPUSecondsPerGiB: "3.043", OtherPercent: "374.1", Trials: 1,
		},
		{
			Content: "text", Size: "stream", Codec: "deflate", Choice: v1alpha1.ClassCompressed, Operations: 7, Ratio: "2.5",
			CompressCPUSecondsPerGiB: "2", OtherPercent: "-3.0",
		},
	}}
	packed := &v1alpha1.CompressionStatus{Codec: "deflate", Engine: "isa-l", Level: "Fast"}
	endpoint := &v1alpha1.HTTPEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "front"}}
	endpoint.Status.Decisions, endpoint.Status.Compression = decisions, packed
	queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "orders"}}
	queue.Status.Decisions, queue.Status.Compression = decisions, packed
	trial := &v1alpha1.CompressionTrial{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "files"}}
	result := func(codec, engine, ratio, took string) v1alpha1.TrialResult {
		return v1alpha1.TrialResult{
			Codec: codec, Engine: engine, Ratio: ratio, CompressSecondsPerGiB: "1.5",
			Predictions: []v1alpha1.TrialPrediction{{Link: "wan", SecondsPerGiB: took, CPUSecondsPerGiB: "3"}},
		}
	}
	trial.Status.Links = []v1alpha1.TrialLink{{Name: "wan"}}
	trial.Status.Results = []v1alpha1.TrialResult{
		result("none", "none", "1", "80"), result("zstd", "libzstd", "4", "20"), {Codec: "deflate", Problem: "none"},
	}
	trial.Status.Recommendation = &v1alpha1.TrialRecommendation{
		Choices: []v1alpha1.TrialChoice{{Link: "wan", Codec: "zstd", Engine: "libzstd"}},
	}
	classes := map[string][]string{
		"FOR": {"json <64Ki", "json <64Ki", "text stream", "text stream"}, "CODEC": {"none", "deflate", "deflate", "none"},
		"ENGINE": {"-", "isa-l", "isa-l", "-"}, "RATIO": {"1.00", "3.28", "2.50", "1.00"},
		"COMPRESS CPU": {"0.0 s", "3.0 s", "2.0 s", "0.0 s"}, "COMPARED": {"chosen", "+374.1 %", "chosen", "-3.0 %"},
	}
	all := explain.Alternatives(nil, "")[0]
	for title, c := range map[string]struct {
		object explain.Object
		want   map[string][]string
	}{
		"Classes of bodies":   {endpoint, classes},
		"Classes of messages": {queue, classes},
		"Alternatives": {trial, map[string][]string{
			"FOR": {"wan", "wan", "any link"}, "CODEC": {"none", "zstd", "deflate"}, "ELAPSED": {"80.0 s", "20.0 s", "?"},
			"COMPARED": {"+300.0 %", "chosen", "?"}, "COST": {"?", "?", "?"},
		}},
	} {
		report, err := explain.Of(c.object, explain.Input{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(report.Sections, func(s explain.Section) bool { return strings.HasPrefix(s.Title, title) })
		if i < 0 {
			t.Errorf("%s: %+v", title, report.Sections)
			continue
		}
		rows := report.Sections[i].Rows
		for i, head := range rows[0] {
			if len(rows[0]) != len(all) || !strings.HasPrefix(head, all[i]) {
				t.Fatalf("%s: columns %q", title, rows[0])
			}
		}
		for _, cells := range rows[1:] {
			if len(cells) != len(all) {
				t.Errorf("%s: cells %q", title, cells)
			}
		}
		if legible := report.Sections[i].Legible(); len(legible) != len(rows) || len(legible[0]) >= len(all) {
			t.Errorf("%s: people are shown the columns %q", title, legible[0])
		}
		for head, want := range c.want {
			if got := cellsOf(rows, head); !slices.Equal(got, want) {
				t.Errorf("%s: %s: %q, want %q", title, head, got, want)
			}
		}
	}
	if run := explained(t, cases["complete"]).Compared(); !slices.Equal(run[0][:8], all[:8]) {
		t.Errorf("a Transfer: %q", run[0])
	}
}

// TestAlternativesThatCannotBeCompared: what is a least, and what the agents' sample says, is not compared.
func TestAlternativesThatCannotBeCompared(t *testing.T) {
	e := explained(t, cases["complete"])
	compared := cellsOf(e.Compared(), "COMPARED")
	for i, c := range e.Choices {
		if (compared[i+1] == "?") != c.AtLeast {
			t.Errorf("%s at %s: %s", c.Engine, c.Level, compared[i+1])
		}
	}
	for i, cell := range cellsOf(explained(t, cases["in-one-pod"]).Compared(), "COMPARED") {
		if (cell == "chosen") != (i == 0) || i > 0 && cell != "?" {
			t.Errorf("%d: %s", i, cell)
		}
	}
}
