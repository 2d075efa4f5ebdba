// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Processes that serve metrics, as the label component names them.
const (
	ComponentManager = "manager"
	ComponentGateway = "gateway"
)

// Certificates whose expiration is shown.
const (
	CertificateCA      = "ca"
	CertificateGateway = "gateway"
)

// RegisterBuild shows which build a process is of.
func RegisterBuild(registry prometheus.Registerer, component string) error {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lighterage_build_info",
		Help: "1, with the version that a process is of, and that of Go that built it.",
	}, []string{"component", "version", "goversion"})
	build.WithLabelValues(component, wirev1.Version, runtime.Version()).Set(1)
	return registry.Register(build) //nolint:wrapcheck // it names the metric
}

var expirationDescription = prometheus.NewDesc(
	"lighterage_certificate_expiration_timestamp_seconds",
	"When a certificate expires, in seconds since 1970: ca is that of this cluster, gateway the one that the gateway "+
		"serves. Absent while it cannot be read.",
	[]string{"certificate"}, nil,
)

// expiration is the collector of one certificate.
type expiration struct {
	certificate string
	expires     func() (time.Time, error)
}

// RegisterExpiration shows when a certificate expires. The function is called at every scrape.
func RegisterExpiration(registry prometheus.Registerer, certificate string, expires func() (time.Time, error)) error {
	return registry.Register(expiration{certificate, expires}) //nolint:wrapcheck // it names the metric
}

// Describe is of prometheus.Collector.
func (expiration) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- expirationDescription
}

// Collect is of prometheus.Collector.
func (e expiration) Collect(metrics chan<- prometheus.Metric) {
	at, err := e.expires()
	if err != nil || at.IsZero() {
		return // absence is what the alert is on
	}
	metrics <- prometheus.MustNewConstMetric(
		expirationDescription, prometheus.GaugeValue, float64(at.Unix()), e.certificate,
	)
}
