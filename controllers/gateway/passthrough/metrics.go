// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Results that lighterage_gateway_connections_total counts by.
const (
	resultLocal          = "local"
	resultPassed         = "passed"
	resultData           = "data"
	resultTooMany        = "too_many"
	resultEvicted        = "evicted"
	resultHelloTimeout   = "hello_timeout"
	resultHelloTooLarge  = "hello_too_large"
	resultNotTLS         = "not_tls"
	resultUnknownName    = "unknown_name"
	resultUnreachable    = "target_unreachable"
	resultTargetWithdraw = "target_withdrawn"
)

// Metrics of a Server.
type Metrics struct {
	open     *prometheus.GaugeVec
	accepted *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	passed   atomic.Int64
}

// Passed is how many bytes were passed through, in both directions.
func (m *Metrics) Passed() int64 { return m.passed.Load() }

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lighterage_gateway_connections",
			Help: "Open connections by state: handshake (no ClientHello yet), local (served by the gateway), passed (to a " +
				"receiving agent), joined (of this cluster to a peer that it does not dial itself).",
		}, []string{"state"}),
		accepted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lighterage_gateway_connections_total",
			Help: "Connections by what became of them.",
		}, []string{"result"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lighterage_gateway_passed_bytes_total",
			Help: "Bytes passed through without ending TLS: in is towards receiving agents.",
		}, []string{"direction"}),
	}
	for _, collector := range []prometheus.Collector{m.open, m.accepted, m.bytes} {
		if err := registerer.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) count(result string) {
	m.accepted.WithLabelValues(result).Inc()
}
