// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"
)

// metrics of the gRPC service. Peers are as many as there are Peer objects, so they may be a label.
type metrics struct {
	requests *prometheus.CounterVec
	opens    *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lighterage_gateway_requests_total",
			Help: "Requests of other clusters, by result: OK, the reason of a refusal, or a gRPC code. The peer is empty for " +
				"strangers.",
		}, []string{"method", "peer", "result"}),
		opens: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lighterage_gateway_open_runs",
			Help: "Runs that wait for their receiving agents.",
		}, []string{"peer"}),
	}
	for _, collector := range []prometheus.Collector{m.requests, m.opens} {
		if err := registerer.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) count(method, peer string, err error) {
	result := status.Code(err).String()
	if failure := failureOf(err); failure != nil {
		result = failure.GetReason().String()
	}
	m.requests.WithLabelValues(method, peer, result).Inc()
}
