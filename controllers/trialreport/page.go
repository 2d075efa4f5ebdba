// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trialreport

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"io"
	"strings"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
	"github.com/lighterage/lighterage/controllers/table"
)

// assumptions are what the predictions rest on.
const assumptions = "Ratios and the CPU time of compressing and inflating were measured on the sample. Total CPU " +
	"time, elapsed time and cost are predicted by the model with which mode Auto begins: for a sender and a receiver " +
	"like the measured node, with usual costs of reading, TLS, sockets and writing, and the link as the only other " +
	"bound. A row is one codec, engine and level for everything; mode Auto chooses for each block, body or message."

var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Trial {{.Trial.Namespace}}/{{.Trial.Name}}</title>
<style>
body { font: 15px/1.5 system-ui, Helvetica, Arial, sans-serif; color: #1f2328; background: #ffffff; margin: 2em auto; max-width: 75em; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 }
th, td { border-bottom: 1px solid #d1d9e0; padding: .25em .8em; text-align: right }
th:nth-child(-n+4), td:nth-child(-n+4), th:last-child, td:last-child { text-align: left }
tr.best { background: #fff8c5 }
pre { background: #f6f8fa; padding: 1em; overflow: auto }
figure { margin: 1em 0; overflow: auto }
</style>
</head>
<body>
<h1>Trial {{.Trial.Namespace}}/{{.Trial.Name}}</h1>
{{range .Facts}}<p>{{.}}</p>
{{end}}<h2>Recommendation</h2>
<p>{{.Trial.Status.Recommendation.Message}}</p>
<pre>{{.Trial.Status.Recommendation.Policy}}</pre>
<ul>
{{range .Trial.Status.Recommendation.Choices}}<li>{{.Message}}</li>
{{end}}</ul>
<h2>Results for a GiB</h2>
<figure>{{.Picture}}</figure>
<table>
<thead><tr>{{range .Head}}<th>{{.}}</th>{{end}}</tr></thead>
<tbody>
{{range .Rows}}<tr{{if .Best}} class="best"{{end}}>{{range .Cells}}<td>{{.}}</td>{{end}}</tr>
{{end}}</tbody>
</table>
<p>{{.Assumptions}}</p>
</body>
</html>
`))

type tableRow struct {
	Cells []string
	Best  bool
}

// HTML writes a page that needs nothing else.
func HTML(to io.Writer, trial *v1alpha1.CompressionTrial) error {
	head, rows := resultRows(trial)
	err := page.Execute(to, map[string]any{
		"Trial": trial, "Facts": facts(trial), "Head": head, "Rows": rows, "Assumptions": assumptions,
		"Picture": template.HTML(SVG(trial)), //nolint:gosec // SVG escapes every text
	})
	if err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// Text writes the same without the picture. Nothing in it ends a line or reaches a terminal as a command, whatever
// agents have said.
func Text(to io.Writer, trial *v1alpha1.CompressionTrial) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "Trial %s/%s\n", trial.Namespace, trial.Name)
	for _, fact := range facts(trial) {
		fmt.Fprintln(&out, "  "+table.Printable(fact))
	}
	head, results := resultRows(trial)
	rows := table.Rows{head}
	for _, r := range results {
		rows.Add(r.Cells...)
	}
	fmt.Fprintf(&out, "\nFor a GiB\n%s\n%s\n", explain.Legible(rows).Text(""), assumptions)
	recommended := trial.Status.Recommendation
	fmt.Fprintf(&out, "\nRecommended: %s\n", table.Printable(recommended.Message))
	for _, choice := range recommended.Choices {
		fmt.Fprintln(&out, "  "+table.Printable(choice.Message))
	}
	fmt.Fprintln(&out)
	for line := range strings.Lines(recommended.Policy) {
		fmt.Fprintln(&out, table.Printable(strings.TrimSuffix(line, "\n")))
	}
	if _, err := to.Write(out.Bytes()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// facts say in sentences what was measured, where.
func facts(trial *v1alpha1.CompressionTrial) []string {
	s := &trial.Status
	var all []string
	if run := s.Run; run != nil {
		all = append(all, fmt.Sprintf("Run %s on node %s (%s), %d cores.", run.ID, run.Node, run.Architecture, s.Cores))
	}
	if sample := s.Sample; sample != nil {
		all = append(
			all,
			sampled(trial.Spec.Source, sample)+fmt.Sprintf(
				"; %s of the sample look as if they did not shrink.", table.Bytes(sample.HopelessBytes),
			),
		)
	}
	for _, d := range dictionaries(s) {
		all = append(all, dictionary(d)...)
	}
	var links []string
	for _, link := range s.Links {
		links = append(links, link.Name+" of "+table.Rate(link.BytesPerSecond.AsApproximateFloat64()))
	}
	if len(links) > 0 {
		all = append(
			all, fmt.Sprintf("Predicted for the links %s, by the objective %s.", strings.Join(links, ", "), objective(trial)),
		)
	}
	if a := s.Accelerator; a != nil && a.State != v1alpha1.AcceleratorVerified {
		all = append(all, fmt.Sprintf("No accelerator was measured (%s): %s.", a.Reason, a.Message))
	} else if a != nil {
		all = append(all, a.Message+".")
	}
	return all
}

// dictionaries are those that were tried. A manager of an earlier release has one, which is of zstd.
func dictionaries(s *v1alpha1.CompressionTrialStatus) []v1alpha1.TrialDictionary {
	if s.Dictionary != nil && len(s.Dictionaries) == 0 {
		return []v1alpha1.TrialDictionary{*s.Dictionary}
	}
	return s.Dictionaries
}

// dictionary says what one would do.
func dictionary(d v1alpha1.TrialDictionary) []string {
	id := cmp.Or(d.Codec, string(v1alpha1.CodecZstd))
	if d.Problem != "" {
		return []string{fmt.Sprintf("No %s dictionary was measured: %s.", id, d.Problem)}
	}
	all := []string{fmt.Sprintf("A %s dictionary of %s, trained on %d of the messages, was measured with %s on %d others.",
		id, table.Bytes(d.Bytes), d.TrainingItems, d.Engine, d.Items)}
	for _, r := range d.Results {
		all = append(all, fmt.Sprintf("With the %s dictionary at level %s: ratio %s (without %s), %s CPU seconds for a "+
			"GiB to compress (without %s) and %s to decompress (without %s).", id, r.Level, r.Ratio, r.RatioWithout,
			r.CompressSecondsPerGiB, r.CompressSecondsPerGiBWithout, r.DecompressSecondsPerGiB,
			r.DecompressSecondsPerGiBWithout))
	}
	return all
}

// sampled says what the sample is and what was compressed in one piece.
func sampled(source v1alpha1.TrialSource, sample *v1alpha1.TrialSampleStatus) string {
	var text string
	switch {
	case source.HTTPEndpoint != nil:
		text = fmt.Sprintf("Sample of HTTPEndpoint %s: %d bodies of %s, each compressed alone at its size, of %d that "+
			"passed with %s",
			source.HTTPEndpoint.Name, sample.Items, table.Bytes(sample.Bytes), sample.ItemsTotal, table.Bytes(sample.BytesTotal))
	case source.Queue != nil:
		text = fmt.Sprintf("Sample of Queue %s: %d messages of %s, each compressed alone at its size, of %d that are "+
			"stored in %s",
			source.Queue.Name, sample.Items, table.Bytes(sample.Bytes), sample.ItemsTotal, table.Bytes(sample.BytesTotal))
	case source.PersistentVolumeClaim != nil:
		return fmt.Sprintf("Sample of claim %s: %s in %d files, of %s in %d files",
			source.PersistentVolumeClaim.ClaimName, table.Bytes(sample.Bytes), sample.Files, table.Bytes(sample.BytesTotal),
			sample.FilesTotal)
	}
	if sample.CutItems > 0 {
		text += fmt.Sprintf("; of %d that are long only the beginning", sample.CutItems)
	}
	if sample.UnreadableItems > 0 {
		text += fmt.Sprintf("; %d could not be inflated and are left out", sample.UnreadableItems)
	}
	if sample.SilentAgents > 0 {
		text += fmt.Sprintf(
			"; %d of %d agents that were asked gave nothing (%s)", sample.SilentAgents, sample.SilentAgents+sample.Agents,
			sample.SilentMessage,
		)
	}
	return text + "; what each request or acknowledgement takes beside is not predicted"
}

// resultRows are everything that status has of the results, in the table that explain has as well.
func resultRows(trial *v1alpha1.CompressionTrial) (head []string, rows []tableRow) {
	results, currency := explain.OfResults(trial)
	all := explain.Alternatives(results, currency)
	for i, cells := range all[1:] {
		rows = append(rows, tableRow{cells, results[i].Chosen})
	}
	return all[0], rows
}
