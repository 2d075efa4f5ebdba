// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentpoll

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collectors are the pool's metrics.
type collectors struct {
	questions *prometheus.CounterVec
	given     *prometheus.CounterVec
	pool      *Pool
}

var (
	agentsDescription = prometheus.NewDesc("lighterage_agents", "Agents that the manager asks for reports, by kind and "+
		"whether they answer.",
		[]string{"kind", "state"}, nil)
	oldestDescription = prometheus.NewDesc("lighterage_progress_oldest_seconds",
		"Time since the progress was shown that is the oldest of all, by class of objects.", []string{"class"}, nil)
)

func newCollectors(registry prometheus.Registerer, pool *Pool) *collectors {
	c := &collectors{pool: pool, questions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lighterage_agent_questions_total",
		Help: "Questions to agents that ended, by kind and whether they were answered.",
	}, []string{"kind", "outcome"}), given: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lighterage_agent_configurations_total",
		Help: "Configurations that agents were sent before the kubelet brings them, by kind and whether they were taken.",
	}, []string{"kind", "outcome"})}
	registry.MustRegister(c.questions, c.given, c)
	return c
}

func (c *collectors) countGiven(kind string, err error) {
	outcome := "taken"
	if err != nil {
		outcome = "failed"
	}
	c.given.WithLabelValues(kind, outcome).Inc()
}

func (c *collectors) count(kind string, err error) {
	outcome := "answered"
	if err != nil {
		outcome = "failed"
	}
	c.questions.WithLabelValues(kind, outcome).Inc()
}

// Describe is of prometheus.Collector.
func (c *collectors) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- agentsDescription
	descriptions <- oldestDescription
}

// Collect is of prometheus.Collector.
func (c *collectors) Collect(metrics chan<- prometheus.Metric) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	now := time.Now()
	var oldest [classCount]time.Duration
	for _, k := range c.pool.kinds {
		answer, silent := 0, 0
		for _, o := range k.objects {
			for _, a := range o.agents {
				if a.silent {
					silent++
				} else {
					answer++
				}
			}
			oldest[k.class] = max(oldest[k.class], now.Sub(o.since))
		}
		metrics <- prometheus.MustNewConstMetric(agentsDescription, prometheus.GaugeValue, float64(answer), k.name, "asked")
		metrics <- prometheus.MustNewConstMetric(agentsDescription, prometheus.GaugeValue, float64(silent), k.name, "silent")
	}
	for class, age := range oldest {
		if turnLeast[class] > 0 {
			metrics <- prometheus.MustNewConstMetric(
				oldestDescription, prometheus.GaugeValue, age.Seconds(), Class(class).String(),
			)
		}
	}
}
