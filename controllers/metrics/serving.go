// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"crypto/tls"

	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Serving are the options of a server of metrics, which name namespaces and peers: it speaks TLS with the certificate
// that is asked for at every handshake, and answers whom the API server authenticates and allows to get /metrics. That
// takes the right to create TokenReviews and SubjectAccessReviews. Address 0 stands for no server.
func Serving(address string, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) metricsserver.Options {
	return metricsserver.Options{
		BindAddress:    address,
		SecureServing:  true,
		FilterProvider: filters.WithAuthenticationAndAuthorization,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion = tls.VersionTLS13
			c.GetCertificate = certificate
		}},
	}
}
