// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/canary"
	"github.com/lighterage/lighterage/controllers/table"
)

// canaryText is what a canary is to one object; empty where there is none.
func canaryText(c *v1alpha1.PolicyCanary) string {
	switch {
	case c == nil:
		return ""
	case c.Applies:
		return "its settings apply"
	default:
		return "its settings do not apply; compared with objects that have them"
	}
}

// promoted: every object has the settings of the canary.
func promoted(p *v1alpha1.CompressionPolicy) bool {
	return p.Spec.Canary != nil && p.Status.Canary != nil && p.Status.Canary.State == v1alpha1.CanaryPromoted &&
		p.Status.Canary.Revision == canary.Revision(p)
}

// canary shows what the canary of a policy tries, and what it was measured to take.
func (s *sheet) canary(p *v1alpha1.CompressionPolicy) {
	if p.Spec.Canary == nil {
		return
	}
	s.section("Canary")
	settings := p.Spec.Canary.Settings
	s.row("objective", string(settings.Objective))
	s.row("mode", string(settings.Mode))
	s.row("codecs", list(settings.Codecs))
	s.row("level", string(settings.Level))
	c := p.Status.Canary
	if c == nil {
		s.row("state", "not begun")
		return
	}
	s.row("state", string(c.State))
	s.at("since", c.StartTime)
	s.at("until", c.EndTime)
	unit := map[v1alpha1.CompressionObjective]string{
		v1alpha1.ObjectiveCost: c.Currency, v1alpha1.ObjectiveCPU: "CPU seconds", v1alpha1.ObjectiveElapsed: "seconds",
		v1alpha1.ObjectiveBytes: "bytes",
	}[c.Objective]
	for _, side := range []struct {
		name string
		of   v1alpha1.CanarySide
	}{{"inside", c.Inside}, {"outside", c.Outside}} {
		s.rowf(side.name, "%s per GiB by the median of %d objects in %d namespaces, which moved %s",
			strings.TrimSpace(cmp.Or(side.of.CostPerGiB, unknown)+" "+unit), side.of.Objects, side.of.Namespaces,
			table.Bytes(side.of.UncompressedBytes))
	}
	if c.ChangePercent != "" {
		s.row("change", fmt.Sprintf("%s %%, 95 %% interval %s to %s %%", c.ChangePercent, c.LowPercent, c.HighPercent))
	}
	if said := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionCanaryFinished); said != nil {
		s.row("reason", said.Reason+": "+said.Message)
	}
}
