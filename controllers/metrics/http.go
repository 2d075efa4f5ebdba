// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// HTTPEndpoints are the collectors that reports of HTTPEndpoints' replicas feed. Reports hold totals; counters get what was added since
// the report before. They are labelled by namespace alone and safe for concurrent use.
type HTTPEndpoints struct {
	responses, coded                 *prometheus.CounterVec
	plain, compressed, wired         *prometheus.CounterVec
	refused, reused, timedOut, wrong *prometheus.CounterVec
	cpu                              *prometheus.CounterVec
	active                           *prometheus.GaugeVec
	started                          time.Time
	mu                               sync.Mutex
	endpoints                        map[string]*httpEndpoint
}

type httpEndpoint struct {
	namespace string
	active    float64
	replicas  map[string]*wirev1.HTTPReport
}

// NewHTTPEndpoints makes the collectors and registers them. What replicas did before started, which is now, is not counted: an earlier
// manager has.
func NewHTTPEndpoints(registry prometheus.Registerer, started time.Time) *HTTPEndpoints {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		vector := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"namespace"}, labels...))
		registry.MustRegister(vector)
		return vector
	}
	active := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lighterage_http_active_connections", Help: "Connections of clients that are open at replicas of HTTPEndpoints.",
	}, []string{"namespace"})
	registry.MustRegister(active)
	return &HTTPEndpoints{
		started: started, active: active, endpoints: map[string]*httpEndpoint{},
		responses:  counter("lighterage_http_responses_total", "Responses of HTTPEndpoints, by path: hardware, software, or stored for those sent as they were.", "path"),
		coded:      counter("lighterage_http_coded_responses_total", "Responses of HTTPEndpoints, by content coding.", "coding"),
		plain:      counter("lighterage_http_uncompressed_bytes_total", "Bytes of the bodies that HTTPEndpoints sent, before compression."),
		compressed: counter("lighterage_http_compressed_bytes_total", "Bytes of the bodies that HTTPEndpoints sent, after compression."),
		wired:      counter("lighterage_http_wire_bytes_total", "Bytes that HTTPEndpoints wrote to and read from the network, TLS included."),
		refused:    counter("lighterage_http_refused_connections_total", "Connections that HTTPEndpoints refused because of limits.maxConnections."),
		reused:     counter("lighterage_http_reused_connections_total", "Requests on a connection that had served one before."),
		timedOut:   counter("lighterage_http_timeouts_total", "Requests that the backend did not answer, and connections that sent no request, in time."),
		wrong:      counter("lighterage_http_url_errors_total", "Responses 404 and 410, and requests whose target could not be read."),
		cpu:        counter("lighterage_http_cpu_seconds_total", "CPU time of HTTPEndpoints' replicas: stage is compress, or other for the rest.", "stage"),
	}
}

// Observe counts what the replicas of an HTTPEndpoint, by their pods' UIDs, have done since they were observed last.
func (h *HTTPEndpoints) Observe(namespace, endpoint string, replicas map[string]*wirev1.HTTPReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.endpoints[endpoint]
	if known == nil {
		known = &httpEndpoint{namespace: namespace, replicas: map[string]*wirev1.HTTPReport{}}
		h.endpoints[endpoint] = known
	}
	active := 0.0
	for pod, report := range replicas {
		active += float64(report.GetStatistics().GetActiveConnections())
		h.add(namespace, h.base(known.replicas[pod], report), report)
		known.replicas[pod] = report
	}
	for pod := range known.replicas {
		if _, left := replicas[pod]; !left && len(replicas) > 0 {
			delete(known.replicas, pod)
		}
	}
	h.active.WithLabelValues(namespace).Add(active - known.active)
	known.active = active
}

// Forget takes an HTTPEndpoint's connections out of what is active.
func (h *HTTPEndpoints) Forget(endpoint string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.endpoints[endpoint]; known != nil {
		h.active.WithLabelValues(known.namespace).Add(-known.active)
		delete(h.endpoints, endpoint)
	}
}

// base is what of a report was counted before: that of the last one, nothing after a reset or a restart, and all of it when an earlier
// manager has seen it.
func (h *HTTPEndpoints) base(last, report *wirev1.HTTPReport) *wirev1.HTTPReport {
	since := report.GetStatistics().GetSince().AsTime()
	switch {
	case last != nil && last.GetStatistics().GetSince().AsTime().Equal(since):
		return last
	case last == nil && since.Before(h.started):
		return report
	}
	return &wirev1.HTTPReport{}
}

func (h *HTTPEndpoints) add(namespace string, from, to *wirev1.HTTPReport) {
	count := func(vector *prometheus.CounterVec, value func(*wirev1.HTTPReport) uint64, scale float64, labels ...string) {
		if before, now := value(from), value(to); now > before {
			vector.WithLabelValues(append([]string{namespace}, labels...)...).Add(float64(now-before) * scale)
		}
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
	statistic(h.refused, (*wirev1.HTTPStatistics).GetRefusedConnections)
	statistic(h.reused, (*wirev1.HTTPStatistics).GetReused)
	statistic(h.timedOut, (*wirev1.HTTPStatistics).GetTimedOut)
	statistic(h.wrong, (*wirev1.HTTPStatistics).GetUrlErrors)
	count(h.plain, func(r *wirev1.HTTPReport) uint64 { return r.GetCompression().GetUncompressedBytes() }, 1)
	count(h.compressed, func(r *wirev1.HTTPReport) uint64 { return r.GetCompression().GetCompressedBytes() }, 1)
	count(h.wired, (*wirev1.HTTPReport).GetWireBytes, 1)
	const seconds = 1e-9
	count(h.cpu, func(r *wirev1.HTTPReport) uint64 { return r.GetCpu().GetCompressNanos() }, seconds, "compress")
	count(h.cpu, func(r *wirev1.HTTPReport) uint64 {
		return rest(r.GetCpu().GetSendNanos(), r.GetCpu().GetCompressNanos())
	}, seconds, "other")
}
