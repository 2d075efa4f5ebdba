// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lighterage/lighterage/controllers/quota"
)

// Quotas are the collectors of DataQuotas. They are labelled by its name as well: a platform team makes few of them.
type Quotas struct{ hard, used *prometheus.GaugeVec }

// NewQuotas makes the collectors and registers them.
func NewQuotas(registry prometheus.Registerer) *Quotas {
	gauge := func(name, help string) *prometheus.GaugeVec {
		vector := prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: name, Help: help}, []string{"namespace", "quota", "resource"})
		registry.MustRegister(vector)
		return vector
	}
	return &Quotas{
		hard: gauge("lighterage_quota_hard",
			"Limits of DataQuotas: numbers, bytes per second of bandwidth, bytes of queueBytes."),
		used: gauge("lighterage_quota_used",
			"What is used of the limits of DataQuotas, in the units of lighterage_quota_hard."),
	}
}

// Observe shows what a DataQuota limits and what is used of it. A limit that it has no more is not shown any more.
func (q *Quotas) Observe(namespace, name string, hard, used quota.Amounts) {
	for _, resource := range quota.Resources {
		labels := []string{namespace, name, string(resource)}
		limit, limited := hard[resource]
		if !limited {
			q.hard.DeleteLabelValues(labels...)
			q.used.DeleteLabelValues(labels...)
			continue
		}
		q.hard.WithLabelValues(labels...).Set(float64(limit))
		q.used.WithLabelValues(labels...).Set(float64(used[resource]))
	}
}

// Forget shows nothing more of a DataQuota that is gone.
func (q *Quotas) Forget(namespace, name string) {
	q.Observe(namespace, name, nil, nil)
}
