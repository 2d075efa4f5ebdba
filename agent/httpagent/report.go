// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpagent

import (
	"context"
	"net/http"
	"runtime"
	"sync/atomic"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/hardware"
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
	server := a.server.Load()
	var s httpproxy.Statistics
	a.mu.Lock()
	r.Revision, r.ConfigError = a.config.GetRevision(), a.configError
	if server != nil {
		// The counters are all from before a reset or all from after it: the manager adds up what they have grown by.
		s = server.Statistics()
		r.Statistics = statistics(s)
		r.Statistics.Reset_ = a.reset
		r.Cpu = a.cpu(s)
	}
	a.mu.Unlock()
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
	r.Compression = compression.Report(s.Meter)
	r.WireBytes = uint64(max(s.WireBytes, 0))
	return r
}

// cpu is what was spent since the last reset. a.mu is held.
func (a *Agent) cpu(s httpproxy.Statistics) *wirev1.CPU {
	cpu := &wirev1.CPU{CompressNanos: uint64(s.Meter.CPU), AcceleratorNanos: uint64(hardware.CallTime())}
	if user, system, err := meter.ProcessCPU(); err == nil {
		cpu.SendNanos = uint64(max(user+system-a.cpuBase, 0))
		cpu.IdleNanos = min(uint64(a.idle.Spent()), cpu.GetSendNanos())
	}
	return cpu
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
