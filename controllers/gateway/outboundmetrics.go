// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// outboundMetrics are those of control connections and tunnels.
type outboundMetrics struct {
	outbound *outbound
	controls *prometheus.Desc
	dialled  *prometheus.CounterVec
	tunnels  *prometheus.CounterVec
}

func newOutboundMetrics(registerer prometheus.Registerer, b *outbound) (*outboundMetrics, error) {
	m := &outboundMetrics{
		outbound: b,
		controls: prometheus.NewDesc("lighterage_gateway_control_connections",
			"Control connections with peers that cannot be dialled, or that cannot dial this cluster.", []string{"peer"},
			nil),
		dialled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lighterage_gateway_data_connections_total",
			Help: "Data connections that peers asked this gateway to make, by result: connected, failed, or busy.",
		}, []string{"peer", "result"}),
		tunnels: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lighterage_gateway_tunnels_total",
			Help: "Connections to peers that pods of this cluster asked for, by result: connected, or why not. The peer is " +
				"empty for requests that were not authenticated, or named no Peer.",
		}, []string{"peer", "result"}),
	}
	for _, collector := range []prometheus.Collector{m, m.dialled, m.tunnels} {
		if err := registerer.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// count counts a request for a tunnel. The asker chose the name: it is a label only where there is such a Peer, since
// labels are kept for ever.
func (m *outboundMetrics) count(name, result string) {
	var peer v1alpha1.Peer
	if name != "" && m.outbound.options.Client.Get(context.Background(), client.ObjectKey{Name: name}, &peer) != nil {
		name = ""
	}
	m.tunnels.WithLabelValues(name, result).Inc()
}

// Describe is of prometheus.Collector.
func (m *outboundMetrics) Describe(to chan<- *prometheus.Desc) { to <- m.controls }

// Collect is of prometheus.Collector. A Peer without a control connection has 0.
func (m *outboundMetrics) Collect(to chan<- prometheus.Metric) {
	var peers v1alpha1.PeerList
	if err := m.outbound.options.Client.List(context.Background(), &peers); err != nil {
		m.outbound.options.Log.Error(err, "Peers cannot be listed")
		return
	}
	for i := range peers.Items {
		switch peers.Items[i].Spec.Connection {
		case v1alpha1.PeerDial, v1alpha1.PeerListen:
			name := peers.Items[i].Name
			to <- prometheus.MustNewConstMetric(
				m.controls, prometheus.GaugeValue, float64(m.outbound.state(name).Connections), name,
			)
		case v1alpha1.PeerBoth:
		}
	}
}
