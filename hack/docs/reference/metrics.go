// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/audit"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/metrics"
)

// metricsIntroduction is what the page begins with.
//
//go:embed metrics.md.tmpl
var metricsIntroduction string

// metric is a collector as it was registered.
type metric struct {
	name, kind, unit, help string
	labels                 []string
}

// recorder is a registry that remembers what was registered.
type recorder struct{ all []metric }

// The form of prometheus.Desc, which has no getters.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: ("(?:[^"\\]|\\.)*"), (?:unit: "[^"]*", )?` +
	`constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}\}$`)

// Register is of prometheus.Registerer.
func (r *recorder) Register(collector prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc, 64)
	collector.Describe(descriptions)
	close(descriptions)
	for d := range descriptions {
		found := description.FindStringSubmatch(d.String())
		if found == nil {
			return fmt.Errorf("the form of a description has changed: %s", d)
		}
		help, err := strconv.Unquote(found[2])
		if err != nil {
			return fmt.Errorf("the form of a description has changed: %s: %w", d, err)
		}
		m := metric{name: found[1], kind: kindOf(collector, found[1]), unit: unitOf(found[1]), help: help}
		if found[3] != "" {
			m.labels = strings.Split(found[3], ",")
		}
		r.all = append(r.all, m)
	}
	return nil
}

// MustRegister is of prometheus.Registerer.
func (r *recorder) MustRegister(collectors ...prometheus.Collector) {
	for _, collector := range collectors {
		if err := r.Register(collector); err != nil {
			panic(err)
		}
	}
}

// Unregister is of prometheus.Registerer.
func (*recorder) Unregister(prometheus.Collector) bool { return false }

// kindOf is the type of a metric. Collectors of our own export gauges, and counters by the names that Prometheus wants
// for these.
func kindOf(collector prometheus.Collector, name string) string {
	switch collector.(type) {
	case *prometheus.GaugeVec, prometheus.Gauge:
		return "gauge"
	case *prometheus.CounterVec, prometheus.Counter: // A Gauge has the methods of a Counter.
		return "counter"
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}

// unitOf is the unit that the name of a metric says.
func unitOf(name string) string {
	name = strings.TrimSuffix(name, "_total")
	for _, unit := range []string{"bytes", "seconds"} {
		if strings.HasSuffix(name, "_"+unit) {
			return unit
		}
	}
	return ""
}

// metricsPage registers all collectors and lists them.
func metricsPage(root string) (string, error) {
	var b strings.Builder
	b.WriteString(metricsIntroduction)
	documented := map[string]bool{}
	for _, section := range []struct {
		title    string
		register func(prometheus.Registerer) error
	}{
		{"Transfers (manager)", func(r prometheus.Registerer) error {
			metrics.NewTransfers(r)
			return nil
		}},
		{"Queues (manager)", func(r prometheus.Registerer) error {
			metrics.NewQueues(r, time.Time{})
			return nil
		}},
		{"HTTPEndpoints (manager)", func(r prometheus.Registerer) error {
			metrics.NewHTTPEndpoints(r, time.Time{})
			return nil
		}},
		{"ObjectStores (manager)", func(r prometheus.Registerer) error {
			metrics.NewObjectStores(r)
			return nil
		}},
		{"Nodes with an accelerator (manager)", func(r prometheus.Registerer) error {
			metrics.NewNodes(r)
			return nil
		}},
		{"DataQuotas (manager)", func(r prometheus.Registerer) error {
			metrics.NewQuotas(r)
			return nil
		}},
		{"Polling of agents (manager)", func(r prometheus.Registerer) error {
			agentpoll.New(r)
			return nil
		}},
		{"Uses of PeerGrants (manager and gateway)", func(r prometheus.Registerer) error {
			audit.NewUses(logr.Discard(), r)
			return nil
		}},
		{"Gateway", func(r prometheus.Registerer) error {
			_, err := gateway.New(gateway.Options{Registerer: r, Log: logr.Discard(), Clock: clock.RealClock{}})
			return err
		}},
	} {
		r := &recorder{}
		if err := section.register(r); err != nil {
			return "", fmt.Errorf("registering %s: %w", section.title, err)
		}
		var rows [][]string
		slices.SortFunc(r.all, func(a, b metric) int { return strings.Compare(a.name, b.name) })
		for _, m := range r.all {
			if documented[m.name] {
				continue
			}
			documented[m.name] = true
			var labels []string
			for _, label := range m.labels {
				labels = append(labels, code(label))
			}
			rows = append(rows, []string{code(m.name), m.kind, m.unit, strings.Join(labels, ", "), prose(m.help)})
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n", section.title, table([]string{"Metric", "Type", "Unit", "Labels", "Meaning"}, rows))
	}
	return b.String(), everyMetric(root, documented)
}

var metricName = regexp.MustCompile(`"(lighterage_[a-z0-9_]+)"`)

// everyMetric returns an error for a metric of the sources that is not documented.
func everyMetric(root string, documented map[string]bool) error {
	var errs []error
	for _, dir := range []string{"controllers", "agent"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, found := range metricName.FindAllStringSubmatch(string(content), -1) {
				if !documented[found[1]] {
					errs = append(errs, fmt.Errorf("metric %s in %s is in no section; add it to metricsPage", found[1], path))
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("looking for metrics: %w", err)
		}
	}
	return errors.Join(errs...)
}
