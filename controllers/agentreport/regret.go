// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentreport

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// maxPermille bounds what agents say of regrets.
const maxPermille = 1e7

// regretOf puts into status what choices lost, by the agent that measured most, or what status said before as long as
// that is about the same: each figure is that of a sample, and a status that follows every sample would be written all
// the time.
func regretOf(status *v1alpha1.DecisionsStatus, reports []*wirev1.Decisions, before *v1alpha1.DecisionsStatus) {
	var all []*wirev1.Regret
	for _, report := range reports {
		if r := report.GetRegret(); r != nil && alternative(r) != "" && objective(report.GetObjective()) == status.Objective {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return
	}
	most := slices.MaxFunc(all, func(a, b *wirev1.Regret) int { return cmp.Compare(a.GetUnits(), b.GetUnits()) })
	// Replicas that measure alike often take turns in having measured most.
	for _, r := range all {
		if before != nil && alternative(most) != before.BestAlternative && alternative(r) == before.BestAlternative &&
			r.GetUnits() >= most.GetUnits()/2 {
			most = r
		}
	}
	share := float64(max(min(most.GetPermille(), maxPermille), -1000)) / 10
	margin := float64(min(most.GetMarginPermille(), maxPermille)) / 10
	samples := Clamp(most.GetUnits())
	if before != nil && before.BestAlternative != "" && before.Objective == status.Objective {
		was, err := strconv.ParseFloat(before.RegretPercent, 64)
		old, marginErr := strconv.ParseFloat(before.RegretMarginPercent, 64)
		if err == nil && marginErr == nil && math.Abs(share-was) <= max(0.5, min(old, margin)/2) &&
			samples >= before.RegretSamples && samples < Saturated(before.RegretSamples, before.RegretSamples) {
			status.RegretPercent, status.RegretMarginPercent = before.RegretPercent, before.RegretMarginPercent
			status.RegretSamples, status.BestAlternative = before.RegretSamples, before.BestAlternative
			return
		}
	}
	status.RegretPercent = strconv.FormatFloat(share, 'f', 1, 64)
	status.RegretMarginPercent = strconv.FormatFloat(margin, 'f', 1, 64)
	status.RegretSamples, status.BestAlternative = samples, alternative(most)
}

// alternative is the name of the best one, empty where an agent names what does not exist.
func alternative(r *wirev1.Regret) string {
	if r.GetCodec() == "none" {
		return "none"
	}
	switch v1alpha1.Codec(r.GetCodec()) {
	case v1alpha1.CodecDeflate, v1alpha1.CodecZstd:
	default:
		return ""
	}
	switch v1alpha1.CompressionLevel(r.GetLevel()) {
	case v1alpha1.CompressionFast, v1alpha1.CompressionBalanced, v1alpha1.CompressionHigh:
	default:
		return ""
	}
	words := []string{r.GetCodec(), r.GetLevel()}
	if r.GetHardware() {
		words = append(words, "hardware")
	}
	return strings.Join(words, " ")
}
