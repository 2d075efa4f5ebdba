// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package collectors_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/ptr"

	"github.com/lighterage/lighterage/test/collectors"
)

// bounded has the labels that a metric may have, and what bounds their values. There is none for the name of an object
// that tenants make any number of.
var bounded = map[string]string{
	"namespace":   "Namespaces of this cluster",
	"kind":        "kinds of the API, and of agents",
	"state":       "constants",
	"reason":      "constants of the API; what agents report beside them is Other",
	"type":        "constants of the API; what agents report beside them is not counted",
	"outcome":     "constants of the API; what agents report beside them is Internal",
	"result":      "constants, and codes of gRPC",
	"method":      "methods of the service",
	"class":       "classes of agents that are polled",
	"side":        "send or receive",
	"hook":        "before or after",
	"direction":   "send or receive, in or out",
	"stage":       "constants",
	"recoverable": "True, False or Unknown",
	"path":        "hardware, software or stored",
	"coding":      "constants",
	"component":   "manager or gateway",
	"certificate": "ca or gateway",
	"version":     "one for each process",
	"goversion":   "one for each process",
	// Made by the platform team.
	"peer": "Peers", "node": "Nodes", "tariff": "Tariffs", "policy": "CompressionPolicies",
	"default": "true or false", "currency": "one for each Tariff",
	"quota": "DataQuotas", "resource": "limits that a DataQuota has",
	// Of nodes.
	"architecture": "constants of Go", "engine": "16 for each node", "codec": "those of the engines",
	"level": "3 for each engine", "verified": "true or false", "inflates": "true or false",
}

// TestConventions: https://prometheus.io/docs/practices/naming, and labels whose values are bounded.
func TestConventions(t *testing.T) {
	sections, err := collectors.All()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, section := range sections {
		if len(section.Metrics) == 0 {
			t.Errorf("section %q has no metrics", section.Title)
		}
		for _, m := range section.Metrics {
			seen++
			for _, problem := range problems(t, m) {
				t.Errorf("%s: %s", m.Name, problem)
			}
		}
	}
	if seen < 80 {
		t.Errorf("%d metrics: some are missing", seen)
	}
}

// TestViolations: each of these breaks a rule.
func TestViolations(t *testing.T) {
	for name, m := range map[string]collectors.Metric{
		"prefix":            {Name: "queue_depth", Kind: "gauge", Help: "Messages."},
		"counter":           {Name: "lighterage_puts", Kind: "counter", Help: "Messages."},
		"gauge":             {Name: "lighterage_depth_total", Kind: "gauge", Help: "Messages."},
		"unit":              {Name: "lighterage_wait_milliseconds", Kind: "gauge", Help: "A wait."},
		"help":              {Name: "lighterage_depth", Kind: "gauge"},
		"money":             {Name: "lighterage_cost_total", Kind: "counter", Help: "Money.", Labels: []string{"currency"}},
		"name of an object": {Name: "lighterage_depth", Kind: "gauge", Help: "Messages.", Labels: []string{"queue"}},
		"info":              {Name: "lighterage_build_info", Kind: "gauge", Help: "One."},
	} {
		if len(problems(t, m)) == 0 {
			t.Errorf("%s: nothing is wrong with %+v", name, m)
		}
	}
}

func problems(t *testing.T, m collectors.Metric) []string {
	t.Helper()
	var all []string
	family := &dto.MetricFamily{
		Name: &m.Name, Help: ptr.To(m.Help), Type: dto.MetricType_GAUGE.Enum(), Metric: []*dto.Metric{{}},
	}
	if m.Kind == "counter" {
		family.Type = dto.MetricType_COUNTER.Enum()
	}
	for _, label := range m.Labels {
		family.Metric[0].Label = append(family.Metric[0].Label, &dto.LabelPair{Name: ptr.To(label), Value: ptr.To("x")})
	}
	found, err := promlint.NewWithMetricFamilies([]*dto.MetricFamily{family}).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range found {
		all = append(all, problem.Text)
	}
	if m.Help == "" {
		all = append(all, "has no help")
	}
	if !strings.HasPrefix(m.Name, "lighterage_") {
		all = append(all, "has no prefix lighterage_")
	}
	if strings.HasSuffix(m.Name, "_info") && (m.Kind != "gauge" || len(m.Labels) == 0) {
		all = append(all, "an _info metric is a gauge with labels")
	}
	if m.Kind == "counter" && slices.Contains(m.Labels, "currency") {
		all = append(all, "money is the product of a price and what was used, and not a counter")
	}
	for _, label := range m.Labels {
		if bounded[label] == "" {
			all = append(all, "nothing is known to bound the values of label "+label)
		}
	}
	return all
}

func TestRecorder(t *testing.T) {
	r := &collectors.Recorder{}
	r.MustRegister(
		prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "bytes_total", Help: `Bytes, "of all".`}, []string{"namespace", "kind"},
		),
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "wait_seconds", Help: "A wait."}),
	)
	want := []collectors.Metric{
		{Name: "bytes_total", Kind: "counter", Help: `Bytes, "of all".`, Labels: []string{"namespace", "kind"}},
		{Name: "wait_seconds", Kind: "gauge", Unit: "seconds", Help: "A wait."},
	}
	if !reflect.DeepEqual(r.All, want) {
		t.Errorf("got %+v", r.All)
	}
}
