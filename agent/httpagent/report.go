// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpagent

import (
	"context"
	"net/http"
	"runtime"
	"sync/atomic"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/zlibng"
	"github.com/lighterage/lighterage/agent/httpproxy"
	"github.com/lighterage/lighterage/agent/meter"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// failures are those of health checks as the manager is told of them.
var failures = map[httpproxy.Failure]wirev1.BackendFailure{
	httpproxy.FailureBlocked:    wirev1.BackendFailure_BACKEND_FAILURE_BLOCKED,
	httpproxy.FailureName:       wirev1.BackendFailure_BACKEND_FAILURE_NAME,
	httpproxy.FailureRefused:    wirev1.BackendFailure_BACKEND_FAILURE_REFUSED,
	httpproxy.FailureTimeout:    wirev1.BackendFailure_BACKEND_FAILURE_TIMEOUT,
	httpproxy.FailureTLS:        wirev1.BackendFailure_BACKEND_FAILURE_TLS,
	httpproxy.FailureStatus:     wirev1.BackendFailure_BACKEND_FAILURE_STATUS,
	httpproxy.FailureConnection: wirev1.BackendFailure_BACKEND_FAILURE_CONNECTION,
}

// GetHTTPReport implements wirev1.HTTPAgentServer.
func (a *Agent) GetHTTPReport(context.Context, *wirev1.GetHTTPReportRequest) (*wirev1.GetHTTPReportResponse, error) {
	return &wirev1.GetHTTPReportResponse{Report: a.Report()}, nil
}

// Report returns what there is to say. It is the caller's to keep.
func (a *Agent) Report() *wirev1.HTTPReport {
	r := &wirev1.HTTPReport{
		State: wirev1.HTTPState_HTTP_STATE_STARTING, Version: wirev1.Version, Architecture: runtime.GOARCH,
		StartTime:   timestamppb.New(a.started),
		Certificate: a.certificates.Load().Report(),
	}
	a.mu.Lock()
	r.Revision, r.ConfigError = a.config.GetRevision(), a.configError
	reset, base := a.reset, a.cpuBase
	a.mu.Unlock()
	server := a.server.Load()
	if server == nil {
		r.Detail = "the configuration is not read yet"
		if c := a.certificates.Load(); c != nil {
			r.Detail = "there is no certificate to serve: " + c.Status().Message
		}
		return r
	}
	r.State = wirev1.HTTPState_HTTP_STATE_SERVING
	if server.Draining() {
		r.State = wirev1.HTTPState_HTTP_STATE_DRAINING
	}
	if b := server.Backend(); b.Checked && !b.Healthy {
		r.BackendFailure, r.BackendStatus = failures[b.Failure], uint32(max(b.Status, 0))
	}
	s := server.Statistics()
	r.Statistics = statistics(s)
	r.Statistics.Reset_ = reset
	r.Compression = compressionReport(s)
	r.WireBytes = uint64(max(s.WireBytes, 0))
	r.Cpu = &wirev1.CPU{CompressNanos: uint64(s.Meter.CPU)}
	if user, system, err := meter.ProcessCPU(); err == nil {
		r.Cpu.SendNanos = uint64(user + system - base)
	}
	return r
}

func statistics(s httpproxy.Statistics) *wirev1.HTTPStatistics {
	out := &wirev1.HTTPStatistics{
		ActiveConnections: uint64(s.Active), HighWaterConnections: uint64(s.HighWater), RefusedConnections: uint64(s.Refused),
		Reused: uint64(s.Reused), TimedOut: uint64(s.TimedOut), UrlErrors: uint64(s.URLErrors),
		HardwareResponses: uint64(s.Hardware), SoftwareResponses: uint64(s.Software),
		UncompressedResponses: uint64(s.Uncompressed),
		ResponsesByCoding:     make(map[string]uint64), Since: timestamppb.New(s.Since),
		CompressedPlainBytes: uint64(s.CompressedPlainBytes), CompressedBytes: uint64(s.CompressedBytes),
	}
	for c, n := range s.ByCoding {
		out.ResponsesByCoding[c.String()] = uint64(n)
	}
	return out
}

// compressionReport says what the engines did with bodies.
func compressionReport(s httpproxy.Statistics) *wirev1.Compression {
	out := &wirev1.Compression{
		Codec: codec.None.String(), Engine: most(s.Engines), UncompressedBytes: uint64(s.Meter.UncompressedBytes),
		CompressedBytes: uint64(s.Meter.CompressedBytes),
		Hardware:        operations(s.Meter.Hardware), Software: operations(s.Meter.Software),
		Stored:  operations(s.Meter.Stored),
		Skipped: make(map[string]uint64, len(s.Meter.Skipped)),
	}
	for reason, n := range s.Meter.Skipped {
		out.Skipped[string(reason)] = uint64(n)
	}
	out.Reason = string(most(s.Meter.Compressed))
	if out.GetReason() == "" {
		out.Reason = string(most(s.Meter.Skipped))
	}
	if id, ok := codecOf(out.GetEngine()); ok {
		out.Codec = id.String()
	}
	return out
}

// codecOf returns what an engine executes.
func codecOf(name string) (codec.ID, bool) {
	if name == zlibng.HardwareName {
		return codec.Deflate, true
	}
	if e, ok := engines.Default().ByName(name); ok {
		return e.Codec(), true
	}
	return codec.None, false
}

func operations(c meter.Count) *wirev1.Operations {
	return &wirev1.Operations{Operations: uint64(c.Operations), Bytes: uint64(c.Bytes)}
}

// most returns the key with the greatest count, the first by name of several.
func most[K ~string](counts map[K]int64) K {
	var best K
	for k, n := range counts {
		if n > counts[best] || n == counts[best] && k < best {
			best = k
		}
	}
	return best
}

// HealthHandler answers GET /livez and GET /readyz. An agent is ready once it knows whether its first backend is
// healthy, which it may not be: a rolling update does not replace agents that reach the backend by ones that do not
// yet.
func (a *Agent) HealthHandler() http.Handler {
	var checked atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		server := a.server.Load()
		if server == nil || server.Draining() {
			http.Error(w, "clients' connections are not accepted", http.StatusServiceUnavailable)
			return
		}
		if !checked.Load() {
			if !server.Backend().Checked {
				http.Error(w, "the backend is being checked", http.StatusServiceUnavailable)
				return
			}
			checked.Store(true)
		}
		w.WriteHeader(http.StatusOK)
	})
	return mux
}
