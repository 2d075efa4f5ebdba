// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpagent

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/httpproxy"
	"github.com/lighterage/lighterage/agent/httpproxy/coding"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/agent/serve"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// settings turns what the manager says into settings of the proxy.
func settings(ctx context.Context, c *wirev1.HTTPConfig, engines serve.Engines) (httpproxy.Settings, error) {
	if c.GetBackend().GetAddress() == "" {
		return httpproxy.Settings{}, errors.New("the configuration lacks backend.address")
	}
	permitted, err := egress.Parse(c.GetDialPolicy())
	if err != nil {
		return httpproxy.Settings{}, err
	}
	resolved, err := compression.Read(c.GetCompression())
	if err != nil {
		return httpproxy.Settings{}, err
	}
	s := httpproxy.Settings{
		Backend:           c.GetBackend().GetAddress(),
		BackendServerName: c.GetBackend().GetServerName(),
		Egress:            permitted,
		ContentTypes:      c.GetContentTypes(),
		Policy:            resolved.Policy,
		Explain:           c.GetResponseHeader(),
		Padding:           int(c.GetPaddingMaxBytes()),
		MaxCPUPercent:     int(c.GetLimits().GetCompressionCpuPercent()),
		MaxConcurrent:     int(c.GetLimits().GetMaxCompressions()),
		HeaderTimeout:     c.GetBackend().GetResponseTimeout().AsDuration(),
		Health: httpproxy.Health{
			Path:     c.GetBackend().GetHealthPath(),
			Interval: c.GetBackend().GetHealthInterval().AsDuration(),
			Timeout:  c.GetBackend().GetHealthTimeout().AsDuration(),
		},
		Limits: httpproxy.Limits{
			MaxConnections: int(c.GetLimits().GetMaxConnections()),
			IdleTimeout:    c.GetIdleTimeout().AsDuration(),
		},
		SparesCrossSiteCookies: !c.GetCompressCrossSiteCookies(),
	}
	if s.BackendServerName != "" {
		s.BackendCAs = x509.NewCertPool()
		if !s.BackendCAs.AppendCertsFromPEM(c.GetBackend().GetCaBundle()) {
			return httpproxy.Settings{}, errors.New("backend.ca_bundle holds no certificate in PEM")
		}
	}
	for _, text := range c.GetTrustedProxies() {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return httpproxy.Settings{}, fmt.Errorf("trusted_proxies: %w", err)
		}
		s.TrustedProxies = append(s.TrustedProxies, prefix)
	}
	for _, name := range c.GetCodings() {
		parsed, err := negotiate.ParseCoding(name)
		if err != nil {
			return httpproxy.Settings{}, err
		}
		s.Codings = append(s.Codings, parsed)
		if id := coding.Codec(parsed); !slices.Contains(resolved.Codecs, id) {
			resolved.Codecs = append(resolved.Codecs, id)
		}
	}
	s.Engines, s.Accelerator = engines(ctx, resolved)
	if err := s.Validate(); err != nil {
		return httpproxy.Settings{}, fmt.Errorf("use the configuration: %w", err)
	}
	return s, nil
}
