// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trialreport

import (
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/table"
)

// Measures of the picture in its units.
const (
	left, top    = 240.0, 92.0
	panel, space = 210.0, 70.0 // of a link: the longest bar, and what is right of it for numbers
	row, bar     = 22.0, 14.0
	margin       = 16.0
	least        = 720.0 // wide enough for the legend
)

// colours of codecs, that of the accelerator apart.
func colour(r v1alpha1.TrialResult) string {
	switch {
	case r.Engine == placement.EngineHardware:
		return "#bc4c00"
	case r.Codec == string(v1alpha1.CodecDeflate):
		return "#0969da"
	case r.Codec == string(v1alpha1.CodecZstd):
		return "#1a7f37"
	}
	return "#8c959f"
}

// WriteSVG writes the picture of SVG.
func WriteSVG(to io.Writer, trial *v1alpha1.CompressionTrial) error {
	if _, err := io.WriteString(to, SVG(trial)); err != nil {
		return fmt.Errorf("writing the picture: %w", err)
	}
	return nil
}

// SVG draws for each link how long a GiB takes with each result; the best by the objective is marked.
func SVG(trial *v1alpha1.CompressionTrial) string {
	s := &trial.Status
	width := max(left+(panel+space)*float64(len(s.Links))+margin, least)
	height := top + row*float64(len(s.Results)) + margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="12" fill="#1f2328">
<rect width="%g" height="%g" fill="#ffffff"/>
<text x="%g" y="26" font-size="15" font-weight="bold">%s</text>
`, width, height, width, height, width, height, margin, html.EscapeString(
		"Trial "+trial.Namespace+"/"+trial.Name+": predicted seconds for a GiB",
	))
	x := margin
	for _, legend := range []struct{ name, colour string }{
		{"as it is", "#8c959f"}, {"deflate", "#0969da"}, {"deflate, accelerator", "#bc4c00"}, {"zstd", "#1a7f37"},
	} {
		fmt.Fprintf(
			&b, `<rect x="%g" y="40" width="12" height="12" fill="%s"/><text x="%g" y="50">%s</text>`+"\n", x, legend.colour,
			x+17, legend.name,
		)
		x += 30 + 7*float64(len(legend.name))
	}
	fmt.Fprintf(
		&b, `<text x="%g" y="50" font-weight="bold">bold: best by the objective %s</text>`+"\n", x+10,
		html.EscapeString(objective(trial)),
	)
	for i, r := range s.Results {
		y := top + row*float64(i) + bar - 3
		ratio := "x " + r.Ratio
		if r.Problem != "" {
			ratio = "no figures"
		}
		fmt.Fprintf(&b, `<text x="%g" y="%g">%s</text><text x="%g" y="%g" text-anchor="end">%s</text>`+"\n",
			margin, y, html.EscapeString(label(r)), left-12, y, html.EscapeString(ratio))
	}
	for i, link := range s.Links {
		drawLink(&b, trial, i, link, left+(panel+space)*float64(i))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func drawLink(b *strings.Builder, trial *v1alpha1.CompressionTrial, i int, link v1alpha1.TrialLink, x float64) {
	fmt.Fprintf(
		b, `<text x="%g" y="%g" font-weight="bold">%s</text>`+"\n", x, top-10,
		html.EscapeString(link.Name+", "+table.Rate(link.BytesPerSecond.AsApproximateFloat64())),
	)
	longest := 0.0
	for _, r := range trial.Status.Results {
		longest = max(longest, seconds(r, i))
	}
	for j, r := range trial.Status.Results {
		took := seconds(r, i)
		if took <= 0 || longest <= 0 {
			continue
		}
		y, weight := top+row*float64(j), "normal"
		if isBest(trial, i, r) {
			weight = "bold"
			fmt.Fprintf(b, `<rect x="%g" y="%g" width="%g" height="%g" fill="#fff8c5"/>`+"\n", x-4, y-4, panel+space-8, row)
		}
		fmt.Fprintf(b, `<rect x="%g" y="%g" width="%.1f" height="%g" fill="%s"/><text x="%.1f" y="%g" font-weight="%s">%s</text>`+"\n",
			x, y, max(1, panel*took/longest), bar, colour(r), x+panel*took/longest+6, y+
				bar-3, weight, html.EscapeString(r.Predictions[i].SecondsPerGiB))
	}
}

// label names a result.
func label(r v1alpha1.TrialResult) string {
	if r.Codec == "none" {
		return "as it is"
	}
	return strings.TrimSpace(r.Codec + " " + r.Engine + " " + r.Level)
}

// seconds that a GiB takes over a link; 0 if that is not known.
func seconds(r v1alpha1.TrialResult, link int) float64 {
	if link >= len(r.Predictions) {
		return 0
	}
	took, err := strconv.ParseFloat(r.Predictions[link].SecondsPerGiB, 64)
	if err != nil || !(took > 0 && took < 1e12) {
		return 0
	}
	return took
}

func isBest(trial *v1alpha1.CompressionTrial, link int, r v1alpha1.TrialResult) bool {
	if trial.Status.Recommendation == nil || link >= len(trial.Status.Recommendation.Choices) {
		return false
	}
	choice := trial.Status.Recommendation.Choices[link]
	return choice.Codec == r.Codec && choice.Engine == r.Engine && choice.Level == r.Level
}

// objective that the trial was made for.
func objective(trial *v1alpha1.CompressionTrial) string {
	if trial.Status.Policy == nil || trial.Status.Policy.Objective == "" {
		return string(v1alpha1.ObjectiveElapsed)
	}
	return string(trial.Status.Policy.Objective)
}
