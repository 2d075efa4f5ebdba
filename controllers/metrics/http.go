// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// HTTPEndpoints are the collectors that reports of HTTPEndpoints' replicas feed. Reports hold totals; counters get what
// was added since the report before. They are labelled by namespace alone and safe for concurrent use.
type HTTPEndpoints struct {
	responses, coded, keptPlain      *prometheus.CounterVec
	plain, compressed, wired         *prometheus.CounterVec
	refused, reused, timedOut, wrong *prometheus.CounterVec
	cpu                              *prometheus.CounterVec
	active                           *prometheus.GaugeVec

	mu     sync.Mutex
	series *series[*wirev1.HTTPReport]
}

// NewHTTPEndpoints makes the collectors and registers them. What replicas did before started, which is now, is not
// counted: an earlier manager has.
func NewHTTPEndpoints(registry prometheus.Registerer, started time.Time) *HTTPEndpoints {
	n := namespaced{registry}
	return &HTTPEndpoints{
		series: newSeries(started, func(r *wirev1.HTTPReport) time.Time { return r.GetStatistics().GetSince().AsTime() }),
		active: n.gauge(
			"lighterage_http_active_connections", "Connections of clients that are open at replicas of HTTPEndpoints.",
		),
		responses: n.counter(
			"lighterage_http_responses_total",
			"Responses of HTTPEndpoints, by path: hardware, software, or stored for those sent as they were.", "path",
		),
		coded: n.counter(
			"lighterage_http_coded_responses_total", "Responses of HTTPEndpoints, by content coding.", "coding",
		),
		keptPlain: n.counter(
			"lighterage_http_stored_responses_total",
			"Bodies that HTTPEndpoints sent as they were, by the reason why they were not compressed.", "reason",
		),
		plain: n.counter(
			"lighterage_http_uncompressed_bytes_total", "Bytes of the bodies that HTTPEndpoints sent, before compression.",
		),
		compressed: n.counter(
			"lighterage_http_compressed_bytes_total", "Bytes of the bodies that HTTPEndpoints sent, after compression.",
		),
		wired: n.counter(
			"lighterage_http_wire_bytes_total", "Bytes that HTTPEndpoints wrote to and read from the network, TLS included.",
		),
		refused: n.counter(
			"lighterage_http_refused_connections_total",
			"Connections that HTTPEndpoints refused because of limits.maxConnections.",
		),
		reused: n.counter(
			"lighterage_http_reused_connections_total", "Requests on a connection that had served one before.",
		),
		timedOut: n.counter(
			"lighterage_http_timeouts_total",
			"Requests that the backend did not answer, and connections that sent no request, in time.",
		),
		wrong: n.counter(
			"lighterage_http_url_errors_total", "Responses 404 and 410, and requests whose target could not be read.",
		),
		cpu: n.counter(
			"lighterage_http_cpu_seconds_total",
			"CPU time of HTTPEndpoints' replicas: stage is compress, idle for what was spent while nothing passed, or other "+
				"for the rest.", "stage",
		),
	}
}

// Observe counts what the replicas of an HTTPEndpoint, by their pods' UIDs, have done since they were observed last.
func (h *HTTPEndpoints) Observe(namespace, endpoint string, replicas map[string]*wirev1.HTTPReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.series.observe(namespace, endpoint, replicas, func(from, to *wirev1.HTTPReport) { h.add(namespace, from, to) })
	active := 0.0
	for _, report := range replicas {
		active += float64(report.GetStatistics().GetActiveConnections())
	}
	h.series.set(namespace, endpoint, h.active, active)
}

// Forget takes an HTTPEndpoint's connections out of what is active.
func (h *HTTPEndpoints) Forget(endpoint string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.series.forget(endpoint)
}

func (h *HTTPEndpoints) add(namespace string, from, to *wirev1.HTTPReport) {
	count := func(vector *prometheus.CounterVec, value func(*wirev1.HTTPReport) uint64, scale float64, labels ...string) {
		counted(vector, from, to, value, scale, append([]string{namespace}, labels...)...)
	}
	statistic := func(vector *prometheus.CounterVec, value func(*wirev1.HTTPStatistics) uint64, labels ...string) {
		count(vector, func(r *wirev1.HTTPReport) uint64 { return value(r.GetStatistics()) }, 1, labels...)
	}
	statistic(h.responses, (*wirev1.HTTPStatistics).GetHardwareResponses, "hardware")
	statistic(h.responses, (*wirev1.HTTPStatistics).GetSoftwareResponses, "software")
	statistic(h.responses, (*wirev1.HTTPStatistics).GetUncompressedResponses, "stored")
	for _, coding := range []string{"gzip", "deflate", "zstd", "identity"} {
		statistic(h.coded, func(s *wirev1.HTTPStatistics) uint64 { return s.GetResponsesByCoding()[coding] }, coding)
	}
	countReasons(plainBodies, func(reason string, value func(*wirev1.Compression) uint64) {
		count(h.keptPlain, func(r *wirev1.HTTPReport) uint64 { return value(r.GetCompression()) }, 1, reason)
	})
	statistic(h.refused, (*wirev1.HTTPStatistics).GetRefusedConnections)
	statistic(h.reused, (*wirev1.HTTPStatistics).GetReused)
	statistic(h.timedOut, (*wirev1.HTTPStatistics).GetTimedOut)
	statistic(h.wrong, (*wirev1.HTTPStatistics).GetUrlErrors)
	count(h.plain, func(r *wirev1.HTTPReport) uint64 { return r.GetCompression().GetUncompressedBytes() }, 1)
	count(h.compressed, func(r *wirev1.HTTPReport) uint64 { return r.GetCompression().GetCompressedBytes() }, 1)
	count(h.wired, (*wirev1.HTTPReport).GetWireBytes, 1)
	const seconds = 1e-9
	count(h.cpu, func(r *wirev1.HTTPReport) uint64 { return r.GetCpu().GetCompressNanos() }, seconds, "compress")
	count(h.cpu, func(r *wirev1.HTTPReport) uint64 { return r.GetCpu().GetIdleNanos() }, seconds, "idle")
	count(h.cpu, func(r *wirev1.HTTPReport) uint64 {
		return rest(r.GetCpu().GetSendNanos(), r.GetCpu().GetCompressNanos()+r.GetCpu().GetIdleNanos())
	}, seconds, "other")
}

// plainBodies are why bodies are sent as they are. Labels are no others, whatever a replica says.
var plainBodies = []string{
	v1alpha1.CompressionPolicyNever, v1alpha1.CompressionBelowMinimum, v1alpha1.CompressionOtherContentType,
	v1alpha1.CompressionAlreadyEncoded, v1alpha1.CompressionNoTransform, v1alpha1.CompressionPartialContent,
	v1alpha1.CompressionCrossSiteCookie, v1alpha1.CompressionPeerRefused, v1alpha1.CompressionIncompressible,
	v1alpha1.CompressionDidNotShrink, v1alpha1.CompressionNetworkFaster, v1alpha1.CompressionCPUDearer,
	v1alpha1.CompressionBusy, v1alpha1.CompressionCPUBudget, v1alpha1.CompressionSoftwareDisabled,
	v1alpha1.CompressionEngineFailed,
}

// countReasons calls count for each reason of what was not compressed, and for all others together as Other.
func countReasons(known []string, count func(reason string, value func(*wirev1.Compression) uint64)) {
	for _, reason := range known {
		count(reason, func(c *wirev1.Compression) uint64 { return c.GetSkipped()[reason] })
	}
	count("Other", func(c *wirev1.Compression) uint64 {
		var others uint64
		for reason, n := range c.GetSkipped() {
			if !slices.Contains(known, reason) {
				others += n
			}
		}
		return others
	})
}
