// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// series keep what the agents of objects reported last, which hold totals, so that counters get what was added since. R
// is a pointer whose getters work on nil, which is a report of nothing.
type series[R any] struct {
	// since is when a report began to count, at the agent's start or the last reset.
	since func(R) time.Time
	// started is when this manager did. What agents did before is not counted: an earlier manager has.
	started time.Time
	objects map[string]*observed[R]
}

type observed[R any] struct {
	namespace string
	last      map[string]R
	// gauges are what the object has contributed to sums over objects.
	gauges map[*prometheus.GaugeVec]float64
	// least are what it has contributed to the least over objects.
	least map[*prometheus.GaugeVec]float64
}

func newSeries[R any](started time.Time, since func(R) time.Time) *series[R] {
	return &series[R]{since: since, started: started, objects: map[string]*observed[R]{}}
}

// observe calls add with what of each report was counted before, and the report. Agents that have no report any more
// are forgotten, but for when none has one.
func (s *series[R]) observe(namespace, object string, reports map[string]R, add func(from, to R)) {
	known := s.of(namespace, object)
	for agent, report := range reports {
		add(s.base(known, agent, report), report)
		known.last[agent] = report
	}
	for agent := range known.last {
		if _, left := reports[agent]; !left && len(reports) > 0 {
			delete(known.last, agent)
		}
	}
}

func (s *series[R]) of(namespace, object string) *observed[R] {
	known := s.objects[object]
	if known == nil {
		known = &observed[R]{
			namespace: namespace, last: map[string]R{}, gauges: map[*prometheus.GaugeVec]float64{},
			least: map[*prometheus.GaugeVec]float64{},
		}
		s.objects[object] = known
	}
	return known
}

// base is what of a report was counted before: that of the last one, nothing after a reset or a restart, and all of it
// when an earlier manager has seen it.
func (s *series[R]) base(known *observed[R], agent string, report R) R {
	var nothing R
	last, seen := known.last[agent]
	since := s.since(report)
	switch {
	case seen && s.since(last).Equal(since):
		return last
	case !seen && since.Before(s.started):
		return report
	}
	return nothing
}

// set is what an object contributes to a gauge of its namespace.
func (s *series[R]) set(namespace, object string, gauge *prometheus.GaugeVec, value float64) {
	known := s.of(namespace, object)
	gauge.WithLabelValues(namespace).Add(value - known.gauges[gauge])
	known.gauges[gauge] = value
}

// setLeast is what an object contributes to a gauge that shows the least of its namespace; known is false when it
// contributes nothing. The namespace has no such gauge when nobody does.
func (s *series[R]) setLeast(namespace, object string, gauge *prometheus.GaugeVec, value float64, known bool) {
	contributed := s.of(namespace, object).least
	if known {
		contributed[gauge] = value
	} else {
		delete(contributed, gauge)
	}
	s.showLeast(namespace, gauge)
}

func (s *series[R]) showLeast(namespace string, gauge *prometheus.GaugeVec) {
	least, known := 0.0, false
	for _, object := range s.objects {
		if value, ok := object.least[gauge]; ok && object.namespace == namespace && (!known || value < least) {
			least, known = value, true
		}
	}
	if known {
		gauge.WithLabelValues(namespace).Set(least)
	} else {
		gauge.DeleteLabelValues(namespace)
	}
}

// forget takes an object's contributions out of the gauges.
func (s *series[R]) forget(object string) {
	known := s.objects[object]
	if known == nil {
		return
	}
	for gauge, value := range known.gauges {
		gauge.WithLabelValues(known.namespace).Add(-value)
	}
	delete(s.objects, object)
	for gauge := range known.least {
		s.showLeast(known.namespace, gauge)
	}
}

// counted adds what value grew by, times scale. A counter that has counted nothing is shown, too: of one that first
// appears with a value nobody can tell by how much it grew.
func counted[R any](vector *prometheus.CounterVec, from, to R, value func(R) uint64, scale float64, labels ...string) {
	counter := vector.WithLabelValues(labels...)
	if before, now := value(from), value(to); now > before {
		counter.Add(float64(now-before) * scale)
	}
}

// namespaced makes collectors with the label namespace and registers them.
type namespaced struct{ registry prometheus.Registerer }

func (n namespaced) counter(name, help string, labels ...string) *prometheus.CounterVec {
	vector := prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: name, Help: help}, append([]string{"namespace"}, labels...),
	)
	n.registry.MustRegister(vector)
	return vector
}

func (n namespaced) gauge(name, help string) *prometheus.GaugeVec {
	vector := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"namespace"})
	n.registry.MustRegister(vector)
	return vector
}
