// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package collectors lists the Prometheus collectors of manager and gateway, for the reference of metrics and for the
// tests that hold metrics, dashboards and alerts to each other.
package collectors

import (
	"errors"
	"fmt"
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

// Metric is one as it was registered.
type Metric struct {
	// Name, Kind (counter, gauge or histogram) and Help. Unit is the one that the name says, empty if none.
	Name, Kind, Unit, Help string
	Labels                 []string
}

// Section is what is registered together.
type Section struct {
	Title   string
	Metrics []Metric
}

// All returns the metrics of manager and gateway, each in the first section that has it, sorted by name.
func All() ([]Section, error) {
	var sections []Section
	known := map[string]bool{}
	for _, part := range parts {
		r := &Recorder{}
		if err := part.register(r); err != nil {
			return nil, fmt.Errorf("registering %s: %w", part.title, err)
		}
		section := Section{Title: part.title}
		for _, m := range r.All {
			if !known[m.Name] {
				section.Metrics = append(section.Metrics, m)
			}
			known[m.Name] = true
		}
		slices.SortFunc(section.Metrics, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
		sections = append(sections, section)
	}
	return sections, nil
}

// A new collector gets a row here.
var parts = []struct {
	title    string
	register func(prometheus.Registerer) error
}{
	{"Objects, Peers, Nodes and Tariffs (manager)", func(r prometheus.Registerer) error {
		metrics.NewInventory(r, nil, clock.RealClock{}, nil)
		return nil
	}},
	{"Transfers (manager)", func(r prometheus.Registerer) error {
		metrics.NewTransfers(r)
		return nil
	}},
	{"Populated claims (manager)", func(r prometheus.Registerer) error {
		metrics.NewPopulating(r)
		return nil
	}},
	{"Deliveries (manager)", func(r prometheus.Registerer) error {
		metrics.NewDeliveries(r)
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
	{"Statements (manager)", func(r prometheus.Registerer) error {
		metrics.NewStatements(r)
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
	{"Processes (manager and gateway)", func(r prometheus.Registerer) error {
		return errors.Join(metrics.RegisterBuild(r, metrics.ComponentManager),
			metrics.RegisterExpiration(r, metrics.CertificateCA, nil))
	}},
	{"Uses of PeerGrants (manager and gateway)", func(r prometheus.Registerer) error {
		audit.NewUses(logr.Discard(), r)
		return nil
	}},
	{"Gateway", func(r prometheus.Registerer) error {
		_, err := gateway.New(gateway.Options{Registerer: r, Log: logr.Discard(), Clock: clock.RealClock{}})
		return err
	}},
}

// Recorder is a registry that remembers what was registered.
type Recorder struct{ All []Metric }

// The form of prometheus.Desc, which has no getters.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: ("(?:[^"\\]|\\.)*"), (?:unit: "[^"]*", )?` +
	`constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}\}$`)

// Register is of prometheus.Registerer.
func (r *Recorder) Register(collector prometheus.Collector) error {
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
		m := Metric{Name: found[1], Kind: kindOf(collector, found[1]), Unit: unitOf(found[1]), Help: help}
		if found[3] != "" {
			m.Labels = strings.Split(found[3], ",")
		}
		r.All = append(r.All, m)
	}
	return nil
}

// MustRegister is of prometheus.Registerer.
func (r *Recorder) MustRegister(collectors ...prometheus.Collector) {
	for _, collector := range collectors {
		if err := r.Register(collector); err != nil {
			panic(err)
		}
	}
}

// Unregister is of prometheus.Registerer.
func (*Recorder) Unregister(prometheus.Collector) bool { return false }

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
	for _, unit := range []string{"bytes_per_second", "bytes", "seconds", "ratio"} {
		if strings.HasSuffix(name, "_"+unit) {
			return strings.ReplaceAll(unit, "_", " ")
		}
	}
	return ""
}
