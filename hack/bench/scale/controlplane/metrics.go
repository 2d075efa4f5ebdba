// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/test/render"
)

// Metrics are series by their names with labels, as a program exposes them.
type Metrics map[string]float64

// ManagerMetrics are those of the manager that runs.
func (c *Cluster) ManagerMetrics(ctx context.Context) (Metrics, error) {
	published := &corev1.ConfigMap{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: render.Namespace, Name: pki.CAName},
		published); err != nil {
		return nil, fmt.Errorf("read the cluster's CA: %w", err)
	}
	roots, err := pki.ParseBundle([]byte(published.Data[pki.CAKey]))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's CA: %w", err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: pki.Pool(roots), ServerName: pki.ManagerServerName,
	}}
	defer transport.CloseIdleConnections()
	return scrape(ctx, &http.Client{Transport: transport}, "https://"+ManagerMetrics+"/metrics", c.token)
}

// MetricsToken is the one with which metrics are read.
func (c *Cluster) MetricsToken() string { return c.token }

// EtcdMetrics are those of etcd.
func (c *Cluster) EtcdMetrics(ctx context.Context) (Metrics, error) {
	return scrape(ctx, http.DefaultClient, c.etcdURL.JoinPath("metrics").String(), "")
}

func scrape(ctx context.Context, from *http.Client, url, token string) (Metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := from.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask for metrics: %s", response.Status)
	}
	m := Metrics{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if m[line[:at]], err = strconv.ParseFloat(line[at+1:], 64); err != nil {
			return nil, fmt.Errorf("read metrics: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return m, nil
}

// Label returns the value of a label of a series, empty if there is none.
func Label(series, name string) string {
	_, value, found := strings.Cut(series, name+`="`)
	if !found {
		return ""
	}
	value, _, _ = strings.Cut(value, `"`)
	return value
}

// Of returns the series of a metric that have a label with one of the values; without values all of them.
func (m Metrics) Of(metric, label string, among ...string) Metrics {
	found := Metrics{}
	for series, value := range m {
		name, _, _ := strings.Cut(series, "{")
		if name == metric && (len(among) == 0 || slices.Contains(among, Label(series, label))) {
			found[series] = value
		}
	}
	return found
}

// Sum of all series.
func (m Metrics) Sum() float64 {
	sum := 0.0
	for _, value := range m {
		sum += value
	}
	return sum
}

// Since returns by how much each series has grown since it was before.
func (m Metrics) Since(before Metrics) Metrics {
	grown := Metrics{}
	for series, value := range m {
		grown[series] = value - before[series]
	}
	return grown
}

// Quantile of a histogram whose buckets these are, in the metric's unit: the upper bound of the bucket that has it, or
// a value between its bounds. NaN when nothing was observed.
func (m Metrics) Quantile(q float64) float64 {
	counts := map[float64]float64{}
	for series, count := range m {
		bound, err := strconv.ParseFloat(Label(series, "le"), 64)
		if err == nil {
			counts[bound] += count
		}
	}
	bounds := make([]float64, 0, len(counts))
	for bound := range counts {
		bounds = append(bounds, bound)
	}
	slices.Sort(bounds)
	if len(bounds) == 0 || counts[bounds[len(bounds)-1]] == 0 {
		return math.NaN()
	}
	wanted := q * counts[bounds[len(bounds)-1]]
	below, under := 0.0, 0.0
	for _, bound := range bounds {
		if counts[bound] >= wanted {
			if math.IsInf(bound, 1) {
				return under
			}
			return under + (bound-under)*(wanted-below)/(counts[bound]-below)
		}
		below, under = counts[bound], bound
	}
	return under
}
